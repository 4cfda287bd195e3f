"""How fast labels should learn when nobody has tuned it: fast enough to arrive, and no faster."""

from __future__ import annotations

import math

from labelgrad.schedules import Ramp

TRAVEL = 75.0  # in units of w; a softmax is decided after about 5
WARM_UP = 0.1  # the part of all steps over which the rate rises


def label_schedule(rows: int, batch_size: int, steps: int, *, travel: float = TRAVEL) -> Ramp:
    """A label rate at which a row could travel `travel` in all its visits together.

    A row is drawn once in P = rows / batch_size steps. Adam's average of squared slopes then
    holds 1/P of a slope's square, so one visit, with the coasting after it, moves the row by about
    rate·√P, and all steps/P visits together by at most rate·steps/√P. Slopes of changing sign
    use most of that up: labels arrive at some 5 when they could have gone ten times as far.

    The rate rises from zero over the first tenth: the gradients of a network that has learned
    nothing yet say little about which label is right, and a label once decided is slow to turn.

    >>> rate = label_schedule(rows=1400, batch_size=50, steps=4000)
    >>> [round(rate(step), 3) for step in (0, 200, 400, 4000)]
    [0.0, 0.05, 0.099, 0.099]
    """
    visits_apart = max(1.0, rows / batch_size)
    return Ramp(WARM_UP * steps, top=travel * math.sqrt(visits_apart) / steps)
