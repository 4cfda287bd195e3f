"""FixMatch (Sohn et al., 2020): what is clear in a weak view should be seen in a strong one.

FlexMatch, FreeMatch and SoftMatch differ from it in one thing: how much each example counts.
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional as F

from labelgrad.methods import Problem, SearchRange, register
from labelgrad.objective import Objective
from labelgrad.objectives.pseudo_label import check_threshold
from labelgrad.step import Step


class FixMatch(Objective):
    """Cross-entropy of a strong view with the likeliest class of the weak view, where it is sure.

    >>> FixMatch(threshold=0.9)
    FixMatch(threshold=0.9)
    """

    shares_graph = False

    def __init__(self, threshold: float = 0.95):
        super().__init__()
        self.threshold = check_threshold(type(self).__name__, threshold)

    def forward(self, step: Step) -> Tensor:
        probabilities = step.unlabeled_outputs.detach().softmax(-1)
        return agreement(step, probabilities, self.weigh(probabilities))[0]

    def weigh(self, probabilities: Tensor) -> Tensor:
        """How much each example counts: 1 where the model is sure, else 0."""
        return (probabilities.amax(-1) >= self.threshold).to(probabilities)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}"


def agreement(step: Step, probabilities: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The mean weighted cross-entropy of strong views with the weak views' classes; their logits.

    The mean is over the whole batch, so few sure examples pull less than many.
    """
    step.report("sure", weight.mean())
    strong = step.extra_forward(step.strong_view())
    apart = F.cross_entropy(strong, probabilities.argmax(-1), reduction="none")
    return (weight * apart).mean(), strong


def decay_for(steps: int) -> float:
    """The decay of averages over batches in a run of `steps`: they go back over √steps of them.

    That is the published 0.999 for 2²⁰ steps; in short runs such an average would hardly move.

    >>> decay_for(2**20), decay_for(1600)
    (0.999, 0.975)
    """
    return min(0.999, 1 - 1 / math.sqrt(steps))


SEARCH = {"weight": SearchRange(1.0, 0.3, 3.0)}


@register("fixmatch", "Sohn et al., 2020", 4, strong_views=True, search=SEARCH)
def fixmatch(problem: Problem, weight: float = 1.0, threshold: float = 0.95) -> Objective:
    """FixMatch with a weight that stays."""
    return weight * FixMatch(threshold)
