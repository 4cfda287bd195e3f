"""The paper's synthetic set: five classes told apart by how far a point is from the origin."""

from __future__ import annotations

import torch
from torch import Tensor

CLASSES = 5


def shells(count: int, dimension: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points in all directions alike, and their classes; Section 3.2 of the paper.

    A point of class c (from 0) lies in one of two shells, at c + [0, ¼] or c + [¾, 1] from the
    origin; the first class has the outer one alone, the last the inner one. Neighbouring shells of
    two classes touch, so the best boundaries run where the points are densest.

    >>> x, y = shells(1000, 50, torch.Generator().manual_seed(0))
    >>> x.shape, bool((x.norm(dim=1).floor() == y).all())
    (torch.Size([1000, 50]), True)
    """
    direction = torch.randn(count, dimension, generator=generator)
    classes = torch.randint(CLASSES, (count,), generator=generator)
    outer = torch.rand(count, generator=generator) < 0.5
    outer = (outer | (classes == 0)) & (classes < CLASSES - 1)
    distance = classes + 0.75 * outer + 0.25 * torch.rand(count, generator=generator)
    return direction * (distance / direction.norm(dim=1)).unsqueeze(1), classes
