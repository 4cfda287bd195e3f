"""Distillation (Hinton, Vinyals & Dean, 2015): a network learns the soft labels of others.

The loss of the unlabeled batch under labels q that somebody else gave its examples, and that stay
as they are:

    L = (1/n) Σ_i ℓ(f(x_i), q_i)
"""

from __future__ import annotations

from torch import Tensor, nn

from labelgrad.losses import CrossEntropy, Loss
from labelgrad.objective import Objective
from labelgrad.step import Step


class Distillation(Objective):
    """The mean loss of the unlabeled batch under given labels (rows, width), one row each.

    >>> import torch
    >>> from labelgrad import Batch
    >>> x, rows = torch.ones(2, 3), torch.arange(2)
    >>> batch = Batch(x, torch.zeros(2, dtype=torch.long), rows)
    >>> step = Step(torch.nn.Linear(3, 2), batch, Batch(x, None, rows))
    >>> Distillation(torch.tensor([[0.9, 0.1], [0.5, 0.5]]))(step).ndim
    0
    """

    labels: Tensor

    def __init__(self, labels: Tensor, *, loss: Loss | None = None):
        super().__init__()
        if labels.ndim != 2:
            raise ValueError(f"Distillation needs labels (rows, width), got {tuple(labels.shape)}.")
        self.loss: Loss = CrossEntropy() if loss is None else loss
        self.register_buffer("labels", labels, persistent=False)

    def forward(self, step: Step) -> Tensor:
        outputs = step.unlabeled_outputs
        rows = step.unlabeled.rows.to(self.labels.device)
        return self.loss(outputs, self.labels[rows].to(outputs))

    def begin(self, model: nn.Module, loss: Loss, rows: int) -> None:
        if rows != (own := len(self.labels)):
            raise ValueError(f"Distillation needs a label for each of {rows} examples, got {own}.")
