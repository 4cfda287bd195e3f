"""Examples as rows of numbers of about unit spread, for whoever is no network of ours."""

from __future__ import annotations

from functools import partial
from typing import Any

from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from labelgrad.encoders.cache import cache_folder
from labelgrad.inputs.base import Scale
from labelgrad.inputs.columns import unit_columns
from labelgrad.inputs.mapped import roomy

SIDE = 16  # pixels of a picture made small
PIXEL = 0.5  # about the spread of a pixel between -1 and 1
AT_ONCE = 1000  # examples


def features(x: Tensor, scale: Scale) -> NDArray[Any]:
    """Stored examples as (n, columns): the columns of a table, or the pixels of small pictures.

    Those of many examples lie in a file without a name in the cache.

    >>> import torch
    >>> features(torch.ones(2, 9), Scale(1.0, 0.0))[0, :2]
    array([1., 1.])
    >>> features(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), Scale(2 / 255, -1.0)).shape
    (2, 768)
    """
    some = partial(_columns if x.ndim == 2 else _small, scale=scale)
    found = roomy((len(x), some(x[:1]).shape[1]), "float64", cache_folder())
    for start in range(0, len(x), AT_ONCE):
        found[start : start + AT_ONCE] = some(x[start : start + AT_ONCE])
    return found


def _columns(x: Tensor, scale: Scale) -> NDArray[Any]:
    return unit_columns(scale(x))


def _small(x: Tensor, scale: Scale) -> NDArray[Any]:
    sides = min(SIDE, x.shape[2]), min(SIDE, x.shape[3])
    small: NDArray[Any] = F.adaptive_avg_pool2d(scale(x), sides).flatten(1).double().numpy()
    return small / PIXEL
