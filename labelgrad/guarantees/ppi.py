"""Shares and means of all rows with an interval, from few labels and a prediction for every row.

Prediction-powered inference: f says something of each of N rows, and of n of them, drawn at random,
the truth y is known. Then

    mean of y over all rows  ≈  mean of f over all rows + mean of (y − f) over the n rows

whatever f is worth, as long as it has not seen the labels it is compared with: an audit after the
training, or out-of-fold predictions (the cross-fitted version, Zrnic and Candès 2024, arXiv
2309.16598). A good f leaves little to be estimated. f counts fully (λ = 1): a weight that is tuned
on the same few labels makes the interval too narrow.

The interval is Student's, of finitely many rows, with one mistake more than was seen:

    ± t · √((Σ(d − mean d)² + d₀²) / (n − k) / n · (1 − n/N)),    d = y − f

d₀ is 1 for shares, and the largest |d| for values. Without it few labels that are all right would
call a share certain. k is 1, or the number of folds: their models share labels, so out-of-fold
residuals are not quite independent, and t has n − k degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labelgrad.guarantees.binomial import CONFIDENCE, check_share

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Said:
    """Predictions of classes, known by the likeliest one and its probability.

    What is left is shared out by how common the others are among the likeliest. Any f will do that
    has not seen the truth; a good one makes the interval narrower.

    >>> said = Said(np.array([0, 0, 0, 1]), np.array([0.9, 0.9, 0.6, 0.8]), 2)
    >>> said.of_rows(np.array([0, 3]))
    array([[0.9, 0.1],
           [0.2, 0.8]])
    >>> said.sums
    array([2.6, 1.4])
    """

    likeliest: NDArray[np.int_]  # (rows,)
    sure: Array  # (rows,)
    classes: int

    @property
    def _common(self) -> tuple[Array, Array]:
        """How common each class is, and of each what all others have together."""
        counts = np.bincount(self.likeliest, minlength=self.classes)
        common = counts / max(len(self.likeliest), 1)
        return common, 1 - np.minimum(common, 1 - 1e-9)

    @property
    def sums(self) -> Array:
        """The sum over all rows, a number for each class; rows times classes are never held."""
        common, others = self._common
        left = np.bincount(self.likeliest, 1 - self.sure, self.classes) / others
        own = np.bincount(self.likeliest, self.sure, self.classes)
        found: Array = own + common * (left.sum() - left)
        return found

    def of_rows(self, rows: NDArray[np.int_]) -> Array:
        """Of some rows each class."""
        common, others = self._common
        likeliest, sure = self.likeliest[rows], self.sure[rows]
        said: Array = common * ((1 - sure) / others[likeliest])[:, None]
        said[np.arange(len(rows)), likeliest] = sure
        return said


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval it probably lies in.

    >>> round(Interval(0.5, 0.4, 0.7).width, 3)
    0.3
    """

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """From the lower end to the upper one."""
        return self.high - self.low


def powered(
    predicted: ArrayLike,
    residuals: ArrayLike,
    rows: int,
    *,
    one_more: ArrayLike | None = None,
    folds: int = 1,
    confidence: float = CONFIDENCE,
) -> tuple[Array, Array, Array]:
    """The estimate and both ends, from means `predicted` (…) and `residuals` y − f (…, labels).

    `one_more` is d₀, the largest residual if it is not given.

    >>> value, low, high = powered(0.3, [0.0, 0.1, -0.1, 0.0], 1000, one_more=1.0)
    >>> float(value), round(float(low), 2), round(float(high), 2)
    (0.3, -0.63, 1.23)
    """
    from scipy.stats import t

    check_share("confidence", confidence)
    off = np.asarray(residuals, dtype=float)
    labels = off.shape[-1]
    if labels <= folds:
        raise ValueError(
            f"An interval needs at least {folds + 1} labels drawn at random, got {labels}."
        )
    value: Array = np.asarray(predicted, dtype=float) + off.mean(-1)
    extra = np.abs(off).max(-1) if one_more is None else np.asarray(one_more, dtype=float)
    spread = ((off - off.mean(-1, keepdims=True)) ** 2).sum(-1) + extra**2
    left = max(0.0, 1 - labels / rows)  # where every row has been looked at, nothing is unknown
    free = labels - folds
    half = t.ppf((1 + confidence) / 2, free) * np.sqrt(spread / free / labels * left)
    return value, value - half, value + half


def powered_share(
    predicted: float, residuals: ArrayLike, rows: int, *, seen: int = 0, confidence: float = 0.95
) -> Interval:
    """The share of a class; `seen` rows are known to be of it, so it is no smaller than that.

    >>> found = powered_share(0.1, np.zeros(50), 2000, seen=5)
    >>> round(found.low, 3), round(found.high, 3)
    (0.06, 0.14)
    """
    found = powered(predicted, residuals, rows, one_more=1.0, confidence=confidence)
    return Interval(*(float(np.clip(end, seen / rows, 1.0)) for end in found))


def powered_mean(
    predicted: float, residuals: ArrayLike, rows: int, *, confidence: float = CONFIDENCE
) -> Interval:
    """The mean of values.

    >>> found = powered_mean(5.0, [0.1, -0.1, 0.2, 0.0], 2000)
    >>> round(found.value, 2), round(found.low, 1), round(found.high, 1)
    (5.05, 4.8, 5.3)
    """
    return Interval(*map(float, powered(predicted, residuals, rows, confidence=confidence)))


def share_by_labels(of_class: int, labels: int, *, confidence: float = CONFIDENCE) -> Interval:
    """The share of a class by random labels alone: Wilson's interval.

    >>> found = share_by_labels(5, 50)
    >>> round(found.low, 3), round(found.high, 3)
    (0.043, 0.214)
    """
    from scipy.stats import norm

    z = float(norm.ppf((1 + confidence) / 2))
    share, spare = of_class / labels, z * z / labels
    middle = (share + spare / 2) / (1 + spare)
    half = z * (share * (1 - share) / labels + spare / 4 / labels) ** 0.5 / (1 + spare)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def mean_by_labels(values: ArrayLike, rows: int, *, confidence: float = CONFIDENCE) -> Interval:
    """The mean by random labels alone: Student's interval, of finitely many rows.

    >>> found = mean_by_labels([4.0, 5.0, 6.0, 5.0], 2000)
    >>> round(found.low, 1), round(found.high, 1)
    (3.7, 6.3)
    """
    found = powered(0.0, values, rows, one_more=0.0, confidence=confidence)
    return Interval(*map(float, found))
