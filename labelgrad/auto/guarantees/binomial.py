"""Exact bounds on the number of wrong labels, from a random audit.

Of N labels W are wrong. An audit of n labels drawn at random finds m mistakes: m is hypergeometric.
A number of wrong labels is ruled out with confidence 1 − α if m or fewer mistakes would have had a
probability of at most α. Without N the population is taken as infinite, m is binomial, and the
bound is that of Clopper and Pearson.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95


def upper_bound(
    mistakes: int, audited: int, *, population: int | None = None, confidence: float = CONFIDENCE
) -> float:
    """The largest error rate that the audit does not rule out.

    Parameters
    ----------
    mistakes
        Wrong labels among those audited.
    audited
        Labels that were drawn at random and checked.
    population
        Labels in all; infinitely many by default.
    confidence
        Probability with which the bound holds, over the random draw.

    Returns
    -------
    float
        The bound, as a fraction of the population.

    Examples
    --------
    >>> round(upper_bound(0, 50), 3), round(upper_bound(0, 50, population=200), 3)
    (0.058, 0.05)
    """
    _check(mistakes, audited, population, confidence)
    if population is not None:
        return float(ruled_out(mistakes, audited, population, confidence) - 1) / population
    if mistakes == audited:
        return 1.0
    from scipy.stats import beta

    return float(beta.ppf(confidence, mistakes + 1, audited - mistakes))


def audits_needed(
    max_error_rate: float,
    mistakes: int = 0,
    *,
    population: int | None = None,
    confidence: float = CONFIDENCE,
) -> int:
    """How many audits certify an error rate if they find this many mistakes.

    Parameters
    ----------
    max_error_rate
        The error rate to certify.
    mistakes
        Wrong labels that the audit finds.
    population
        Labels in all; infinitely many by default. At most all of them are needed.
    confidence
        Probability with which the guarantee holds.

    Returns
    -------
    int
        The smallest number of audits.

    Examples
    --------
    >>> [audits_needed(0.02, mistakes) for mistakes in (0, 1, 2)]
    [149, 236, 313]
    >>> audits_needed(0.05), audits_needed(0.05, population=400)
    (59, 52)
    """
    check_rate("max_error_rate", max_error_rate)

    def enough(audited: int) -> bool:
        bound = upper_bound(mistakes, audited, population=population, confidence=confidence)
        return bound <= max_error_rate

    return smallest(enough, max(mistakes, 1) - 1, sys.maxsize if population is None else population)


def smallest(enough: Callable[[int], bool], few: int, most: int) -> int:
    """The smallest number above `few` that is enough, or `most`; small numbers are tried first.

    >>> smallest(lambda n: n * n > 50, 0, 100)
    8
    """
    many = min(max(2 * few, few + 1), most)
    while many < most and not enough(many):
        few, many = many, min(2 * many, most)
    return few + 1 + bisect_left(range(few + 1, many), True, key=enough)


def ruled_out(
    mistakes: ArrayLike, audited: int, population: int, confidence: float = CONFIDENCE
) -> NDArray[np.int_]:
    """The smallest number of wrong labels that the audit rules out; `population` + 1 if none.

    >>> ruled_out([0, 1], 150, 2000), ruled_out(0, 0, 2000)
    (array([39, 61]), array(2001))
    """
    from scipy.stats import hypergeom

    few = np.asarray(mistakes)
    many = population - audited + few + 1  # more than that cannot be
    found = few
    while (many - few > 1).any():
        middle = (few + many) // 2
        unlikely = hypergeom.cdf(found, population, middle, audited) <= 1 - confidence
        few, many = np.where(unlikely, few, middle), np.where(unlikely, middle, many)
    return many


def allowed_mistakes(
    limits: NDArray[np.int_],
    audited: int,
    population: int,
    confidence: float = CONFIDENCE,
    *,
    most: int | None = None,
) -> NDArray[np.int_]:
    """For each limit the number of mistakes up to which more wrong labels are ruled out.

    -1 where not even an audit without mistakes rules them out. Numbers beyond `most` are not
    computed, for audits that found no more.

    >>> allowed_mistakes(np.array([20, 40, 100]), 150, 2000)
    array([-1,  0,  3])
    """
    largest = min(audited, int(limits.max(initial=0)))
    counts = np.arange((largest if most is None else min(most, largest)) + 1)
    found = ruled_out(counts, audited, population, confidence)
    return np.searchsorted(found, limits + 1, side="right") - 1


def check_rate(name: str, rate: float) -> None:
    """Raise unless the rate is above 0 and below 1.

    >>> check_rate("max_error_rate", 0.0)
    Traceback (most recent call last):
    ValueError: `max_error_rate` must be above 0 and below 1, such as 0.02 for 2 %, got 0; only \
an audit of every label can rule out every mistake.
    """
    if 0 < rate < 1:
        return
    why = "; only an audit of every label can rule out every mistake" if rate == 0 else ""
    raise ValueError(
        f"`{name}` must be above 0 and below 1, such as 0.02 for 2 %, got {rate:g}{why}."
    )


def _check(mistakes: int, audited: int, population: int | None, confidence: float) -> None:
    check_rate("confidence", confidence)
    if not 0 <= mistakes <= audited or (population is not None and audited > population):
        of = "" if population is None else f" of {population}"
        raise ValueError(
            f"There can be at most as many mistakes as audits, and as many audits as labels; got "
            f"{mistakes} mistakes in {audited} audits{of}."
        )
