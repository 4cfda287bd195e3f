"""What the page shows, and nothing else: plain values that any run can fill in.

Parts that were not measured are left at their defaults, and the page leaves their sections out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgrad.training.evaluation import Reliability

TASKS = ("classification", "regression")
ROLES = ("labels", "unlabeled", "pool", "student")


@dataclass(frozen=True)
class Estimate:
    """A number, and the interval it probably lies in."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Judged:
    """One witness, the pool or the student, on labels that were hidden from it."""

    name: str
    role: str  # it saw "labels" alone or "unlabeled" examples, too, or is the "pool" or "student"
    error: Estimate | None  # None where it was not judged
    loss: float | None
    calibration: float | None = None  # expected calibration error, of classes
    weight: float | None = None  # in the pool
    kept: bool = False

    def __post_init__(self) -> None:
        _one_of("role", self.role, ROLES)


@dataclass(frozen=True)
class Result:
    """Every witness, the pool and the student, judged by the same hidden labels.

    In a classification an error is a part of 1, and the page shows it as percent.
    """

    measure: str  # "error", "root mean squared error": smaller is better
    rows: Sequence[Judged]
    verdict: str  # whether the unlabeled data helped, as one plain sentence
    uncertainty: str  # what the intervals are, as one plain sentence
    beside: str = ""  # the best row that saw labels alone, by its name
    difference: Estimate | None = None  # `beside` − pool, paired: above 0 the pool is better

    def __post_init__(self) -> None:
        if self.beside:
            by_labels = [row.name for row in self.rows if row.role == "labels"]
            _one_of("beside", self.beside, by_labels)


@dataclass(frozen=True)
class Confident:
    """Imputed labels that claim more than a threshold, and how many of them are probably right."""

    threshold: float
    labels: int
    expected: float  # how many are expected to be right: the sum of their probabilities
    unlabeled: int  # of all

    @property
    def sentence(self) -> str:
        r"""How many there are and what they are worth, in one plain sentence.

        >>> print(Confident(0.9, 812, 786.7, 1347).sentence.replace("; ", ";\n"))
        812 of 1,347 imputed labels claim more than 90 %;
        about 787 of them (97 %) are expected to be right.
        """
        claim = f"more than {100 * self.threshold:.4g} %"
        if not self.labels:
            return f"None of {self.unlabeled:,} imputed labels claims {claim}."
        # Only what is certain is 100 %.
        part = min(100 * self.expected / self.labels, 100.0)
        share = ">99 %" if 99.5 <= part < 100 else f"{part:.0f} %"
        counted = f"{self.labels:,} of {self.unlabeled:,} imputed labels"
        if self.labels == 1:
            return f"{counted} claims {claim}; the chance that it is right is {share}."
        right = f"about {self.expected:,.0f} of them ({share})"
        return f"{counted} claim {claim}; {right} are expected to be right."


@dataclass(frozen=True)
class Curve:
    """One measure of one run over its steps; several folds of a run are several curves."""

    name: str
    measure: str
    steps: Sequence[int]
    values: Sequence[float]
    baseline: bool = False

    def __post_init__(self) -> None:
        _same_length(f"The curve {self.name!r}", steps=self.steps, values=self.values)


@dataclass(frozen=True)
class Calibration:
    """Confidence on the held-out examples before and after temperature scaling."""

    before: Reliability
    after: Reliability
    temperature: float


@dataclass(frozen=True)
class Gradients:
    """The labeled and the unlabeled gradient over the steps: ‖g_ℓ − g_u‖ and their cosine."""

    steps: Sequence[int]
    gap: Sequence[float]
    cosine: Sequence[float]

    def __post_init__(self) -> None:
        _same_length("The gradients", steps=self.steps, gap=self.gap, cosine=self.cosine)


@dataclass(frozen=True, eq=False)
class Example:
    """One unlabeled example: its imputed label, what the model says, and how it looks.

    `picture` is 8-bit, (height, width), (channels, height, width) or (height, width, channels);
    `cells` are its values in `ReportData.columns`. Values without a probability have `None`.
    """

    name: str
    label: str
    prediction: str
    label_probability: float | None = None
    prediction_probability: float | None = None
    picture: NDArray[np.uint8] | None = None
    cells: Sequence[str] = ()


@dataclass(frozen=True)
class Promised:
    """How many labels can be handed back of which at most a share is wrong."""

    at_most: float
    rows: int  # imputed labels in all
    handed_back: int
    rest_by_hand: int  # handed back where the promise is of all rows, the others by hand
    more: int  # audits that it takes at least until something is handed back


@dataclass(frozen=True)
class Share:
    """The share of a class, or the mean of values, beside that of labels alone."""

    of: str
    share: Estimate
    alone: Estimate


@dataclass(frozen=True)
class Trust:
    """What can be promised of the labels and said of all rows, and what that rests on."""

    sentence: str
    promised: Sequence[Promised] = ()
    shares: Sequence[Share] = ()
    of_classes: bool = True


@dataclass(frozen=True, eq=False)
class Doubted:
    """A given label that is probably wrong, and why; `example` has the label others speak for."""

    example: Example
    given: str
    why: str


@dataclass(frozen=True)
class MapDot:
    """An example on the map: where it stands, its label, and how sure that is."""

    x: float
    y: float
    name: str
    label: str
    probability: float | None = None
    value: float | None = None  # of a regression: the label as a number
    given: bool = False  # the label came with the data


@dataclass(frozen=True)
class ExampleMap:
    """Examples in two dimensions; later dots are drawn over earlier ones."""

    dots: Sequence[MapDot]
    spread: float | None  # the part of the features' variance they carry; none where by neighbours
    labeled: int  # of all, shown or not
    unlabeled: int

    @property
    def sentence(self) -> str:
        """How many of the examples are shown.

        >>> print(ExampleMap([MapDot(0, 0, "1", "cat", 0.9)], 0.5, 0, 3000).sentence)
        Shown: 1 of 3,000 unlabeled examples, drawn at random.
        """
        given = sum(dot.given for dot in self.dots)
        parts = [
            f"{shown:,} of {all_of:,} {name}" if shown < all_of else f"all {all_of:,} {name}"
            for shown, all_of, name in (
                (given, self.labeled, "labeled"),
                (len(self.dots) - given, self.unlabeled, "unlabeled"),
            )
            if all_of
        ]
        drawn = ", drawn at random" if len(self.dots) < self.labeled + self.unlabeled else ""
        return f"Shown: {' and '.join(parts)} examples{drawn}."


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Everything on the page.

    >>> data = ReportData(
    ...     data="pets.csv", kind="table", task="classification", labeled=30, unlabeled=500,
    ...     method="lga", model="MLP", steps=1000, seconds=12.5, seed=0, version="0.1.0",
    ...     classes=("cat", "dog"), class_counts=(20, 10),
    ... )
    >>> data.held_out is None, data.surest
    (True, ())
    """

    data: str
    kind: str
    task: str
    labeled: int
    unlabeled: int
    method: str
    model: str
    steps: int
    seconds: float
    seed: int
    version: str
    target: str | None = None  # the column of a table that is predicted
    held_out: str | None = None  # how the labeled examples were divided, as one sentence
    classes: Sequence[str] = ()
    class_counts: Sequence[int] = ()  # labeled examples of each class
    skipped: Sequence[tuple[str, str]] = ()  # name, reason
    notes: Sequence[str] = ()
    result: Result | None = None
    confident: Confident | None = None
    curves: Sequence[Curve] = ()
    calibration: Calibration | None = None
    confusion: Sequence[Sequence[int]] | None = None  # rows are the true classes
    truth: Sequence[float] = ()  # of a regression, on the held-out examples
    predicted: Sequence[float] = ()
    gradients: Gradients | None = None
    example_map: ExampleMap | None = None
    columns: Sequence[str] = ()  # shown of a table
    surest: Sequence[Example] = ()
    least_sure: Sequence[Example] = ()
    contested: Sequence[Example] = ()
    trust: Trust | None = None
    suspects: Sequence[Doubted] = ()

    def __post_init__(self) -> None:
        _one_of("task", self.task, TASKS)
        _same_length("The classes", classes=self.classes, class_counts=self.class_counts)
        _same_length("The regression", truth=self.truth, predicted=self.predicted)
        if self.confusion is not None:
            rows = {len(self.confusion), *(len(row) for row in self.confusion)}
            if rows != {len(self.classes)}:
                raise ValueError(
                    f"The confusion matrix must have a row and a column for each of the "
                    f"{len(self.classes)} classes, got the lengths {sorted(rows)}."
                )


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")


def _same_length(what: str, **parts: Sequence[Any]) -> None:
    if len({len(part) for part in parts.values()}) > 1:
        counts = ", ".join(f"{len(part)} {name}" for name, part in parts.items())
        raise ValueError(f"{what} must have as many of each, got {counts}.")
