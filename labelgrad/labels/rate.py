"""How fast labels should learn when nobody has tuned it: fast enough to arrive, and no faster."""

from __future__ import annotations

import math

from labelgrad.schedules import Ramp

SPEED = 0.0043  # the part of its way that a label can go in one step
LEAST_WAYS = 4.0  # how many times its way it can go in all, however few the steps
WARM_UP = 0.1  # the part of all steps over which the rate rises


def label_schedule(rows: int, width: int, batch_size: int, steps: int) -> Ramp:
    """A rate at which labels keep pace with the model, whatever the size of the data.

    A label's way is from undecided to nine tenths for one class, a lead of log(9·(classes − 1)) in
    w; for values (width 1, in standard deviations) it is 1. A row is drawn once in P = rows /
    batch_size steps. Adam's average of squared slopes then holds 1/P of a slope's square, so one
    visit, with the steps it catches up with, moves the row by about rate·√P: rate/√P for each step.
    That shall be `SPEED` times its way, more where the steps are so few that it could not arrive.
    (Most of what a label could go it does not: slopes change their sign.)

    The rate rises from zero over the first tenth: the gradients of a network that has learned
    nothing yet say little about which label is right, and a label once decided is slow to turn.

    >>> rate = label_schedule(rows=1400, width=10, batch_size=50, steps=5000)
    >>> [round(rate(step), 3) for step in (0, 250, 500, 5000)]
    [0.0, 0.05, 0.1, 0.1]
    """
    way = math.log(9 * (width - 1)) if width > 1 else 1.0
    visits_apart = max(1.0, rows / batch_size)
    speed = max(SPEED, LEAST_WAYS / steps)
    return Ramp(WARM_UP * steps, top=speed * way * math.sqrt(visits_apart))
