"""Plain gradient descent on labels, the simplified algorithm of the paper's Section 3."""

from __future__ import annotations

from torch import Tensor

from labelgrad.schedules import Schedule, value_at


class SGD:
    """What `LazyAdam` is for Adam, without moments: a row that is not drawn stays where it is.

    >>> import torch
    >>> row = torch.zeros(1, 3, 2)
    >>> SGD(0.1).step(row, torch.tensor([[1.0, -2.0]]), step=1)
    >>> row[:, 0]
    tensor([[-0.1000,  0.2000]])
    """

    horizon = 1

    def __init__(self, rate: float | Schedule):
        self.rate = rate

    def step(self, values: Tensor, slope: Tensor, step: int) -> None:
        """One step down the slope, in place."""
        values[:, 0].sub_(slope, alpha=value_at(self.rate, step - 1))

    def catch_up(self, values: Tensor, last: Tensor, now: int) -> None:
        """Without a slope nothing moves."""
