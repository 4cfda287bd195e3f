"""The loss of the true labels: the baseline, and a term of nearly every method."""

from __future__ import annotations

from torch import Tensor

from labelgrad.functional import with_gradient
from labelgrad.methods import SUPERVISED, Problem, register
from labelgrad.objective import Objective
from labelgrad.step import Step


class Supervised(Objective):
    """The mean loss of the labeled batch.

    Its gradient g_ℓ is the one the step holds for everybody, so a method that needs g_ℓ as well
    costs no second backward pass.

    >>> import torch
    >>> from labelgrad import Batch
    >>> batch = Batch(torch.ones(4, 3), torch.zeros(4, dtype=torch.long), torch.arange(4))
    >>> Supervised()(Step(torch.nn.Linear(3, 1), batch))
    tensor(0., grad_fn=<_WithGradientBackward>)
    """

    shares_graph = False
    averaged = True

    def forward(self, step: Step) -> Tensor:
        return with_gradient(step.labeled_loss, step.labeled_gradient, step.params)


@register(SUPERVISED, "–", 0, values=True)
def supervised(problem: Problem) -> Objective:
    """The labeled loss alone."""
    return Supervised()
