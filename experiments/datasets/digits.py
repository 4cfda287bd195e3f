"""Scikit-learn's handwritten digits: 1,797 images of 8×8, embedded in that package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

TEST_ROWS = 350
CLASSES = tuple("0123456789")
TRAINING_PICTURES = 1500  # of the image set; what follows, partly by other hands, is its test


@dataclass(frozen=True)
class Split:
    """Examples by role: no row of the data is in two of them."""

    labeled: tuple[Tensor, Tensor]
    unlabeled: tuple[Tensor, Tensor]  # the labels here are for measuring only
    test: tuple[Tensor, Tensor]


def digits(*, labels: int = 50, seed: int = 0) -> Split:
    """Split the digits: as many labels of each class as of any other, 350 for the test.

    >>> split = digits(labels=50, seed=0)
    >>> [len(part[0]) for part in (split.labeled, split.unlabeled, split.test)]
    [50, 1397, 350]
    """
    from sklearn.datasets import load_digits

    if labels % 10 or not 10 <= labels <= 1000:
        raise ValueError(f"`labels` must be a multiple of 10 from 10 to 1000, got {labels}.")
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    test, rest = order[:TEST_ROWS], order[TEST_ROWS:]
    chosen = np.concatenate([rest[y[rest] == digit][: labels // 10] for digit in range(10)])
    others = rest[~np.isin(rest, chosen)]
    inputs, classes = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)
    labeled, unlabeled, held_out = ((inputs[i], classes[i]) for i in (chosen, others, test))
    return Split(labeled, unlabeled, held_out)


def read(folder: Path) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The digits as an image set: training and test part. They need no folder.

    >>> (x, y), test = read(Path())
    >>> x.shape, x.dtype
    (torch.Size([1500, 1, 8, 8]), torch.uint8)
    """
    from sklearn.datasets import load_digits

    pictures, y = load_digits(return_X_y=True)
    x = torch.tensor(pictures * 255 / 16).round().to(torch.uint8).view(-1, 1, 8, 8)
    classes = torch.tensor(y)
    cut = TRAINING_PICTURES
    return (x[:cut], classes[:cut]), (x[cut:], classes[cut:])
