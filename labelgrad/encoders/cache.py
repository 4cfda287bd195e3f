"""Features that are kept: each example goes through an encoder once, whatever is run afterwards.

A folder for each encoder has two files that only grow: `features.bin`, a row of float32 for each
example, and `keys.bin`, for each row the digest of the example's content and a checksum of the row.
A batch is a row in both once it is a row in the second, and the features are on the disk before it
is: killed at any moment, at most one batch is lost. A row that does not match its checksum is not
there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from labelgrad.encoders.base import Encoder, Record, fingerprint, megabytes, record_of
from labelgrad.files import json_bytes, write_whole

VERSION = 1  # of the files; folders of other versions have other names, and are left alone
KEY = 16  # bytes of a digest
SPARE = 50_000_000  # bytes of the disk that are left to others
Features = NDArray[np.float32]
ENTRY = np.dtype([("key", f"V{KEY}"), ("check", "<u4")])
OnProgress = Callable[[int, int], None]  # examples done, examples in all


def cache_folder(given: str | Path | None = None) -> Path:
    """The given folder, or else the one LABELGRAD_CACHE names, or else the user's cache.

    >>> cache_folder("kept").name
    'kept'
    """
    chosen = given or os.environ.get("LABELGRAD_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return user_cache_path("labelgrad", appauthor=False) / "features"


def content_key(content: bytes) -> bytes:
    """What an example is known by, wherever it lies.

    >>> len(content_key(b"a picture")), content_key(b"a") == content_key(b"b")
    (16, False)
    """
    return hashlib.blake2b(content, digest_size=KEY).digest()


class FeatureCache:
    """The kept features of one encoder.

    >>> from tempfile import mkdtemp
    >>> cache = FeatureCache(Path(mkdtemp()), {"name": "tiny", "width": 2})
    >>> cache.add([content_key(b"a"), content_key(b"b")], np.eye(2))
    >>> places = cache.places([content_key(b"b"), content_key(b"c")])
    >>> places
    [1, None]
    >>> cache.read([1])
    array([[0., 1.]], dtype=float32)
    """

    def __init__(self, folder: Path, record: Record):
        self.record, self.width = record, int(record["width"])
        self.folder = folder / f"v{VERSION}" / fingerprint(record)
        self._keys, self._features = self.folder / "keys.bin", self.folder / "features.bin"

    @property
    def row_bytes(self) -> int:
        """What a row takes on the disk."""
        return 4 * self.width + ENTRY.itemsize

    def places(self, keys: Sequence[bytes]) -> list[int | None]:
        """The row of each key, None where there is none or where it is damaged."""
        entries = self._entries()
        known = {key.tobytes(): row for row, key in enumerate(entries["key"])}
        found = [known.get(key) for key in keys]
        wanted = sorted({row for row in found if row is not None})
        if not wanted:
            return found
        rows, checks = self._mapped(len(entries)), entries["check"]
        damaged = {row for row in wanted if zlib.crc32(rows[row].data) != checks[row]}
        return [None if row in damaged else row for row in found]

    def read(self, places: Sequence[int]) -> Features:
        """Those rows, (n, width)."""
        return self.kept(places)[:]

    def kept(self, places: Sequence[int]) -> KeptFeatures:
        """Those rows, to be read when they are needed."""
        rows = self._mapped(self._whole()) if len(places) else np.zeros((0, self.width), np.float32)
        return KeptFeatures(rows, np.asarray(places, dtype=np.int64))

    def add(self, keys: Sequence[bytes], features: Any) -> None:
        """Append a batch; other processes may do so at the same time."""
        rows = np.ascontiguousarray(features, dtype=np.float32)
        if rows.shape != (len(keys), self.width):
            raise ValueError(
                f"A batch of features must have the shape {(len(keys), self.width)}, got "
                f"{rows.shape}."
            )
        entries = np.zeros(len(keys), ENTRY)
        entries["key"] = [np.void(key) for key in keys]
        entries["check"] = [zlib.crc32(row.data) for row in rows]
        try:
            self._begin()
            with self._keys.open("r+b") as kept, locked(kept):
                whole = self._whole()
                with self._features.open("r+b") as file:
                    put(file, whole * 4 * self.width, rows.tobytes())
                put(kept, whole * ENTRY.itemsize, entries.tobytes())
        except OSError as error:
            raise OSError(
                f"The feature cache {self.folder} cannot be written ({error.strerror or error}); "
                f"make room, or choose another folder with LABELGRAD_CACHE."
            ) from None

    def check_room(self, rows: int) -> None:
        """Refuse what the disk has no room for, before anything is computed."""
        needed, where = rows * self.row_bytes, self.folder
        while not where.exists() and where != where.parent:
            where = where.parent
        free = shutil.disk_usage(where).free
        if rows and needed + SPARE > free:
            raise OSError(
                f"The feature cache needs {megabytes(needed)} in {self.folder.parent}, and "
                f"{megabytes(free)} of the disk are free; make room, or choose another folder with "
                f"LABELGRAD_CACHE."
            )

    def _begin(self) -> None:
        if not self._features.exists() or not self._keys.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / "encoder.json", json_bytes(dict(self.record)))
            for path in (self._features, self._keys):
                path.open("ab").close()

    def _whole(self) -> int:
        """How many rows both files have in full."""
        try:
            sizes = self._keys.stat().st_size, self._features.stat().st_size
        except FileNotFoundError:
            return 0
        return min(sizes[0] // ENTRY.itemsize, sizes[1] // (4 * self.width))

    def _entries(self) -> NDArray[Any]:
        whole = self._whole()
        if not whole:
            return np.zeros(0, ENTRY)
        return np.fromfile(self._keys, ENTRY, whole)

    def _mapped(self, rows: int) -> Features:
        return np.memmap(self._features, np.float32, "r", shape=(rows, self.width))


def put(file: BinaryIO, start: int, content: bytes) -> None:
    """Write after the whole rows, over what a killed process has left there, down to the disk."""
    file.seek(start)
    file.truncate()
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def locked(file: BinaryIO) -> Iterator[None]:
    """One writer at a time; whoever dies lets go."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        windows: Any = msvcrt
        file.seek(0)
        windows.locking(file.fileno(), windows.LK_LOCK, 1)
        try:
            yield
        finally:
            with suppress(OSError):
                file.seek(0)
                windows.locking(file.fileno(), windows.LK_UNLCK, 1)
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


@dataclass(frozen=True, eq=False)
class KeptFeatures:
    """Rows of a cache, which come into memory when they are asked for.

    >>> rows = KeptFeatures(np.eye(3, dtype=np.float32), np.array([2, 0]))
    >>> rows.shape, rows[:1]
    ((2, 3), array([[0., 0., 1.]], dtype=float32))
    """

    rows: Features  # all of the cache
    places: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows, and their width."""
        return len(self.places), self.rows.shape[1]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, some: slice) -> Features:
        return np.ascontiguousarray(self.rows[self.places[some]])


@dataclass(frozen=True, eq=False)
class Extracted:
    """The features of all examples that could be read, and why others could not."""

    kept: KeptFeatures  # (read, width)
    read: list[int]  # the places of those examples, in their order
    failed: dict[int, Exception]
    new: int  # examples that went through the encoder

    @property
    def features(self) -> Features:
        """All of them in memory, (read, width)."""
        return self.kept[:]


def extract(
    encoder: Encoder,
    keys: Sequence[bytes],
    load: Callable[[int], Any],
    *,
    folder: str | Path | None = None,
    on_begin: Callable[[str], None] | None = None,
    on_progress: OnProgress | None = None,
) -> Extracted:
    """Features of examples by their keys: out of the cache, or else `load`ed and encoded.

    Examples of one content are encoded once. Batches begin at the same examples whether a run was
    cut short before or not, so features are the same to the last bit. `on_begin` is told, before
    anything is computed, how much it will be.

    >>> from tempfile import mkdtemp
    >>> from torch import nn
    >>> from labelgrad.encoders.pictures import picture_encoder
    >>> halves = picture_encoder(nn.Sequential(nn.AvgPool2d(2), nn.Flatten()), size=2)
    >>> pictures = [np.full((3, 2, 2), value, np.uint8) for value in (0, 255, 0)]
    >>> keys, place = [content_key(p.tobytes()) for p in pictures], mkdtemp()
    >>> found = extract(halves, keys, pictures.__getitem__, folder=place)
    >>> found.features.shape, found.new
    ((3, 3), 2)
    >>> extract(halves, keys, pictures.__getitem__, folder=place).new
    0
    """
    cache = FeatureCache(cache_folder(folder), record_of(encoder))
    first: dict[bytes, int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    unique = list(first)
    rows = dict(zip(unique, cache.places(unique), strict=True))
    missing = {key for key, row in rows.items() if row is None}
    failed: dict[bytes, Exception] = {}
    if missing:
        cache.check_room(len(missing))
        if on_begin is not None:
            on_begin(_announced(encoder, len(missing), len(missing) * cache.row_bytes, cache))
    done = new = 0
    for start in range(0, len(unique) if missing else 0, encoder.at_once):
        batch = [key for key in unique[start : start + encoder.at_once] if key in missing]
        loaded = {}
        for key in batch:
            try:
                loaded[key] = load(first[key])
            except Exception as error:  # a damaged file stumbles anywhere in its decoder
                failed[key] = error
        if loaded:
            found = encoder.encode(list(loaded.values())).numpy()
            if not np.isfinite(found).all():
                raise ValueError(
                    f"The encoder {encoder.name!r} gave features that are not finite; choose "
                    f"another."
                )
            cache.add(list(loaded), found)
        new, done = new + len(loaded), done + len(batch)
        if on_progress is not None and batch:
            on_progress(done, len(missing))
    if new:
        rows |= zip(missing, cache.places(list(missing)), strict=True)
    read = [place for place, key in enumerate(keys) if rows[key] is not None]
    kept = cache.kept([rows[keys[place]] for place in read])  # type: ignore[misc]
    others = {place: failed[key] for place, key in enumerate(keys) if key in failed}
    return Extracted(kept, read, others, new)


def _announced(encoder: Encoder, rows: int, size: int, cache: FeatureCache) -> str:
    what = "pictures" if encoder.kind == "pictures" else "texts"
    return (
        f"Features of {rows:,} new {what} by {encoder.name}: {megabytes(size)} into the cache "
        f"{cache.folder.parent.parent}."
    )
