"""Table rows in a memory-mapped file, with an undo journal so that a killed run can go back.

A checkpoint cannot copy a table larger than memory. Instead every row is journaled before it is
overwritten, and loading a checkpoint takes the file back to the moment the checkpoint was made.

Every row has a check of its own, which is looked at whenever the row is read: nobody would notice
else that a disk gave back another number. One record more, behind the rows, says up to which step
they were written: a journal that has lost its end does not reach as far.
"""

from __future__ import annotations

import mmap
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.files import replacing
from labelgrad.labels.journal import Journal

TABLE, HEADER = "table.npy", 128  # a file of fewer bytes holds no rows yet
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: no power of two times it is 0 in 64 bits


class MappedRows:
    """An array of records in a folder: each row's values and counts side by side on the disk.

    What has been written survives the death of the process, not of the machine: the operating
    system holds it until it reaches the disk.
    """

    def __init__(self, folder: Path, rows: int, width: int, dtype: torch.dtype):
        folder.mkdir(parents=True, exist_ok=True)
        record = _record(np.dtype(str(dtype).removeprefix("torch.")), width)
        self.folder, self.rows = folder, rows
        self.journal = Journal(folder, record.itemsize)
        self._array = _open_array(folder / TABLE, rows, record, new=self.journal.empty)
        self.values = torch.from_numpy(self._array["values"][:rows])
        self.counts = torch.from_numpy(self._array["counts"][:rows])
        self.foreign = not self.journal.empty

    def copied(self, start: int, end: int) -> NDArray[np.void]:
        """A copy of rows in their order, which are as they were written."""
        self.verify(torch.arange(start, end))
        return self._array[start:end].copy()

    def put(self, start: int, records: NDArray[np.void]) -> None:
        """Lay rows that stood elsewhere down here, without a journal."""
        index = np.arange(start, start + len(records))
        records["check"] = _checks(records, index)
        self._array[start : start + len(records)] = records

    def begin_at(self, clock: int) -> None:
        """What was put here is the table at a step, and nothing came before it."""
        self.journal.begin(clock)
        for path in self.journal.segments()[:-1]:
            path.unlink()
        self._written, self.foreign = clock, False

    def reaches(self, clock: int) -> bool:
        """Whether the rows can be taken back to how they were at a step, or are there already."""
        return self.journal.reach <= clock <= self._written <= self.journal.end

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """A copy of the rows' values and counts, which are as they were written."""
        index = rows.numpy()
        found = self._array[index]
        self._verify(found, index)
        return torch.from_numpy(found["values"].copy()), torch.from_numpy(found["counts"].copy())

    def write(self, clock: int, rows: Tensor, values: Tensor, counts: Tensor) -> None:
        """Change rows in a step at `clock`; what they were is in the journal before."""
        if self.foreign:
            raise ValueError(
                f"the label table in {self.folder} belongs to an earlier run; resume that run "
                f"from its checkpoint, or name an empty folder."
            )
        index = rows.numpy()
        records = self._array[index]  # a copy
        self.journal.append(clock, index, records.view(np.uint8))
        self._written = clock + 1
        records["values"], records["counts"] = values.numpy(), counts.numpy()
        records["check"] = _checks(records, index)
        self._array[index] = records

    def verify(self, rows: Tensor) -> None:
        """Raise `ValueError` unless the rows are as they were written."""
        index = rows.numpy()
        self._verify(self._array[index], index)

    def _verify(self, found: NDArray[np.void], index: NDArray[np.int64]) -> None:
        wrong = index[found["check"] != _checks(found, index)]
        if len(wrong):
            raise ValueError(
                f"the label table {self.folder / TABLE} is damaged in row {wrong[0]}; train anew "
                f"in an empty folder."
            )

    def roll_back(self, clock: int) -> None:
        """Take the file back to how it was at `clock`."""
        must = f"the label table in {self.folder} must be at step {clock} for this checkpoint, and"
        reach, end, written = self.journal.reach, self.journal.end, self._written
        if reach > clock:
            raise ValueError(f"{must} its journal reaches back only to step {reach}.")
        if not clock <= written <= end:
            raise ValueError(f"{must} is at step {written}, and its journal ends at step {end}.")
        for record in self.journal.since(clock):
            self._array[record.rows] = record.content.view(self._array.dtype).reshape(-1)
        self._written = clock
        self.journal.cut(clock)
        self.foreign = False

    @property
    def _written(self) -> int:
        """The step that the rows are at, as the record behind them has it."""
        last = torch.tensor([self.rows])
        self.verify(last)
        return int(self._array["counts"][self.rows, 0])

    @_written.setter
    def _written(self, clock: int) -> None:
        state = self._array[self.rows : self.rows + 1].copy()
        state["counts"] = clock
        state["check"] = _checks(state, np.array([self.rows]))
        self._array[self.rows :] = state


def _record(number: np.dtype[Any], width: int) -> np.dtype[np.void]:
    """One row on the disk, filled up to whole words so that every field is aligned."""
    padding = -3 * width * number.itemsize % 8
    fields: list[Any] = [("check", np.uint64), ("counts", np.int64, 2)]
    fields.append(("values", number, (3, width)))
    return np.dtype([*fields, *([("unused", np.uint8, padding)] if padding else [])])


def _checks(records: NDArray[np.void], index: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number for each row's content in its place; of zeros, as a new file has them, it is 0.

    Every bit that changes, changes it: words are added up, each times an odd number of its own.
    """
    count = records.dtype.itemsize // 8
    words = np.ascontiguousarray(records).view(np.uint64).reshape(len(records), count)[:, 1:]
    sums = (words * _factors(count - 1)).sum(1, dtype=np.uint64)
    checks: NDArray[np.uint64] = sums * (2 * index.astype(np.uint64) + np.uint64(1))
    return checks


@cache
def _factors(count: int) -> NDArray[np.uint64]:
    factors = MIX * (2 * np.arange(count, dtype=np.uint64) + np.uint64(1))
    return factors | np.uint64(1)


def _open_array(path: Path, rows: int, record: np.dtype[np.void], *, new: bool) -> NDArray[np.void]:
    """Map the array at `path`, or make it: all zeros, which take no space until written.

    Where nothing was ever journaled, nothing was ever written: a file that a killed process left
    half made is made again.
    """
    whole = _map(path, rows, record) if path.is_file() else "is not there"
    if new and isinstance(whole, str) and (not path.is_file() or path.stat().st_size < HEADER):
        with replacing(path, only_here=True) as half:
            np.lib.format.open_memmap(half, mode="w+", dtype=record, shape=(rows + 1,)).flush()
        whole = _map(path, rows, record)
    if isinstance(whole, str):
        raise ValueError(
            f"the label table must have {rows} rows of {record['values'].shape[1]} to match the "
            f"data, and {path} {whole}; name an empty folder."
        )
    return whole


def _map(path: Path, rows: int, record: np.dtype[np.void]) -> NDArray[np.void] | str:
    """The array at `path`, or what is wrong with it."""
    try:
        array: Any = np.lib.format.open_memmap(path, mode="r+")
    except Exception as error:  # a damaged header stumbles anywhere in its parser
        return f"is damaged ({str(error).splitlines()[0] if str(error) else 'empty'})"
    if array.shape != (rows + 1,) or array.dtype != record:
        return f"has {max(len(array) - 1, 0)} rows of {array.dtype}"
    # Rows are drawn at random: what the system would read beside each is not needed.
    if hasattr(mmap, "MADV_RANDOM"):
        array._mmap.madvise(mmap.MADV_RANDOM)
    return np.asarray(array)  # a plain array, which is faster to index
