"""SoftMatch (Chen et al., 2023): no threshold, but a weight that falls off like a Gaussian.

p̃ = moving mean of the probabilities;  q = p / p̃, normalized       (uniform alignment)
μ, σ² = moving mean and variance of max q
weight = exp(−(max q − μ)² / (2·(σ/2)²))  where max q < μ,  else 1
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from labelgrad.methods import Problem, register
from labelgrad.objective import Objective
from labelgrad.objectives.fixmatch import SEARCH, agreement, decay_for
from labelgrad.step import Step


class Averages(NamedTuple):
    """p̃, μ and σ²."""

    share: Tensor
    mean: Tensor
    variance: Tensor


class SoftMatch(Objective):
    """FixMatch where less sure examples count less, by how unusual their confidence is.

    >>> SoftMatch(classes=10)
    SoftMatch(classes=10, decay=0.999)
    """

    shares_graph = False

    share: Tensor  # (classes,): p̃, zeros before the first batch
    mean: Tensor  # (): μ
    variance: Tensor  # (): σ²

    def __init__(self, classes: int, decay: float = 0.999):
        super().__init__()
        self.classes, self.decay = classes, decay
        self.register_buffer("share", torch.zeros(classes))
        self.register_buffer("mean", torch.tensor(1 / classes))
        self.register_buffer("variance", torch.tensor(1.0))

    def forward(self, step: Step) -> Tensor:
        probabilities = step.unlabeled_outputs.detach().softmax(-1)
        now = self.with_batch(step.all_unlabeled_outputs.softmax(-1))
        return agreement(step, probabilities, self.weigh(probabilities, now))[0]

    def update(self, step: Step) -> None:
        now = self.with_batch(step.all_unlabeled_outputs.softmax(-1))
        self.share, self.mean, self.variance = now

    def with_batch(self, probabilities: Tensor) -> Averages:
        """The moving averages with one batch more in them."""
        news = probabilities.mean(0).to(self.share)
        share = torch.where(self.share.any(), self.share.lerp(news, 1 - self.decay), news)
        confidence = _aligned_confidence(probabilities, share)
        mean = self.mean.lerp(confidence.mean().to(self.mean), 1 - self.decay)
        variance = self.variance.lerp(confidence.var().to(self.variance), 1 - self.decay)
        return Averages(share, mean, variance)

    def weigh(self, probabilities: Tensor, now: Averages) -> Tensor:
        """How much each example counts, from 0 to 1."""
        confidence = _aligned_confidence(probabilities, now.share)
        below = (confidence - now.mean.to(confidence)).clamp(max=0)
        return torch.exp(-below.square() / (now.variance.to(confidence) / 2))

    def extra_repr(self) -> str:
        return f"classes={self.classes}, decay={self.decay}"


def _aligned_confidence(probabilities: Tensor, share: Tensor) -> Tensor:
    """Max q, of probabilities with every class as frequent as any other."""
    aligned = probabilities / share.to(probabilities)
    confidence: Tensor = (aligned / aligned.sum(-1, keepdim=True)).amax(-1)
    return confidence


@register("softmatch", "Chen et al., 2023", 4, strong_views=True, search=SEARCH)
def softmatch(problem: Problem, weight: float = 1.0) -> Objective:
    """SoftMatch with a weight that stays."""
    return weight * SoftMatch(problem.width, decay_for(problem.steps))
