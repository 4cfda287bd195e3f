"""Π-Model (Laine & Aila, 2017): two random views of an example, one prediction."""

from __future__ import annotations

from torch import Tensor

from labelgrad.objective import Objective
from labelgrad.step import Step


class PiModel(Objective):
    """The mean squared difference of the predictions for two views of each unlabeled example.

    The views differ by augmentation (`views` of the trainer) and by the model's own dropout.

    >>> PiModel()
    PiModel()
    """

    def forward(self, step: Step) -> Tensor:
        other = step.extra_forward(step.weak_view()).softmax(-1)
        target = step.unlabeled_outputs.softmax(-1).detach()
        return (other - target).square().mean()
