"""What reading gives, and what a kind of data must be able to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.encoders.base import fingerprint
from labelgrad.encoders.found import Given
from labelgrad.encoders.hub import Allow, OnBytes
from labelgrad.step import Views

VERSION = 2  # of a preprocessing; one of another version is refused, not guessed at
MOST_SHOWN = 6  # columns of a table, beside a label
LONGEST = 200  # letters of a name in a sentence


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples with few labels, ready for a model.

    `y` has class indices, -1 where unlabeled, or float64 targets, NaN where unlabeled. `names` are
    files relative to their folder, rows of a table from 1, or rows of an array from 0.
    `preprocessing` can be written as JSON, and is all that `prepare` needs to treat new data alike.

    >>> y = torch.tensor([0, -1, 1])
    >>> x, classes, names = torch.zeros(3, 2), ("cat", "dog"), ["0", "1", "2"]
    >>> pets = Dataset("arrays", x, y, "classification", classes, names)
    >>> pets.labeled.tolist()
    [True, False, True]
    >>> pets.summary
    {'labeled': 2, 'unlabeled': 1, 'skipped': 0, 'classes': {'cat': 1, 'dog': 1}}
    """

    kind: str  # the name of an `InputType`
    x: Tensor  # (n, channels, height, width), or (n, columns) in float32
    y: Tensor  # (n,)
    task: str  # "classification" or "regression"
    classes: tuple[str, ...]
    names: Sequence[str]
    skipped: list[tuple[str, str]] = field(default_factory=list)  # name, reason
    notes: list[str] = field(default_factory=list)  # what was decided and why, a sentence each
    preprocessing: dict[str, Any] = field(default_factory=dict)
    originals: Sequence[Any] | None = None  # of each example, what `show` needs beside its numbers
    raw: Tensor | None = None  # what a network sees in place of `x`, if its encoder is trained, too

    @property
    def frozen_features(self) -> bool:
        """Whether all of `x` is what encoders made of the examples: fixed networks, or TF-IDF."""
        return bool(self.preprocessing.get("blocks")) and not self.preprocessing.get("columns")

    @property
    def encoders(self) -> dict[str, str]:
        """The encoders that made some of `x`, each with what tells it from others of its name."""
        records = [block["encoder"] for block in self.preprocessing.get("blocks", [])]
        return {str(record["name"]): fingerprint(record) for record in records}

    @property
    def labeled(self) -> Tensor:
        """Which examples have a label."""
        return self.y >= 0 if self.task == "classification" else ~self.y.isnan()

    @property
    def summary(self) -> dict[str, Any]:
        """How many examples of each kind, and of each class."""
        known = int(self.labeled.sum())
        counts: dict[str, Any] = {
            "labeled": known,
            "unlabeled": len(self.y) - known,
            "skipped": len(self.skipped),
        }
        if self.task == "classification":
            each = torch.bincount(self.y[self.labeled], minlength=len(self.classes)).tolist()
            counts["classes"] = dict(zip(self.classes, each, strict=True))
        return counts


class Inputs(NamedTuple):
    """Examples without labels, how new ones are treated alike, and what was decided."""

    x: Tensor
    preprocessing: dict[str, Any]
    notes: list[str]


class Prepared(NamedTuple):
    """New data as the model was trained to see it."""

    x: Tensor
    names: Sequence[str]
    skipped: list[tuple[str, str]]
    originals: Sequence[Any] | None = None  # as a `Dataset` has them, where encoders read them


class Shown(NamedTuple):
    """One example as a person looks at it: a picture, or the cells of a table, or both."""

    picture: NDArray[Any] | None  # (channels, height, width) in 8 bits
    cells: list[str]  # as many as there are `columns`


class Defaults(NamedTuple):
    """What is trained where nothing else is asked for."""

    network: str
    steps: int
    learning_rate: float
    vat_radius: float


@dataclass(frozen=True)
class Scale:
    """How stored examples become what a network sees, batch by batch.

    >>> Scale(factor=2.0, shift=-1.0)(torch.tensor([0, 1]))
    tensor([-1.,  1.])
    """

    factor: float
    shift: float

    def __call__(self, x: Tensor) -> Tensor:
        return x.float() * self.factor + self.shift


@dataclass(frozen=True)
class Encoding:
    """Which encoders are to be used and how; nothing said, the usual one that is there."""

    encoders: tuple[Given, ...] = ()  # at most one for each kind
    download: Allow = False
    cache: Path | None = None  # the folder of kept features
    device: str = "cpu"
    on_note: Callable[[str], None] | None = None  # what is about to be done, a sentence
    # Of a column, or of "" where the examples are pictures: how many are encoded, of how many.
    on_progress: Callable[[str, int, int], None] | None = None
    on_bytes: OnBytes | None = None  # of a download
    on_decoded: Callable[[int, int], None] | None = None  # pictures, where they are decoded at once


@dataclass(frozen=True)
class Reading:
    """What a person says about their data while handing them over; a kind takes some of it."""

    y: Any = None
    labels: Path | None = None
    target: str | None = None
    task: str | None = None
    size: int | None = None
    strict: bool = False
    dates: str | None = None  # "day-first" or "month-first", where the cells do not tell
    text: Sequence[str] = ()  # columns of a table
    picture: Sequence[str] = ()  # columns of a table with paths
    encoding: Encoding = field(default_factory=Encoding)


class InputType(Protocol):
    """A kind of data: all that differs between pictures, tables and whatever comes next.

    `preprocessing` is what `read` or `inputs` decided, `x` are examples as they store them, and
    `shape` is that of one of them. A new kind is a file with such a class, and a line in `KINDS`.
    """

    name: str
    what: str  # the files it reads, as a sentence calls them
    key: str  # what one example is called by: "file" or "row"
    options: tuple[str, ...]  # such as `labels`, `target`, `size`, `dates`, `text`, `encoder`

    def takes(self, data: object, *, new: bool = False) -> bool:
        """Whether this is data of the kind: a path or an object; `new` ones have no labels."""

    def read(self, data: Any, reading: Reading) -> Dataset:
        """Examples and labels out of a path or an object."""

    def inputs(self, data: Any) -> Inputs:
        """Examples alone, out of an object."""

    def prepare(
        self, preprocessing: dict[str, Any], data: Any, *, strict: bool, encoding: Encoding
    ) -> Prepared:
        """New examples, out of a path or an object, treated like the old ones."""

    def prepare_in_parts(
        self, preprocessing: dict[str, Any], data: Any, *, strict: bool, encoding: Encoding
    ) -> Iterator[Prepared]:
        """The same, some thousand at a time, so that never all of them are in memory.

        Names and examples, one part after another, are those of `prepare`; what was skipped is told
        with any of the parts.
        """

    def defaults(self, shape: Sequence[int]) -> Defaults:
        """The usual network for such examples, and how it is trained."""

    def transform(self, preprocessing: dict[str, Any], x: Tensor) -> Scale:
        """What turns stored examples into those a network sees."""

    def views(self, shape: Sequence[int], scale: Scale, mirror: bool) -> Views:
        """How examples may be changed at random, once they are transformed by `scale`."""

    def columns(self, preprocessing: dict[str, Any]) -> list[str]:
        """The headings of the cells that `show` gives; none for pictures."""

    def show(self, preprocessing: dict[str, Any], row: NDArray[Any], original: Any = None) -> Shown:
        """One stored example as a person would look at it; `original` is the dataset's, if any."""

    def near(self, x: Tensor, outputs: Tensor) -> Tensor:
        """The points (n, any) that neighbours are measured between; outputs are the model's."""


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def join_few(names: Iterable[object], most: int = 5) -> str:
    """The first few names, and how many more there are.

    >>> join_few(["a", "b"]), join_few(range(9), most=2)
    ("'a', 'b'", '0, 1 and 7 more')
    """
    listed = list(names)
    shown = ", ".join(_short(repr(name)) for name in listed[:most])
    return shown if len(listed) <= most else f"{shown} and {len(listed) - most} more"
