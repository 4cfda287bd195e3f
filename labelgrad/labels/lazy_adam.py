"""Adam for rows that are seldom drawn: one step where there is a slope, many at once where not."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labelgrad.losses import Loss
from labelgrad.schedules import Schedule, check_rate, describe, value_at


class LazyAdam:
    """Adam's arithmetic on rows of (w, m, v), with the steps of zero slope summed in one go.

    After a row's last slope at step s, step s + i moves it by
    `rate·β₁ⁱ·m / (1 − β₁^(s+i)) / (√(β₂ⁱ·v / (1 − β₂^(s+i))) + ε)`. These moves shrink like
    (β₁/√β₂)ⁱ; past the horizon they are below the precision of the numbers and are left out.

    >>> from labelgrad import CrossEntropy
    >>> adam = LazyAdam(0.1)
    >>> row = torch.zeros(1, 3, 2)
    >>> adam.step(row, torch.tensor([[1.0, -2.0]]), step=1, loss=CrossEntropy())
    >>> adam.catch_up(row, last=torch.tensor([1]), now=1000)
    >>> row[:, 0]
    tensor([[-0.6006,  0.6006]])
    """

    metric_power = 0.5  # the paper's metric

    def __init__(
        self,
        rate: float | Schedule = 0.1,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ):
        check_rate("rate", rate)
        beta1, beta2 = betas
        if not (0 <= beta1 < 1 and 0 <= beta2 < 1 and beta1 < math.sqrt(beta2)):
            raise ValueError(
                f"`betas` must be in [0, 1) with β₁ < √β₂, so that rows come to rest, got {betas}."
            )
        if not epsilon > 0:
            raise ValueError(f"Adam's `epsilon` must be positive, got {epsilon}.")
        self.rate, self.epsilon = rate, epsilon
        self.beta1, self.beta2 = beta1, beta2
        self._sizes = torch.zeros(2, 0, dtype=torch.float64)

    def __repr__(self) -> str:
        betas = f"betas=({self.beta1}, {self.beta2})"
        return f"LazyAdam({describe(self.rate)}, {betas}, epsilon={self.epsilon})"

    def horizon(self, dtype: torch.dtype) -> int:
        """The steps after which what is left of a row's moves is lost in rounding."""
        ratio = self.beta1 / math.sqrt(self.beta2)
        if ratio == 0:
            return 1
        return math.ceil(math.log(torch.finfo(dtype).eps * 0.1 * (1 - ratio)) / math.log(ratio))

    def step(self, values: Tensor, slope: Tensor, step: int, loss: Loss) -> None:
        """One Adam step, in place, on rows that are worked out up to the step before."""
        w, m, v = values.unbind(1)
        m.lerp_(slope, 1 - self.beta1)
        v.mul_(self.beta2).addcmul_(slope, slope, value=1 - self.beta2)
        move, root = self._sizes_up_to(step)[:, step - 1].tolist()
        w.addcdiv_(m, v.sqrt().mul_(root).add_(self.epsilon), value=-move)

    def catch_up(self, values: Tensor, last: Tensor, now: int) -> None:
        """Work out, in place, the steps of zero slope from `last` (one for each row) to `now`."""
        pending = now - last
        longest = min(int(pending.max()), self.horizon(values.dtype)) if len(last) else 0
        if longest < 1 or not values[:, 1:].any():  # nothing is pending where nothing ever was
            return
        w, m, v = values.unbind(1)  # each (rows, width)
        move, root = self._coefficients(last, pending, longest).to(v)  # each (rows, longest)
        scale = (v.sqrt().unsqueeze(2) * root.unsqueeze(1)).add_(self.epsilon)
        w.addcmul_(m, torch.div(move.unsqueeze(1), scale, out=scale).sum(2), value=-1)
        m.mul_((self.beta1 ** pending.double()).to(m).unsqueeze(1))
        v.mul_((self.beta2 ** pending.double()).to(v).unsqueeze(1))

    def _coefficients(self, last: Tensor, pending: Tensor, longest: int) -> Tensor:
        """What multiplies m, and what multiplies √v, in each step after `last`."""
        ahead = torch.arange(1, longest + 1, device=last.device)
        sizes = self._sizes_up_to(int(last.max()) + longest).to(last.device)
        move, root = sizes.unfold(1, longest, 1)[:, last]  # each (rows, longest)
        move = move * self.beta1 ** ahead.double() * (ahead <= pending.unsqueeze(1))
        return torch.stack([move, root * self.beta2 ** (ahead.double() / 2)])

    def _sizes_up_to(self, step: int) -> Tensor:
        """For steps 1, 2 … at least to `step`: rate / (1 − β₁^step), and 1 / √(1 − β₂^step)."""
        if self._sizes.shape[1] < step:
            steps = torch.arange(1, 2 * step + 1, dtype=torch.float64)
            rates = [value_at(self.rate, index) for index in range(2 * step)]
            move = torch.tensor(rates, dtype=torch.float64) / (1 - self.beta1**steps)
            self._sizes = torch.stack([move, (1 - self.beta2**steps).rsqrt()])
        return self._sizes
