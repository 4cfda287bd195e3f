"""Image data sets by name: `load("cifar10")` finds or downloads one, checks it and reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from experiments.common import check_choice
from experiments.datasets import cifar10, digits, fashion_mnist, svhn
from experiments.datasets.files import data_folder

Examples = tuple[Tensor, Tensor]  # images, classes
SETS = {"cifar10": cifar10, "svhn": svhn, "fashion-mnist": fashion_mnist, "digits": digits}


@dataclass(frozen=True)
class ImageSet:
    """Images and their classes, with the authors' own parts for training and for the test.

    Images are uint8 of shape (count, channels, height, width), classes int64.
    """

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples


def load(name: str, folder: str | Path | None = None, *, rebuilt: bool = False) -> ImageSet:
    """Read a data set from the folder (see `data_folder`); missing files are downloaded into it.

    SVHN can be read from files that were `rebuilt` (see `experiments.datasets.svhn.read`).

    >>> load("cifar-10")
    Traceback (most recent call last):
    ValueError: the data must be one of cifar10, svhn, fashion-mnist, digits, got 'cifar-10'; \
did you mean 'cifar10'?
    """
    check_choice("the data", SETS, name)
    home, classes = data_folder(folder), SETS[name].CLASSES
    if rebuilt:
        if name != "svhn":
            raise ValueError(f"only svhn can be read from rebuilt files, got {name!r}.")
        return ImageSet(name, classes, *svhn.read(home, rebuilt=True))
    return ImageSet(name, classes, *SETS[name].read(home))
