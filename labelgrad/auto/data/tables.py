"""Tables: one row is one example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data import columns as of_columns
from labelgrad.auto.data.columns import TEXTS, Column, Encoded, Guess, join_few
from labelgrad.auto.data.dataset import Dataset, Examples, NewExamples, RowIds
from labelgrad.auto.data.formats import NumberFormat, clean, parse_cells
from labelgrad.auto.data.sources import (
    SUFFIXES,
    USUAL_TARGETS,
    Source,
    open_source,
    parquet_files,
    suffix_of,
)
from labelgrad.auto.data.targets import Targets, label_series, read_targets
from labelgrad.auto.encoders import features as encoders
from labelgrad.auto.encoders.find import check_encoder
from labelgrad.auto.encoders.fine_tuning import raw_inputs
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.store import allocate
from labelgrad.auto.task import Array
from labelgrad.nearest import did_you_mean

CHUNK = 2**13  # rows that are encoded at once
LAZY_CHUNK = 2**17  # rows that are read at once from a large file
PART = 20_000  # rows of a part of new data


def _nearest(name: str, names: Sequence[str]) -> str:
    return did_you_mean(name, names, f"the columns are {join_few(names, most=12)}.")


@dataclass(eq=False)
class TablePreprocessor:
    """How the columns of a table become features; new tables are treated alike.

    >>> from labelgrad.auto.data.columns import Category
    >>> pets = TablePreprocessor((Category("pet", ("cat", "dog"), False, False),), "owner")
    >>> new = pets.transform(pl.DataFrame({"pet": ["dog", "cat"]}), FitConfig())
    >>> new.examples.X, list(new.ids)
    (array([[0., 1.],
           [1., 0.]], dtype=float32), ['1', '2'])
    """

    columns: tuple[Column, ...]
    target: str | None = None
    fine_tuned: bool = False
    kind: str = field(default="table", init=False)
    id_name: str = field(default="row", init=False)

    @property
    def width(self) -> int:
        """How many columns X has."""
        return sum(column.width for column in self.columns)

    def transform(self, data: Any, config: FitConfig, events: Events = SILENT) -> NewExamples:
        """All rows of a new table, which needs the columns that were used; others are not read."""
        return self._transformed(self._open(data, config), config, events)

    def transform_in_parts(
        self, data: Any, config: FitConfig, events: Events = SILENT
    ) -> Iterator[NewExamples]:
        """The same, some thousand rows at a time."""
        source, done = self._open(data, config), 0
        for part in source.parts([column.name for column in self.columns], PART):
            yield self._transformed(replace(source, frame=part), config, events, done + 1)
            done += part.height

    def _transformed(
        self, source: Source, config: FitConfig, events: Events, first_row: int = 1
    ) -> NewExamples:
        encoded, raw = {}, None
        for column in self._encoded:
            texts = texts_of(source, column.name)
            encoded[column.name] = encoders.encode_again(column.state, texts, config, events)
            raw = raw_inputs(column.state, texts, config) if self.fine_tuned else None
        X = self.features(source, encoded, config, first_row)
        return NewExamples(Examples(X, raw), RowIds(source.rows, first_row))

    def to_dict(self) -> dict[str, Any]:
        """The preprocessor as JSON can hold it."""
        columns = [of_columns.column_to_dict(column) for column in self.columns]
        saved = {"kind": self.kind, "target": self.target, "fine_tuned": self.fine_tuned}
        return {**saved, "columns": columns}

    @property
    def _encoded(self) -> list[Encoded]:
        return [column for column in self.columns if isinstance(column, Encoded)]

    def factors(self) -> list[float]:
        """What each feature is multiplied by.

        An encoder gives hundreds of features where a number is one. So that neither drowns the
        other, each encoded column has the same share of the variance as all others together.
        """
        plain = self.width - sum(column.width for column in self._encoded)
        blocks = len(self._encoded) + (plain > 0)
        shares = {
            column.name: blocks * (column.width if isinstance(column, Encoded) else plain)
            for column in self.columns
        }
        return [sqrt(self.width / shares[c.name]) for c in self.columns for _ in range(c.width)]

    def features(
        self, source: Source, encoded: Mapping[str, Array], config: FitConfig, first_row: int = 1
    ) -> Array:
        """All rows of X, some at a time; the features of encoders are given."""
        X = allocate((source.rows, self.width), np.float32, config.cache)
        factors = np.array(self.factors(), np.float32)
        is_mixed = bool((factors != 1).any())
        buffer = np.empty((CHUNK, self.width), np.float32)  # its columns stay in the caches
        names = [column.name for column in self.columns if not isinstance(column, Encoded)]
        done = 0
        for part in source.parts(names or list(source.schema)[:1], LAZY_CHUNK):
            values = [
                encoded[column.name][done : done + part.height]
                if isinstance(column, Encoded)
                else column.parse(part[column.name], first_row + done)
                for column in self.columns
            ]
            for start in range(0, part.height, CHUNK):
                rows = buffer[: part.height - start]
                of_columns.encode_rows(
                    self.columns, [mine[start : start + CHUNK] for mine in values], rows
                )
                X[done + start : done + start + len(rows)] = rows * factors if is_mixed else rows
            done += part.height
        return X

    def _open(self, data: Any, config: FitConfig) -> Source:
        source = open_source(data, config)
        lacking = [column.name for column in self.columns if column.name not in source.schema]
        if lacking:
            raise ValueError(
                f"{source.name} lacks columns that the training data have: {join_few(lacking)}; "
                f"{_nearest(lacking[0], list(source.schema))}"
            )
        return source


def texts_of(source: Source, name: str) -> list[str | None]:
    """The texts of a column, None where missing."""
    return clean(of_columns.as_text(source.column(name))).to_list()


def _find_target(source: Source, y: Any, config: FitConfig) -> tuple[str | None, list[str]]:
    target, names = config.target, list(source.schema)
    if y is not None:
        if target is not None:
            raise ValueError("The labels are given twice, as `y` and by `target`; leave one out.")
        return None, []
    if target is not None:
        if target not in names:
            raise ValueError(f"{source.name} has no column {target!r}; {_nearest(target, names)}")
        return target, []
    usual = [name for name in names if name.lower() in USUAL_TARGETS]
    if len(usual) != 1:
        raise ValueError(
            f"Say which column of {source.name} holds the labels with `target` (--target); the "
            f"columns are {join_few(names, most=12)}."
        )
    return usual[0], [f"The column {usual[0]!r} is the target, by its name."]


def _guesses(source: Source, target: str | None, config: FitConfig) -> dict[str, Guess]:
    """What each column seems to hold, but for those that are declared to be texts."""
    hold = isinstance(source.frame, pl.DataFrame)
    return {
        name: of_columns.guess(name, dtype, source.column, dates=name != target, hold=hold)
        for name, dtype in source.schema.items()
        if name not in config.text
    }


def _labels(
    source: Source, y: Any, target: str | None, guesses: Mapping[str, Guess], config: FitConfig
) -> Targets:
    if target is None:
        labels, notes = label_series(y, source.rows, config.task)
        found = read_targets(labels, config.task, "`y`")
        return found._replace(notes=[*notes, *found.notes])
    form, cells = guesses[target].format, source.column(target)
    if of_columns.holds_of(cells.dtype) == of_columns.OBJECTS:
        raise ValueError(f"The column {target!r} must hold numbers or text, got {cells.dtype}.")
    written = form if isinstance(form, NumberFormat) else None
    return read_targets(cells, config.task, f"The column {target!r}", written)


def _parsed(source: Source, guesses: Mapping[str, Guess]) -> Source:
    """A table in memory with numbers and dates in place of strings; a large one as it is."""
    if isinstance(source.frame, pl.LazyFrame):
        return source
    columns = []
    for name, found in guesses.items():
        if found.is_string and found.holds != TEXTS:
            numbers = found.numbers
            if numbers is None:
                numbers, _ = parse_cells(source.column(name), found.format)
            columns.append(numbers.alias(name))
    return replace(source, frame=source.frame.with_columns(columns))


def _fit_texts(
    source: Source, names: Sequence[str], config: FitConfig, events: Events
) -> tuple[dict[str, Column | str], dict[str, Array], list[str]]:
    """Columns of texts, or why they are left out; the features of an encoder; and notes."""
    check_encoder(config, "texts" if names else None)
    fitted: dict[str, Column | str] = {}
    features, notes = {}, []
    for name in names:
        texts = texts_of(source, name)
        try:
            if not any(texts):
                raise encoders.NothingToLearnError("empty")
            block = encoders.encode_texts(texts, config, events)
        except encoders.NothingToLearnError as error:
            fitted[name] = str(error)
            continue
        fitted[name], features[name] = Encoded(name, block.state), block.features
        encoder = block.state["encoder"]["name"]
        notes += [f"Texts of {name!r} are encoded by {encoder}."]
        if missing := sum(not text for text in texts):
            notes += [f"Missing texts of {name!r} are encoded as the mean: {missing}."]
        notes += [note for note in block.notes if note not in notes]
    return fitted, features, notes


def _raw_examples(columns: Sequence[Column], source: Source, config: FitConfig) -> Array:
    """What a fine-tuned encoder takes of each row."""
    only = columns[0]
    is_tfidf = isinstance(only, Encoded) and only.state["encoder"]["name"] == "tf-idf"
    if len(columns) > 1 or not isinstance(only, Encoded) or is_tfidf:
        raise ValueError(
            "Fine-tuning needs one column of texts that an encoder reads, and no other; name an "
            "--encoder, or leave --fine-tune out."
        )
    return raw_inputs(only.state, texts_of(source, only.name), config)


class TableKind:
    """Tables in files, and data frames."""

    name = "table"

    def takes(self, data: Any) -> bool:
        """Whether this is the path of a table, or a data frame."""
        if not isinstance(data, Path):
            try:
                native = nw.from_native(data, pass_through=True)
            except nw.exceptions.DuplicateError:
                return True
            return isinstance(native, nw.DataFrame | nw.LazyFrame)
        if data.is_dir():
            return bool(parquet_files(data))
        return suffix_of(data) in SUFFIXES

    def read(self, data: Any, y: Any, config: FitConfig, events: Events = SILENT) -> Dataset:
        """Read a table: rows with an empty target are unlabeled, the other columns are features."""
        source = open_source(data, config, parse=True)
        target, notes = _find_target(source, y, config)
        names = [name for name in source.schema if name != target]
        for name in config.text:
            if name not in names:
                raise ValueError(f"{source.name} has no column {name!r}; {_nearest(name, names)}")
        guesses = _guesses(source, target, config)
        if any(isinstance(found.format, NumberFormat) for found in guesses.values()):
            source = open_source(data, config)  # decimal signs of all columns are compared
            guesses = _guesses(source, target, config)
        formats = of_columns.settle_numbers(guesses, source.column, source.separator)
        formats += of_columns.settle_dates(guesses, source.column, config.dates)
        labels = _labels(source, y, target, guesses, config)
        guesses.pop(target or "", None)
        source = _parsed(source, guesses)
        prose = [
            name
            for name, found in guesses.items()
            if found.holds == TEXTS
            and of_columns.is_prose(of_columns.text_counts(source.column(name)))
        ]
        texts = [*config.text, *prose]
        fitted, features, encoder_notes = _fit_texts(source, texts, config, events)
        fitted |= {
            name: of_columns.fit_column(found, source.column(name), is_file=source.is_file)
            for name, found in guesses.items()
            if name not in texts
        }
        notes += [*labels.notes, *formats, *encoder_notes, *of_columns.column_notes(fitted)]
        by_name = {name: each for name, each in fitted.items() if not isinstance(each, str)}
        if not by_name:
            beside = "" if target is None else f" beside {target!r}"
            raise ValueError(
                f"{source.name} has no column to learn from{beside}. {' '.join(notes)}"
            )
        columns = tuple(of_columns.share_scale(by_name).values())
        states = [column.state for column in columns if isinstance(column, Encoded)]
        preprocessor = TablePreprocessor(columns, target, fine_tuned=config.fine_tune > 0)
        return Dataset(
            preprocessor.features(source, features, config),
            labels.y,
            labels.task,
            RowIds(source.rows, 1),
            preprocessor,
            raw=_raw_examples(columns, source, config) if config.fine_tune else None,
            has_encoded_features=len(states) == len(columns),
            encoders=encoders.encoder_names(states) or None,
            notes=notes,
        )

    def preprocessor_from_dict(self, saved: Mapping[str, Any]) -> TablePreprocessor:
        """The preprocessor of a saved run."""
        columns = tuple(of_columns.column_from_dict(column) for column in saved["columns"])
        return TablePreprocessor(columns, saved["target"], saved["fine_tuned"])


TABLES = TableKind()
