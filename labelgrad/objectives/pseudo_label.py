"""Pseudo-Label (Lee, 2013): what the model is sure of becomes its own label."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from labelgrad.methods import Problem, SearchRange, register
from labelgrad.objective import Objective
from labelgrad.step import Step


class PseudoLabel(Objective):
    """Cross-entropy with the likeliest class, where its probability is above `threshold`.

    The mean is over the whole batch, so few sure examples pull less than many.

    >>> PseudoLabel(threshold=0.9)
    PseudoLabel(threshold=0.9)
    """

    def __init__(self, threshold: float = 0.95):
        super().__init__()
        self.threshold = check_threshold("PseudoLabel", threshold)

    def forward(self, step: Step) -> Tensor:
        logits = step.unlabeled_outputs
        confidence, label = logits.detach().softmax(-1).max(-1)
        sure = (confidence > self.threshold).to(logits)
        step.report("sure", sure.mean())
        return (sure * F.cross_entropy(logits, label, reduction="none")).mean()

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}"


def check_threshold(owner: str, threshold: float) -> float:
    """`threshold`, or `ValueError` unless it is a probability."""
    if not 0 <= threshold <= 1:
        raise ValueError(f"{owner} needs a `threshold` from 0 to 1, got {threshold}.")
    return threshold


@register("pseudo-label", "Lee, 2013", 3, search={"weight": SearchRange(1.0, 0.1, 3.0)})
def pseudo_label(problem: Problem, weight: float = 1.0, threshold: float = 0.95) -> Objective:
    """Pseudo-Label with the protocol's weight, which rises."""
    return problem.rise(weight) * PseudoLabel(threshold=threshold)
