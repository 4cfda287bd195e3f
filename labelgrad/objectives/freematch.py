"""FreeMatch (Wang et al., 2023): thresholds that set themselves, and fairness between classes.

    τ = moving mean of the confidence          p̃ = moving mean of the probabilities
    T(c) = τ · p̃(c) / max p̃
    fairness loss = Σ norm(p̃ / h̃) · log norm(p̄ / h̄)

with p̄ the mean over the strong views that count, h̃ and h̄ the histograms of the classes chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from labelgrad.methods import Problem, register
from labelgrad.objective import Objective
from labelgrad.objectives.fixmatch import SEARCH, agreement, decay_for
from labelgrad.step import Step

TINY = 1e-12


class Averages(NamedTuple):
    """τ, p̃ and h̃."""

    confidence: Tensor
    share: Tensor
    histogram: Tensor

    @property
    def thresholds(self) -> Tensor:
        """T(c), one for each class."""
        return self.confidence * self.share / self.share.max()


class FreeMatch(Objective):
    """FixMatch with thresholds from the model's own confidence, and a pull towards even classes.

    >>> FreeMatch(classes=10)
    FreeMatch(classes=10, fairness=0.01, decay=0.999)
    """

    shares_graph = False

    confidence: Tensor  # (): τ
    share: Tensor  # (classes,): p̃
    histogram: Tensor  # (classes,): h̃

    def __init__(self, classes: int, fairness: float = 0.01, decay: float = 0.999):
        super().__init__()
        self.classes, self.fairness, self.decay = classes, fairness, decay
        self.register_buffer("confidence", torch.tensor(1 / classes))
        self.register_buffer("share", torch.full((classes,), 1 / classes))
        self.register_buffer("histogram", torch.full((classes,), 1 / classes))

    def forward(self, step: Step) -> Tensor:
        probabilities = step.unlabeled_outputs.detach().softmax(-1)
        now = self.with_batch(step.all_unlabeled_outputs.softmax(-1))
        weight = self.weigh(probabilities, now)
        loss, strong = agreement(step, probabilities, weight)
        strong, weight = step.gathered(strong), step.gathered(weight)
        return loss + self.fairness * self.unfairness(strong, weight, now)

    def update(self, step: Step) -> None:
        now = self.with_batch(step.all_unlabeled_outputs.softmax(-1))
        self.confidence, self.share, self.histogram = now

    def with_batch(self, probabilities: Tensor) -> Averages:
        """The moving averages with one batch more in them."""
        confidence, label = probabilities.max(-1)
        news = confidence.mean(), probabilities.mean(0), self._histogram(label)
        averages = self.confidence, self.share, self.histogram
        moved = (a.lerp(b.to(a), 1 - self.decay) for a, b in zip(averages, news, strict=True))
        return Averages(*moved)

    def weigh(self, probabilities: Tensor, now: Averages) -> Tensor:
        """Which examples are above the threshold of their class, 1 or 0."""
        confidence, label = probabilities.max(-1)
        return (confidence >= now.thresholds.to(confidence)[label]).to(confidence)

    def unfairness(self, strong: Tensor, weight: Tensor, now: Averages) -> Tensor:
        """Least when the strong views that count favour no class beyond what p̃ and h̃ say."""
        if not weight.any():
            return strong.sum() * 0
        chosen = strong[weight > 0].softmax(-1)
        wanted = _normalized_ratio(now.share, now.histogram).to(chosen)
        found = _normalized_ratio(chosen.mean(0), self._histogram(chosen.argmax(-1)).to(chosen))
        return (wanted * (found + TINY).log()).sum()

    def _histogram(self, label: Tensor) -> Tensor:
        return torch.bincount(label, minlength=self.classes) / len(label)

    def extra_repr(self) -> str:
        return f"classes={self.classes}, fairness={self.fairness}, decay={self.decay}"


def _normalized_ratio(mean: Tensor, histogram: Tensor) -> Tensor:
    """Mean over histogram, 0 where nothing was chosen, scaled to sum to one."""
    ratio = torch.where(histogram > 0, mean / histogram.clamp_min(TINY), 0)
    return ratio / ratio.sum()


@register("freematch", "Wang et al., 2023", 4, strong_views=True, search=SEARCH)
def freematch(problem: Problem, weight: float = 1.0) -> Objective:
    """FreeMatch with a weight that stays."""
    return weight * FreeMatch(problem.width, decay=decay_for(problem.steps))
