"""Scikit-learn's handwritten digits: 1,797 images of 8×8, embedded in that package."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

CLASSES = tuple("0123456789")
TRAINING_PICTURES = 1500  # of the image set; what follows, partly by other hands, is its test


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
