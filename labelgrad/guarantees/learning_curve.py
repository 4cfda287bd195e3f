"""What more labels would buy: errors of smaller trainings continued to larger ones, with a band.

Trainings on parts of the labels give errors at a few sizes. Over the sizes that matter an error
falls about like a power of the number of labels,

    error(n) = error(n₀) · (n / n₀)^(−b),       0 ≤ b ≤ 1

so that only b has to be read from them. The band has two parts: how well error(n₀) is known from
the labels that were held out, and how far b changes with the parts that were drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labelgrad.guarantees.binomial import CONFIDENCE
from labelgrad.guarantees.ppi import Interval

STEEPEST = 1.0  # faster than 1/n errors hardly fall
DRAWS = 2000  # to make the band of
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ahead:
    """The error with so many labels in all, and how much of today's error that is."""

    labels: int
    error: Interval
    left: Interval  # a part of 1


@dataclass(frozen=True)
class CurveAhead:
    """The error at sizes that were tried and at sizes to come, each with its interval."""

    tried: Sequence[tuple[int, float]]  # labels, error of smaller trainings
    ahead: Sequence[Ahead]  # from now on
    slope: Interval  # b

    @property
    def now(self) -> int:
        """How many labels there are."""
        return self.ahead[0].labels


def steepness(sizes: Array, errors: Array) -> Array:
    """The power b of each training series: errors (series, sizes) at as many sizes.

    >>> sizes = np.array([25.0, 50.0, 100.0])
    >>> steepness(sizes, np.array([0.4 * sizes**-0.5])).round(3)
    array([0.5])
    """
    x = np.log(sizes) - np.log(sizes).mean()
    falling: Array = -(np.log(errors) * x).sum(-1) / (x**2).sum()
    return np.clip(falling, 0.0, STEEPEST)


def continued(
    sizes: Sequence[int],
    errors: Array,
    anchor: Array,
    anchor_labels: float,
    now: int,
    more: Sequence[int] = (25, 50, 100),
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> CurveAhead:
    """Continue errors (series, sizes) of smaller trainings to `now` and to more labels than that.

    `anchor` are draws of what the error at `anchor_labels` may be, such as those of `error_draws`.

    >>> errors = np.array([[0.4, 0.28, 0.2], [0.42, 0.3, 0.21]])
    >>> anchor = error_draws(20, 100, seed=0)
    >>> found = continued([25, 50, 100], errors, anchor, 100, 100, [100])
    >>> [(each.labels, round(each.error.value, 2)) for each in found.ahead]
    [(100, 0.21), (200, 0.15)]
    """
    generator = np.random.default_rng(seed)
    tried_at = np.asarray(sizes, dtype=float)
    errors = np.maximum(errors, 1e-4)  # none wrong among a few says nothing of a thousandth
    usual = float(steepness(tried_at, errors.mean(0)))
    picked = generator.integers(len(errors), size=(DRAWS, len(errors)))
    slopes = steepness(tried_at, errors[picked].mean(1))  # series drawn anew
    starts = generator.choice(anchor, DRAWS)
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]

    def interval(value: float, drawn: Array) -> Interval:
        low, high = np.quantile(drawn, ends)
        return Interval(value, float(low), float(high))

    def at(labels: int) -> Ahead:
        ratio, left = labels / anchor_labels, labels / now
        value = float(np.mean(anchor)) * ratio**-usual
        return Ahead(
            labels,
            interval(value, starts * ratio**-slopes),
            interval(left**-usual, left**-slopes),
        )

    tried = list(zip(sizes, errors.mean(0).tolist(), strict=True))
    ahead = [at(labels) for labels in (now, *(now + extra for extra in more))]
    return CurveAhead(tried, ahead, interval(usual, slopes))


def error_draws(mistakes: int, held_out: int, *, seed: int, draws: int = DRAWS) -> Array:
    """What the share of mistakes may be where so many of the held-out were: Jeffreys' posterior.

    >>> round(float(np.mean(error_draws(10, 100, seed=0))), 2)
    0.11
    """
    generator = np.random.default_rng(seed)
    return generator.beta(mistakes + 0.5, held_out - mistakes + 0.5, size=draws)


def squared_error_draws(squares: Array, *, seed: int, draws: int = DRAWS) -> Array:
    """What the root mean squared error may be: that of held-out values drawn anew.

    >>> squared_error_draws(np.array([4.0, 4.0]), seed=0, draws=2)
    array([2., 2.])
    """
    generator = np.random.default_rng(seed)
    picked = generator.integers(len(squares), size=(draws, len(squares)))
    found: Array = np.sqrt(squares[picked].mean(1))
    return found
