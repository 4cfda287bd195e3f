"""The prevalence of each class, or the mean of all values, with an interval.

The estimate rests on a random sample of labels: audits drawn with the present model, or labels
sampled at random with their out-of-fold predictions (`guarantees.ppi`). All other labels are known
and added as they are:

    prevalence = (known labels of the class + unknown examples · their estimated share) / examples
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from labelgrad.auto.annotations import log_of
from labelgrad.auto.guarantee import Evidence, evidence, no_evidence
from labelgrad.auto.guarantees.pac import CONFIDENCE
from labelgrad.auto.guarantees.ppi import (
    prediction_powered,
    prediction_powered_share,
    top_probabilities,
    wilson_interval,
)
from labelgrad.auto.queue import codes
from labelgrad.auto.result import Result
from labelgrad.auto.task import Array, Regression, log_normalize

ENDS = ("value", "low", "high")


@dataclass(frozen=True)
class Prevalence:
    """Estimates, and how many random labels and examples they rest on."""

    table: pl.DataFrame  # name; value, low, high with predictions, and by the labels alone
    labels: int
    examples: int
    confidence: float
    discarded: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What the intervals are."""
        found = (
            f"{100 * self.confidence:.3g} % intervals for all {self.examples:,} examples, from "
            f"{self.labels:,} random labels and the predictions of all examples, beside those "
            f"from the labels alone."
        )
        return " ".join([found, *self.discarded])


class Sample(NamedTuple):
    """Examples whose mean is estimated, and the truth of some that were drawn at random.

    Columns are classes, or one of values.
    """

    examples: int
    predicted: Array  # (columns,): mean prediction
    predictions: Array  # (drawn, columns)
    truth: Array  # (drawn, columns), NaN where an audit was left out
    others: Array  # (columns,): sum over all other examples, which have labels
    folds: int = 1  # models that the predictions come from


def prevalence(result: Result, *, confidence: float = CONFIDENCE) -> Prevalence:
    """Estimate the prevalence of every class, or the mean of the values.

    Parameters
    ----------
    result
        A run with audits or with labels sampled at random.
    confidence
        Coverage of the intervals.

    Returns
    -------
    Prevalence
        An estimate for each class, or one named "mean", as a table.
    """
    known = evidence(result, log_of(result))
    columns = _Columns(result, known)
    samples = [*columns.audited(), *columns.random()]
    drawn = sum(len(sample.truth) for sample in samples)
    if drawn <= max((sample.folds for sample in samples), default=1):
        raise ValueError(no_evidence(result, known, "An interval"))
    n, truth = len(result.labels), np.concatenate([sample.truth for sample in samples])
    is_gap = np.isnan(truth).any(1)
    if is_gap.any() and not columns.classes:
        raise ValueError(f"A mean needs every audited label; {is_gap.sum()} were left out.")
    value, low, high = _combine(samples, n, confidence, gaps=None)
    if is_gap.any():  # whatever a gap is, its share of a class is between 0 and 1
        low = _combine(samples, n, confidence, gaps=0.0)[1]
        high = _combine(samples, n, confidence, gaps=1.0)[2]
    truth = truth[~is_gap]
    if columns.classes:
        value, low, high = (np.clip(x, columns.seen() / n, 1.0) for x in (value, low, high))
        counts = truth.sum(0).astype(int).tolist()
        alone = [wilson_interval(one, len(truth), confidence=confidence) for one in counts]
    else:
        mean = prediction_powered(0.0, truth[:, 0], n, extra_residual=0.0, confidence=confidence)
        alone = [(float(mean[0]), float(mean[1]), float(mean[2]))]
    numbers = np.concatenate([np.stack([value, low, high], axis=1), alone], axis=1)
    table = pl.DataFrame(numbers, [*ENDS, *(f"{end}_by_labels" for end in ENDS)])
    names = pl.Series("name", columns.classes or ["mean"])
    table = table.insert_column(0, names)
    return Prevalence(table, len(truth), n, confidence, known.discarded)


def _combine(
    samples: Sequence[Sample], n: int, confidence: float, gaps: float | None
) -> tuple[Array, Array, Array]:
    """Estimate and ends for each column; a gap is taken as predicted, or as a number."""
    drawn, others, predicted = sum(len(one.truth) for one in samples), np.zeros(1), np.zeros(1)
    for sample in samples:
        weight = len(sample.truth) / drawn / n
        others = others + weight * sample.others
        predicted = predicted + weight * sample.examples * sample.predicted
    scale = np.concatenate([np.full(len(one.truth), one.examples / n) for one in samples])
    f = np.concatenate([sample.predictions for sample in samples]).T
    y = np.concatenate([sample.truth for sample in samples]).T
    y = np.where(np.isnan(y), f if gaps is None else gaps, y)  # (columns, drawn)
    population = min(sample.examples for sample in samples)
    how: Any = {"folds": max(sample.folds for sample in samples), "confidence": confidence}
    if len(y) == 1:
        found = prediction_powered(predicted, (y - f) * scale, population, **how)
    else:
        found = prediction_powered_share(predicted, f, y, population, scale=scale, **how)
    value, low, high = (others + each for each in found)
    return value, low, high


class _Columns:
    """A run as columns, one for each class or one of values."""

    def __init__(self, result: Result, known: Evidence):
        self.result, self.known = result, known
        self.classes = list(result.task.classes)
        if self.classes:
            answers = {str(label) for label in known.audited.values() if label is not None}
            self.classes += sorted(answers - set(self.classes))
        self.width = len(self.classes) or 1
        self.label = codes(result.labels["label"])

    def audited(self) -> Iterator[Sample]:
        """The audits, out of all imputed labels."""
        known = self.known
        if not known.audited:
            return
        rows, n = np.fromiter(known.audited, dtype=int), len(known.imputed)
        places, label = np.searchsorted(known.imputed, rows), self.label[known.imputed]
        mean, predictions = label.mean(keepdims=True), label[places, None]
        if self.classes:
            confidence = self.result.labels["confidence"].to_numpy()[known.imputed].astype(float)
            mean, predictions = top_probabilities(label, confidence, self.width, places)
        yield Sample(n, mean, predictions, self._truth(known.audited.values()), self.others())

    def random(self) -> Iterator[Sample]:
        """Labels sampled at random, with the out-of-fold predictions of their folds."""
        held_out, task = self.result.held_out, self.result.task
        mine, means = np.isin(held_out.rows, self.known.random), held_out.fold_means
        if not mine.any():
            return
        predicted = held_out.predictions["ensemble"][mine].astype(float)
        if isinstance(task, Regression):
            predicted, means = (task.mean + task.scale * one[:, :1] for one in (predicted, means))
        else:
            predicted = np.exp(log_normalize(predicted))
        wider = ((0, 0), (0, self.width - predicted.shape[1]))  # by classes that only audits have
        predicted, means = np.pad(predicted, wider), np.pad(means, wider)
        rows, n = held_out.rows[mine], len(self.known.imputed)
        total = n * means[held_out.fold[mine]].mean(0) + predicted.sum(0)
        count, truth = n + len(rows), self._truth(self.result.labels["label"][rows])
        yield Sample(count, total / count, predicted, truth, self.others(rows), len(means))

    def seen(self) -> Array:
        """How many examples are known to be of each class."""
        audited: Array = np.nansum(self._truth(self.known.audited.values()), axis=0)
        return self.others() + audited

    def _truth(self, labels: Iterable[Any]) -> Array:
        """Labels as (labels, columns); NaN where there is none."""
        classes, none = self.classes, [np.nan] * self.width
        rows = [
            none if one is None else [one == c for c in classes] if classes else [one]
            for one in labels
        ]
        return np.array(rows, dtype=float).reshape(-1, self.width)

    def others(self, but: Sequence[int] | Array = ()) -> Array:
        """The sum over all examples whose labels are given, but for some rows."""
        label = np.delete(self.label, np.union1d(self.known.imputed, but).astype(int))
        if not self.classes:
            return np.array([label.sum()])
        return np.bincount(label, minlength=self.width).astype(float)
