"""Picture data sets by name: `load("cifar10")` finds or downloads it, checks it and reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from labelgrad.datasets import cifar10, digits, fashion_mnist, svhn
from labelgrad.datasets.files import Progress, data_folder
from labelgrad.nearest import did_you_mean

Examples = tuple[Tensor, Tensor]  # pictures, classes
Reader = Callable[[Path, Progress | None], tuple[Examples, Examples]]

SETS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "cifar10": (cifar10.CLASSES, cifar10.read),
    "svhn": (svhn.CLASSES, svhn.read),
    "fashion-mnist": (fashion_mnist.CLASSES, fashion_mnist.read),
    "digits": (digits.CLASSES, digits.read),
}


@dataclass(frozen=True)
class PictureSet:
    """Pictures and their classes, with the authors' own parts for training and for the test.

    Pictures are uint8 of shape (count, channels, height, width), classes int64.
    """

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples


def load(
    name: str,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    *,
    rebuilt: bool = False,
) -> PictureSet:
    """One of the data sets, from the folder; files it lacks are downloaded into it.

    `folder` is as `data_folder` has it. `progress` hears the bytes done and the bytes in all.
    SVHN can be read from files that were `rebuilt` (see `labelgrad.datasets.svhn.read`).

    >>> load("cifar-10")
    Traceback (most recent call last):
    ValueError: there is no picture set 'cifar-10'; did you mean 'cifar10'?
    """
    if name not in SETS:
        hint = did_you_mean(name, SETS, f"there are {', '.join(SETS)}.")
        raise ValueError(f"there is no picture set {name!r}; {hint}")
    classes, read = SETS[name]
    if rebuilt and name != "svhn":
        raise ValueError(f"only svhn can be read from rebuilt files, got {name!r}.")
    if rebuilt:
        read = partial(svhn.read, rebuilt=True)
    return PictureSet(name, classes, *read(data_folder(folder), progress))
