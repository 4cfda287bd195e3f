"""A table in a CSV or Parquet file: one row is one example, one column its label."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelgrad.inputs.cells import csv_rows
from labelgrad.inputs.columns import Column, column_notes, fit_column, from_json, to_json
from labelgrad.inputs.dataset import Dataset, Prepared, join_few
from labelgrad.inputs.targets import targets
from labelgrad.nearest import did_you_mean

USUAL_TARGETS = ("label", "target", "class", "y")
Cells = dict[str, list[str]]  # by column; an empty text where there is nothing


def read_table(path: Path, *, target: str | None, task: str | None) -> Dataset:
    """Read a table; rows with an empty target are unlabeled, the other columns are inputs."""
    cells = table_cells(path)
    notes: list[str] = []
    if target is None:
        target = _usual_target(cells, path.name)
        notes.append(f"The column {target!r} is the target, by its name.")
    elif target not in cells:
        raise ValueError(f"{path.name} has no column {target!r}; {_nearest(target, list(cells))}")
    labels = targets(cells.pop(target), task, f"The column {target!r}")
    fitted = {name: fit_column(name, column) for name, column in cells.items()}
    columns = [column for column in fitted.values() if not isinstance(column, str)]
    notes += labels.notes + column_notes(fitted)
    if not columns:
        raise ValueError(
            f"{path.name} has no column to learn from beside {target!r}. {' '.join(notes)}"
        )
    described = [to_json(column) for column in columns]
    preparation = labels.preparation("table", target=target, columns=described)
    x, y = _rows(columns, cells), labels.y
    names = _names(len(y))
    return Dataset(
        "table", x, y, labels.task, labels.classes, names, notes=notes, preparation=preparation
    )


def prepare_table(preparation: dict[str, Any], path: Path) -> Prepared:
    """New rows with the columns the old ones had; others, the target among them, are not read."""
    cells = table_cells(path)
    columns = [from_json(column) for column in preparation["columns"]]
    absent = [column.name for column in columns if column.name not in cells]
    if absent:
        raise ValueError(
            f"{path.name} lacks columns that the training data had: {join_few(absent)}; "
            f"{_nearest(absent[0], list(cells))}"
        )
    x = _rows(columns, cells)
    return Prepared(x, _names(len(x)), [])


def table_cells(path: Path) -> Cells:
    """All cells as text, by column; the same for a table in CSV and in Parquet."""
    parquet = path.suffix.lower() in (".parquet", ".pq")
    names, rows = _parquet(path) if parquet else _csv(path)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{path.name} has two columns of one name: {join_few(twice)}; rename one of them."
        )
    if not rows or not rows[0]:
        raise ValueError(f"{path.name} has no rows below its header.")
    return dict(zip(names, rows, strict=True))


def _csv(path: Path) -> tuple[list[str], list[list[str]]]:
    rows = [row for _, row in csv_rows(path)]
    if not rows:
        raise ValueError(f"{path.name} is empty: a table needs a header and rows below it.")
    return rows[0], [list(column) for column in zip(*rows[1:], strict=True)]


def _parquet(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ValueError(
            f"{path.name} needs pyarrow: pip install 'labelgrad[tables]', or save it as CSV."
        ) from None
    try:
        with path.open("rb") as file:
            table = parquet.ParquetFile(file).read()
        texts = [_arrow_texts(column) for column in table.columns]
    except Exception as error:  # a damaged file stumbles anywhere in its decoder
        reason = (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
        raise ValueError(f"{path.name} cannot be read as a Parquet file: {reason}.") from None
    return list(table.column_names), texts


def _arrow_texts(column: Any) -> list[str]:
    import pyarrow as arrow

    if arrow.types.is_timestamp(column.type):  # Python's own times have no nanoseconds
        column = column.cast(arrow.timestamp("us", tz=column.type.tz), safe=False)
    # bytes, lists and the like are no cells; they come out empty, and are left out as that
    plain = (str, int, float, Decimal, date)
    return [str(c).strip() if isinstance(c, plain) else "" for c in column.to_pylist()]


def _rows(columns: list[Column], cells: Cells) -> Tensor:
    return torch.from_numpy(np.hstack([column.encode(cells[column.name]) for column in columns]))


def _names(count: int) -> list[str]:
    return [str(row) for row in range(1, count + 1)]


def _usual_target(cells: Cells, file: str) -> str:
    usual = [name for name in cells if name.casefold() in USUAL_TARGETS]
    if len(usual) != 1:
        raise ValueError(
            f"Say which column of {file} holds the labels with `target` (--target); the columns "
            f"are {join_few(cells, most=12)}."
        )
    return usual[0]


def _nearest(name: str, names: list[str]) -> str:
    return did_you_mean(name, names, f"the columns are {join_few(names, most=12)}.")
