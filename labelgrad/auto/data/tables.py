"""Tables: one row is one example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data import columns as of_columns
from labelgrad.auto.data.columns import TEXTS, Column, Encoded, Guess, join_few
from labelgrad.auto.data.dataset import PART, Dataset, Examples, NewExamples, Preprocessor, RowIds
from labelgrad.auto.data.formats import NumberFormat, clean
from labelgrad.auto.data.sources import Source, open_source, table_files, with_unlabeled
from labelgrad.auto.data.targets import Targets, label_series, read_targets
from labelgrad.auto.encoders import features as encoders
from labelgrad.auto.encoders.find import check_encoder
from labelgrad.auto.encoders.fine_tuning import raw_inputs
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.store import allocate
from labelgrad.auto.task import Array
from labelgrad.nearest import did_you_mean

CHUNK = 2**15  # rows that are read and encoded at once
USUAL_TARGETS = ("label", "target", "class", "y")
TAKEN = (  # names of columns in files of a run
    *("label", "confidence", "std", "source", "prediction", "prediction_confidence", "entropy"),
    *("neighbours", "neighbour_disagreement", "low", "high", "imputed", "given", "reason"),
    *("ood_score", "unknown_probability"),
)


@dataclass(eq=False)
class TablePreprocessor(Preprocessor):
    """How the columns of a table become features; new tables are treated alike.

    >>> from labelgrad.auto.data.columns import Category
    >>> pets = TablePreprocessor("owner", False, (Category("pet", ("cat", "dog"), False, False),))
    >>> new = pets.transform(pl.DataFrame({"pet": ["dog", "cat"]}), FitConfig())
    >>> new.examples.X, list(new.ids)
    (array([[0., 1.],
           [1., 0.]], dtype=float32), ['1', '2'])
    """

    kind: str = field(default="table", init=False)
    target: str | None
    fine_tuned: bool
    columns: tuple[Column, ...]
    id: str | None = None  # the column that names the rows

    def __post_init__(self) -> None:
        self.id_name = self.id or "row"

    @classmethod
    def takes(cls, data: Any) -> bool:
        """Whether this is the path of a table, or a data frame."""
        if isinstance(data, Path):
            return bool(table_files(data))
        try:
            native = nw.from_native(data, pass_through=True)
        except nw.exceptions.DuplicateError:
            return True
        return isinstance(native, nw.DataFrame | nw.LazyFrame)

    @classmethod
    def read(cls, data: Any, y: Any, config: FitConfig, events: Events = SILENT) -> Dataset:
        """Read a table: rows with an empty target are unlabeled, the other columns are features."""
        source = open_source(data, config)
        target, notes = _find_target(source, y, config)
        source = with_unlabeled(source, target, config)
        if source.below is not None:
            notes.append(f"{source.below.rows} unlabeled rows are those of {source.below.name}.")
        unused = _unused(source, target, config)
        ids = _ids(source, config.id)
        guesses = {
            name: of_columns.guess(
                name, dtype, source.column, dates=name != target, keep=not source.is_large
            )
            for name, dtype in source.schema.items()
            if name not in config.text and name not in unused
        }
        formats = []
        if any(found.formats[0] for found in guesses.values()):
            formats = of_columns.settle_numbers(guesses, source.column, source.separator)
            formats += of_columns.settle_dates(guesses, source.column, config.dates)
        labels = _labels(source, y, target, guesses, config)
        guesses.pop(target or "", None)
        plain = [each.numbers for each in guesses.values() if each.formats[0] is None]
        numbers = [column for column in plain if column is not None]
        source.frame = source.frame.with_columns(numbers)  # they are not parsed again
        prose = [
            name
            for name, found in guesses.items()
            if found.holds == TEXTS
            and of_columns.is_prose(of_columns.text_counts(source.column(name)))
        ]
        texts = [*(name for name in config.text if name not in unused), *prose]
        fitted, features, encoder_notes = _fit_texts(source, texts, config, events)
        fitted |= {
            name: of_columns.fit_column(
                found, source.column(name), is_file=isinstance(source.data, Path)
            )
            for name, found in guesses.items()
            if name not in texts
        }
        notes += [*labels.notes, *formats, *encoder_notes, *of_columns.column_notes(fitted)]
        notes += of_columns.id_notes(guesses, fitted, config.id)
        by_name = {name: each for name, each in fitted.items() if not isinstance(each, str)}
        if not by_name:
            what = "" if target is None else f" beside {target!r}"
            raise ValueError(f"{source.name} has no column to learn from{what}. {' '.join(notes)}")
        columns = tuple(of_columns.share_scale(by_name).values())
        groups = texts_of(source, config.groups) if isinstance(config.groups, str) else None
        states = [column.state for column in columns if isinstance(column, Encoded)]
        preprocessor = cls(target, config.fine_tune > 0, columns, config.id)
        return Dataset(
            preprocessor.features(source, features, config),
            labels.y,
            labels.task,
            ids,
            preprocessor,
            raw=preprocessor.raw(source, config) if config.fine_tune else None,
            groups=np.array(groups, object) if groups else None,
            has_encoded_features=len(states) == len(columns),
            encoders=encoders.encoder_names(states) if states else None,
            notes=notes,
        )

    def transform_in_parts(
        self, data: Any, config: FitConfig, events: Events = SILENT, size: int | None = PART
    ) -> Iterator[NewExamples]:
        """Rows of a new table, which needs the columns that were used; others are not read."""
        whole, names = open_source(data, config), [column.name for column in self.columns]
        lacking = [name for name in names if name not in whole.schema]
        if lacking:
            which = f"columns that the training data have: {join_few(lacking)}"
            near = _nearest(lacking[0], list(whole.schema))
            raise ValueError(f"{whole.name} lacks {which}; {near}")
        named = self.id if self.id in whole.schema else None
        names += [] if named is None else [named]
        parts = [whole.frame] if size is None else whole.parts(names, size)
        row = 1
        for source in (replace(whole, frame=part.lazy()) for part in parts):
            encoded = {
                column.name: encoders.encode_again(
                    column.state, texts_of(source, column.name), config, events
                ).features
                for column in self.columns
                if isinstance(column, Encoded)
            }
            X = self.features(source, encoded, config, row)
            raw = self.raw(source, config) if self.fine_tuned else None
            ids: Any = RowIds(source.rows, row) if named is None else _names(source, named)
            yield NewExamples(Examples(X, raw), ids)
            row += source.rows

    def features(
        self, source: Source, encoded: Mapping[str, Array], config: FitConfig, first_row: int = 1
    ) -> Array:
        """All rows of X, some at a time; the features of encoders are given."""
        width = sum(column.width for column in self.columns)
        X = allocate((source.rows, width), np.float32, config.cache)
        factors = self.factors() if encoded else None
        names = [column.name for column in self.columns if not isinstance(column, Encoded)]
        done = 0
        for part in source.parts(names or list(source.schema)[:1], CHUNK):
            rows = slice(done, done + part.height)
            X[rows] = np.hstack(
                [
                    encoded[column.name][rows]
                    if isinstance(column, Encoded)
                    else column.encode(column.parse(part[column.name], first_row + done))
                    for column in self.columns
                ]
            )
            if factors is not None:
                X[rows] *= factors
            done += part.height
        return X

    def factors(self) -> Array:
        """What each feature is multiplied by.

        An encoder gives hundreds of features where a number is one. So that neither drowns the
        other, each encoded column has the same share of the variance as all others together.
        """
        widths = np.array([column.width for column in self.columns])
        is_encoded = np.array([isinstance(column, Encoded) for column in self.columns])
        plain = widths[~is_encoded].sum()
        sizes = (is_encoded.sum() + (plain > 0)) * np.where(is_encoded, widths, plain)
        return np.repeat(np.sqrt(widths.sum() / sizes), widths).astype(np.float32)

    def raw(self, source: Source, config: FitConfig) -> Array:
        """What an encoder that is fine-tuned takes of each row."""
        only = self.columns[0]
        if len(self.columns) > 1 or not isinstance(only, Encoded):
            raise ValueError(
                "Fine-tuning needs one column of texts and no other; leave --fine-tune out."
            )
        return raw_inputs(only.state, texts_of(source, only.name), config)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> TablePreprocessor:
        """The preprocessor of a saved run."""
        columns = of_columns.columns_from_dicts(saved["columns"])
        return cls(saved["target"], saved["fine_tuned"], columns, saved.get("id"))


def texts_of(source: Source, name: str) -> list[str | None]:
    """The texts of a column, None where missing."""
    return clean(of_columns.as_text(source.column(name))).to_list()


def _nearest(name: str, names: Sequence[str]) -> str:
    return did_you_mean(name, names, f"the columns are {join_few(names, most=12)}.")


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
        which, has = f"Say which column of {source.name} holds the labels", join_few(names, most=12)
        raise ValueError(f"{which} with `target` (--target); the columns are {has}.")
    return usual[0], [f"The column {usual[0]!r} is the target, by its name."]


def _names(source: Source, column: str) -> pl.Series:
    return of_columns.as_text(source.column(column)).str.strip_chars()


def _unused(source: Source, target: str | None, config: FitConfig) -> set[str]:
    """The columns that are no features, if all that the options name are there."""
    unused = {*config.ignore, *(n for n in (config.id, config.groups) if isinstance(n, str))}
    for name in (*config.text, *sorted(unused)):
        if name == target:
            raise ValueError(f"The column {name!r} is the target, and can be nothing else.")
        if name not in source.schema:
            names = [each for each in source.schema if each != target]
            raise ValueError(f"{source.name} has no column {name!r}; {_nearest(name, names)}")
    return unused


def _ids(source: Source, name: str | None) -> Any:
    """The names of the rows: their numbers, or the cells of the id column."""
    if name is None:
        return RowIds(source.rows)
    if name.lower() in TAKEN:
        raise ValueError(
            f"The id column must not be called {name!r}, as a column of labels.csv is; rename it."
        )
    ids = _names(source, name)
    empty = ids.is_null() | (ids == "")
    wrong = empty if empty.any() else ids.is_duplicated()
    if wrong.any():
        last = int(wrong.arg_true()[-1])
        what = "is empty" if empty.any() else f"repeats {ids[last]!r}"
        raise ValueError(
            f"The id column {name!r} must name each row once, and row {last + 1} {what}; choose "
            f"another column, or leave `id` (--id) out."
        )
    return ids


def _labels(
    source: Source, y: Any, target: str | None, guesses: Mapping[str, Guess], config: FitConfig
) -> Targets:
    if target is None:
        labels, notes = label_series(y, source.rows, config.task)
        found = read_targets(labels, config.task, "`y`", unlabeled=config.unlabeled_value)
        return found._replace(notes=[*notes, *found.notes])
    form, cells = guesses[target].formats[0], source.column(target)
    if of_columns.holds_of(cells.dtype) == of_columns.OBJECTS:
        raise ValueError(f"The column {target!r} must hold numbers or text, got {cells.dtype}.")
    written = form if isinstance(form, NumberFormat) else None
    where = f"The column {target!r}"
    return read_targets(cells, config.task, where, written, unlabeled=config.unlabeled_value)


def _fit_texts(
    source: Source, names: Sequence[str], config: FitConfig, events: Events
) -> tuple[dict[str, Column | str], dict[str, Array], list[str]]:
    """Columns of texts, or why they are left out; the features of an encoder; and notes."""
    if config.encoder is not None:
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
