"""Which labels to hold out, so that every model is judged by labels it has not seen.

Few labels are too dear to be set aside: a fifth of 20 is 4, and 4 examples tell nothing. So they
are dealt into four folds, and each fold is predicted by a model that was trained on the other
three; together they judge a method by nearly all labels there are. The model that is kept learns
from every label. From `ENOUGH` labels on, one fold of the four tells as much as is needed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labelgrad.functional import mixed_seed

FOLDS = 4
ENOUGH = 400


def held_out_folds(y: Tensor, *, seed: int) -> list[Tensor]:
    """The places in `y` of each fold; classes, or values, are spread evenly.

    The only label of its class is never held out: every training needs one. Fewer than four
    values, or classes of one label each, leave nothing to hold out.

    >>> folds = held_out_folds(torch.tensor([0, 0, 0, 0, 1, 1, 2]), seed=0)
    >>> sorted(torch.cat(folds).tolist())
    [0, 1, 2, 3, 4, 5]
    >>> [len(fold) for fold in folds]
    [2, 2, 1, 1]
    """
    generator = torch.Generator().manual_seed(mixed_seed(seed, 3))
    dealt = _by_value(y, generator) if y.dtype.is_floating_point else _by_class(y, generator)
    folds = [dealt[place::FOLDS].sort().values for place in range(min(FOLDS, len(dealt)))]
    return folds[:1] if len(y) >= ENOUGH else folds


def _by_class(y: Tensor, generator: torch.Generator) -> Tensor:
    """Class after class: dealt in turn, no two of the first labels of a class share a fold."""
    members = [(y == kind).nonzero().squeeze(1) for kind in y.unique()]
    mixed = [mine[torch.randperm(len(mine), generator=generator)] for mine in members]
    return torch.cat(
        [mine for mine in mixed if len(mine) > 1] or [torch.zeros(0, dtype=torch.int64)]
    )


def _by_value(y: Tensor, generator: torch.Generator) -> Tensor:
    """From low to high, neighbours mixed."""
    if len(y) < FOLDS:
        return torch.zeros(0, dtype=torch.int64)
    neighbours = y.argsort(stable=True).split(FOLDS)
    return torch.cat([few[torch.randperm(len(few), generator=generator)] for few in neighbours])
