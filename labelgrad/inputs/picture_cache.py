"""Pictures that are decoded once: those of a folder, in one size, in a file to be mapped.

A list of files has a folder with two files that only grow. `pixels.bin` has the pixels of each
picture that is whole, in the order of the list. `files.bin` has an entry for each file of the list:
what it is known by, a checksum of its pixels, and whether they are grey, or whether it cannot be
read. Pixels are on the disk before their entries are, some hundred at a time: killed at any moment,
these are lost, and the next one goes on behind the others.

A file is known by its name, its size and when it was changed: a digest of its content would have
all of them read each time. What was decoded for another list of the same folder is copied, not
decoded again. So is all but the damage where a file of ours is damaged, and nothing is ever changed
in place: another process may be reading it.
"""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.encoders.base import megabytes
from labelgrad.encoders.cache import KEY, OnProgress, content_key, locked, put
from labelgrad.files import digest_of, json_bytes, write_whole
from labelgrad.inputs.decoding import FAILED, GREY, Decoded, decode, decode_all, pieces
from labelgrad.inputs.mapped import MappedFile, check_room
from labelgrad.inputs.pixels import Paths, Pixels, Skipped

NAME = 16  # letters of a folder's
VERSION = 1  # of the files, and of how pictures are made alike; other folders are left alone
ENTRY = np.dtype([("key", f"V{KEY}"), ("check", "<u4"), ("kind", "u1"), ("unused", "V3")])


class Pictures(NamedTuple):
    """The names of those that could be read, their pixels, and why others could not."""

    names: list[str]
    x: Tensor  # (names, channels, size, size), over a file
    skipped: Skipped


def decoded_once(
    files: Paths,
    size: int,
    *,
    source: Path,
    folder: Path,
    strict: bool = False,
    on_note: Callable[[str], None] | None = None,
    on_progress: OnProgress | None = None,
) -> Pictures:
    """The pictures of the folder `source`, out of the cache in `folder`, or else decoded into it.

    Only one process does so at a time; another one waits.

    >>> from tempfile import mkdtemp
    >>> from PIL import Image
    >>> source, kept = Path(mkdtemp()), Path(mkdtemp())
    >>> Image.new("RGB", (9, 9), "red").save(source / "a.png")
    >>> found = decoded_once({"a.png": source / "a.png"}, 4, source=source, folder=kept)
    >>> found.names, found.x.shape, found.x[0, :, 0, 0]
    (['a.png'], torch.Size([1, 3, 4, 4]), tensor([255,   0,   0], dtype=torch.uint8))
    """
    about = {"folder": os.path.realpath(source), "size": size, "pillow": PIL.__version__}
    of_source = folder / "pictures" / f"v{VERSION}" / digest_of(json_bytes(about))[:NAME]
    keys = [_key(name, path) for name, path in files.items()]
    kept = Kept(of_source / digest_of(b"".join(keys))[:NAME], size)
    try:
        of_source.mkdir(parents=True, exist_ok=True)
        with (of_source / "lock").open("a+b") as lock, locked(lock):
            kept.folder.mkdir(exist_ok=True)
            write_whole(of_source / "about.json", json_bytes(about))
            return _filled(kept, files, keys, strict, on_note, on_progress)
    except OSError as error:
        if error.strerror is None:  # it is a sentence
            raise
        raise OSError(
            f"Decoded pictures cannot be kept in {kept.folder} ({error.strerror}); make room, or "
            f"choose another folder with LABELGRAD_CACHE."
        ) from None


def _key(name: str, path: Path) -> bytes:
    try:
        found = path.stat()
        known = f"{found.st_size} {found.st_mtime_ns} {name}"
    except OSError:  # decoding will stumble over it again
        known = name
    return content_key(known.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True)
class Kept:
    """The two files of one list."""

    folder: Path
    size: int

    @property
    def row_bytes(self) -> int:
        """What the pixels of a picture take."""
        return 3 * self.size * self.size

    def entries(self) -> NDArray[Any]:
        """Those entries that are whole and whose pixels are all there."""
        if not self._files.is_file() or not self._pixels.is_file():
            return np.zeros(0, ENTRY)
        found = np.fromfile(self._files, ENTRY)
        there = self._pixels.stat().st_size // self.row_bytes
        return found[np.cumsum(found["kind"] != FAILED) <= there]

    def rows(self, count: int) -> Pixels:
        """The pixels of the first so many whole pictures, (count, 3, size, size)."""
        shape = (count, 3, self.size, self.size)
        return (
            np.memmap(self._pixels, np.uint8, "r", shape=shape) if count else np.zeros(shape, "u1")
        )

    def tensor(self, entries: NDArray[Any]) -> Tensor:
        """All pictures, in one channel where all are grey; that is one of three alike."""
        whole = entries["kind"][entries["kind"] != FAILED]
        shape = (len(whole), 3, self.size, self.size)
        channels = 1 if (whole == GREY).all() else None
        return MappedFile(self._pixels, "uint8", shape, channels).tensor()

    def add(self, keys: Sequence[bytes], new: Decoded, *, files: int, whole: int) -> None:
        """Append what became of some files, behind so many files, of which so many are whole."""
        entries = np.zeros(len(keys), ENTRY)
        entries["key"] = [np.void(key) for key in keys]
        entries["check"], entries["kind"] = new.checks, new.kinds
        for path, start, content in (
            (self._pixels, whole * self.row_bytes, new.pixels.tobytes()),
            (self._files, files * ENTRY.itemsize, entries.tobytes()),
        ):
            path.open("ab").close()
            with path.open("r+b") as file:
                put(file, start, content)

    def set_aside(self) -> None:
        """Begin anew; what was here is a source like the lists of other times."""
        self.folder.rename(self.folder.with_name(f"{self.folder.name}-{time.time_ns()}"))
        self.folder.mkdir()

    @property
    def _pixels(self) -> Path:
        return self.folder / "pixels.bin"

    @property
    def _files(self) -> Path:
        return self.folder / "files.bin"


def _filled(
    kept: Kept,
    files: Paths,
    keys: list[bytes],
    strict: bool,
    on_note: Callable[[str], None] | None,
    on_progress: OnProgress | None,
) -> Pictures:
    names, paths = list(files), list(files.values())
    entries = kept.entries()
    failed = np.flatnonzero(entries["kind"] == FAILED).tolist()
    again = decode([paths[place] for place in failed], kept.size)  # rights may have changed
    if not _intact(kept, entries, keys) or len(again.pixels):
        kept.set_aside()
        entries, failed, again = entries[:0], [], again._replace(reasons=[])
    reasons = dict(zip(failed, again.reasons, strict=True))
    _refuse(reasons, names, strict=strict)
    done, whole = len(entries), len(entries) - len(failed)
    if done < len(keys):
        what = f"{len(keys):,} pictures of {kept.size}×{kept.size}"
        size = len(keys) * (kept.row_bytes + ENTRY.itemsize)
        check_room(what, size, kept.folder.parent, there=size * done // len(keys))
        if on_note is not None:
            left = "all of them are" if not done else f"{len(keys) - done:,} of them are left"
            on_note(f"{what} take {megabytes(size)} in {kept.folder.parent}; {left} to decode.")
    earlier = _Earlier(kept)
    for piece, found in earlier.or_decoded(keys, paths, done):
        missing = piece.start + np.flatnonzero(found.kinds == FAILED)
        reasons |= zip(missing.tolist(), found.reasons, strict=True)
        _refuse(reasons, names, strict=strict)
        kept.add(keys[piece], found, files=piece.start, whole=whole)
        whole += len(found.pixels)
        if on_progress is not None:
            on_progress(piece.stop, len(keys))
    earlier.remove()
    skipped = [(names[place], why) for place, why in reasons.items()]
    if not whole:
        name, why = skipped[0]
        raise ValueError(f"None of the {len(files)} pictures can be read; {name}: {why}.")
    read = [name for place, name in enumerate(names) if place not in reasons]
    return Pictures(read, kept.tensor(kept.entries()), skipped)


def _intact(kept: Kept, entries: NDArray[Any], keys: Sequence[bytes]) -> bool:
    """Whether all is of these files, and as it was written."""
    if entries["key"].tobytes() != b"".join(keys[: len(entries)]):
        return False
    checks = entries["check"][entries["kind"] != FAILED].tolist()
    rows = kept.rows(len(checks))
    return all(zlib.crc32(row.data) == check for row, check in zip(rows, checks, strict=True))


def _refuse(reasons: dict[int, str], names: Sequence[str], *, strict: bool) -> None:
    if reasons and strict:
        first = min(reasons)
        raise ValueError(f"{names[first]} cannot be read as a picture: {reasons[first]}.")


class _Earlier:
    """What other lists of the same folder have: of a picture they know, the pixels are copied."""

    def __init__(self, kept: Kept):
        self.size = kept.size
        self._lists: list[tuple[Path, NDArray[Any], Pixels]] = []
        self._places: dict[bytes, tuple[int, int]] = {}  # by key: the list, and the row there
        for folder in sorted(kept.folder.parent.glob(f"{'?' * NAME}*")):
            if folder.is_dir() and folder != kept.folder:
                other = Kept(folder, kept.size)
                entries = other.entries()
                whole = entries[entries["kind"] != FAILED]
                keys = whole["key"].tobytes()
                for row in range(len(whole)):
                    key = keys[KEY * row : KEY * row + KEY]
                    self._places[key] = len(self._lists), row
                self._lists.append((folder, whole, other.rows(len(whole))))

    def or_decoded(
        self, keys: Sequence[bytes], files: Sequence[Path], start: int
    ) -> Iterator[tuple[slice, Decoded]]:
        """All files from `start` on, some at a time, in their order."""
        parts = [
            slice(start + p.start, start + p.stop) for p in pieces(len(keys) - start, self.size)
        ]
        lacking = [
            [path for key, path in zip(keys[p], files[p], strict=True) if not self._has(key)]
            for p in parts
        ]
        for part, found in zip(parts, decode_all(lacking, self.size), strict=True):
            yield part, self._completed(keys[part], found)

    def remove(self) -> None:
        """Nobody needs them any more, but for whoever reads them just now, and will to its end."""
        for folder, _, _ in self._lists:
            shutil.rmtree(folder, ignore_errors=True)

    def _has(self, key: bytes) -> bool:
        if key not in self._places:
            return False
        which, row = self._places[key]
        _, entries, rows = self._lists[which]
        return bool(zlib.crc32(rows[row].data) == entries["check"][row])

    def _completed(self, keys: Sequence[bytes], decoded: Decoded) -> Decoded:
        """What was decoded of some files, with the others of them copied between."""
        if len(decoded.kinds) == len(keys):
            return decoded
        kinds, checks = np.zeros(len(keys), np.uint8), np.zeros(len(keys), np.uint32)
        pixels: Pixels = np.empty((len(keys), 3, self.size, self.size), np.uint8)
        new, read, whole = 0, 0, 0
        for place, key in enumerate(keys):
            if self._has(key):
                which, row = self._places[key]
                _, entries, rows = self._lists[which]
                kinds[place], checks[place] = entries["kind"][row], entries["check"][row]
                pixels[whole] = rows[row]
            else:
                kinds[place], checks[place] = decoded.kinds[new], decoded.checks[new]
                new += 1
                if kinds[place] != FAILED:
                    pixels[whole] = decoded.pixels[read]
                    read += 1
            whole += int(kinds[place] != FAILED)
        return Decoded(kinds, checks, pixels[:whole], decoded.reasons)
