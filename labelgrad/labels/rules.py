"""How labels move: the paper's two rules, by Adam and by plain descent, and one without a rate.

The third is evidence: a label is the evidence that its slopes are. Adam adds up moves. How far a
label gets then hangs on the rate, the visits and the steps, and one that was decided in the first
steps, when the network knew nothing, does not come back. Here nothing is added up but the slopes g
of a row, one at each of its visits:

    t = −Σ g / √(Σ ‖g‖²)             the sum, in units of how long it would be if slopes were chance
    w = scale · t·|t|                for classes, where w are log-odds
    w = scale · t                    for values, each target by itself

t is about 1 or less while the slopes contradict each other and about √visits when they all agree.
It has no unit, so it asks for nothing that depends on the data, the batch, the number of steps or
of classes. The odds that a mean which lies t standard errors from zero is not zero grow like
exp(t²/2), hence the square. The scale is larger than that ½, so that few visits are enough. Were it
much larger, the first slopes would decide, and they come from a network that knows nothing.

Of classes none may lead another by more than `lead`: a label that is all but sure has no slope left
to be corrected by, softmax being flat there, and a network trained on it is too sure itself.

The slopes are taken in a metric halfway between the paper's and the Euclidean one: the first is the
better one on tables, the second on the paper's shells, and this one serves both.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labelgrad.losses import CrossEntropy, Loss
from labelgrad.schedules import Ramp, Schedule, check_rate, describe, value_at

SCALE = {"classes": 5.0, "values": 0.5}  # in log-odds, and in standard deviations
LEAD, SUREST = 5.0, 0.97  # a label of two classes can be 0.993, of many classes this sure
_LEAST = 1e-30  # of a row whose slopes were all zero

SPEED = 0.0043  # the part of its way that a label can go in one step
LEAST_WAYS = 4.0  # how many times its way it can go in all, however few the steps
WARM_UP = 0.1  # the part of all steps over which the rate rises


class Rule:
    """How the labels of a table move; a row is three numbers for each column, the first is w.

    Without a slope a row stays where it is, unless a rule says otherwise.
    """

    metric_power = 0.5  # of the gap's fourth moment, for its slopes: the paper's metric

    def horizon(self, dtype: torch.dtype) -> int:
        """The most steps that a row can have to catch up with."""
        return 1

    def step(self, values: Tensor, slope: Tensor, step: int, loss: Loss) -> None:
        """Move rows (n, 3, width) by their slopes (n, width), in place; steps count from 1."""
        raise NotImplementedError

    def catch_up(self, values: Tensor, last: Tensor, now: int) -> None:
        """Work out, in place, the steps of zero slope from `last` (one for each row) to `now`."""


class LazyAdam(Rule):
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

    def __init__(
        self,
        rate: float | Schedule = 0.1,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ):
        check_rate("rate", rate)
        beta1, beta2 = betas
        if not (0 <= beta1 < 1 and 0 <= beta2 < 1 and beta1 < math.sqrt(beta2)):
            raise ValueError(f"`betas` must be in [0, 1) with β₁ < √β₂, got {betas}.")
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


class SGD(Rule):
    """Labels that go down the slope: a row that is not drawn stays where it is.

    >>> from labelgrad import CrossEntropy
    >>> row = torch.zeros(1, 3, 2)
    >>> SGD(0.1).step(row, torch.tensor([[1.0, -2.0]]), step=1, loss=CrossEntropy())
    >>> row[:, 0]
    tensor([[-0.1000,  0.2000]])
    """

    def __init__(self, rate: float | Schedule):
        check_rate("rate", rate)
        self.rate = rate

    def __repr__(self) -> str:
        return f"SGD({describe(self.rate)})"

    def step(self, values: Tensor, slope: Tensor, step: int, loss: Loss) -> None:
        """One step down the slope, in place."""
        values[:, 0].sub_(slope, alpha=value_at(self.rate, step - 1))


class Evidence(Rule):
    """Labels that are the evidence of their slopes: a row is (w, Σ g, Σ ‖g‖²).

    Without a `scale` it is the usual one: 5 for classes, ½ for values.

    >>> rule, row = Evidence(1.0), torch.zeros(1, 3, 2)
    >>> for visit in (1, 2, 3, 4):
    ...     rule.step(row, torch.tensor([[-1.0, 1.0]]), visit, CrossEntropy())
    ...     print([round(w, 2) for w in row[0, 0].tolist()])
    [0.0, -1.0]
    [0.0, -2.0]
    [0.0, -3.0]
    [0.0, -4.0]
    """

    metric_power = 0.25  # of the gap's fourth moment, where the paper's metric has ½

    def __init__(self, scale: float | None = None):
        if scale is not None:
            check_rate("scale", scale)
        self.scale = scale

    def __repr__(self) -> str:
        return "Evidence()" if self.scale is None else f"Evidence({self.scale})"

    def step(self, values: Tensor, slope: Tensor, step: int, loss: Loss) -> None:
        """Weigh one slope more, in place."""
        w, total, squares = values.unbind(1)  # each (rows, width)
        classes = isinstance(loss, CrossEntropy)
        usual = SCALE["classes" if classes else "values"]
        scale = usual if self.scale is None else self.scale
        total.add_(slope)
        squares.add_(slope.square().sum(1, keepdim=True) if classes else slope.square())
        statistic = -total / squares.sqrt().clamp_min(_LEAST)
        if classes:
            odds = scale * statistic * statistic.abs()
            w.copy_((odds - odds.amax(1, keepdim=True)).clamp_min(-lead(w.shape[1])))
        else:
            w.copy_(scale * statistic)


def lead(classes: int) -> float:
    """How far one class may be ahead of another, in log-odds.

    With many classes a lead of 5 would leave most of a label to the others together.

    >>> [round(lead(classes), 2) for classes in (2, 5, 10, 100)]
    [5.0, 5.0, 5.67, 8.07]
    """
    return max(LEAD, math.log(SUREST / (1 - SUREST) * max(1, classes - 1)))


def label_schedule(rows: int, width: int, batch_size: int, steps: int) -> Ramp:
    """A rate at which labels keep pace with the model, whatever the size of the data.

    A label's way is from undecided to nine tenths for one class, a lead of log(9·(classes − 1)) in
    w; for values (width 1, in standard deviations) it is 1. A row is drawn once in P = rows /
    batch_size steps. Adam's average of squared slopes then holds 1/P of a slope's square, so one
    visit, with the steps it catches up with, moves the row by about rate·√P: rate/√P for each step.
    That shall be `SPEED` times its way, more where the steps are so few that it could not arrive.
    (Most of what a label could go it does not: slopes change their sign.)

    The rate rises from zero over the first tenth: the gradients of a network that has learned
    nothing yet say little about which label is right, and a label once decided is slow to turn.

    >>> rate = label_schedule(rows=1400, width=10, batch_size=50, steps=5000)
    >>> [round(rate(step), 3) for step in (0, 250, 500, 5000)]
    [0.0, 0.05, 0.1, 0.1]
    """
    way = math.log(9 * (width - 1)) if width > 1 else 1.0
    visits_apart = max(1.0, rows / batch_size)
    speed = max(SPEED, LEAST_WAYS / steps)
    return Ramp(WARM_UP * steps, top=speed * way * math.sqrt(visits_apart))
