"""The gap between the labeled and the unlabeled gradient, and the slope it gives the labels.

The gap v is measured in a metric D. For a loss that is linear in its labels, the imputed labels y
pull the model by g_u(y) = const(θ) − (1/n) Σ_i J_iᵀ y_i with J_i the Jacobian of the read-out of
example i. The slope of the squared gap in the labels is therefore one Jacobian–vector product,
(2/n)·J_i (D∘v), how the read-out answers to a move of the model, and needs no second derivative.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from labelgrad.functional import flatten, process_wide, unflatten
from labelgrad.reasons import reason_of
from labelgrad.step import Batch, Step

SlopeMethod = Callable[[Step, Tensor], Tensor]


class NoForwardModeError(ValueError):
    """An operation of the model has no forward-mode derivative."""


class MovingAverage(nn.Module):
    """An exponential moving average, bias-corrected: the weighted mean of the values seen so far.

    After t values it is Σ decay^(t−i)·x_i / Σ decay^(t−i), the current value included. The paper
    does not say how its averages start; from zero they would be too small for 1/(1 − decay) steps.

    >>> average = MovingAverage(0.5)
    >>> average(torch.tensor([4.0])), average(torch.tensor([1.0]))
    (tensor([4.]), tensor([2.]))
    """

    total: Tensor
    weight: Tensor

    def __init__(self, decay: float):
        super().__init__()
        if not 0 <= decay < 1:
            raise ValueError(f"a moving average needs a decay from 0 to below 1, got {decay}.")
        self.decay = decay
        self.register_buffer("total", torch.zeros(0))
        self.register_buffer("weight", torch.zeros((), dtype=torch.float64))

    def forward(self, value: Tensor) -> Tensor:
        """Take one more value in, and give the average of all so far."""
        if not self.total.numel():
            self.total = torch.zeros_like(value)
        self.total.lerp_(value, 1 - self.decay)
        self.weight.lerp_(torch.ones_like(self.weight), 1 - self.decay)
        return self.value

    def start(self, value: Tensor) -> None:
        """Begin at a value that counts as if it had been seen forever: nothing is corrected."""
        self.total = value.clone()
        self.weight.fill_(1)

    @property
    def value(self) -> Tensor:
        """The average of all values so far; an empty tensor before the first."""
        return self.total / self.weight.to(self.total.dtype)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        # The size is that of the first value seen, so a fresh average takes it from the checkpoint.
        saved = state.get(prefix + "total")
        if isinstance(saved, Tensor):
            self.total = torch.zeros_like(saved)
        super()._load_from_state_dict(state, prefix, *others)


class Gap(nn.Module):
    """v = EMA(g_ℓ) − g_u, and v in the metric: v / (ε_norm + √EMA(v⁴)).

    That is the paper's metric. With `power=0.25` in place of ½ it is v / (ε_norm + ∜EMA(v⁴)),
    halfway to the Euclidean one, `power=0`: coordinates in which the gap is small are magnified
    less.

    Both averages are bias-corrected and include the current g_ℓ and v⁴ (`MovingAverage`), and are
    constants to whoever differentiates, as in the paper. With both decays 0 the averages are the
    values themselves, the simplified algorithm of the paper's Section 3.

    >>> gap = Gap(gradient_decay=0, moment_decay=0, epsilon=1.0)
    >>> gap(torch.tensor([3.0]), torch.tensor([1.0]))
    (tensor([2.]), tensor([0.4000]))
    """

    def __init__(
        self,
        *,
        gradient_decay: float = 0.9,
        moment_decay: float = 0.99,
        epsilon: float = 1e-9,
        power: float = 0.5,
    ):
        super().__init__()
        if not epsilon > 0:
            raise ValueError(f"`epsilon` of the metric must be positive, got {epsilon}.")
        if not 0 <= power <= 0.5:
            raise ValueError(f"the metric's `power` must be from 0 to 0.5, got {power}.")
        self.epsilon, self.power = epsilon, power
        self.labeled_gradient = MovingAverage(gradient_decay)
        self.fourth_moment = MovingAverage(moment_decay)

    def forward(self, labeled: Tensor, unlabeled: Tensor) -> tuple[Tensor, Tensor]:
        """The gap, and the gap divided by its scale in each coordinate."""
        gap = self.labeled_gradient(labeled) - unlabeled
        scale = to_power_(self.fourth_moment(gap.square().square()), self.power)
        return gap, gap / (self.epsilon + scale)


def to_power_(moment: Tensor, power: float) -> Tensor:
    """`moment ** power` in place, by roots where it can be: they take a tenth of the time.

    >>> to_power_(torch.tensor([16.0]), 0.25), to_power_(torch.tensor([16.0]), 0)
    (tensor([2.]), tensor([1.]))
    """
    if power == 0:
        return moment.fill_(1)
    if power == 0.25:
        return moment.sqrt_().sqrt_()
    return moment.sqrt_() if power == 0.5 else moment.pow_(power)


def forward_mode(step: Step, direction: Tensor) -> Tensor:
    """J_i·direction for every unlabeled example, exactly, in one forward-mode pass."""
    tangents = unflatten(direction, step.params)
    with process_wide, torch.no_grad(), forward_ad.dual_level():
        duals = {
            name: forward_ad.make_dual(param.detach(), tangents[name])
            for name, param in step.params.items()
        }
        readout = step.loss.readout(_replay(step, duals))
        tangent = forward_ad.unpack_dual(readout).tangent
        return torch.zeros_like(readout) if tangent is None else tangent


def finite_difference(step: Step, direction: Tensor) -> Tensor:
    """J_i·direction approximately, from one plain forward pass at θ + h·direction.

    The step h balances the curvature of the network against rounding: it moves θ by the square
    root of the precision that passes are computed in, relative to the length of θ.
    """
    params = flatten(step.params.values()).detach()
    sizes = torch.stack([params.norm(), direction.norm()])
    ours, wanted = torch.where(sizes > 0, sizes, torch.ones_like(sizes))
    h = step.precision**0.5 * ours / wanted
    with torch.no_grad():
        moved = unflatten(params + h * direction, step.params)
        there = step.loss.readout(step.replay_unlabeled(moved))
        difference: Tensor = (there - step.loss.readout(step.unlabeled_outputs)) / h
        return difference


def _replay(step: Step, duals: dict[str, Tensor]) -> Tensor:
    try:
        with step.remembered():
            return step.replay_unlabeled(duals)
    except (NotImplementedError, RuntimeError) as error:
        if not re.search(r"forward (mode )?AD", str(error)):
            raise
        # Attention that is written out in plain operations has a derivative.
        eager = "load the model with attn_implementation='eager' (transformers), or "
        raise NoForwardModeError(
            "the model must support forward-mode differentiation for slope='forward-mode', but "
            f"an operation in it does not ({reason_of(error)}); "
            f"{eager if 'scaled_dot_product' in str(error) else ''}use slope='finite-difference'."
        ) from error


def usable_slope(model: nn.Module, x: Tensor) -> str:
    """The slope that a model allows: "forward-mode", or else "finite-difference".

    One pass of the examples `x`, as the model sees them, tells.

    >>> usable_slope(nn.Linear(3, 2), torch.ones(2, 3))
    'forward-mode'
    """
    batch = Batch(x, None, torch.arange(len(x)))
    step = Step(model, batch, batch)
    try:
        forward_mode(step, flatten(torch.zeros_like(p) for p in step.params.values()))
    except NoForwardModeError:
        return "finite-difference"
    return "forward-mode"


SLOPES: dict[str, SlopeMethod] = {
    "forward-mode": forward_mode,
    "finite-difference": finite_difference,
}
