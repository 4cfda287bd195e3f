"""Large tables as numbers in a file of the cache: they are read once, and never all in memory.

A folder for each table, and for each way to read it, has `rows.bin`, the rows as a network sees
them in float32, `labels.bin`, and `table.json`, which takes its place last and has the digests of
both, what the table was (its files, their sizes and times) and all else that a `Dataset` is. A
table that has changed, and a folder that is damaged, are read anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import labelgrad
from labelgrad.encoders.base import megabytes
from labelgrad.encoders.cache import SPARE, cache_folder
from labelgrad.files import (
    digest_of,
    digest_of_file,
    json_bytes,
    read_sealed,
    sealed_json,
    write_whole,
)
from labelgrad.inputs.base import VERSION, Dataset, Reading
from labelgrad.inputs.mapped import MappedFile
from labelgrad.inputs.row_names import RowNames

ROWS, LABELS, TABLE = "rows.bin", "labels.bin", "table.json"
FORMAT = 1
LARGE = 2**29  # bytes of a table, 8 for each cell: smaller ones are held in memory
ENDS = 2**16  # bytes of a file that are looked at


@dataclass(frozen=True)
class KeptTable:
    """Where the numbers of a table are kept, and for which files and settings."""

    name: str  # of the table, in sentences
    folder: Path
    source: dict[str, Any]
    note: Callable[[str], None]

    @classmethod
    def of(cls, path: Path, files: Sequence[Path], reading: Reading) -> KeptTable:
        """The place for a table of these files, read as was asked for."""
        asked = {
            "path": str(path.resolve()),
            "target": reading.target,
            "task": reading.task,
            "dates": reading.dates,
            "labelgrad": labelgrad.__version__,
            "format": [FORMAT, VERSION],
        }
        folder = cache_folder(reading.encoding.cache) / "tables" / digest_of(json_bytes(asked))
        source = asked | {"files": [_identity(file) for file in files]}
        return cls(path.name, folder, source, reading.encoding.on_note or (lambda _: None))

    def load(self, kind: str) -> Dataset | None:
        """What is kept, or None if it is not there, or of a table that was changed since."""
        if not (self.folder / TABLE).is_file():
            return None
        try:
            kept = read_sealed((self.folder / TABLE).read_bytes())
            if kept["source"] != self.source:
                return None
            for file in (ROWS, LABELS):
                if digest_of_file(self.folder / file) != kept["digests"][file]:
                    raise ValueError(f"{file} does not match its digest")
            count, width = kept["shape"]
            y = torch.from_numpy(np.fromfile(self.folder / LABELS, kept["labels"]))
            if len(y) != count:
                raise ValueError("it has other labels than rows")
            x = _mapped(self.folder / ROWS, count, width)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.note(
                f"The numbers of {self.name} that are kept in {self.folder} are damaged ({error}), "
                f"and made anew."
            )
            return None
        self.note(f"The numbers of {self.name} are kept in {self.folder}, and taken from there.")
        return Dataset(
            kind,
            x,
            y,
            kept["task"],
            tuple(kept["classes"]),
            RowNames(count, first=1),
            notes=kept["notes"],
            preprocessing=kept["preprocessing"],
        )

    def scratch(self, count: int) -> NDArray[np.float64]:
        """Room for so many numbers, in a file that is gone with the last who uses it."""
        if not count:
            return np.zeros(0)
        with self._writing(8 * count), TemporaryFile(dir=self.folder) as file:
            _allocate(file, 8 * count)
            return np.memmap(file, np.float64, "r+", shape=(count,))

    def write_rows(
        self, count: int, width: int, fill: Callable[[NDArray[np.float32]], None]
    ) -> Tensor:
        """Let the rows be filled in, and give them as a tensor over the file."""
        size = 4 * count * width
        with self._writing(size):
            self.note(
                f"{self.name} has {count:,} rows: as {width} numbers each they take "
                f"{megabytes(size)} in the cache {self.folder.parent}, of "
                f"{megabytes(self._free())} that are free."
            )
            half = self.folder / f".{ROWS}.{os.getpid()}"
            try:
                with half.open("w+b") as file:
                    _allocate(file, size)
                    rows = np.memmap(file, np.float32, "r+", shape=(count, width))
                    fill(rows)
                    del rows
                half.replace(self.folder / ROWS)
            finally:
                half.unlink(missing_ok=True)
        return _mapped(self.folder / ROWS, count, width)

    def finish(self, dataset: Dataset) -> None:
        """Keep all else that the dataset is: from now on it can be loaded."""
        y = dataset.y.numpy()
        with self._writing(y.nbytes):
            write_whole(self.folder / LABELS, y.tobytes())
            kept = {
                "source": self.source,
                "shape": list(dataset.x.shape),
                "labels": y.dtype.str,
                "task": dataset.task,
                "classes": list(dataset.classes),
                "notes": dataset.notes,
                "preprocessing": dataset.preprocessing,
                "digests": {file: digest_of_file(self.folder / file) for file in (ROWS, LABELS)},
            }
            write_whole(self.folder / TABLE, sealed_json(kept))

    @contextmanager
    def _writing(self, size: int) -> Iterator[None]:
        """What cannot be written is told in a sentence; room that is not there, beforehand."""
        choose = "make room, or choose another folder with --cache or LABELGRAD_CACHE"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            free = self._free()
        except OSError as error:
            raise _unwritable(self, error, choose) from None
        if size + SPARE > free:
            raise OSError(
                f"The numbers of {self.name} need {megabytes(size)} in {self.folder.parent}, and "
                f"{megabytes(free)} of the disk are free; {choose}."
            )
        try:
            yield
        except OSError as error:
            raise _unwritable(self, error, choose) from None

    def _free(self) -> int:
        return shutil.disk_usage(self.folder).free


def _unwritable(kept: KeptTable, error: OSError, choose: str) -> OSError:
    reason = error.strerror or error
    return OSError(
        f"The numbers of {kept.name} cannot be written to {kept.folder} ({reason}); {choose}."
    )


def _allocate(file: Any, size: int) -> None:
    """Make the file so long; a full disk is told now, where the system can, not at some write."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


def _mapped(path: Path, count: int, width: int) -> Tensor:
    """The rows of a file, of which the system holds as many in memory as there is room for."""
    return MappedFile(path, "float32", (count, width)).tensor()


def _identity(file: Path) -> list[Any]:
    """What a file is known by: its name, size and time, and what stands at its ends.

    A Parquet file has the statistics and places of all its columns at its end.
    """
    stat = file.stat()
    with file.open("rb") as opened:
        begins = opened.read(ENDS)
        opened.seek(max(0, stat.st_size - ENDS))
        ends = opened.read(ENDS)
    return [file.name, stat.st_size, stat.st_mtime_ns, digest_of(begins + ends)]
