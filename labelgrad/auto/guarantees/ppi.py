"""Prevalences and means with an interval, from few labels and a prediction for every example.

Prediction-powered inference: a model predicts f for each of N examples, and the truth y of n of
them, drawn at random, is known. Then

    mean of y  ≈  mean of f over all examples + mean of (y − f) over the n examples

whatever the model, as long as it was not fitted on those labels: an audit after training, or
out-of-fold predictions (cross-prediction, Zrnic and Candès 2024, arXiv 2309.16598). A good model
leaves little to be estimated. Predictions count fully (λ = 1): a weight tuned on the same few
labels makes the interval too narrow.

The interval of a mean of values is Student's, for a finite population, with one residual more than
was seen, as large as the largest of them:

    ± t · √((Σ(d − mean d)² + max d²) / (n − k) / n · (1 − n/N)),    d = y − f

k is 1, or the number of folds: their models share labels, so out-of-fold residuals are not quite
independent, and t has n − k degrees of freedom.

For prevalences d may be rarely other than 0, and the variance that was seen says little. Their
interval is a score interval: δ above the estimate is inside if δ² ≤ t² V(δ) (1 − n/N) / n, where
V(δ) is the variance if δ more of the examples were of the class, V(δ) = V(0) + g δ − δ². Each of
them would change d from −f to 1 − f, so that g = 1 − 2 mean(f | y = 0) − 2 mean d; below the
estimate g = 2 mean(f | y = 1) − 1 + 2 mean d. With constant f these are Wilson's. Where g < 0 it is
taken as 0, because Wilson's intervals are too short at rare classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labelgrad.auto.guarantees.pac import CONFIDENCE, check_rate

Array = NDArray[np.float64]


def top_probabilities(
    top: NDArray[np.int_], confidence: Array, classes: int, rows: NDArray[np.int_]
) -> tuple[Array, Array]:
    """Class probabilities, approximated from the most probable class and its probability.

    The remaining probability is divided in proportion to how often the other classes are the most
    probable. Prediction-powered inference is valid for any predictions.

    Parameters
    ----------
    top, confidence
        The most probable class of each example and its probability, (n,).
    classes
        How many there are.
    rows
        The examples whose probabilities are wanted.

    Returns
    -------
    tuple of arrays
        The mean over all examples, (classes,), without a matrix of examples by classes; and the
        probabilities (rows, classes).

    Examples
    --------
    >>> top, confidence = np.array([0, 0, 0, 1]), np.array([0.9, 0.9, 0.6, 0.8])
    >>> mean, some = top_probabilities(top, confidence, 2, np.array([0, 3]))
    >>> mean
    array([0.65, 0.35])
    >>> some
    array([[0.9, 0.1],
           [0.2, 0.8]])
    """
    frequency = np.bincount(top, minlength=classes) / max(len(top), 1)
    others = 1 - np.minimum(frequency, 1 - 1e-9)  # of each class, the frequency of all others
    rest = np.bincount(top, 1 - confidence, classes) / others
    sums = np.bincount(top, confidence, classes) + frequency * (rest.sum() - rest)
    some: Array = frequency * ((1 - confidence[rows]) / others[top[rows]])[:, None]
    some[np.arange(len(rows)), top[rows]] = confidence[rows]
    return sums / len(top), some


def prediction_powered(
    predicted: ArrayLike,
    residuals: ArrayLike,
    population: int,
    *,
    extra_residual: ArrayLike | None = None,
    growth: tuple[ArrayLike, ArrayLike] | None = None,
    folds: int = 1,
    confidence: float = CONFIDENCE,
) -> tuple[Array, Array, Array]:
    """Estimate and both ends of its interval.

    Parameters
    ----------
    predicted
        Mean predictions over the population, (…).
    residuals
        y − f of the random labels, (…, labels).
    population
        Number of examples.
    extra_residual
        A further residual; the largest absolute residual by default.
    growth
        g of the module's docstring, above and below the estimate; a Student interval without.
    folds
        How many models the predictions come from; there must be more labels than those.
    confidence
        Coverage of the interval.

    Returns
    -------
    tuple of arrays
        Estimate, lower end, upper end, each (…).

    Examples
    --------
    >>> value, low, high = prediction_powered(0.3, [0, 0.1, -0.1, 0], 1000, extra_residual=1.0)
    >>> float(value), round(float(low), 2), round(float(high), 2)
    (0.3, -0.63, 1.23)
    """
    from scipy.stats import t

    check_rate("confidence", confidence)
    off = np.asarray(residuals, dtype=float)
    labels = off.shape[-1]
    value: Array = np.asarray(predicted, dtype=float) + off.mean(-1)
    extra = np.abs(off).max(-1) if extra_residual is None else np.asarray(extra_residual)
    squares = ((off - off.mean(-1, keepdims=True)) ** 2).sum(-1) + extra**2
    unseen = max(0.0, 1 - labels / population)
    free = labels - folds
    c = t.ppf((1 + confidence) / 2, free) ** 2 * unseen / labels
    if growth is None:
        half = np.sqrt(c * squares / free)
        return value, value - half, value + half
    halves = (c * np.asarray(g) / 2 for g in growth)
    up, down = ((h + np.sqrt(h**2 + (1 + c) * c * squares / free)) / (1 + c) for h in halves)
    return value, value - down, value + up


def prediction_powered_share(
    predicted: ArrayLike,
    predictions: ArrayLike,
    truth: ArrayLike,
    population: int,
    *,
    scale: ArrayLike = 1.0,
    folds: int = 1,
    confidence: float = CONFIDENCE,
) -> tuple[Array, Array, Array]:
    """Prevalence and both ends of its score interval.

    Predictions whose residuals vary more than the labels are replaced by their mean, so that the
    interval is hardly wider than that of the labels alone.

    Parameters
    ----------
    predicted
        Mean predictions over the population, times `scale`, (…).
    predictions, truth
        f and y of the random labels, (…, labels); y is 0 or 1.
    population
        Number of examples.
    scale
        What f and y of each label count, (labels,).
    folds
        How many models the predictions come from.
    confidence
        Coverage of the interval.

    Returns
    -------
    tuple of arrays
        Estimate, lower end, upper end, each (…).

    Examples
    --------
    >>> value, low, high = prediction_powered_share(0.1, np.full(60, 0.1), np.arange(60) < 9, 2000)
    >>> float(value.round(2)), float(low.round(2)), float(high.round(2))
    (0.15, 0.06, 0.26)
    """
    mean, f, y = (np.asarray(x, dtype=float) for x in (predicted, predictions, truth))
    scale = np.broadcast_to(scale, y.shape[-1:])
    ones, zeros = y.sum(-1), (1 - y).sum(-1)
    share = (ones + 1) / (ones + zeros + 2)
    is_useless = (y - f).var(-1) > share * (1 - share)
    f = np.where(is_useless[..., None], mean[..., None] / scale.mean(), f)
    f0 = (f * (1 - y)).sum(-1) / np.maximum(zeros, 1e-9)
    f1 = np.where(ones > 0, (f * y).sum(-1) / np.maximum(ones, 1e-9), 1.0)
    off = (y - f).mean(-1)
    above = np.maximum(1 - 2 * f0 - 2 * off, 0) * scale.mean()
    below = np.maximum(2 * f1 - 1 + 2 * off, 0) * scale.mean()
    return prediction_powered(
        mean,
        (y - f) * scale,
        population,
        extra_residual=0.0,
        growth=(above, below),
        folds=folds,
        confidence=confidence,
    )


def wilson_interval(
    of_class: int, labels: int, *, confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """The prevalence of a class by random labels alone, and both ends of its interval.

    >>> [round(number, 3) for number in wilson_interval(5, 50)]
    [0.1, 0.043, 0.214]
    """
    from scipy.stats import binomtest

    ends = binomtest(of_class, labels).proportion_ci(confidence, method="wilson")
    return of_class / labels, float(ends.low), float(ends.high)
