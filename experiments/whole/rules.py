"""A label rule beside Algorithm 1's: evidence in the labels themselves, with forgetting.

The slope that the library hands to a rule is that of w, where y = softmax(w). It carries the factor
y, so a class of small probability has hardly a slope and a decided label does not turn. Divided by
y it is the slope of the label itself (mirror descent on the simplex), and a decided label answers
to its slopes as an undecided one does. Older slopes come from a network that knew less; they count
less with each visit.
"""

from __future__ import annotations

from torch import Tensor

from labelgrad.labels.rules import Rule
from labelgrad.losses import Loss

LEAST = 1e-30
LEAD = 5.67  # the largest difference of log-odds between two classes


class ForgettingEvidence(Rule):
    """Labels by the evidence of their recent slopes: a row is (w, Σ g, Σ ‖g‖²), with decay.

    With t = −Σ g / √(Σ ‖g‖²), where a slope counts `decay` times less with each later visit,
    w = scale · t·|t|. No class leads another by more than `LEAD`.

    Parameters
    ----------
    scale : float
        Log-odds per squared standard error.
    decay : float
        Factor of the older slopes at each visit; 1 forgets nothing.

    Examples
    --------
    >>> import torch
    >>> from labelgrad import CrossEntropy
    >>> rule, row = ForgettingEvidence(scale=1.0, decay=0.5), torch.zeros(1, 3, 2)
    >>> rule.step(row, torch.tensor([[-1.0, 1.0]]), 1, CrossEntropy())
    >>> row[0, 0]
    tensor([ 0.0000, -1.0000])

    """

    metric_power = 0.25

    def __init__(self, scale: float = 5.0, decay: float = 0.8):
        self.scale, self.decay = scale, decay

    def __repr__(self) -> str:
        return f"ForgettingEvidence(scale={self.scale}, decay={self.decay})"

    def step(self, values: Tensor, slope: Tensor, step: int, loss: Loss) -> None:
        """Add the slopes of a visit, in place."""
        w, total, squares = values.unbind(1)  # each (rows, classes)
        slope = slope / w.softmax(-1)
        slope = slope - slope.mean(-1, keepdim=True)
        total.mul_(self.decay).add_(slope)
        squares.mul_(self.decay**2).add_(slope.square().sum(-1, keepdim=True))
        statistic = -total / squares.sqrt().clamp_min(LEAST)
        odds = self.scale * statistic * statistic.abs()
        w.copy_((odds - odds.amax(-1, keepdim=True)).clamp_min(-LEAD))
