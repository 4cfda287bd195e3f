"""An append-only undo journal: what rows held before they were overwritten.

A record is a step, some row numbers and those rows' former content, written by one system call
before the rows change. A process killed in the middle of that call leaves half a record, which
is recognised by its length and ignored: the rows it speaks of were not touched yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


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
        return int(self.segments()[0].stem.removeprefix("journal-"))

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
        head = np.array([clock, len(rows)], dtype=np.int64)
        data = memoryview(head.tobytes() + rows.tobytes() + content.tobytes())
        while data:
            data = data[os.write(self._handle(), data) :]

    def undo(self, clock: int) -> Iterator[Record]:
        """The records of steps at or after `clock`, newest first; afterwards they are gone."""
        later = [(path, self._since(path, clock)) for path in reversed(self.segments())]
        for _, (records, _) in later:
            yield from reversed(records)
        for path, (_, end) in later:
            os.truncate(path, end)

    def _since(self, path: Path, clock: int) -> tuple[list[Record], int]:
        """The records at or after `clock`, and where the file ends without them."""
        records, end = [], 0
        for record in self._read(path):
            if record.clock >= clock:
                records.append(record)
            else:
                end = record.start + self._size(len(record.rows))
        return records, end

    def _read(self, path: Path) -> Iterator[Record]:
        data, start = path.read_bytes(), 0
        while start + 16 <= len(data):
            clock, count = np.frombuffer(data, np.int64, 2, start).tolist()
            if start + self._size(count) > len(data):
                return
            rows = np.frombuffer(data, np.int64, count, start + 16)
            content = np.frombuffer(data, np.uint8, count * self.row_bytes, start + 16 + 8 * count)
            yield Record(clock, rows, content.reshape(count, self.row_bytes), start)
            start += self._size(count)

    def _size(self, count: int) -> int:
        return 16 + count * (8 + self.row_bytes)

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
