"""A table, in a CSV or Parquet file or a data frame: one row is one example."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.augment.views import Noise
from labelgrad.inputs.arrow_csv import csv_columns
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
from labelgrad.inputs.cells import Cells, Typed, as_texts, csv_rows, csv_separator
from labelgrad.inputs.columns import (
    ROW_LENGTH,
    Encoder,
    Number,
    column_notes,
    column_spreads,
    fit_column,
)
from labelgrad.inputs.encoded import Block, thumbnail
from labelgrad.inputs.formats import typed_table
from labelgrad.inputs.frames import FRAME, frame_columns, is_frame, series_cells
from labelgrad.inputs.mixed import (
    block_rows,
    column_originals,
    encoded_columns,
    fit_columns,
    joined,
    original_text,
)
from labelgrad.inputs.targets import label_cells, targets
from labelgrad.nearest import did_you_mean
from labelgrad.step import Views

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
DEFAULTS = Defaults("mlp", steps=2000, learning_rate=1e-3, vat_radius=0.3)
USUAL_TARGETS = ("label", "target", "class", "y")


class Table:
    """A CSV or Parquet file, or a data frame of pandas, polars and others."""

    name = "table"
    what = f"a table ({', '.join(SUFFIXES)}, or a data frame)"
    key = "row"
    options: tuple[str, ...] = ("target", "dates", "text", "picture", "encoder")

    def takes(self, data: object, *, new: bool = False) -> bool:
        if isinstance(data, Path):
            return data.is_file() and data.suffix.lower() in SUFFIXES
        return is_frame(data)

    def read(self, data: Any, reading: Reading) -> Dataset:
        """Rows with an empty target are unlabeled; the other columns are inputs."""
        file, cells = columns_of(data)
        target, rows = reading.target, _count(cells)
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
                    f"{file} has no column {target!r}; {_nearest(str(target), list(cells))}"
                )
            target = str(target)
            labeled, where, left_out = as_texts(cells[target]), f"The column {target!r}", [target]
        asked = _asked(cells, reading, file, left_out)
        known = typed_table(
            {name: column for name, column in cells.items() if name not in asked},
            separator=_separator(data),
            dates=reading.dates,
            no_dates=left_out,
        )
        written = [known.columns.pop(name).format for name in left_out]
        labels = targets(labeled, reading.task, where, *written)
        found = _fit_mixed(known.columns, asked, reading, data)
        notes += labels.notes + known.notes + found.notes
        if found.x is None:
            beside = f" beside {target!r}" if target is not None else ""
            raise ValueError(f"{file} has no column to learn from{beside}. {' '.join(notes)}")
        return Dataset(
            self.name,
            found.x,
            labels.y,
            labels.task,
            labels.classes,
            _names(rows),
            notes=notes,
            preprocessing=labels.preprocessing(self.name, target=target, **found.described),
            originals=found.originals,
        )

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
        absent = [name for name in used if name not in cells]
        if absent:
            raise ValueError(
                f"{file} lacks columns that the training data had: {join_few(absent)}; "
                f"{_nearest(absent[0], list(cells))}"
            )
        encoded = [
            block_rows(block, cells[block.column], encoding, _folder(data), strict=strict)
            for block in blocks
        ]
        x = joined(_rows(encoder, cells) if encoder.columns else None, encoded)
        originals = column_originals(blocks, cells, _folder(data)) if blocks else None
        return Prepared(x, _names(len(x)), [], originals)

    def prepare_in_parts(
        self, preprocessing: dict[str, Any], data: Any, *, strict: bool, encoding: Encoding
    ) -> Iterator[Prepared]:
        """All of them are one part."""
        yield self.prepare(preprocessing, data, strict=strict, encoding=encoding)

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


def columns_of(data: Any) -> tuple[str, dict[str, Cells]]:
    """What sentences call the table, and its cells by column."""
    if not isinstance(data, Path):
        file, (names, series) = FRAME, frame_columns(data)
        cells: list[Cells] = [series_cells(column) for column in series]
    elif data.suffix.lower() in (".parquet", ".pq"):
        file, (names, cells) = data.name, _parquet(data)
    else:
        file, (names, cells) = data.name, csv_columns(data) or _csv(data)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(
            f"{file} has two columns of one name: {join_few(twice)}; rename one of them."
        )
    found = dict(zip(names, cells, strict=bool(cells)))
    if not _count(found):
        raise ValueError(f"{file} has no rows below its header.")
    return file, found


def _csv(path: Path) -> tuple[list[str], list[Cells]]:
    rows = [row for _, row in csv_rows(path)]
    if not rows:
        raise ValueError(f"{path.name} is empty: a table needs a header and rows below it.")
    return rows[0], [list(column) for column in zip(*rows[1:], strict=True)]


def _parquet(path: Path) -> tuple[list[str], list[Cells]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ValueError(
            f"{path.name} needs pyarrow: pip install 'labelgrad[tables]', or save it as CSV."
        ) from None
    try:
        with path.open("rb") as file:
            names, series = frame_columns(parquet.ParquetFile(file).read())
        return names, [series_cells(column) for column in series]
    except Exception as error:  # a damaged file stumbles anywhere in its decoder
        reason = (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
        raise ValueError(f"{path.name} cannot be read as a Parquet file: {reason}.") from None


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
            raise ValueError(f"{file} has no column {name!r} to read; {_nearest(name, others)}")
    return {name: cells[name] for name in names}


def _fit_mixed(
    known: dict[str, Typed], asked: dict[str, Cells], reading: Reading, data: Any
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
    is_text = isinstance(data, Path) and data.suffix.lower() in (".csv", ".tsv")
    return csv_separator(data) if is_text else ","


def _rows(encoder: Encoder, cells: Mapping[str, Cells]) -> Tensor:
    return encoder.rows(cells[column.name] for column in encoder.columns)


def _count(cells: dict[str, Cells]) -> int:
    first = next(iter(cells.values()), [])
    return len(first) if isinstance(first, list) else len(first.values)


def _names(count: int) -> list[str]:
    return [str(row) for row in range(1, count + 1)]


def _usual_target(cells: dict[str, Cells], file: str) -> str:
    usual = [name for name in cells if name.casefold() in USUAL_TARGETS]
    if len(usual) != 1:
        of = file if file != FRAME else FRAME.lower()
        raise ValueError(
            f"Say which column of {of} holds the labels with `target` (--target); the columns "
            f"are {join_few(cells, most=12)}."
        )
    return usual[0]


def _nearest(name: str, names: list[str]) -> str:
    return did_you_mean(name, names, f"the columns are {join_few(names, most=12)}.")
