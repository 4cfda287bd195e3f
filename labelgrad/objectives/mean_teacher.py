"""Mean Teacher (Tarvainen & Valpola, 2017): learn from the average of one's own past weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labelgrad.functional import flatten, unflatten
from labelgrad.labels.alignment import MovingAverage
from labelgrad.methods import Problem, SearchRange, register
from labelgrad.objective import Objective
from labelgrad.step import Step


class MeanTeacher(Objective):
    """The mean squared difference from a teacher whose weights are a moving average of the model's.

    The average begins at the model's first weights and takes them in after each update, with
    `decay`; it is in the checkpoint.

    >>> MeanTeacher(decay=0.99)
    MeanTeacher(decay=0.99)
    """

    def __init__(self, decay: float = 0.95):
        super().__init__()
        self.weights = MovingAverage(decay)

    def forward(self, step: Step) -> Tensor:
        teacher = self.weights.value  # none yet in the first step: there the model is its own
        params = unflatten(teacher, step.params) if teacher.numel() else None
        with torch.no_grad():
            target = step.extra_forward(step.weak_view(), params).softmax(-1)
        difference: Tensor = step.unlabeled_outputs.softmax(-1) - target
        return difference.square().mean()

    def update(self, step: Step) -> None:
        if not self.weights.value.numel():
            self.weights.start(flatten(p.detach() for p in step.params.values()))

    def follow(self, model: nn.Module) -> None:
        self.weights(flatten(p.detach() for p in model.parameters() if p.requires_grad))

    def extra_repr(self) -> str:
        return f"decay={self.weights.decay}"


SEARCH = {"weight": SearchRange(8.0, 1.0, 50.0)}


@register("mean-teacher", "Tarvainen & Valpola, 2017", 4, views=True, search=SEARCH)
def mean_teacher(problem: Problem, weight: float = 8.0, decay: float = 0.95) -> Objective:
    """Mean Teacher with the protocol's weight, which rises."""
    return problem.rise(weight) * MeanTeacher(decay=decay)
