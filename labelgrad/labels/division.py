"""A label table in files that is divided among processes: each has the file of its own rows.

One process has its file in the folder itself. Of several each has a folder in there, `2-of-4`, with
a file of its rows and a journal of its own, so nobody waits for another to write. A run that goes
on with another number of processes finds the rows where the last ones left them: every process
copies those that are its own now, and when all have done so the old files go. Killed in the midst
of that, the old files are still whole.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch

from labelgrad.group import Group, block
from labelgrad.labels.storage import TABLE, MappedRows

COPIED = 2**26  # bytes of rows at a time


class Division:
    """The files of a table of `rows` rows, divided among the processes of a group; `mine` is here.

    >>> from tempfile import mkdtemp
    >>> from labelgrad.group import ALONE
    >>> Division(Path(mkdtemp()), 5, 3, torch.float32, ALONE).mine.values.shape
    torch.Size([5, 3, 3])
    """

    def __init__(self, folder: Path, rows: int, width: int, dtype: torch.dtype, group: Group):
        self.folder, self.rows, self.group = folder, rows, group
        self._kind = width, dtype
        self.mine = self._opened(group.rank, group.size)
        if any(_is_written(part) for size in self._others() for part in self._parts_here(size)):
            self.mine.foreign = True

    def leave(self) -> None:
        """Another group will have the table: a file of this one in which nothing is goes away."""
        place = self._place(self.group.rank, self.group.size)
        self.mine.journal.close()
        if place != self.folder and self.mine.journal.empty:
            shutil.rmtree(place)

    def go_back(self, clock: int) -> None:
        """Have the rows as they were at `clock`, whoever had them then.

        All processes do this together.
        """
        if self._others() and self.group.any(not self.mine.reaches(clock)):
            self._copy_from_others(clock)
        self.mine.roll_back(clock)
        self.group.any(False)  # all have what they need
        self.group.first(self._remove_others)

    def _copy_from_others(self, clock: int) -> None:
        whole = [size for size in self._others() if len(self._parts_here(size)) == size]
        if self.group.any(not whole):
            most = max(self._others(), key=lambda size: len(self._parts_here(size)))
            raise ValueError(
                f"the label table in {self.folder} was divided among {most} processes, and for "
                f"{self.group.size} to share it all {most} parts must be there, and a process "
                f"finds {len(self._parts_here(most))}; go on with {most} processes, or put the "
                f"parts into one folder that all see."
            )
        size = self.group.first(lambda: self._taken_back(whole, clock))
        mine, width = self.group.rows(self.rows), self._kind[0]
        place = self._place(self.group.rank, self.group.size)
        self.mine.journal.close()
        _remove(place)
        self.mine = self._opened(self.group.rank, self.group.size)
        many = max(1, COPIED // (12 * width + 24))
        for rank in range(size):
            theirs, part = block(self.rows, rank, size), None
            start, end = max(mine.start, theirs.start), min(mine.stop, theirs.stop)
            for at in range(start, end, many):
                part = part or self._opened(rank, size)
                found = part.copied(at - theirs.start, min(at + many, end) - theirs.start)
                if found.view("u1").any():  # rows that were never drawn take no space
                    self.mine.put(at - mine.start, found)
        self.mine.begin_at(clock)

    def _taken_back(self, sizes: list[int], clock: int) -> int:
        """The number of processes whose files have been taken back to a step."""
        parts: list[MappedRows] = []
        for size in sizes:
            parts = [self._opened(rank, size) for rank in range(size)]
            if all(part.reaches(clock) for part in parts):
                break
        for part in parts:
            part.roll_back(clock)
        return size

    def _others(self) -> list[int]:
        """Numbers of processes, other than that of this group, that have left files here."""
        found = {int(match[2]) for match in self._matches()}
        found |= {1} if (self.folder / TABLE).is_file() else set()
        return sorted(found - {self.group.size})

    def _matches(self) -> Iterator[re.Match[str]]:
        for path in self.folder.iterdir():
            match = re.fullmatch(r"(\d+)-of-(\d+)", path.name)
            if match:
                yield match

    def _parts_here(self, size: int) -> list[Path]:
        """The folders of so many processes that are here."""
        places = [self._place(rank, size) for rank in range(size)]
        return [place for place in places if (place / TABLE).is_file()]

    def _remove_others(self) -> None:
        for size in self._others():
            for rank in range(size):
                _remove(self._place(rank, size))

    def _place(self, rank: int, size: int) -> Path:
        return self.folder if size == 1 else self.folder / f"{rank + 1}-of-{size}"

    def _opened(self, rank: int, size: int) -> MappedRows:
        rows = block(self.rows, rank, size)
        return MappedRows(self._place(rank, size), rows.stop - rows.start, *self._kind)


def _is_written(place: Path) -> bool:
    """Whether a step has ever changed the rows there."""
    first = "journal-000000000000.bin"
    return any(p.name != first or p.stat().st_size for p in place.glob("journal-*.bin"))


def _remove(place: Path) -> None:
    """Remove a table's files, the journal first: rows without one are as good as none."""
    for path in (*sorted(place.glob("journal-*.bin")), place / TABLE):
        path.unlink(missing_ok=True)
    if re.fullmatch(r"\d+-of-\d+", place.name) and place.is_dir():
        shutil.rmtree(place)
