"""Entropy minimization (Grandvalet & Bengio, 2005): predictions should be decided."""

from __future__ import annotations

import torch
from torch import Tensor

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
