"""Entropy minimization (Grandvalet & Bengio, 2005): predictions should be decided."""

from __future__ import annotations

import torch
from torch import Tensor

from labelgrad.methods import Problem, SearchRange, register
from labelgrad.objective import Objective
from labelgrad.step import Step


class EntMin(Objective):
    """The mean entropy of the predictions for unlabeled examples.

    >>> from labelgrad import Supervised
    >>> Supervised() + 0.1 * EntMin()
    Supervised() + 0.1 * EntMin()
    """

    def forward(self, step: Step) -> Tensor:
        entropy: Tensor = torch.special.entr(step.unlabeled_outputs.softmax(-1)).sum(-1).mean()
        return entropy


@register("entmin", "Grandvalet & Bengio, 2005", 3, search={"weight": SearchRange(0.1, 0.03, 1.0)})
def entmin(problem: Problem, weight: float = 0.1) -> Objective:
    """Entropy minimization with a weight that stays."""
    return weight * EntMin()
