"""How many labels may be wrong, by labels that were drawn at random and looked at blindly.

The exact binomial bound of Clopper and Pearson: of n random labels k were wrong; whatever the share
of wrong ones is, it is above the bound with no more than 5 % probability.
"""

from __future__ import annotations

from typing import NamedTuple

AT_MOST, CONFIDENCE = 0.02, 0.95
MOST = 1_000_000  # audits; nobody makes more


class Promise(NamedTuple):
    """What audits say about the labels of a run."""

    audits: int
    wrong: int
    bound: float  # the share that may be wrong, at the confidence asked for
    at_most: float  # the share that is to be promised
    confidence: float
    needed: int | None  # how many more audits it takes if none of them is wrong; None is too many


def promise_state(
    audits: int, wrong: int, at_most: float = AT_MOST, confidence: float = CONFIDENCE
) -> Promise:
    """The bound, and how many more audits without a mistake the promise needs.

    >>> [promise_state(0, wrong).needed for wrong in (0,)], promise_state(100, 1).needed
    ([149], 136)
    >>> round(promise_state(50, 0).bound, 3)
    0.058
    """
    needed = None
    if bound(MOST, wrong, confidence) <= at_most:
        low, high = audits, MOST  # at `high` it holds
        while low < high:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if bound(middle, wrong, confidence) <= at_most else (middle + 1, high)
            )
        needed = low - audits
    return Promise(audits, wrong, bound(audits, wrong, confidence), at_most, confidence, needed)


def bound(audits: int, wrong: int, confidence: float = CONFIDENCE) -> float:
    """The largest share of wrong labels that so few mistakes among so many are not too rare for.

    >>> round(bound(149, 0), 4), round(bound(236, 1), 4), bound(0, 0)
    (0.0199, 0.0199, 1.0)
    """
    from scipy.special import betaincinv

    return 1.0 if wrong >= audits else float(betaincinv(wrong + 1, audits - wrong, confidence))
