"""Small sets that differ in kind, to see how a method does on data it was not made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgrad.nearest import did_you_mean

Array = NDArray[Any]
TEST = 0.25  # of a set is for the test
GIVEN = 10  # one in so many of the other rows is labeled, where no count is said
PICTURES, SHELLS, FRIEDMAN = 6000, 4000, 1200  # rows


@dataclass(frozen=True)
class Rows:
    """A table of which some labels are given, and another for the test."""

    x: Array
    y: Array  # all of them; those that are not given are for measuring alone
    given: Array  # which are
    x_test: Array
    y_test: Array

    @property
    def classes(self) -> int | None:
        """How many classes there are; of values none."""
        return len(np.unique(self.y)) if self.y.dtype.kind == "i" else None


def _sklearn(name: str) -> Callable[[Path | None], tuple[Array, Array]]:
    def read(folder: Path | None) -> tuple[Array, Array]:
        from sklearn import datasets

        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return x, y

    return read


def _above_median(folder: Path | None) -> tuple[Array, Array]:
    """Whether the disease progressed more than in half of the patients."""
    x, y = _sklearn("diabetes")(folder)
    return x, (y > np.median(y)).astype(np.int64)


def _friedman(folder: Path | None) -> tuple[Array, Array]:
    """Friedman's first function: five of ten columns matter, not one of them alone linearly."""
    from sklearn.datasets import make_friedman1

    x, y = make_friedman1(FRIEDMAN, 10, noise=1.0, random_state=0)
    return x, y


def _shells(folder: Path | None) -> tuple[Array, Array]:
    """The paper's shells, in ten dimensions."""
    import torch

    from labelgrad.datasets.shells import shells

    x, y = shells(SHELLS, 10, torch.Generator().manual_seed(0))
    return x.double().numpy(), y.numpy()


def _fashion_mnist(folder: Path | None) -> tuple[Array, Array]:
    """The first training pictures, each four pixels made one."""
    from labelgrad.datasets.picture_sets import load

    x, y = load("fashion-mnist", folder=folder).train
    pixels = x[:PICTURES].double().view(-1, 14, 2, 14, 2).mean((2, 4))
    return pixels.flatten(1).numpy(), y[:PICTURES].numpy()


@dataclass(frozen=True)
class SmallSet:
    """Where a set comes from, and how many of its labels are given."""

    read: Callable[[Path | None], tuple[Array, Array]]
    labels: int | None = None


SETS = {
    "digits-30": SmallSet(_sklearn("digits"), 30),
    "digits-50": SmallSet(_sklearn("digits"), 50),
    "digits-100": SmallSet(_sklearn("digits"), 100),
    "fashion-mnist": SmallSet(_fashion_mnist, 100),
    "shells": SmallSet(_shells, 500),
    "wine": SmallSet(_sklearn("wine")),
    "breast-cancer": SmallSet(_sklearn("breast_cancer")),
    "iris": SmallSet(_sklearn("iris")),
    "diabetes-classes": SmallSet(_above_median),
    "diabetes": SmallSet(_sklearn("diabetes")),
    "friedman": SmallSet(_friedman, 60),
}


def rows(name: str, seed: int, folder: Path | None = None) -> Rows:
    """A set, split by the seed; classes are as frequent in each part as in all.

    >>> split = rows("wine", seed=0)
    >>> split.x.shape, int(split.given.sum()), split.x_test.shape, split.classes
    ((133, 13), 13, (45, 13), 3)
    """
    from sklearn.model_selection import train_test_split

    if name not in SETS:
        hint = did_you_mean(name, SETS, f"there are {', '.join(SETS)}.")
        raise ValueError(f"there is no small set {name!r}; {hint}")
    x, y = SETS[name].read(folder)
    classes = y if y.dtype.kind == "i" else None
    x, x_test, y, y_test = train_test_split(
        x, y, test_size=TEST, random_state=seed, stratify=classes
    )
    chosen, _ = train_test_split(
        np.arange(len(y)),
        train_size=SETS[name].labels or len(y) // GIVEN,
        random_state=seed,
        stratify=None if classes is None else y,
    )
    return Rows(x, y, np.isin(np.arange(len(y)), chosen), x_test, y_test)
