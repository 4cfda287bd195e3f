"""The two losses whose gradient is linear in the labels, which is all that LGA asks of a loss.

Each is the same three things: how outputs and labels give a number, the read-out `a(x; θ)` with
`∂loss/∂labels = −a/n`, and the map `f` from the table's free numbers `w` to labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Loss(Protocol):
    """What a loss must offer so that labels can be learned through it."""

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of a batch; labels are classes, distributions or values."""

    def readout(self, outputs: Tensor) -> Tensor:
        """The read-out `a`, such that the loss is `const(θ) − mean(labels · a)`."""

    def impute(self, free: Tensor) -> Tensor:
        """The labels `y = f(w)` that the free numbers `w` stand for."""

    def pull_back(self, slope: Tensor, labels: Tensor) -> Tensor:
        """The slope in `w`, given the slope in `y = f(w)`."""

    def check(self, labels: Tensor, width: int) -> None:
        """Raise `ValueError` unless a model with `width` outputs can learn `labels`."""


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy against classes or distributions; imputed labels are `softmax(w)`.

    >>> logits = torch.zeros(1, 4)
    >>> CrossEntropy()(logits, torch.tensor([2]))
    tensor(1.3863)
    >>> CrossEntropy().impute(torch.zeros(1, 4))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs, labels)

    def readout(self, outputs: Tensor) -> Tensor:
        return outputs.log_softmax(-1)

    def impute(self, free: Tensor) -> Tensor:
        return free.softmax(-1)

    def pull_back(self, slope: Tensor, labels: Tensor) -> Tensor:
        return labels * (slope - (labels * slope).sum(-1, keepdim=True))

    def check(self, labels: Tensor, width: int) -> None:
        if labels.ndim == 2:
            _check_width(labels.shape[1], width)
        elif labels.dtype.is_floating_point:
            raise ValueError(f"labels must be classes, got {labels.dtype}; values: SquaredError().")
        elif len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < width:
            raise ValueError(
                f"labels must be classes from 0 to {width - 1}, one for each of the model's "
                f"{width} outputs, got values from {int(labels.min())} to {int(labels.max())}."
            )
        elif missing := sorted(set(range(width)).difference(labels.unique().tolist())):
            raise ValueError(
                f"each of the model's {width} classes needs a labeled example, and {missing} have "
                f"none; label one, or build the model without them."
            )


@dataclass(frozen=True)
class SquaredError:
    """Half the squared distance to the label; imputed labels are `w` itself.

    >>> SquaredError()(torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 0.0]))
    tensor(2.5000)
    """

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return 0.5 * (outputs - labels.reshape_as(outputs)).square().sum() / len(outputs)

    def readout(self, outputs: Tensor) -> Tensor:
        return outputs

    def impute(self, free: Tensor) -> Tensor:
        return free

    def pull_back(self, slope: Tensor, labels: Tensor) -> Tensor:
        return slope

    def check(self, labels: Tensor, width: int) -> None:
        if not labels.dtype.is_floating_point:
            raise ValueError(f"labels must be values, got {labels.dtype}; classes: CrossEntropy().")
        if not torch.isfinite(labels).all():
            raise ValueError("labels must be finite for squared error, got NaN or infinity.")
        _check_width(labels.shape[1] if labels.ndim == 2 else 1, width)


def _check_width(columns: int, width: int) -> None:
    if columns != width:
        raise ValueError(f"labels must have {width} columns, one for each output, got {columns}.")
