"""How much a label that was imputed counts: c = 1 − H(y) / log K, for a label y of K classes.

A label that knows nothing, the same for every class, counts nothing, and one that is all for one
class counts fully. `Certainty() * LGA(...)` is LGA with

    g_θ = ∇θ mean_i c_i · L(θ, x_i, y_i)      in place of g_u

while the labels learn as ever: the gap is of g_u itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Certainty:
    """A weight for each label, from 0 to 1: what its entropy lacks of the largest there is.

    >>> undecided, half, sure = [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
    >>> Certainty()(torch.tensor([undecided, half, sure]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def __call__(self, labels: Tensor) -> Tensor:
        entropy: Tensor = torch.special.entr(labels).sum(-1)
        return 1 - entropy / math.log(labels.shape[-1])
