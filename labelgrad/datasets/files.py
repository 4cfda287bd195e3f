"""Data sets as files: found in a folder, downloaded where they are missing, checked when read.

A file that somebody put into the folder by hand is as good as a downloaded one: what is inside is
checked whenever it is read, wherever it came from.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from platformdirs import user_cache_path

from labelgrad.training.parallel import is_elsewhere

Progress = Callable[[int, int], None]  # bytes done, bytes in all

TIMEOUT = 30.0  # seconds without a byte
PIECE = 1 << 18  # bytes between two calls of `progress`
PARTIAL_CONTENT = 206  # the answer to a range
ALREADY_WHOLE = 416  # "range not satisfiable": nothing follows what is there


@dataclass(frozen=True)
class RemoteFile:
    """A file as its authors publish it."""

    url: str
    checksum: str  # of the file as published: "md5:…" or "sha256:…"
    size: int

    def __post_init__(self) -> None:
        if not self.url.startswith(("https://", "http://")):
            raise ValueError(f"a file is downloaded by https or http, got {self.url!r}.")

    @property
    def name(self) -> str:
        """The last part of its address."""
        return self.url.rpartition("/")[2]


def data_folder(given: str | Path | None = None) -> Path:
    """The given folder, or else the one LABELGRAD_DATA names, or else the user's cache.

    >>> data_folder("pictures").name
    'pictures'
    """
    chosen = given or os.environ.get("LABELGRAD_DATA")
    return Path(chosen).expanduser() if chosen else user_cache_path("labelgrad", appauthor=False)


def fetch(files: Sequence[RemoteFile], folder: Path, progress: Progress | None = None) -> None:
    """Download those of the files that the folder lacks.

    A download that was cut goes on where it stopped. A file has its name only once it is whole and
    its checksum is right; until then it is `name.partial`. Jobs that were handed to an executor
    download nothing: several of them would write one file at once.
    """
    missing = [file for file in files if not (folder / file.name).exists()]
    if missing and is_elsewhere():
        raise FileNotFoundError(
            f"{folder / missing[0].name} is missing, and a worker downloads nothing; put the data "
            f"there, or name their folder with --data or the worker's LABELGRAD_DATA."
        )
    total = sum(file.size for file in missing)
    for index, file in enumerate(missing):
        before = sum(earlier.size for earlier in missing[:index])
        partial = folder / f"{file.name}.partial"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for done in _download(file, partial):
                if progress is not None:
                    progress(before + done, total)
        except (OSError, HTTPException) as error:
            raise _not_downloaded(missing[index:], folder, error) from None
        _accept(file, partial)


def _download(file: RemoteFile, partial: Path) -> Iterator[int]:
    """Append to the partial file what it lacks; yield how many bytes it has."""
    start = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": "labelgrad", **({"Range": f"bytes={start}-"} if start else {})}
    try:
        answer = urlopen(Request(file.url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if start and error.code == ALREADY_WHOLE:
            return
        raise
    with answer:
        start = start if answer.status == PARTIAL_CONTENT else 0  # not every server knows ranges
        end = start + int(answer.headers.get("Content-Length", 0))
        with partial.open("ab" if start else "wb") as out:
            yield start
            while piece := answer.read(PIECE):
                out.write(piece)
                yield out.tell()
            if out.tell() < end:
                raise ConnectionError(f"the connection broke after {out.tell():,} of {end:,} bytes")


def _accept(file: RemoteFile, partial: Path) -> None:
    """Give the finished file its name, if it is the file that was published."""
    with partial.open("rb") as data:
        got = hashlib.file_digest(data, lambda: _empty_hash(file.checksum)).hexdigest()
    if got != _digest(file.checksum):
        partial.unlink()
        raise OSError(
            f"{file.name} from {file.url} must have the checksum {file.checksum}, got {got}; "
            "what was downloaded is deleted, try again."
        )
    partial.replace(partial.with_name(file.name))


def _not_downloaded(missing: Sequence[RemoteFile], folder: Path, error: Exception) -> OSError:
    why = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
    these = "this file" if len(missing) == 1 else f"these {len(missing)} files"
    return OSError(
        f"{missing[0].name} could not be downloaded ({why}); try again, or put {these} into "
        f"{folder} yourself: {', '.join(file.url for file in missing)}."
    )


def contents(path: Path, checksum: str | None = None) -> bytes:
    """The bytes of a file, out of its .gz if it is one; with a checksum, those and no others."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is missing; put it there, or choose another folder."
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{path} is cut off or damaged; delete it and try again.") from None
    if checksum is not None:
        check(data, checksum, str(path))
    return data


def check(data: bytes, checksum: str, name: str) -> None:
    """Refuse data that has another checksum.

    >>> check(b"abc", "md5:900150983cd24fb0d6963f7d28e17f72", "letters.bin")
    >>> check(b"abd", "md5:900150983cd24fb0d6963f7d28e17f72", "letters.bin")
    Traceback (most recent call last):
    ValueError: letters.bin must have the checksum md5:900150983cd24fb0d6963f7d28e17f72, \
got 4911e516e5aa21d327512e0c8b197616 from 3 bytes; delete it and try again.
    """
    summed = _empty_hash(checksum)
    summed.update(data)
    if (got := summed.hexdigest()) != _digest(checksum):
        raise ValueError(
            f"{name} must have the checksum {checksum}, got {got} from {len(data):,} bytes; "
            "delete it and try again."
        )


def _empty_hash(checksum: str) -> hashlib._Hash:
    return hashlib.new(checksum.partition(":")[0], usedforsecurity=False)


def _digest(checksum: str) -> str:
    return checksum.partition(":")[2]
