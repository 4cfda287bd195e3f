"""The cells of a table, out of a file or a data frame: by column, or some rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from labelgrad.inputs.arrow_csv import LARGE as LARGE_CSV
from labelgrad.inputs.arrow_csv import csv_columns, csv_parts
from labelgrad.inputs.base import join_few
from labelgrad.inputs.cells import Cells, csv_rows
from labelgrad.inputs.frames import FRAME, frame_columns, series_cells
from labelgrad.inputs.parquet import ROWS_AT_ONCE, ParquetTable, Room, is_parquet
from labelgrad.inputs.parquet import SUFFIXES as PARQUET
from labelgrad.nearest import did_you_mean

CSV = (".csv", ".tsv")
SUFFIXES = (*CSV, *PARQUET)


def columns_of(data: Any, room: Room = np.empty) -> tuple[str, dict[str, Cells]]:
    """What sentences call the table, and its cells by column; `room` is for those of numbers."""
    if not isinstance(data, Path):
        file, (names, series) = FRAME, frame_columns(data)
        cells: list[Cells] = [series_cells(column) for column in series]
    elif is_parquet(data):
        file, table = data.name, ParquetTable(data)
        names = table.names
        check_once(file, names)
        cells = [table.cells(place, room) for place in range(len(names))]
    else:
        file, (names, cells) = data.name, csv_columns(data, room) or _csv(data)
    check_once(file, names)
    found = dict(zip(names, cells, strict=bool(cells)))
    if not row_count(found):
        raise ValueError(f"{file} has no rows below its header.")
    return file, found


def table_parts(data: Any, used: Sequence[str]) -> Iterator[dict[str, Cells]] | None:
    """Some columns of a large file, some rows at a time; None of what is small, or in memory."""
    if not isinstance(data, Path):
        return None
    if is_parquet(data):
        table = ParquetTable(data)
        if table.rows <= ROWS_AT_ONCE:
            return None
        check_once(data.name, table.names)
        check_used(data.name, table.names, used)
        return table.parts(used)
    if data.stat().st_size < LARGE_CSV or find_spec("pyarrow") is None:
        return None
    header = next(csv_rows(data), (0, []))[1]
    check_once(data.name, header)
    check_used(data.name, header, used)
    return csv_parts(data, used)


def check_once(file: str, names: Sequence[str]) -> None:
    """Refuse columns of one name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(
            f"{file} has two columns of one name: {join_few(twice)}; rename one of them."
        )


def check_used(file: str, names: list[str], used: Sequence[str]) -> None:
    """Refuse a table that lacks columns which were used for training."""
    there = set(names)
    absent = [name for name in used if name not in there]
    if absent:
        raise ValueError(
            f"{file} lacks columns that the training data had: {join_few(absent)}; "
            f"{nearest_column(absent[0], names)}"
        )


def _csv(path: Path) -> tuple[list[str], list[Cells]]:
    rows = [row for _, row in csv_rows(path)]
    if not rows:
        raise ValueError(f"{path.name} is empty: a table needs a header and rows below it.")
    return rows[0], [list(column) for column in zip(*rows[1:], strict=True)]


def is_csv(path: Path) -> bool:
    """Whether a path is a CSV file, by its name.

    >>> is_csv(Path("pets.parquet"))
    False
    """
    return path.suffix.lower() in CSV and path.is_file()


def nearest_column(name: str, names: list[str]) -> str:
    """What to do about a column that is not there."""
    return did_you_mean(name, names, f"the columns are {join_few(names, most=12)}.")


def row_count(cells: Mapping[str, Cells]) -> int:
    """How many rows a table has.

    >>> row_count({"pet": ["cat", "dog"]})
    2
    """
    first = next(iter(cells.values()), [])
    return len(first) if isinstance(first, list) else len(first.values)
