"""Plain gradient descent on labels, the simplified algorithm of the paper's Section 3."""

from __future__ import annotations

import torch
from torch import Tensor

from labelgrad.losses import Loss
from labelgrad.schedules import Schedule, check_rate, describe, value_at


class SGD:
    """Labels that go down the slope: a row that is not drawn stays where it is.

    >>> from labelgrad import CrossEntropy
    >>> row = torch.zeros(1, 3, 2)
    >>> SGD(0.1).step(row, torch.tensor([[1.0, -2.0]]), step=1, loss=CrossEntropy())
    >>> row[:, 0]
    tensor([[-0.1000,  0.2000]])
    """

    metric_power = 0.5  # the paper's metric

    def __init__(self, rate: float | Schedule):
        check_rate("rate", rate)
        self.rate = rate

    def __repr__(self) -> str:
        return f"SGD({describe(self.rate)})"

    def horizon(self, dtype: torch.dtype) -> int:
        """A row is at rest at once."""
        return 1

    def step(self, values: Tensor, slope: Tensor, step: int, loss: Loss) -> None:
        """One step down the slope, in place."""
        values[:, 0].sub_(slope, alpha=value_at(self.rate, step - 1))

    def catch_up(self, values: Tensor, last: Tensor, now: int) -> None:
        """Without a slope nothing moves."""
