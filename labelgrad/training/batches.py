"""Minibatches as a function of the step.

A stream has no position to lose: the batch of step i is worked out from the seed and i, so a
resumed run draws what an undisturbed one would have drawn, and two streams never disturb each
other.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from labelgrad.step import Batch


class TensorBatches:
    """Shuffled minibatches without end; every row is drawn once before any is drawn again.

    >>> stream = TensorBatches(torch.arange(5.0), batch_size=2, seed=3)
    >>> stream.batch(0).x.shape
    torch.Size([2])
    >>> drawn = torch.cat([stream.batch(step).rows for step in range(5)])
    >>> drawn.bincount()
    tensor([2, 2, 2, 2, 2])
    """

    def __init__(self, x: Tensor, y: Tensor | None = None, *, batch_size: int, seed: int = 0):
        _check_examples(x, y)
        if not 1 <= batch_size <= len(x):
            raise ValueError(
                f"`batch_size` must be from 1 to the {len(x)} examples there are, got {batch_size}."
            )
        self.x, self.y, self.batch_size, self.seed = x, y, batch_size, seed
        self._order = lru_cache(maxsize=2)(self._order_of)  # a batch spans two epochs at most

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, step: int) -> Batch:
        """The batch of the given step."""
        rows = self._rows(step).to(self.x.device)
        return Batch(self.x[rows], None if self.y is None else self.y[rows], rows)

    def _rows(self, step: int) -> Tensor:
        start = step * self.batch_size
        epoch, offset = divmod(start, len(self))
        rows: Tensor = self._order(epoch)[offset : offset + self.batch_size]
        if len(rows) < self.batch_size:
            rows = torch.cat([rows, self._order(epoch + 1)[: self.batch_size - len(rows)]])
        return rows

    def _order_of(self, epoch: int) -> Tensor:
        # Labeled and unlabeled streams of one seed and length must not shuffle alike.
        kind = 0 if self.y is None else 1
        generator = torch.Generator().manual_seed(mixed_seed(self.seed, kind, epoch))
        return torch.randperm(len(self), generator=generator)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_order"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._order = lru_cache(maxsize=2)(self._order_of)


def mixed_seed(*parts: int) -> int:
    """One seed out of several numbers, such that no two lists of numbers share a stream.

    >>> mixed_seed(1, 2) == mixed_seed(1, 2), mixed_seed(1, 2) == mixed_seed(2, 1)
    (True, False)
    """
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _check_examples(x: Tensor, y: Tensor | None) -> None:
    if y is not None and len(x) != len(y):
        raise ValueError(
            f"`x` and `y` must have one row for each example, got {len(x)} and {len(y)} rows."
        )
    if x.dtype.is_floating_point and not torch.isfinite(x).all():
        count = int((~torch.isfinite(x)).sum())
        raise ValueError(f"`x` must be finite, got NaN or infinity in {count} places.")
