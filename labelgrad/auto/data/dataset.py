"""Examples with few labels, as every model sees them, and how they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from labelgrad.auto.config import FitConfig
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.task import Array, Task

NO_GROUP = (None, "", "None", "nan")
PART = 20_000  # examples that are predicted, or transformed, at once
KINDS = {  # the module of labelgrad.auto.data and its class; the first that takes the data reads it
    "table": ("tables", "TablePreprocessor"),
    "texts": ("folders", "TextPreprocessor"),
    "images": ("images", "ImagePreprocessor"),
    "arrays": ("arrays", "ArrayPreprocessor"),
}
OPTIONS = {  # that only some kinds have
    "labels": ("images", "texts"),
    "size": ("images",),
    "unlabeled": ("table", "images", "texts"),
    **dict.fromkeys(("target", "id", "ignore", "dates", "text"), ("table",)),
}


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


@dataclass(frozen=True)
class RowIds(Sequence[str]):
    """Row numbers as strings, each made when it is needed: ten million strings are large.

    >>> ids = RowIds(3)
    >>> ids[0], ids[-1], list(ids[1:])
    ('1', '3', ['2', '3'])
    """

    length: int
    first: int = 1

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: Any) -> Any:
        numbers = range(self.first, self.first + self.length)[place]
        return str(numbers) if isinstance(numbers, int) else [str(n) for n in numbers]


@dataclass(frozen=True, eq=False)
class NewExamples:
    """New data as the models of a run see it."""

    examples: Examples
    ids: Sequence[str]
    skipped: Sequence[tuple[str, str]] = ()  # id, reason


class Preprocessor(ABC):
    """A kind of data: how it is read, and what was decided then, so that new data is treated alike.

    A subclass is a dataclass that JSON can hold. `kind` is its name; `id_name` is what an example
    is called by in files for people: "row", "file", or the id column of a table. A new kind is a
    module with such a class, and a line in `KINDS`.
    """

    kind: str
    id_name: str = "row"
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    @abstractmethod
    def takes(cls, data: Any) -> bool:
        """Whether a path or an object is data of this kind."""

    @classmethod
    @abstractmethod
    def read(cls, data: Any, y: Any, config: FitConfig, events: Events = SILENT) -> Dataset:
        """Examples and labels out of a path or an object."""

    @abstractmethod
    def transform_in_parts(
        self, data: Any, config: FitConfig, events: Events = SILENT, size: int | None = PART
    ) -> Iterator[NewExamples]:
        """New data as the models see it, `size` examples at a time; in one part if it is None."""

    def transform(self, data: Any, config: FitConfig, events: Events = SILENT) -> NewExamples:
        """New data, a path or an object, as the models see it."""
        return next(self.transform_in_parts(data, config, events, None))

    @classmethod
    @abstractmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Preprocessor:
        """The preprocessor out of its `asdict`, as JSON holds it."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """All examples of a run, with the labels there are.

    `ids` are what people call the examples: rows of a table, a data frame or an array counted from
    1, or files relative to their folder.
    """

    X: Array  # (n, columns) float32
    y: Array  # (n,) as the task has it
    task: Task
    ids: Sequence[str]
    preprocessor: Preprocessor
    raw: Array | None = None
    groups: Array | None = None  # (n,) the group of each example
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


def read(
    data: Any, y: Any = None, config: FitConfig | None = None, events: Events = SILENT
) -> Dataset:
    r"""Read a table, a folder of images or texts, an .npz file, a data frame or an array.

    Parameters
    ----------
    data
        A path, a data frame, or an array with one row for each example.
    y
        The labels of an array, or of a data frame without a target: -1, NaN or None where there is
        none.
    config
        What the data are and how they are to be read.
    events
        Receives notes and progress.

    Returns
    -------
    Dataset
        Features, labels, ids and the preprocessor for new data.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "pets.csv")
    ...     _ = file.write_text("weight,legs,pet\n4,4,cat\n30,4,dog\n0.1,2,\n")
    ...     pets = read(file, config=FitConfig(target="pet"))
    >>> pets.task.display(pets.y), pets.X.shape
    (['cat', 'dog', None], (3, 2))
    >>> read([[0.5], [1.0], [2.0]], [0, 1, -1]).y
    array([ 0,  1, -1])
    """
    config = config or FitConfig()
    data = Path(data).expanduser() if isinstance(data, str | Path) else data
    for path in (data, config.unlabeled and Path(config.unlabeled)):
        if isinstance(path, Path) and not path.exists():
            raise FileNotFoundError(f"There is no file or folder {path}.")
    if isinstance(data, Path) and y is not None:
        raise ValueError("`y` is for arrays and data frames; a file or folder has labels in it.")
    kind = next((name for name in KINDS if _preprocessor_class(name).takes(data)), None)
    if kind is None:
        from labelgrad.auto.data.sources import SUFFIXES

        raise ValueError(
            f"Data must be a table ({', '.join(SUFFIXES)}), a folder of Parquet files, images or "
            f"texts, an .npz file, a data frame or an array, got {data}."
        )
    for option, owners in OPTIONS.items():
        if getattr(config, option) and kind not in owners:
            raise ValueError(
                f"`{option}` is for data of the kind {' or '.join(owners)}, and these are of the "
                f"kind {kind}; leave it out."
            )
    dataset = _preprocessor_class(kind).read(data, y, config, events)
    if isinstance(config.groups, tuple):
        if isinstance(data, Path) or len(config.groups) != len(dataset):
            what = "a file" if isinstance(data, Path) else f"{len(dataset)} examples"
            raise ValueError(
                f"`groups` must name a column, or give a group for each example of an array or "
                f"data frame, got {len(config.groups)} for {what}."
            )
        dataset = replace(dataset, groups=np.array(config.groups, object))
    codes = None if dataset.groups is None else group_codes(dataset.groups)
    return replace(dataset, groups=codes)


def group_codes(groups: Iterable[str | None]) -> Array:
    """A number for each group; examples without one are groups of their own.

    >>> group_codes(["ann", "bob", None, "ann", ""]).tolist()
    [1, 2, 3, 1, 0]
    """
    named = [(name, row * (name in NO_GROUP)) for row, name in enumerate(groups)]
    places = {name: place for place, name in enumerate(sorted(set(named), key=str))}
    return np.array([places[name] for name in named])


def _preprocessor_class(kind: str) -> type[Preprocessor]:
    """How data of a kind are read; imported when needed."""
    module, name = KINDS[kind]
    found: type[Preprocessor] = getattr(import_module(f"labelgrad.auto.data.{module}"), name)
    return found


def preprocessor_from_dict(saved: Mapping[str, Any]) -> Preprocessor:
    """The preprocessor of any kind out of its `asdict`, as JSON holds it."""
    if saved["kind"] not in KINDS:
        raise ValueError(f"A preprocessor must be of {', '.join(KINDS)}, got {saved['kind']!r}.")
    return _preprocessor_class(saved["kind"]).from_dict(saved)
