"""Table rows in a memory-mapped file, with an undo journal so that a killed run can go back.

A checkpoint cannot copy a table larger than memory. Instead every row is journaled before it is
overwritten, and loading a checkpoint takes the file back to the moment the checkpoint was made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.labels.journal import Journal


class MappedRows:
    """An array of records in a folder: each row's values and counts side by side on the disk.

    What has been written survives the death of the process, not of the machine: the operating
    system holds it until it reaches the disk.
    """

    def __init__(self, folder: Path, rows: int, width: int, dtype: torch.dtype):
        folder.mkdir(parents=True, exist_ok=True)
        record = _record(np.dtype(str(dtype).removeprefix("torch.")), width)
        self.folder = folder
        self._array = _open_array(folder / "table.npy", rows, record)
        self.values = torch.from_numpy(self._array["values"])
        self.counts = torch.from_numpy(self._array["counts"])
        self.journal = Journal(folder, record.itemsize)
        self._foreign = not self.journal.empty

    def remember(self, clock: int, rows: Tensor) -> None:
        """Journal the rows as they are, before a step at `clock` changes them."""
        if self._foreign:
            raise ValueError(
                f"the label table in {self.folder} belongs to an earlier run; resume that run "
                f"from its checkpoint, or name an empty folder."
            )
        index = rows.numpy()
        self.journal.append(clock, index, self._array[index].view(np.uint8))

    def roll_back(self, clock: int) -> None:
        """Take the file back to how it was at `clock`."""
        if self.journal.reach > clock:
            raise ValueError(
                f"the label table in {self.folder} must be at step {clock} for this checkpoint, "
                f"and its journal reaches back only to step {self.journal.reach}."
            )
        for record in self.journal.undo(clock):
            self._array[record.rows] = record.content.view(self._array.dtype).reshape(-1)
        self._foreign = False


def _record(number: np.dtype[Any], width: int) -> np.dtype[np.void]:
    """One row on the disk, filled up to whole words so that every field is aligned."""
    padding = -3 * width * number.itemsize % 8
    fields: list[Any] = [("counts", np.int64, 2), ("values", number, (3, width))]
    return np.dtype([*fields, *([("unused", np.uint8, padding)] if padding else [])])


def _open_array(path: Path, rows: int, record: np.dtype[np.void]) -> NDArray[np.void]:
    """Map the array at `path`, or make it: all zeros, which take no space until written."""
    if not path.exists():
        return np.lib.format.open_memmap(path, mode="w+", dtype=record, shape=(rows,))
    array = np.lib.format.open_memmap(path, mode="r+")
    if array.shape != (rows,) or array.dtype != record:
        raise ValueError(
            f"the label table must have {rows} rows of {record['values'].shape[1]} to match the "
            f"data, and {path} has {len(array)} rows of {array.dtype}; name an empty folder."
        )
    return array
