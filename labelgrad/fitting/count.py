"""Each class's share of all rows, or the mean of all values, with an interval.

The labels that count are a random draw: audits after the training, or labels drawn at random that
were hidden in turn (`guarantees.ppi`). All others are known, and are added as they are:

    share of all rows = (labels known of it + rows in question · share among those) / all rows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgrad.files import csv_bytes, write_whole
from labelgrad.fitting.audits import Audits
from labelgrad.fitting.labels import Example
from labelgrad.fitting.promises import no_random_labels
from labelgrad.fitting.provenance import RANDOM
from labelgrad.fitting.result import Result
from labelgrad.fitting.run_files import FOLD, FOLD_MEANS, SAID_BY
from labelgrad.fitting.verdict import POOL
from labelgrad.guarantees.binomial import CONFIDENCE
from labelgrad.guarantees.ppi import (
    Interval,
    Said,
    mean_by_labels,
    powered,
    share_by_labels,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """The share of one class, or the mean of all values: by labels and predictions, by labels."""

    of: str
    powered: Interval
    by_labels: Interval

    @property
    def narrower(self) -> float:
        """The width beside that of the labels alone."""
        return self.powered.width / self.by_labels.width if self.by_labels.width else 1.0


@dataclass(frozen=True)
class Counts:
    """What was counted, by how many labels out of how many rows."""

    each: Sequence[Counted]
    labels: int
    rows: int
    confidence: float

    @property
    def sentence(self) -> str:
        """What the intervals are."""
        return (
            f"Intervals of {100 * self.confidence:.3g} % for all {self.rows:,} rows, by "
            f"{self.labels:,} labels drawn at random and what the pool says of every row, beside "
            f"those of the labels alone."
        )

    def save(self, path: str | Path) -> None:
        """Write them as CSV."""
        names = ["share", "low", "high", "by labels", "low by labels", "high by labels"]
        rows = [
            [each.of, *(f"{end:.6g}" for i in (each.powered, each.by_labels) for end in astuple(i))]
            for each in self.each
        ]
        write_whole(Path(path), csv_bytes(["of", *names], rows))


class Group(NamedTuple):
    """Rows in question that have one prediction, and the truth of some drawn at random.

    Columns are classes, or one of values. A gap is a row that was drawn and has no answer.
    """

    rows: int
    predicted: Array  # (columns,): the mean over the rows
    said: Array  # (drawn, columns)
    truth: Array  # (drawn, columns), NaN for a gap
    others: Array  # (columns,): the sum of what is known of all other rows
    folds: int = 1  # that the predictions are of


def count(result: Result, *, confidence: float = CONFIDENCE) -> Counts:
    """Count classes, or take the mean of values, with an interval of this confidence."""
    is_value = result.summary.task == "regression"
    looked_at = {} if result.folder is None else Audits(result.folder).looked_at
    classes = list(result.predictor.config.classes)
    new = {answer for answer in looked_at.values() if answer is not None} - set(classes)
    classes += [] if is_value else sorted(new)
    view = View(result, classes, looked_at)
    groups = [group for group in (view.audited(), view.drawn_at_random()) if group is not None]
    folds = max((group.folds for group in groups), default=1)
    if sum(len(group.truth) for group in groups) <= folds:
        raise ValueError(no_random_labels(result, "A promise or an interval"))
    rows = len(result.examples)
    gaps = any(np.isnan(group.truth).any() for group in groups)
    if is_value and gaps:
        raise ValueError(
            "The mean of values needs every row of the audit that was come to, and some were left "
            "out; fill them in."
        )
    value, low, high = _powered(groups, rows, confidence, gaps=None)
    if gaps:  # whatever they are, they are between nothing and all of the class
        low = _powered(groups, rows, confidence, gaps=0.0)[1]
        high = _powered(groups, rows, confidence, gaps=1.0)[2]
    known = np.concatenate([group.truth for group in groups])
    known = known[~np.isnan(known).any(1)]
    of_class = known.sum(0)
    if not is_value:
        least = view.seen() / rows
        value, low, high = (np.clip(end, least, 1.0) for end in (value, low, high))
    return Counts(
        [
            Counted(
                name,
                Interval(float(value[place]), float(low[place]), float(high[place])),
                mean_by_labels(known[:, 0], rows, confidence=confidence)
                if is_value
                else share_by_labels(int(of_class[place]), len(known), confidence=confidence),
            )
            for place, name in enumerate(["mean"] if is_value else classes)
        ],
        len(known),
        rows,
        confidence,
    )


def _powered(
    groups: Sequence[Group], rows: int, confidence: float, gaps: float | None
) -> tuple[Array, Array, Array]:
    """The estimate and both ends for each column; gaps are taken as predicted, or as a number."""
    drawn = sum(len(group.truth) for group in groups)
    predicted, residuals = np.zeros(1), []
    for group in groups:
        part = len(group.truth) / drawn
        predicted = predicted + part * (group.others + group.rows * group.predicted) / rows
        truth = np.where(np.isnan(group.truth), group.said if gaps is None else gaps, group.truth)
        residuals.append((truth - group.said) * group.rows / rows)
    off = np.concatenate(residuals).T  # (columns, drawn)
    extra = None if len(off) == 1 else 1.0
    fewest = min(group.rows for group in groups)
    folds = max(group.folds for group in groups)
    return powered(predicted, off, fewest, one_more=extra, folds=folds, confidence=confidence)


@dataclass(frozen=True, eq=False)
class View:
    """A run as columns: one for each class, or one of values."""

    result: Result
    classes: Sequence[str]
    looked_at: dict[str, str | None]

    def audited(self) -> Group | None:
        """The audits: rows without a label, and those that were audited and then trained on."""
        labels = self.result.labels
        place = {row.name: number for number, row in enumerate(labels)}
        trained = [
            example
            for example in self.result.examples
            if example.name in self.looked_at and example.given is not None
        ]
        here = [name for name in self.looked_at if name in place]
        if not here and not trained:
            return None
        sums, said = self._imputed([place[name] for name in here])
        hidden = self._said_while_hidden([example.name for example in trained])
        rows = len(labels) + len(trained)
        return Group(
            rows,
            (sums + hidden.sum(0)) / rows,
            np.concatenate([said, hidden]),
            np.stack(
                [self._column(self.looked_at[name]) for name in here]
                + [self._column(example.given) for example in trained]
            ),
            self._known(leave_out={example.name for example in trained}),
        )

    def drawn_at_random(self) -> Group | None:
        """The labels that were drawn at random and trained on; those of each fold by its pool."""
        held_out = self.result.held_out
        mine = [
            example
            for example in self.result.examples
            if example.origin == RANDOM and example.given is not None
        ]
        hidden = set(held_out["rows"].tolist())
        row_of = {example.name: row for row, example in enumerate(self.result.examples)}
        mine = [example for example in mine if row_of[example.name] in hidden]
        if not mine or FOLD_MEANS not in held_out:
            return None
        said = self._said_while_hidden([example.name for example in mine])
        fold_of = dict(zip(held_out["rows"].tolist(), held_out[FOLD].tolist(), strict=True))
        folds = [fold_of[row_of[example.name]] for example in mine]
        unlabeled = len(self.result.labels)
        means = np.zeros((len(held_out[FOLD_MEANS]), self._width))
        means[:, : held_out[FOLD_MEANS].shape[1]] = held_out[FOLD_MEANS]
        sums = unlabeled * means[folds].mean(0) if unlabeled else np.zeros(self._width)
        rows = unlabeled + len(mine)
        return Group(
            rows,
            (sums + said.sum(0)) / rows,
            said,
            np.stack([self._column(example.given) for example in mine]),
            self._known(leave_out={example.name for example in mine}),
            max(1, len(means)),
        )

    def seen(self) -> Array:
        """How many rows are known to be of each class."""
        given = {example.name: example.given for example in self.result.examples}
        known = {name: label for name, label in given.items() if label is not None}
        known |= {name: label for name, label in self.looked_at.items() if label is not None}
        return sum((self._column(label) for label in known.values()), np.zeros(self._width))

    @property
    def _width(self) -> int:
        return len(self.classes) or 1

    def _column(self, label: object) -> Array:
        if label is None:
            return np.full(self._width, np.nan)
        if not self.classes:
            return np.array([float(str(label))])
        return np.array([float(name == label) for name in self.classes])

    def _known(self, leave_out: set[str]) -> Array:
        known: list[Example] = [
            example
            for example in self.result.examples
            if example.given is not None and example.name not in leave_out
        ]
        return sum((self._column(example.given) for example in known), np.zeros(self._width))

    def _imputed(self, places: Sequence[int]) -> tuple[Array, Array]:
        """The sum of what the pool says of all rows without a label, and of some of them each."""
        labels = self.result.labels
        if not self.classes:
            values = np.array([float(row.label) for row in labels])
            return values.sum(keepdims=True), values[list(places), None]
        index = {name: place for place, name in enumerate(self.classes)}
        said = Said(
            np.array([index[str(row.label)] for row in labels], dtype=int),
            np.array([row.label_probability or 1.0 for row in labels], dtype=float),
            self._width,
        )
        return said.sums, said.of_rows(np.array(places, dtype=int))

    def _said_while_hidden(self, names: Sequence[str]) -> Array:
        """What the pool said of given labels while they were hidden, or of all of them on average.

        The latter is for the only label of its class, which was never hidden.
        """
        held_out = self.result.held_out
        said = held_out[SAID_BY + POOL].astype(float)
        if self.classes:
            said = np.exp(said - np.logaddexp.reduce(said, axis=1, keepdims=True))
        wide = np.zeros((len(said), self._width))
        wide[:, : said.shape[1]] = said
        usual = wide.mean(0) if len(wide) else np.zeros(self._width)
        row_of = {example.name: row for row, example in enumerate(self.result.examples)}
        place = {row: number for number, row in enumerate(held_out["rows"].tolist())}
        found = [wide[place[row_of[name]]] if row_of[name] in place else usual for name in names]
        return np.stack(found) if found else np.zeros((0, self._width))
