"""FlexMatch (Zhang et al., 2021): a class that is learned slowly gets a lower threshold.

σ(c) = how many rows were last seen as class c with confidence above τ
β(c) = σ(c) / max(max σ, rows not yet seen so)
T(c) = τ · β(c) / (2 − β(c))
"""

from __future__ import annotations

import torch
from torch import Tensor

from labelgrad.methods import Problem, register
from labelgrad.objective import Objective
from labelgrad.objectives.fixmatch import SEARCH, FixMatch
from labelgrad.step import Step

NOT_SURE = -1


class FlexMatch(FixMatch):
    """FixMatch with a threshold for each class, which follows how well the class is learned.

    >>> FlexMatch(rows=1000, classes=10).thresholds()[:2]
    tensor([0., 0.])
    """

    seen_as: Tensor  # (rows,): the class each row was last sure of, or NOT_SURE

    def __init__(self, rows: int, classes: int, threshold: float = 0.95):
        super().__init__(threshold)
        if rows < 1 or classes < 2:
            raise ValueError(f"FlexMatch needs a row and two classes, got {rows} and {classes}.")
        self.classes = classes
        self.register_buffer("seen_as", torch.full((rows,), NOT_SURE))

    def weigh(self, probabilities: Tensor) -> Tensor:
        """Which examples are above the threshold of their class, 1 or 0."""
        confidence, label = probabilities.max(-1)
        return (confidence >= self.thresholds().to(confidence)[label]).to(confidence)

    def update(self, step: Step) -> None:
        for part in step.parts:
            outputs = part.gathered(part.unlabeled_outputs.detach())
            confidence, label = outputs.softmax(-1).max(-1)
            sure = confidence >= self.threshold
            rows = part.whole_unlabeled.rows.to(sure.device)[sure]
            self.seen_as[rows] = label[sure].to(self.seen_as.device)

    def thresholds(self) -> Tensor:
        """T(c), one for each class."""
        counts = torch.bincount(self.seen_as + 1, minlength=self.classes + 1)  # first: not sure
        progress = counts[1:] / counts.max()
        return self.threshold * progress / (2 - progress)

    def extra_repr(self) -> str:
        return f"rows={len(self.seen_as)}, classes={self.classes}, threshold={self.threshold}"


@register("flexmatch", "Zhang et al., 2021", 4, strong_views=True, search=SEARCH)
def flexmatch(problem: Problem, weight: float = 1.0) -> Objective:
    """FlexMatch with a weight that stays."""
    return weight * FlexMatch(problem.rows, problem.width)
