"""Data sets as files: found in a folder, downloaded where they are missing, checked when read."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_cache_path


def data_folder(given: str | Path | None = None) -> Path:
    """The given folder, or else the one LABELGRAD_DATA names, or else the user's cache.

    >>> data_folder("images").name
    'images'
    """
    chosen = given or os.environ.get("LABELGRAD_DATA")
    return Path(chosen).expanduser() if chosen else user_cache_path("labelgrad", appauthor=False)


def fetch(urls: Sequence[str], folder: Path) -> None:
    """Download those of the files that the folder lacks; an unfinished one has another name."""
    from torch.hub import download_url_to_file

    missing = [url for url in urls if not (folder / url.rpartition("/")[2]).exists()]
    for url in missing:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            download_url_to_file(url, str(folder / url.rpartition("/")[2]))
        except OSError as error:
            raise OSError(
                f"{url} could not be downloaded ({error}); try again, or put the file into "
                f"{folder} yourself."
            ) from None


def contents(path: Path, checksum: str | None = None) -> bytes:
    """The bytes of a file, out of its .gz if it is one; with a checksum, those and no others."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; put it there, or choose another folder.")
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
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
    kind, _, wanted = checksum.partition(":")
    got = hashlib.new(kind, data, usedforsecurity=False).hexdigest()
    if got != wanted:
        raise ValueError(
            f"{name} must have the checksum {checksum}, got {got} from {len(data):,} bytes; "
            "delete it and try again."
        )
