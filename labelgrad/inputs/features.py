"""Examples as rows of numbers of about unit spread, for whoever is no network of ours."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from labelgrad.inputs.base import Scale
from labelgrad.inputs.columns import unit_columns

SIDE = 16  # pixels of a picture made small
PIXEL = 0.5  # about the spread of a pixel between -1 and 1
AT_ONCE = 1000  # pictures


def features(x: Tensor, scale: Scale) -> NDArray[Any]:
    """Stored examples as (n, columns): the columns of a table, or the pixels of small pictures.

    >>> features(torch.ones(2, 9), Scale(1.0, 0.0))[0, :2]
    array([1., 1.])
    >>> features(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), Scale(2 / 255, -1.0)).shape
    (2, 768)
    """
    if x.ndim == 2:
        return unit_columns(scale(x))
    sides = min(SIDE, x.shape[2]), min(SIDE, x.shape[3])
    small = [F.adaptive_avg_pool2d(scale(part), sides).flatten(1) for part in x.split(AT_ONCE)]
    found: NDArray[Any] = torch.cat(small).double().numpy() / PIXEL
    return found
