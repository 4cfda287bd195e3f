"""Exact bounds: how many rows can be wrong where so many of those looked at were.

Of N rows W are wrong. n of them, drawn at random, are looked at, and m are found wrong: m is
hypergeometric. So many wrong rows are ruled out at a confidence of 1 − α as would have shown m
mistakes or fewer with a probability of at most α. Where N is not given it is taken as without end,
and m is binomial: then the bound is that of Clopper and Pearson.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95


def upper_bound(
    mistakes: int, audited: int, *, rows: int | None = None, confidence: float = CONFIDENCE
) -> float:
    """The share of rows that may be wrong, where `mistakes` of those `audited` were.

    >>> round(upper_bound(0, 50), 3), round(upper_bound(0, 50, rows=200), 3)
    (0.058, 0.05)
    """
    _check(mistakes, audited, rows, confidence)
    if rows is not None:
        return (ruled_out(mistakes, audited, rows, confidence) - 1) / rows
    if mistakes == audited:
        return 1.0
    from scipy.stats import beta

    return float(beta.ppf(confidence, mistakes + 1, audited - mistakes))


def audits_needed(
    wrong_at_most: float,
    mistakes: int = 0,
    *,
    rows: int | None = None,
    confidence: float = CONFIDENCE,
) -> int:
    """How many rows must be looked at to promise it, where that finds so many mistakes.

    Of finitely many rows it may take all of them.

    >>> [audits_needed(0.02, mistakes) for mistakes in (0, 1, 2)]
    [149, 236, 313]
    >>> audits_needed(0.05), audits_needed(0.05, rows=400)
    (59, 52)
    """
    check_share("wrong_at_most", wrong_at_most)
    few, many = max(mistakes, 1) - 1, max(mistakes, 1)
    most = math.inf if rows is None else rows

    def enough(audited: int) -> bool:
        bound = upper_bound(mistakes, audited, rows=rows, confidence=confidence)
        return bound <= wrong_at_most

    while many < most and not enough(many):
        few, many = many, int(min(2 * many, most))
    while many - few > 1:  # `few` are too few, `many` are enough
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def ruled_out(mistakes: int, audited: int, rows: int, confidence: float = CONFIDENCE) -> int:
    """The smallest number of wrong rows that so few mistakes speak against; `rows` + 1 if none.

    >>> ruled_out(0, 150, 2000), ruled_out(0, 0, 2000)
    (39, 2001)
    """
    from scipy.stats import hypergeom

    few, many = mistakes, rows - audited + mistakes + 1  # more than that cannot be
    while many - few > 1:
        middle = (few + many) // 2
        seldom = hypergeom.cdf(mistakes, rows, middle, audited) <= 1 - confidence
        few, many = (few, middle) if seldom else (middle, many)
    return many


def allowed_mistakes(
    limits: NDArray[np.int_],
    audited: int,
    rows: int,
    confidence: float = CONFIDENCE,
    *,
    most: int | None = None,
) -> NDArray[np.int_]:
    """For each limit how many mistakes may show so that more wrong rows are ruled out; −1: none.

    More than `most` are not counted, for those who have no more.

    >>> allowed_mistakes(np.array([20, 40, 100]), 150, 2000)
    array([-1,  0,  3])
    """
    largest = int(limits.max(initial=0))
    found: list[int] = []
    while len(found) <= (audited if most is None else min(most, audited)):
        out = ruled_out(len(found), audited, rows, confidence)
        if out > largest + 1:
            break
        found.append(out)
    return np.searchsorted(np.array(found, dtype=int), limits + 1, side="right") - 1


def check_share(name: str, share: float) -> None:
    """Refuse a share that nothing or everything would fulfil.

    >>> check_share("wrong_at_most", 0.0)
    Traceback (most recent call last):
    ValueError: `wrong_at_most` must be above 0 and below 1, such as 0.02 for 2 %, got 0: that \
none is wrong only looking at every row can promise.
    """
    if 0 < share < 1:
        return
    why = ": that none is wrong only looking at every row can promise" if share == 0 else ""
    raise ValueError(
        f"`{name}` must be above 0 and below 1, such as 0.02 for 2 %, got {share:g}{why}."
    )


def _check(mistakes: int, audited: int, rows: int | None, confidence: float) -> None:
    check_share("confidence", confidence)
    if not 0 <= mistakes <= audited or (rows is not None and audited > rows):
        raise ValueError(
            f"There can be no more mistakes than rows that were looked at, nor more of these than "
            f"rows, got {mistakes} mistakes, {audited} looked at"
            + (f" and {rows} rows." if rows is not None else ".")
        )
