"""The prevalence of each class, or the mean of all values, with an interval.

The estimate rests on a random sample of labels: audits drawn with the present model, or labels
sampled at random with their out-of-fold predictions (`guarantees.ppi`). All other labels are known
and added as they are:

    prevalence = (known labels of the class + unknown examples · their estimated share) / examples
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    samples = [sample for sample in (columns.audited(), columns.random()) if sample is not None]
    drawn = sum(len(sample.truth) for sample in samples)
    if drawn <= max((sample.folds for sample in samples), default=1):
        raise ValueError(no_evidence(result, known, "An interval"))
    n, truth = len(result.labels), np.concatenate([sample.truth for sample in samples])
    is_gap = np.isnan(truth).any(1)
    if is_gap.any() and not columns.classes:
        raise ValueError(
            "The mean of values needs a label for every audited example; label the "
            f"{int(is_gap.sum())} that were left out."
        )
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
    table = {
        "name": columns.classes or ["mean"],
        **dict(zip(ENDS, (value, low, high), strict=True)),
        **{f"{end}_by_labels": x for end, x in zip(ENDS, zip(*alone, strict=True), strict=True)},
    }
    return Prevalence(pl.DataFrame(table), len(truth), n, confidence, known.discarded)


def _combine(
    samples: Sequence[Sample], n: int, confidence: float, gaps: float | None
) -> tuple[Array, Array, Array]:
    """Estimate and ends for each column; a gap is taken as predicted, or as a number."""
    drawn = sum(len(sample.truth) for sample in samples)
    others, predicted = np.zeros(1), np.zeros(1)
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
        self.given = np.setdiff1d(np.arange(len(result.labels)), known.imputed)

    def audited(self) -> Sample | None:
        """The audits, out of all imputed labels."""
        known = self.known
        if not known.audited:
            return None
        rows, n = np.fromiter(known.audited, dtype=int), len(known.imputed)
        places, label = np.searchsorted(known.imputed, rows), self.label[known.imputed]
        truth = self._truth(known.audited.values())
        if not self.classes:
            mean, predictions = label.mean(keepdims=True), label[places, None]
        else:
            confidence = self.result.labels["confidence"].to_numpy()[known.imputed]
            found = (label, confidence.astype(float), self.width)
            mean, predictions = top_probabilities(*found, places)
        return Sample(n, mean, predictions, truth, self._sum(self.given))

    def random(self) -> Sample | None:
        """Labels sampled at random, with the out-of-fold predictions of their folds."""
        held_out, task = self.result.held_out, self.result.task
        mine = np.isin(held_out.rows, self.known.random)
        means = held_out.fold_means
        if not mine.any():
            return None
        predicted = held_out.predictions["ensemble"][mine].astype(float)
        if isinstance(task, Regression):
            predicted, means = (task.mean + task.scale * one[:, :1] for one in (predicted, means))
        else:
            predicted = np.exp(log_normalize(predicted))
        predicted, means = self._wide(predicted), self._wide(means)
        rows, n = held_out.rows[mine], len(self.known.imputed)
        total = n * means[held_out.fold[mine]].mean(0) + predicted.sum(0)
        count = n + len(rows)
        truth = self._truth(self.result.labels["label"][rows])
        others = self._sum(np.setdiff1d(self.given, rows))
        return Sample(count, total / count, predicted, truth, others, len(means))

    def seen(self) -> Array:
        """How many examples are known to be of each class."""
        audited: Array = np.nansum(self._truth(self.known.audited.values()), axis=0)
        return self._sum(self.given) + audited

    def _wide(self, columns: Array) -> Array:
        """Columns of the run's classes, with zeros for classes that only audits have."""
        return np.pad(columns, ((0, 0), (0, self.width - columns.shape[1])))

    def _truth(self, labels: Iterable[Any]) -> Array:
        """Labels as (labels, columns); NaN where there is none."""
        classes, none = self.classes, [np.nan] * self.width
        rows = [
            none if one is None else [one == c for c in classes] if classes else [one]
            for one in labels
        ]
        return np.array(rows, dtype=float).reshape(-1, self.width)

    def _sum(self, rows: Array) -> Array:
        if not self.classes:
            return np.array([self.label[rows].sum()])
        return np.bincount(self.label[rows], minlength=self.width).astype(float)
