"""An append-only undo journal: what rows held before they were overwritten.

A record is a step, some row numbers and those rows' former content, written before the rows change.
A process killed in the middle of that leaves half a record, which is recognised by its length and
ignored: the rows it speaks of were not touched yet. All else is damage, and is told: a head and a
body each have a digest, and the steps of the records follow each other without a gap.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HEAD, CHECK = 16, 8  # bytes: clock and count, and the digest of either part


@dataclass(frozen=True)
class Record:
    """Rows as they were before a step at `clock` changed them; `start` is its place in the file."""

    clock: int
    rows: NDArray[np.int64]
    content: NDArray[np.uint8]  # (rows, bytes of a row)
    start: int


class Journal:
    """Segments `journal-<step>.bin` in a folder, each begun at a checkpoint of that step."""

    def __init__(self, folder: Path, row_bytes: int):
        self.folder, self.row_bytes = folder, row_bytes
        self._open: int | None = None
        self.fresh = not self.segments()
        if self.fresh:
            self.begin(0)
        else:
            self._append_to(self.segments()[-1])

    def segments(self) -> list[Path]:
        """The segment files, oldest first."""
        return sorted(self.folder.glob("journal-*.bin"))

    @property
    def reach(self) -> int:
        """The earliest step that can be gone back to."""
        return _begun_at(self.segments()[0])

    @property
    def end(self) -> int:
        """The step after the last one that is recorded."""
        last = self.segments()[-1]
        return max([_begun_at(last), *(record.clock + 1 for record in self._read(last))])

    @property
    def empty(self) -> bool:
        """Whether nothing was ever recorded, or everything was undone to the very start."""
        return self.reach == 0 and not any(
            True for path in self.segments() for _ in self._read(path)
        )

    def begin(self, clock: int) -> None:
        """Start a new segment at a checkpoint; keep the one before it and drop those older."""
        self._append_to(self.folder / f"journal-{clock:012d}.bin")
        for path in self.segments()[:-2]:
            path.unlink()

    def append(self, clock: int, rows: NDArray[np.int64], content: NDArray[np.uint8]) -> None:
        """Record the rows' content; when this returns, they may be overwritten."""
        head, body = np.array([clock, len(rows)], np.int64).tobytes(), rows.tobytes()
        body += content.tobytes()
        data = memoryview(head + _check(head) + _check(head + body) + body)
        handle = self._handle()
        size = os.fstat(handle).st_size
        try:
            while data:
                data = data[os.write(handle, data) :]
        except OSError as error:
            os.ftruncate(handle, size)  # else what comes later would stand behind half a record
            raise OSError(
                f"the journal in {self.folder} could not be written ({error.strerror}); make room "
                f"and resume the run."
            ) from error

    def since(self, clock: int) -> Iterator[Record]:
        """The records of steps at or after `clock`, newest first."""
        self._check_chain()
        for path in reversed(self.segments()):
            yield from reversed([each for each in self._read(path) if each.clock >= clock])

    def cut(self, clock: int) -> None:
        """Forget the records of steps at or after `clock`; a kill in between can be repeated."""
        for path in reversed(self.segments()):
            if _begun_at(path) > clock:
                path.unlink()
                continue
            earlier = [each for each in self._read(path) if each.clock < clock]
            end = earlier[-1].start + self._size(len(earlier[-1].rows)) if earlier else 0
            os.truncate(path, end)
        self._append_to(self.segments()[-1])

    def _check_chain(self) -> None:
        """The last step of a segment is followed by the first of the next."""
        for path, following in pairwise(self.segments()):
            end = max([_begun_at(path), *(record.clock + 1 for record in self._read(path))])
            if end < _begun_at(following):
                raise self._damaged(path, f"its steps end at {end}")

    def _read(self, path: Path) -> Iterator[Record]:
        data, start, awaited = path.read_bytes(), 0, _begun_at(path)
        body = HEAD + 2 * CHECK
        while start + HEAD + CHECK <= len(data):
            head = data[start : start + HEAD]
            clock, count = np.frombuffer(head, np.int64).tolist()
            if data[start + HEAD : start + HEAD + CHECK] != _check(head):
                raise self._damaged(path, f"at byte {start}")
            end = start + self._size(count)
            if end > len(data):
                return
            check = data[start + HEAD + CHECK : start + body]
            if check != _check(head + data[start + body : end]) or clock != awaited:
                raise self._damaged(path, f"at byte {start}")
            rows = np.frombuffer(data, np.int64, count, start + body)
            content = np.frombuffer(
                data, np.uint8, count * self.row_bytes, start + body + 8 * count
            )
            yield Record(clock, rows, content.reshape(count, self.row_bytes), start)
            start, awaited = end, clock + 1

    def _damaged(self, path: Path, where: str) -> ValueError:
        return ValueError(
            f"the journal {path} is damaged ({where}), and the label table beside it cannot be "
            f"taken back to a checkpoint; train anew in an empty folder."
        )

    def _size(self, count: int) -> int:
        return HEAD + 2 * CHECK + count * (8 + self.row_bytes)

    def _append_to(self, path: Path) -> None:
        self.close()
        self._open = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _handle(self) -> int:
        if self._open is None:
            raise ValueError(f"the journal in {self.folder} is closed.")
        return self._open

    def close(self) -> None:
        """Let go of the file."""
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def __del__(self) -> None:
        self.close()


def _begun_at(segment: Path) -> int:
    """The step of the checkpoint that a segment was begun at."""
    number = segment.stem.removeprefix("journal-")
    if not number.isdigit():
        raise ValueError(f"{segment} is no journal of a label table; name an empty folder.")
    return int(number)


def _check(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=CHECK).digest()
