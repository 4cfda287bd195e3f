"""The cache folder: large arrays of one process, and rows that are computed once.

A `RowStore` holds features or decoded images, each row by a key of its own. Rows have checksums:
what is damaged counts as missing and is computed again. A row reaches the disk before the entry
that names it, so a process that is killed while it writes leaves nothing that could be mistaken for
data.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from platformdirs import user_cache_path

from labelgrad.auto.events import Events
from labelgrad.auto.task import Array
from labelgrad.files import digest_of, json_bytes

FORMAT = 2  # of the files; the folders of other formats have other names
KEY_BYTES = 16
RESERVE = 50_000_000  # bytes of the disk that are left free
MEMORY_VARIABLE, DEFAULT_MEMORY = "LABELGRAD_MEMORY", 200.0  # megabytes of an array in memory
LIMIT_VARIABLE, DEFAULT_LIMIT = "LABELGRAD_CACHE_LIMIT", 100.0  # gigabytes of an array on disk
ROW_ENTRY = np.dtype([("key", f"V{KEY_BYTES}"), ("checksum", "<u4")])
OTHER_FOLDER = "make room, or choose another folder with --cache or LABELGRAD_CACHE"


def cache_folder(given: str | Path | None = None) -> Path:
    """The given folder, else the one that LABELGRAD_CACHE names, else the user's cache folder.

    Parameters
    ----------
    given
        What the configuration has as `cache`.

    Returns
    -------
    Path
        The folder, which need not exist yet.

    Examples
    --------
    >>> cache_folder("scratch").name
    'scratch'
    """
    chosen = given or os.environ.get("LABELGRAD_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("labelgrad", appauthor=False)


def fits_memory(size: int) -> bool:
    """Whether an array of `size` bytes is held in memory; LABELGRAD_MEMORY is the limit in MB.

    Examples
    --------
    >>> fits_memory(10**6), fits_memory(10**12)
    (True, False)
    """
    return size <= 1e6 * _environment_number(MEMORY_VARIABLE, DEFAULT_MEMORY)


def allocate(shape: Sequence[int], dtype: DTypeLike, cache: str | Path | None = None) -> Array:
    """An array of zeros: in memory if it is small, else in an unnamed file that dies with it.

    Processes started by joblib map the same file.

    Parameters
    ----------
    shape, dtype
        Of the array.
    cache
        The folder of a large array, as in `cache_folder`.

    Returns
    -------
    Array
        A numpy array, or a numpy.memmap.

    Examples
    --------
    >>> allocate((2,), "float32")
    array([0., 0.], dtype=float32)
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if fits_memory(size):
        return np.zeros(tuple(shape), dtype)
    folder = cache_folder(cache)
    check_room(f"An array of the shape {tuple(shape)}", size, folder)
    with _writing(folder), TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # a full disk raises here, not as a signal later
            os.posix_fallocate(file.fileno(), 0, size)
        array = np.memmap(file, dtype, "r+", shape=tuple(shape))
        if Path(f"/proc/{os.getpid()}/fd").is_dir():
            handle = os.dup(file.fileno())
            array.filename = f"/proc/{os.getpid()}/fd/{handle}"  # by which joblib opens it again
            weakref.finalize(array._mmap, os.close, handle)  # type: ignore[attr-defined]
    return array


def content_key(content: bytes) -> bytes:
    """What a row of a `RowStore` is found by.

    Examples
    --------
    >>> len(content_key(b"an image")), content_key(b"a") == content_key(b"b")
    (16, False)
    """
    return hashlib.blake2b(content, digest_size=KEY_BYTES).digest()


def format_size(size: float) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> format_size(17_234_567), format_size(51_200), format_size(3_100_000_000)
    ('17 MB', '0.1 MB', '3.1 GB')
    """
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.0f} MB" if size >= 1e7 else f"{max(size / 1e6, 0.1):.1f} MB"


def check_room(what: str, size: int, folder: Path) -> None:
    """Raise OSError if the disk has no room for `size` bytes, or LABELGRAD_CACHE_LIMIT forbids it.

    Examples
    --------
    >>> check_room("The features", 10**14, Path("scratch"))
    Traceback (most recent call last):
    OSError: The features would take 100000.0 GB in scratch, and the limit is 100.0 GB; raise \
LABELGRAD_CACHE_LIMIT (in GB), or use fewer or smaller examples.
    """
    limit = 1e9 * _environment_number(LIMIT_VARIABLE, DEFAULT_LIMIT)
    taken = f"{what} would take {format_size(size)} in {folder}"
    if size > limit:
        raise OSError(
            f"{taken}, and the limit is {format_size(limit)}; raise {LIMIT_VARIABLE} (in GB), or "
            f"use fewer or smaller examples."
        )
    free = shutil.disk_usage(next(p for p in (folder, *folder.parents) if p.exists())).free
    if size + RESERVE > free:
        raise OSError(f"{taken}, and {format_size(free)} of the disk are free; {OTHER_FOLDER}.")


Computed = tuple[Array, dict[int, str]]  # rows in order, and why other places have none
Compute = Callable[[list[list[int]]], Iterable[Computed]]


class RowStore:
    """Rows of one shape, each found by a key of 16 bytes; several processes may add rows.

    Parameters
    ----------
    folder
        Where the files are.
    about
        Everything but the row's key that a row depends on, as JSON can hold it.
    shape, dtype
        Of one row.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> store = RowStore(Path(mkdtemp()), {"encoder": "tiny"}, (2,), "float32")
    >>> store.add([content_key(b"a"), content_key(b"b")], np.eye(2))
    >>> store.find([content_key(b"b"), content_key(b"c")])
    array([ 1, -1])
    >>> store.rows(np.array([1]))
    array([[0., 1.]], dtype=float32)
    """

    def __init__(
        self, folder: Path, about: Mapping[str, Any], shape: Sequence[int], dtype: DTypeLike
    ):
        about = {**about, "shape": list(shape), "dtype": np.dtype(dtype).str}
        self.folder = folder / f"v{FORMAT}" / digest_of(json_bytes(about))
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.row_size = math.prod(self.shape) * self.dtype.itemsize  # bytes
        self._rows, self._entries = self.folder / "rows.bin", self.folder / "entries.bin"

    def find(self, keys: Sequence[bytes]) -> Array:
        """The place of each key's row, -1 where there is none or where it is damaged."""
        count = self._count()
        if not count:
            return np.full(len(keys), -1)
        entries, rows = np.fromfile(self._entries, ROW_ENTRY, count), self._map(count)
        known = {key.tobytes(): place for place, key in enumerate(entries["key"])}
        found = np.array([known.get(key, -1) for key in keys], dtype=np.int64)
        used, checksums = np.unique(found[found >= 0]), entries["checksum"]
        damaged = [place for place in used if zlib.crc32(rows[place].data) != checksums[place]]
        found[np.isin(found, damaged)] = -1
        return found

    def add(self, keys: Sequence[bytes], rows: Any) -> None:
        """Append rows; when this returns they are on the disk."""
        new = np.ascontiguousarray(rows, self.dtype).reshape(len(keys), *self.shape)
        checked = [(key, zlib.crc32(row.data)) for key, row in zip(keys, new, strict=True)]
        entries = np.array(checked, ROW_ENTRY)
        with _writing(self.folder), _locked(self.folder / "lock"):
            count = self._count()
            _write_at(self._rows, count * self.row_size, new.data)
            _write_at(self._entries, count * ROW_ENTRY.itemsize, entries.tobytes())

    def rows(self, places: Array, cache: str | Path | None = None) -> Array:
        """The rows at these places, mapped if they are all from the first on, else copied."""
        count = len(places)
        if not fits_memory(count * self.row_size) and np.array_equal(places, np.arange(count)):
            return self._map(count)
        copied = allocate((count, *self.shape), self.dtype, cache)
        if count:  # "clip", because numpy would check places in a copy of the rows
            np.take(self._map(self._count()), places, axis=0, out=copied, mode="clip")
        return copied

    def complete(
        self, keys: Sequence[bytes], compute: Compute, batch: int, stage: str, events: Events
    ) -> tuple[Array, dict[int, str]]:
        """Find or compute the row of each key.

        Parameters
        ----------
        keys
            Of the rows; equal keys have equal rows, and an empty key has none.
        compute
            From batches of positions in `keys` to the rows of each batch, in order, and why places
            in the batch have no row.
        batch
            Positions per batch. Batches begin at the same positions whether or not a run was
            interrupted before, so that rows are the same to the last bit.
        stage
            What is computed: "encoding images", for instance.
        events
            Receives a note on the size of the missing rows, and progress.

        Returns
        -------
        tuple of Array and dict
            The place of each row (-1 for failed ones and empty keys), and why positions failed.
        """
        first: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            if key:
                first.setdefault(key, position)
        unique, positions = list(first), list(first.values())
        places = self.find(unique)
        missing = {positions[i] for i in np.flatnonzero(places < 0)}
        reasons: dict[bytes, str] = {}
        if missing:
            size = len(missing) * self.row_size
            check_room("New rows", size, self.folder)
            events.note(
                f"{stage.capitalize()}: {len(missing):,} of {len(unique):,} are new and take "
                f"{format_size(size)} in {self.folder}."
            )
            starts, done = range(0, len(positions), batch), 0
            split = ([p for p in positions[at : at + batch] if p in missing] for at in starts)
            batches = [each for each in split if each]
            for each, (rows, failed) in zip(batches, compute(batches), strict=True):
                self.add([keys[p] for place, p in enumerate(each) if place not in failed], rows)
                reasons |= {keys[each[place]]: reason for place, reason in failed.items()}
                done += len(each)
                events.progress(stage, done, len(missing))
            places = self.find(unique)
        by_key = dict(zip(unique, places.tolist(), strict=True))
        found = np.array([by_key.get(key, -1) for key in keys], dtype=np.int64)
        return found, {p: reasons[key] for p, key in enumerate(keys) if key in reasons}

    def _count(self) -> int:
        """How many rows both files have in full."""
        try:
            sizes = self._entries.stat().st_size, self._rows.stat().st_size
        except FileNotFoundError:
            return 0
        return min(sizes[0] // ROW_ENTRY.itemsize, sizes[1] // self.row_size)

    def _map(self, count: int) -> Array:
        return np.memmap(self._rows, self.dtype, "c", shape=(count, *self.shape))


def _write_at(path: Path, start: int, content: Any) -> None:
    """Write behind the whole rows, over what an interrupted process left there."""
    path.open("ab").close()
    with path.open("r+b") as file:
        file.seek(start)
        file.truncate()
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Make the folder, and name it where something in it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        why = f"cannot be written ({error.strerror})"
        raise OSError(f"The cache {folder} {why}; {OTHER_FOLDER}.") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One writer at a time, where the system has locks; a process that dies releases its lock."""
    with path.open("a+b") as file:
        with suppress(ImportError):  # Windows: two writers at once may both compute
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _environment_number(name: str, default: float) -> float:
    given = os.environ.get(name, str(default))
    with suppress(ValueError):
        if 0 <= float(given) < math.inf:
            return float(given)
    raise ValueError(f"{name} must be a number from 0 on, got {given!r}.")
