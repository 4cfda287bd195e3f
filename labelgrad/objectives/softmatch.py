"""SoftMatch (Chen et al., 2023): no threshold, but a weight that falls off like a Gaussian.

p̃ = moving mean of the probabilities;  q = p / p̃, normalized       (uniform alignment)
μ, σ² = moving mean and variance of max q
weight = exp(−(max q − μ)² / (2·(σ/2)²))  where max q < μ,  else 1
"""

from __future__ import annotations

import torch
from torch import Tensor

from labelgrad.objective import Objective
from labelgrad.objectives.fixmatch import agreement
from labelgrad.step import Step


class SoftMatch(Objective):
    """FixMatch where less sure examples count less, by how unusual their confidence is.

    >>> SoftMatch(classes=10)
    SoftMatch(classes=10, decay=0.999)
    """

    share: Tensor  # (classes,): p̃
    mean: Tensor  # (): μ
    variance: Tensor  # (): σ²

    def __init__(self, classes: int, decay: float = 0.999):
        super().__init__()
        self.classes, self.decay = classes, decay
        self.register_buffer("share", torch.full((classes,), 1 / classes))
        self.register_buffer("mean", torch.tensor(1 / classes))
        self.register_buffer("variance", torch.tensor(1.0))

    def forward(self, step: Step) -> Tensor:
        probabilities = step.unlabeled_outputs.detach().softmax(-1)
        return agreement(step, probabilities, self.weigh(probabilities))[0]

    def weigh(self, probabilities: Tensor) -> Tensor:
        """How much each example counts, from 0 to 1."""
        self.share.lerp_(probabilities.mean(0).to(self.share), 1 - self.decay)
        aligned = probabilities / self.share.to(probabilities)
        confidence = (aligned / aligned.sum(-1, keepdim=True)).amax(-1)
        self.mean.lerp_(confidence.mean().to(self.mean), 1 - self.decay)
        self.variance.lerp_(confidence.var().to(self.variance), 1 - self.decay)
        below = (confidence - self.mean.to(confidence)).clamp(max=0)
        return torch.exp(-below.square() / (self.variance.to(confidence) / 2))

    def extra_repr(self) -> str:
        return f"classes={self.classes}, decay={self.decay}"
