"""A table, in a CSV or Parquet file or a data frame: one row is one example."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.augment.views import Noise
from labelgrad.inputs import kept_table
from labelgrad.inputs.base import (
    MOST_SHOWN,
    VERSION,
    Dataset,
    Defaults,
    Encoding,
    Inputs,
    Prepared,
    Reading,
    Scale,
    Shown,
    join_few,
)
from labelgrad.inputs.cells import (
    MANY_TEXTS,
    MOST_DIFFERENT,
    Cells,
    Typed,
    as_texts,
    csv_separator,
)
from labelgrad.inputs.columns import (
    ROW_LENGTH,
    Encoder,
    Number,
    column_notes,
    fit_column,
)
from labelgrad.inputs.encoded import Block, thumbnail
from labelgrad.inputs.formats import typed_table
from labelgrad.inputs.frames import FRAME, is_frame
from labelgrad.inputs.kept_table import KeptTable
from labelgrad.inputs.mixed import (
    block_rows,
    column_originals,
    encoded_columns,
    fit_columns,
    joined,
    original_text,
)
from labelgrad.inputs.parquet import ParquetTable, is_parquet
from labelgrad.inputs.row_names import RowNames
from labelgrad.inputs.spreads import column_spreads
from labelgrad.inputs.table_cells import (
    SUFFIXES,
    check_used,
    columns_of,
    is_csv,
    nearest_column,
    row_count,
    table_parts,
)
from labelgrad.inputs.targets import label_cells, targets
from labelgrad.step import Views

DEFAULTS = Defaults("mlp", steps=2000, learning_rate=1e-3, vat_radius=0.3)
USUAL_TARGETS = ("label", "target", "class", "y")


class Table:
    """A CSV or Parquet file, a folder of Parquet files, or a data frame of pandas and others."""

    name = "table"
    what = f"a table ({', '.join(SUFFIXES)}, a folder of Parquet files, or a data frame)"
    key = "row"
    options: tuple[str, ...] = ("target", "dates", "text", "picture", "encoder")

    def takes(self, data: object, *, new: bool = False) -> bool:
        if isinstance(data, Path):
            return is_csv(data) or is_parquet(data)
        return is_frame(data)

    def read(self, data: Any, reading: Reading) -> Dataset:
        """Rows with an empty target are unlabeled; the other columns are inputs."""
        kept = _kept(data, reading)
        known_already = None if kept is None else kept.load(self.name)
        if known_already is not None:
            return known_already
        file, cells = columns_of(data, np.empty if kept is None else kept.scratch)
        target, rows = reading.target, row_count(cells)
        notes: list[str] = []
        left_out: list[str] = []
        if reading.y is not None:
            if target is not None:
                raise ValueError(
                    "The labels are given twice, as `y` and by `target`; leave one out."
                )
            labeled, notes = label_cells(reading.y, rows)
            where = "`y`"
        else:
            if target is None:
                target = _usual_target(cells, file)
                notes.append(f"The column {target!r} is the target, by its name.")
            elif str(target) not in cells:
                raise ValueError(
                    f"{file} has no column {target!r}; {nearest_column(str(target), list(cells))}"
                )
            target = str(target)
            labeled, where, left_out = as_texts(cells[target]), f"The column {target!r}", [target]
            _check_target(cells[target], where)
        asked = _asked(cells, reading, file, left_out)
        known = typed_table(
            {name: column for name, column in cells.items() if name not in asked},
            separator=_separator(data),
            dates=reading.dates,
            no_dates=left_out,
        )
        written = [known.columns.pop(name).format for name in left_out]
        labels = targets(labeled, reading.task, where, *written)
        found = _fit_mixed(known.columns, asked, reading, data, kept)
        notes += labels.notes + known.notes + found.notes
        if found.x is None:
            beside = f" beside {target!r}" if target is not None else ""
            raise ValueError(f"{file} has no column to learn from{beside}. {' '.join(notes)}")
        dataset = Dataset(
            self.name,
            found.x,
            labels.y,
            labels.task,
            labels.classes,
            RowNames(rows, first=1),
            notes=notes,
            preprocessing=labels.preprocessing(self.name, target=target, **found.described),
            originals=found.originals,
        )
        if kept is not None and found.originals is None:
            kept.finish(dataset)
        return dataset

    def inputs(self, data: Any) -> Inputs:
        file, cells = columns_of(data)
        known = typed_table(cells)
        found = _fit(known.columns, of_file=False)
        if found.encoder is None:
            raise ValueError(f"{file} has no column to learn from. {' '.join(found.notes)}")
        described = {"version": VERSION, "kind": self.name} | found.encoder.described()
        return Inputs(_rows(found.encoder, known.columns), described, known.notes + found.notes)

    def prepare(
        self, preprocessing: dict[str, Any], data: Any, *, strict: bool, encoding: Encoding
    ) -> Prepared:
        """New rows need the columns that were used; others, the target too, are not read."""
        encoder = Encoder.of(preprocessing)
        blocks = [Block.of(described) for described in preprocessing.get("blocks", [])]
        file, cells = columns_of(data)
        used = [column.name for column in encoder.columns] + [block.column for block in blocks]
        check_used(file, list(cells), used)
        encoded = [
            block_rows(block, cells[block.column], encoding, _folder(data), strict=strict)
            for block in blocks
        ]
        x = joined(_rows(encoder, cells) if encoder.columns else None, encoded)
        originals = column_originals(blocks, cells, _folder(data)) if blocks else None
        return Prepared(x, RowNames(len(x), first=1), [], originals)

    def prepare_in_parts(
        self, preprocessing: dict[str, Any], data: Any, *, strict: bool, encoding: Encoding
    ) -> Iterator[Prepared]:
        """Of a large file, of which no column is read by an encoder, some rows at a time."""
        encoder, rows = Encoder.of(preprocessing), 0
        used = [column.name for column in encoder.columns]
        parts = None if preprocessing.get("blocks") else table_parts(data, used)
        if parts is None:
            yield self.prepare(preprocessing, data, strict=strict, encoding=encoding)
            return
        for cells in parts:
            x = encoder.rows((cells[name] for name in used), rows)
            yield Prepared(x, RowNames(len(x), first=rows + 1), [])
            rows += len(x)

    def defaults(self, shape: Sequence[int]) -> Defaults:
        return DEFAULTS

    def transform(self, preprocessing: dict[str, Any], x: Tensor) -> Scale:
        return Scale(1.0, 0.0)  # the rows are stored as a network sees them

    def views(self, shape: Sequence[int], scale: Scale, mirror: bool) -> Views:
        unit = scale.factor * ROW_LENGTH / math.sqrt(shape[0])  # a standard deviation
        return Noise(0.1 * unit, 0.5 * unit)

    def columns(self, preprocessing: dict[str, Any]) -> list[str]:
        """Those of texts first: they say most to a person."""
        texts = [str(block["column"]) for block in preprocessing.get("blocks", [])]
        plain = [str(column["name"]) for column in preprocessing["columns"]]
        return (texts + plain)[: max(MOST_SHOWN, len(texts))]

    def show(self, preprocessing: dict[str, Any], row: NDArray[Any], original: Any = None) -> Shown:
        texts = [] if original is None else [original_text(one) for one in original]
        files = [one for one in original or () if isinstance(one, Path)]
        room = max(MOST_SHOWN - len(texts), 0) if preprocessing["columns"] else 0
        plain = Encoder.of(preprocessing, room).show(row) if room else []
        return Shown(thumbnail(files[0]) if files else None, texts + plain)

    def near(self, x: Tensor, outputs: Tensor) -> Tensor:
        return x  # rows are alike by their columns


def _check_target(cells: Cells, where: str) -> None:
    if isinstance(cells, Typed) and cells.holds == MANY_TEXTS:
        raise ValueError(
            f"{where} has more than {MOST_DIFFERENT:,} different texts and is probably not a "
            f"class; choose another column."
        )


def _kept(data: Any, reading: Reading) -> KeptTable | None:
    """Where the numbers of a table are kept that is too large for memory."""
    if not isinstance(data, Path) or reading.y is not None or reading.text or reading.picture:
        return None
    if is_parquet(data):
        table = ParquetTable(data)
        is_large = 8 * table.rows * len(table.names) >= kept_table.LARGE
        return KeptTable.of(data, table.paths, reading) if is_large else None
    is_large = data.stat().st_size >= kept_table.LARGE and find_spec("pyarrow") is not None
    return KeptTable.of(data, [data], reading) if is_large else None


class _Read(NamedTuple):
    """All columns as numbers, if any of them can be, and how new rows are read alike."""

    x: Tensor | None
    described: dict[str, Any]
    originals: list[tuple[Any, ...]] | None
    notes: list[str]


def _asked(
    cells: dict[str, Cells], reading: Reading, file: str, target: Sequence[str]
) -> dict[str, Cells]:
    """The columns that are to be read as texts or pictures, as they are written, even numbers."""
    names = (*reading.text, *reading.picture)
    for name in names:
        if name not in cells or name in target:
            others = [other for other in cells if other not in target]
            raise ValueError(
                f"{file} has no column {name!r} to read; {nearest_column(name, others)}"
            )
    return {name: cells[name] for name in names}


def _fit_mixed(
    known: dict[str, Typed],
    asked: dict[str, Cells],
    reading: Reading,
    data: Any,
    kept: KeptTable | None = None,
) -> _Read:
    """Plain columns, and those that encoders read."""
    folder = _folder(data)
    kinds = encoded_columns(known, reading, folder)
    plain = {name: column for name, column in known.items() if name not in kinds}
    found = _fit(plain, of_file=isinstance(data, Path))
    encoder = found.encoder
    mixed = fit_columns(kinds, asked | known, reading, folder, beside=encoder is not None)
    notes = mixed.notes + column_notes(dict(mixed.empty)) + found.notes
    if encoder is None and not mixed.blocks:
        return _Read(None, {}, None, notes)
    if encoder is not None and mixed.blocks:
        share = 1 / (1 + len(mixed.blocks))
        encoder = replace(encoder, scale=encoder.scale / math.sqrt(share))
    if kept is not None and encoder is not None and not mixed.blocks:
        cells = [plain[column.name] for column in encoder.columns]
        count, width = row_count(plain), len(encoder.mean)
        x = kept.write_rows(count, width, partial(encoder.rows_into, cells=cells))
    else:
        x = joined(None if encoder is None else _rows(encoder, plain), mixed.rows)
    described = (encoder or Encoder((), np.zeros(0), np.zeros(0))).described()
    if mixed.blocks:
        described["blocks"] = [block.described() for block in mixed.blocks]
    return _Read(x, described, mixed.originals, notes)


def _folder(data: Any) -> Path | None:
    """Where files that a table names are looked for: beside it."""
    return data.parent if isinstance(data, Path) else None


class _Fitted(NamedTuple):
    """How the columns become numbers, if any of them does, and what to say about them."""

    encoder: Encoder | None
    notes: list[str]


def _fit(known: dict[str, Typed], *, of_file: bool) -> _Fitted:
    fitted = {
        name: fit_column(name, column, counts_are_data=not of_file)
        for name, column in known.items()
    }
    columns = [column for column in fitted.values() if not isinstance(column, str)]
    numbers = [column for column in columns if isinstance(column, Number)]
    plain = [column.name for column in numbers if not column.date]
    statistics: dict[str, tuple[float, float]] = {}
    # Numbers may all be of one kind, such as pixels; a date is of its own.
    for names in [plain, *([column.name] for column in numbers if column.date)]:
        if names:
            mean, spread = column_spreads([np.asarray(known[name].values) for name in names])
            statistics |= zip(names, zip(mean, spread, strict=True), strict=True)
    ordered = np.array([statistics[column.name] for column in numbers]).reshape(-1, 2)
    encoder = Encoder.fit(columns, *ordered.T) if columns else None
    return _Fitted(encoder, column_notes(fitted))


def _separator(data: Any) -> str:
    return csv_separator(data) if isinstance(data, Path) and is_csv(data) else ","


def _rows(encoder: Encoder, cells: Mapping[str, Cells]) -> Tensor:
    return encoder.rows(cells[column.name] for column in encoder.columns)


def _usual_target(cells: dict[str, Cells], file: str) -> str:
    usual = [name for name in cells if name.casefold() in USUAL_TARGETS]
    if len(usual) != 1:
        of = file if file != FRAME else FRAME.lower()
        raise ValueError(
            f"Say which column of {of} holds the labels with `target` (--target); the columns "
            f"are {join_few(cells, most=12)}."
        )
    return usual[0]
