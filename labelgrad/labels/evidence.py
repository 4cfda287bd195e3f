"""Labels without a rate: a label is the evidence that its slopes are.

Adam adds up moves. How far a label gets then hangs on the rate, the visits and the steps, and one
that was decided in the first steps, when the network knew nothing, does not come back. Here nothing
is added up but the slopes g of a row, one at each of its visits:

    t = −Σ g / √(Σ ‖g‖²)             the sum, in units of how long it would be if slopes were chance
    w = scale · t·|t|                for classes, where w are log-odds
    w = scale · t                    for values, each target by itself

t is about 1 or less while the slopes contradict each other and about √visits when they all agree.
It has no unit, so it asks for nothing that depends on the data, the batch, the number of steps or
of classes. The odds that a mean which lies t standard errors from zero is not zero grow like
exp(t²/2), hence the square. The scale is larger than that ½, so that few visits are enough. Were it
much larger, the first slopes would decide, and they come from a network that knows nothing.

Of classes none may lead another by more than `lead`: a label that is all but sure has no slope left
to be corrected by, softmax being flat there, and a network trained on it is too sure itself.

The slopes are taken in a metric halfway between the paper's and the Euclidean one: the first is the
better one on tables, the second on the paper's shells, and this one serves both.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labelgrad.losses import CrossEntropy, Loss
from labelgrad.schedules import check_rate

SCALE = {"classes": 5.0, "values": 0.5}  # in log-odds, and in standard deviations
LEAD, SUREST = 5.0, 0.97  # a label of two classes can be 0.993, of many classes this sure
_LEAST = 1e-30  # of a row whose slopes were all zero


class Evidence:
    """Labels that are the evidence of their slopes: a row is (w, Σ g, Σ ‖g‖²).

    Without a `scale` it is the usual one: 5 for classes, ½ for values.

    >>> rule, row = Evidence(1.0), torch.zeros(1, 3, 2)
    >>> for visit in (1, 2, 3, 4):
    ...     rule.step(row, torch.tensor([[-1.0, 1.0]]), visit, CrossEntropy())
    ...     print([round(w, 2) for w in row[0, 0].tolist()])
    [0.0, -1.0]
    [0.0, -2.0]
    [0.0, -3.0]
    [0.0, -4.0]
    """

    metric_power = 0.25  # of the gap's fourth moment, where the paper's metric has ½

    def __init__(self, scale: float | None = None):
        if scale is not None:
            check_rate("scale", scale)
        self.scale = scale

    def __repr__(self) -> str:
        return "Evidence()" if self.scale is None else f"Evidence({self.scale})"

    def horizon(self, dtype: torch.dtype) -> int:
        """A row is at rest at once."""
        return 1

    def step(self, values: Tensor, slope: Tensor, step: int, loss: Loss) -> None:
        """Weigh one slope more, in place."""
        w, total, squares = values.unbind(1)  # each (rows, width)
        classes = isinstance(loss, CrossEntropy)
        scale = usual_scale(loss) if self.scale is None else self.scale
        total.add_(slope)
        squares.add_(slope.square().sum(1, keepdim=True) if classes else slope.square())
        statistic = -total / squares.sqrt().clamp_min(_LEAST)
        if classes:
            odds = scale * statistic * statistic.abs()
            w.copy_((odds - odds.amax(1, keepdim=True)).clamp_min(-lead(w.shape[1])))
        else:
            w.copy_(scale * statistic)

    def catch_up(self, values: Tensor, last: Tensor, now: int) -> None:
        """Without a slope there is nothing to weigh."""


def lead(classes: int) -> float:
    """How far one class may be ahead of another, in log-odds.

    With many classes a lead of 5 would leave most of a label to the others together.

    >>> [round(lead(classes), 2) for classes in (2, 5, 10, 100)]
    [5.0, 5.0, 5.67, 8.07]
    """
    return max(LEAD, math.log(SUREST / (1 - SUREST) * max(1, classes - 1)))


def usual_scale(loss: Loss) -> float:
    """The scale where none is asked for.

    >>> usual_scale(CrossEntropy())
    5.0
    """
    return SCALE["classes" if isinstance(loss, CrossEntropy) else "values"]
