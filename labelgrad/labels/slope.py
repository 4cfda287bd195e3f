"""How the read-out of every unlabeled example answers to a move of the model: J_i·u.

For a loss that is linear in its labels, g_u(y) = const(θ) − (1/n) Σ_i J_iᵀ y_i with J_i the
Jacobian of the read-out. The slope of the squared gap in the labels is therefore one
Jacobian–vector product, (2/n)·J_i (D∘v), and needs no second derivative.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Lock

import torch
from torch import Tensor
from torch.autograd import forward_ad

from labelgrad.functional import flatten, unflatten
from labelgrad.step import Step

SlopeMethod = Callable[[Step, Tensor], Tensor]
_forward_mode = Lock()  # PyTorch has one level of it for all threads


def forward_mode(step: Step, direction: Tensor) -> Tensor:
    """J_i·direction for every unlabeled example, exactly, in one forward-mode pass."""
    tangents = unflatten(direction, step.params)
    with _forward_mode, torch.no_grad(), forward_ad.dual_level():
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
    length = direction.norm()
    h = step.precision**0.5 * _or_one(params.norm()) / _or_one(length)
    with torch.no_grad():
        moved = unflatten(params + h * direction, step.params)
        there = step.loss.readout(step.replay_unlabeled(moved))
        difference: Tensor = (there - step.loss.readout(step.unlabeled_outputs)) / h
        return difference


def _or_one(length: Tensor) -> Tensor:
    return torch.where(length > 0, length, torch.ones_like(length))


def _replay(step: Step, duals: dict[str, Tensor]) -> Tensor:
    try:
        with step.remembered():
            return step.replay_unlabeled(duals)
    except (NotImplementedError, RuntimeError) as error:
        if not re.search(r"forward (mode )?AD", str(error)):
            raise
        raise ValueError(
            "the model must support forward-mode differentiation for slope='forward-mode', but "
            f"an operation in it does not ({str(error).splitlines()[0]}); use "
            "slope='finite-difference'."
        ) from error


SLOPES: dict[str, SlopeMethod] = {
    "forward-mode": forward_mode,
    "finite-difference": finite_difference,
}
