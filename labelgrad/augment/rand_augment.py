"""RandAugment (Cubuk et al., 2020) for a whole batch at once: every image has its own draw.

Images are (count, channels, height, width) with values from 0 to 1. Operations that change
colours are applied to those images that drew them. Those that move pixels are matrices: all that
a image drew are multiplied, and its pixels are read once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Change = Callable[[Tensor, Tensor], Tensor]  # images, and how strongly: (count, 1, 1, 1) in 0…1


def rand_augment(
    x: Tensor, operations: int = 2, generator: torch.Generator | None = None
) -> Tensor:
    """Each image after `operations` random changes of random strength.

    >>> torch.manual_seed(0) and None
    >>> images = torch.rand(8, 3, 32, 32)
    >>> changed = rand_augment(images)
    >>> changed.shape, bool((changed >= 0).all() and (changed <= 1).all())
    (torch.Size([8, 3, 32, 32]), True)
    """
    move = torch.eye(3, device=x.device, dtype=x.dtype).expand(len(x), 3, 3)
    for _ in range(operations):
        kinds = len(COLOURS) + len(MOVES) + 1
        drawn = torch.randint(kinds, (len(x),), device=x.device, generator=generator)
        strength, amount = (
            torch.rand(len(x), device=x.device, dtype=x.dtype, generator=generator)
            for _ in range(2)
        )
        x = _recolour(x, drawn, strength.view(-1, 1, 1, 1))
        move = move @ _moves(x, drawn - len(COLOURS), 2 * amount - 1)
    return _read(x, move).clamp(0, 1)


def _recolour(x: Tensor, drawn: Tensor, strength: Tensor) -> Tensor:
    x = x.clone()
    for index, change in enumerate(COLOURS.values()):
        chosen = (drawn == index).nonzero()[:, 0]
        if len(chosen):
            x[chosen] = change(x[chosen], strength[chosen]).clamp(0, 1)
    return x


def _moves(x: Tensor, drawn: Tensor, amount: Tensor) -> Tensor:
    """For each image the matrix it drew; the unit matrix where it drew none."""
    matrices = torch.eye(3, device=x.device, dtype=x.dtype).repeat(len(x), 1, 1)
    for index, build in enumerate(MOVES.values()):
        chosen = drawn == index
        matrices[chosen] = build(amount[chosen])
    return matrices


def _read(x: Tensor, move: Tensor) -> Tensor:
    grid = F.affine_grid(move[:, :2], list(x.shape), align_corners=False)
    return F.grid_sample(x - 0.5, grid, align_corners=False) + 0.5  # grey comes in from outside


def _blend(other: Tensor, x: Tensor, strength: Tensor) -> Tensor:
    """From nearly `other` (0.05) over `x` (1) to beyond it (1.95).

    RandAugment's paper goes from 0.1 to 1.9, FixMatch from 0.05 to 0.95: never beyond `x`.
    """
    return other + (0.05 + 1.9 * strength) * (x - other)


def _sharpness(x: Tensor, strength: Tensor) -> Tensor:
    padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
    return _blend(F.avg_pool2d(padded, 3, stride=1), x, strength)


def _posterize(x: Tensor, strength: Tensor) -> Tensor:
    levels = 2 ** (4 + (4 * strength).floor())
    return ((x * levels).floor() / levels).clamp(0, 1)


def _autocontrast(x: Tensor, strength: Tensor) -> Tensor:
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).clamp_min(1e-6), x)


def _equalize(x: Tensor, strength: Tensor) -> Tensor:
    """Each channel with all brightnesses equally often: its own cumulative histogram."""
    levels = (x * 255).long().flatten(2).flatten(0, 1)  # (count·channels, pixels)
    counts = torch.zeros(len(levels), 256, device=x.device, dtype=x.dtype)
    counts.scatter_add_(1, levels, torch.ones_like(levels, dtype=x.dtype))
    return (counts.cumsum(1) / levels.shape[1]).gather(1, levels).view_as(x)


def _rotate(amount: Tensor) -> Tensor:
    angle, matrices = amount * math.pi / 6, _entry(0, 0, 0.0)(amount)
    turned = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1)
    matrices[:, :2, :2] = turned.view(-1, 2, 2)
    return matrices


def _entry(row: int, column: int, scale: float) -> Callable[[Tensor], Tensor]:
    """Unit matrices with `scale` times the amount added to one entry."""

    def build(amount: Tensor) -> Tensor:
        matrices = torch.eye(3, device=amount.device, dtype=amount.dtype).repeat(len(amount), 1, 1)
        matrices[:, row, column] += scale * amount
        return matrices

    return build


COLOURS: dict[str, Change] = {
    "brightness": lambda x, strength: _blend(torch.zeros_like(x), x, strength),
    "contrast": lambda x, strength: _blend(x.mean((1, 2, 3), keepdim=True), x, strength),
    "colour": lambda x, strength: _blend(x.mean(1, keepdim=True), x, strength),
    "sharpness": _sharpness,
    "posterize": _posterize,
    "solarize": lambda x, strength: torch.where(x < strength, x, 1 - x),
    "autocontrast": _autocontrast,
    "equalize": _equalize,
}
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "rotate": _rotate,
    "shear x": _entry(0, 1, 0.3),
    "shear y": _entry(1, 0, 0.3),
    "shift x": _entry(0, 2, 0.6),
    "shift y": _entry(1, 2, 0.6),
}
