"""Π-Model (Laine & Aila, 2017): two random views of an example, one prediction."""

from __future__ import annotations

from torch import Tensor

from labelgrad.methods import Problem, SearchRange, register
from labelgrad.objective import Objective
from labelgrad.step import Step


class PiModel(Objective):
    """The mean squared difference of the predictions for two views of each unlabeled example.

    The views differ by augmentation (`views` of the trainer) and by the model's own dropout.

    >>> PiModel()
    PiModel()
    """

    shares_graph = False

    def forward(self, step: Step) -> Tensor:
        other = step.extra_forward(step.weak_view()).softmax(-1)
        target = step.unlabeled_outputs.softmax(-1).detach()
        return (other - target).square().mean()


SEARCH = {"weight": SearchRange(20.0, 1.0, 50.0)}


@register("pi-model", "Laine & Aila, 2017", 4, views=True, search=SEARCH)
def pi_model(problem: Problem, weight: float = 20.0) -> Objective:
    """The Π-Model with the protocol's weight, which rises."""
    return problem.rise(weight) * PiModel()
