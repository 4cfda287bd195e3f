"""Labels of very many examples as records in a mapped file: a list of objects would be gigabytes.

`labels` and `examples` of such a run are sequences of what a list would hold, made when somebody
asks for it. A person reads `labels.csv` and `examples.csv`, as of any run; the records lie beside
them in a file of their own, for those are too long to be read again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.encoders.cache import cache_folder
from labelgrad.files import csv_bytes
from labelgrad.fitting.labels import Example, ImputedLabel, written
from labelgrad.fitting.predictor import Predictor
from labelgrad.fitting.provenance import AUDIT, BY_CLASS, CORRECTION, RANDOM, UNKNOWN
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.mapped import roomy

FILE = "records.npy"
Array = NDArray[Any]
Row = TypeVar("Row", ImputedLabel, Example)
ORIGINS = (RANDOM, AUDIT, BY_CLASS, CORRECTION, UNKNOWN)
NONE = -1  # in place of a class, a count or an origin
AT_ONCE = 2**14  # rows that are made, or written
NUMBERS_AT_ONCE = 2**22  # probabilities
BLOCK = 2**24  # bytes


def record_type(classes: Sequence[str]) -> np.dtype[np.void]:
    """What is known of an example; classes are places among all, without any they are values."""
    label = "<i4" if classes else "<f8"
    return np.dtype(
        [
            *(("given", label), ("neighbours", label), ("apart", "<f4"), ("margin", "<f4")),
            *(("origin", "<i2"), ("agree", "<i2"), ("label", label), ("label_probability", "<f4")),
            *(("prediction", label), ("prediction_probability", "<f4"), ("entropy", "<f4")),
            ("visits", "<i4"),
        ]
    )


class Lazy(Sequence[Row], Generic[Row]):
    """Rows that are made, or written as CSV, some at a time."""

    kind: ClassVar[Any]  # the class of a row, whose fields are the columns
    names: Sequence[str]
    classes: Sequence[str]
    records: Array

    @abstractmethod
    def made(self, rows: slice) -> list[Row]:
        """These rows, as objects."""

    @abstractmethod
    def cells(self, rows: slice) -> list[list[Any]]:
        """The columns of these rows; None where there is nothing."""

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            return self.made(place)
        row = range(len(self))[place]
        return self.made(slice(row, row + 1))[0]

    def __iter__(self) -> Iterator[Row]:
        for first in range(0, len(self), AT_ONCE):
            yield from self.made(slice(first, first + AT_ONCE))

    def pieces(self, key: str, *, spreadsheet_safe: bool = False) -> Iterator[bytes]:
        """The content of their CSV file; its first column is `file` or `row`."""
        head = [key, *(field.name for field in fields(self.kind)[1:])]
        for first in range(0, max(1, len(self)), AT_ONCE):
            columns = self.cells(slice(first, first + AT_ONCE))
            rows = zip(*([written(cell) for cell in each] for each in columns), strict=True)
            yield csv_bytes(head, rows, spreadsheet_safe=spreadsheet_safe, with_header=first == 0)

    def named(self, field: str, rows: Any) -> list[Any]:
        """Classes, or values, of some records."""
        found = self.records[field][rows]
        if not self.classes:
            return known(found)
        return [None if place == NONE else self.classes[place] for place in found.tolist()]


@dataclass(frozen=True, eq=False)
class ManyLabels(Lazy[ImputedLabel]):
    """The rows of `labels.csv`: of all records those without a label of their own."""

    kind = ImputedLabel
    names: Sequence[str]  # of all examples
    classes: Sequence[str]
    records: Array  # of all examples
    rows: Array  # those of them without a label

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, rows: slice) -> list[list[Any]]:
        """The columns of these rows."""
        mine = self.rows[rows]
        some = self.records[mine]
        return [
            [self.names[row] for row in mine.tolist()],
            self.named("label", mine),
            known(some["label_probability"]),
            self.named("prediction", mine),
            known(some["prediction_probability"]),
            [bool(same) for same in some["agree"].tolist()],
            known(some["entropy"]),
            [None if count == NONE else count for count in some["visits"].tolist()],
        ]

    def made(self, rows: slice) -> list[ImputedLabel]:
        """These rows, as objects."""
        return [ImputedLabel(*cells) for cells in zip(*self.cells(rows), strict=True)]


@dataclass(frozen=True, eq=False)
class ManyExamples(Lazy[Example]):
    """The rows of `examples.csv`: all records."""

    kind = Example
    names: Sequence[str]
    classes: Sequence[str]
    records: Array

    def __len__(self) -> int:
        return len(self.records)

    def cells(self, rows: slice) -> list[list[Any]]:
        """The columns of these rows."""
        some = self.records[rows]
        return [
            list(self.names[rows]),
            self.named("given", rows),
            self.named("neighbours", rows),
            known(some["apart"]),
            known(some["margin"]),
            [None if place == NONE else ORIGINS[place] for place in some["origin"].tolist()],
        ]

    def made(self, rows: slice) -> list[Example]:
        """These rows, as objects."""
        return [Example(*cells) for cells in zip(*self.cells(rows), strict=True)]


def known(numbers: Array) -> list[float | None]:
    """Numbers, None in place of NaN.

    >>> known(np.array([0.5, np.nan]))
    [0.5, None]
    """
    return [None if number != number else number for number in numbers.tolist()]


def both(
    names: Sequence[str], classes: Sequence[str], records: Array
) -> tuple[ManyLabels, ManyExamples]:
    """The labels and the examples of some records."""
    given = records["given"]
    rows = np.flatnonzero(given == NONE if classes else np.isnan(given))
    return ManyLabels(names, classes, records, rows), ManyExamples(names, classes, records)


def all_records(
    dataset: Dataset,
    seen: Tensor,
    predictor: Predictor,
    learned: Tensor,
    labels: Sequence[ImputedLabel],
    examples: Sequence[Example],
) -> Array:
    """A record for every example of a dataset, of which some rows were learned from.

    What is known of these are `examples`, and `labels` of those without one; all others get what
    the predictor says of what it has `seen` of them. Large records lie in a file of the cache that
    is gone with the last who uses it.
    """
    kind, classes = record_type(dataset.classes), dataset.classes
    records = roomy((len(dataset.y),), kind, cache_folder())
    many = max(1, NUMBERS_AT_ONCE // max(1, len(classes), *seen.shape[1:]))
    for first in range(0, len(records), many):
        rows = slice(first, first + many)
        _fill(records[rows], dataset.y[rows], predictor(seen[rows]), of_classes=bool(classes))
    imputed = {row.name: row for row in labels}
    for row, example in zip(learned.tolist(), examples, strict=True):
        record = records[row : row + 1]
        record["neighbours"] = _place(example.neighbours, classes)
        record["apart"], record["margin"] = _number(example.apart), _number(example.margin)
        record["origin"] = NONE if example.origin is None else ORIGINS.index(example.origin)
        if example.given is None:
            mine = imputed[example.name]
            record["label"] = _place(mine.label, classes)
            record["label_probability"] = _number(mine.label_probability)
            record["prediction"] = _place(mine.prediction, classes)
            record["prediction_probability"] = _number(mine.prediction_probability)
            record["agree"], record["entropy"] = mine.agree, _number(mine.entropy)
            record["visits"] = NONE if mine.visits is None else mine.visits
    return records


def _fill(records: Array, y: Tensor, said: Tensor, *, of_classes: bool) -> None:
    """What the model alone says of some examples, or their own labels."""
    nothing = NONE if of_classes else np.nan
    records["given"], records["neighbours"], records["apart"] = y.numpy(), nothing, np.nan
    records["origin"], records["agree"], records["visits"] = NONE, True, NONE
    sure: Any = np.nan
    entropy: Any = np.nan
    margin: Any = np.nan
    if of_classes:
        likeliest = said.topk(min(2, said.shape[1]))
        sure, entropy = likeliest.values[:, 0].numpy(), torch.special.entr(said).sum(-1).numpy()
        margin = (likeliest.values[:, 0] - likeliest.values[:, -1]).numpy()
        said = likeliest.indices[:, 0]
    for field in ("label", "prediction"):
        records[field] = said.numpy()
        records[f"{field}_probability"] = sure
    records["entropy"], records["margin"] = entropy, margin


def record_pieces(records: Array) -> Iterator[bytes]:
    """The content of their file, an .npy that is never whole in memory."""
    head = BytesIO()
    described = np.lib.format.header_data_from_array_1_0(records[:0])
    np.lib.format.write_array_header_1_0(head, described | {"shape": records.shape})
    yield head.getvalue()
    many = max(1, BLOCK // records.dtype.itemsize)
    for first in range(0, len(records), many):
        yield records[first : first + many].tobytes()


def read_records(path: Path, classes: Sequence[str]) -> Array:
    """The records of a file, mapped; a ValueError says what it is in their place."""
    try:
        records: Array = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(str(error).splitlines()[0]) from None
    if records.ndim != 1 or records.dtype != record_type(classes):
        raise ValueError("it has other records than a run of these classes")
    for field in ("given", "label", "prediction", "neighbours") if classes else ():
        found = records[field]
        if len(found) and not NONE <= int(found.min()) <= int(found.max()) < len(classes):
            raise ValueError(f"its {field} is no class of the run")
    return records


def column(rows: Sequence[Any], field: str) -> Array:
    """One field of all rows as numbers, NaN where there is none.

    >>> column([Example("a", None, margin=0.5), Example("b", None)], "margin")
    array([0.5, nan])
    """
    if isinstance(rows, ManyLabels):
        found: Array = rows.records[field][rows.rows]
        return found
    if isinstance(rows, ManyExamples):
        return np.asarray(rows.records[field])
    return np.array([_number(getattr(row, field)) for row in rows], dtype=float)


def names_of(examples: Sequence[Example]) -> Sequence[str]:
    """What all examples are called."""
    if isinstance(examples, ManyExamples):
        return examples.names
    return [example.name for example in examples]


def _place(label: Any, classes: Sequence[str]) -> Any:
    if label is None:
        return NONE if classes else np.nan
    return classes.index(label) if classes else label


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)
