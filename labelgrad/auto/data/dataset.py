"""Examples with few labels, as every model sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from labelgrad.auto.config import FitConfig
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.task import Array, Task


@dataclass(frozen=True, eq=False)
class Examples:
    """What a model is shown: features, and what identifies the examples where they are known.

    >>> examples = Examples(np.zeros((3, 2), np.float32), rows=np.arange(3))
    >>> examples[np.array([2])].rows
    array([2])
    """

    X: Array  # (n, columns) float32, each column of about unit variance; may be memory-mapped
    raw: Array | None = None  # what networks see in its place: uint8 images (n, c, h, w) or tokens
    rows: Array | None = None  # positions in the dataset of the run; None for new examples

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, some: Array | slice) -> Examples:
        raw = None if self.raw is None else self.raw[some]
        rows = None if self.rows is None else self.rows[some]
        return Examples(self.X[some], raw, rows)

    def parts(self, size: int = 20_000) -> Iterator[Examples]:
        """The examples in order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self[slice(start, start + size)]


@dataclass(frozen=True)
class RowIds(Sequence[str]):
    """Row numbers as strings, each made when it is needed: ten million strings are large.

    >>> ids = RowIds(3, first=1)
    >>> ids[0], ids[-1], list(ids[1:]), ids.index("3"), "03" in ids
    ('1', '3', ['2', '3'], 2, False)
    """

    length: int
    first: int = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: Any) -> Any:
        numbers = range(self.first, self.first + self.length)[place]
        if isinstance(numbers, int):
            return str(numbers)
        is_dense = numbers.step == 1
        return RowIds(len(numbers), numbers.start) if is_dense else [str(n) for n in numbers]

    def __contains__(self, name: object) -> bool:
        is_number = isinstance(name, str) and name.isascii() and name.isdigit() and len(name) < 20
        if not is_number or str(int(str(name))) != name:
            return False
        return 0 <= int(str(name)) - self.first < self.length

    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        """The position of an id."""
        if name in self and int(name) - self.first in range(self.length)[start:stop]:
            return int(name) - self.first
        raise ValueError(f"{name!r} is no row.")


@dataclass(frozen=True, eq=False)
class NewExamples:
    """New data as the models of a run see it."""

    examples: Examples
    ids: Sequence[str]
    skipped: Sequence[tuple[str, str]] = ()  # id, reason


class Preprocessor(Protocol):
    """What was decided about a data set while it was read, so that new data is treated alike.

    `kind` is "table", "images", "texts" or "arrays"; `id_name` is what an example is called by in
    files for people: "row" or "file".
    """

    kind: str
    id_name: str

    def transform(self, data: Any, config: FitConfig, events: Events = SILENT) -> NewExamples:
        """New data, a path or an object, as the models see it."""
        ...

    def transform_in_parts(
        self, data: Any, config: FitConfig, events: Events = SILENT
    ) -> Iterator[NewExamples]:
        """The same, some thousand examples at a time, so that memory stays bounded."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Everything that `transform` needs, as JSON can hold it, with "kind"."""
        ...


@dataclass(frozen=True, eq=False)
class Dataset:
    """All examples of a run, with the labels there are.

    `ids` are what people call the examples: rows of a table counted from 1, rows of an array from
    0, files relative to their folder.
    """

    X: Array  # (n, columns) float32
    y: Array  # (n,) as the task has it
    task: Task
    ids: Sequence[str]
    preprocessor: Preprocessor
    raw: Array | None = None
    has_encoded_features: bool = False  # whether all of X is what encoders or TF-IDF computed
    encoders: Mapping[str, str] | None = None  # name to fingerprint of each encoder that was used
    notes: Sequence[str] = ()
    skipped: Sequence[tuple[str, str]] = ()

    def __len__(self) -> int:
        return len(self.y)

    @property
    def is_labeled(self) -> Array:
        """Which examples have a label."""
        return self.task.is_labeled(self.y)

    @property
    def labeled(self) -> Array:
        """The positions of the labeled examples."""
        return np.flatnonzero(self.is_labeled)

    @property
    def unlabeled(self) -> Array:
        """The positions of the others."""
        return np.flatnonzero(~self.is_labeled)

    @property
    def examples(self) -> Examples:
        """All examples as models are shown them."""
        return Examples(self.X, self.raw, np.arange(len(self)))

    def with_notes(self, *notes: str) -> Dataset:
        """The same data set with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def with_labels(self, y: Array, task: Task | None = None) -> Dataset:
        """The same examples with other labels."""
        return replace(self, y=y, task=self.task if task is None else task)
