"""How fast labels should learn when nobody has tuned it: fast enough to arrive, and no faster."""

from __future__ import annotations

import math

TRAVEL = 60.0  # in units of w; a softmax is decided after about 5


def travel_rate(rows: int, batch_size: int, steps: int, *, travel: float = TRAVEL) -> float:
    """The label rate at which a row could travel `travel` in all its visits together.

    A row is drawn once in P = rows / batch_size steps. Adam's average of squared slopes then
    holds 1/P of a slope's square, so one visit, with the coasting after it, moves the row by about
    rate·√P, and all steps/P visits together by at most rate·steps/√P. Slopes of changing sign
    use most of that up: labels arrive at some 5 when they could have gone ten times as far.

    >>> round(travel_rate(rows=1400, batch_size=50, steps=3000), 3)
    0.106
    """
    visits_apart = max(1.0, rows / batch_size)
    return travel * math.sqrt(visits_apart) / steps
