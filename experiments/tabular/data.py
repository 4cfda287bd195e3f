"""Data sets of the tabular experiments: small well-known ones, and CSV files of a folder.

Every method sees the same rows, columns and labels. Numbers have unit variance over all rows of a
set, those of the test among them, and categories are 0 or 1; no label is used for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.common import check_choice

Array = NDArray[Any]
TEST = 0.25  # part of a set
IMAGES, SHELLS, FRIEDMAN = 6000, 4000, 1200  # rows
VALUES = 50  # labels of a regression
MOST_CATEGORIES = 50  # of a text column; the rare ones beyond share a column


@dataclass(frozen=True)
class Rows:
    """A table of which some labels are given, and another one for the test."""

    x: Array
    y: Array  # those that are not given are for measuring only
    given: Array  # boolean
    x_test: Array
    y_test: Array

    @property
    def classes(self) -> int | None:
        """The number of classes, or None for a regression."""
        return len(np.unique(self.y)) if self.y.dtype.kind == "i" else None

    @property
    def partial(self) -> Array:
        """The labels, with -1 or NaN in place of those that are not given."""
        return np.where(self.given, self.y, np.nan if self.classes is None else -1)


@dataclass(frozen=True)
class Sources:
    """Where sets are: images, and a folder of tables; which of these are regressions."""

    images: Path | None = None
    tables: Path | None = None
    target: str = "target"
    regressions: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, Path]:
        """The tables by name."""
        if self.tables is None:
            return {}
        found = {path.stem: path for path in sorted(self.tables.glob("*.csv"))}
        if not found:
            raise ValueError(f"--tables must be a folder of CSV files, got {self.tables}.")
        return found


@dataclass(frozen=True)
class Draw:
    """How labels are drawn: so many per class; as many, at random; or `labels` at random."""

    per_class: int = 10
    at_random: bool = False
    labels: int | None = None


def _sklearn(name: str) -> Callable[[Path | None], tuple[Array, Array]]:
    def read(folder: Path | None) -> tuple[Array, Array]:
        from sklearn import datasets

        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return x, y

    return read


def _above_median(folder: Path | None) -> tuple[Array, Array]:
    x, y = _sklearn("diabetes")(folder)
    return x, (y > np.median(y)).astype(np.int64)


def _friedman(folder: Path | None) -> tuple[Array, Array]:
    """Friedman's first function: five of ten columns matter, none of them linearly."""
    from sklearn.datasets import make_friedman1

    x, y = make_friedman1(FRIEDMAN, 10, noise=1.0, random_state=0)
    return x, y


def _shells(folder: Path | None) -> tuple[Array, Array]:
    """The paper's shells, in ten dimensions."""
    import torch

    from experiments.datasets.shells import shells

    x, y = shells(SHELLS, 10, torch.Generator().manual_seed(0))
    return x.double().numpy(), y.numpy()


def _fashion_mnist(folder: Path | None) -> tuple[Array, Array]:
    """The first training images, at half the resolution."""
    from experiments.datasets.image_sets import load

    x, y = load("fashion-mnist", folder).train
    pixels = x[:IMAGES].double().view(-1, 14, 2, 14, 2).mean((2, 4))
    return pixels.flatten(1).numpy(), y[:IMAGES].numpy()


SETS: dict[str, tuple[Callable[[Path | None], tuple[Array, Array]], int | None]] = {
    "digits-30": (_sklearn("digits"), 30),  # the number of labels; else a tenth of the rows
    "digits-50": (_sklearn("digits"), 50),
    "digits-100": (_sklearn("digits"), 100),
    "fashion-mnist": (_fashion_mnist, 100),
    "shells": (_shells, 500),
    "wine": (_sklearn("wine"), None),
    "breast-cancer": (_sklearn("breast_cancer"), None),
    "iris": (_sklearn("iris"), None),
    "diabetes-classes": (_above_median, None),
    "diabetes": (_sklearn("diabetes"), None),
    "friedman": (_friedman, 60),
}


def stratified(name: str, seed: int, folder: Path | None = None) -> Rows:
    """A small set with its own number of labels; classes are as frequent in each part as in all.

    >>> split = stratified("wine", seed=0)
    >>> split.x.shape, int(split.given.sum()), split.x_test.shape, split.classes
    ((133, 13), 13, (45, 13), 3)
    """
    from sklearn.model_selection import train_test_split

    check_choice("--sets", SETS, name)
    (read, labels), kind = SETS[name], {"random_state": seed}
    x, y = read(folder)
    classes = y if y.dtype.kind == "i" else None
    x, x_test, y, y_test = train_test_split(x, y, test_size=TEST, stratify=classes, **kind)
    stratify, count = None if classes is None else y, labels or len(y) // 10
    chosen, _ = train_test_split(np.arange(len(y)), train_size=count, stratify=stratify, **kind)
    return Rows(x, y, np.isin(np.arange(len(y)), chosen), x_test, y_test)


def set_names(sources: Sources, asked: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The sets that were asked for, or all that need no download.

    >>> set_names(Sources())[:4]
    ('digits-30', 'digits-50', 'digits-100', 'shells')
    """
    check_choice("--regression", sources.files, *sources.regressions)
    check_choice("--sets", (*SETS, *sources.files), *asked)
    small = [name for name in SETS if name != "fashion-mnist" or sources.images is not None]
    return asked or (*small, *sources.files)


@lru_cache(maxsize=2)  # the trials of a set follow each other
def whole(name: str, sources: Sources) -> tuple[Array, Array]:
    """All rows and labels of a set: whole numbers from 0 on are classes, others are values."""
    if name in SETS:
        x, y = SETS[name][0](sources.images)
        return unit_variance(x), y
    return read_table(sources.files[name], sources.target, regression=name in sources.regressions)


def read_table(path: Path, target: str, *, regression: bool = False) -> tuple[Array, Array]:
    """The columns of a CSV file as numbers of unit variance, and its labels.

    A missing number is the median, with a column that says so; a text has a column per category.
    A target of more than 20 different numbers is a regression.
    """
    import pandas as pd

    table = pd.read_csv(path)
    table = table[table[target].notna()]
    label, numbers, flags = table.pop(target), [], []
    for cells in (table[name] for name in table):
        if cells.nunique(dropna=False) < 2:
            continue
        if pd.api.types.is_numeric_dtype(cells):
            numbers.append(cells.fillna(cells.median()))
        else:
            common = cells.value_counts().index[:MOST_CATEGORIES]
            known = cells.where(cells.isin(common) | cells.isna(), "…")
            flags += [known == category for category in sorted(set(known.dropna()))]
        if cells.isna().any():
            flags.append(cells.isna())
    parts = [np.stack([x.to_numpy(float) for x in part], 1) for part in (numbers, flags) if part]
    x = np.concatenate([unit_variance(parts[0]) if numbers else parts[0], *parts[1:]], 1)
    numeric = pd.api.types.is_numeric_dtype(label)
    if regression and not numeric:
        raise ValueError(f"the column {target!r} of {path} must hold numbers for regression.")
    if numeric and (regression or label.nunique() > 20):
        return x, label.to_numpy(float)
    return x, pd.factorize(label, sort=True)[0].astype(np.int64)


def unit_variance(x: Array) -> Array:
    """Columns with mean 0 and variance 1, as far as `scales` has it."""
    scaled: Array = (x - x.mean(0)) / scales(x)
    return scaled


def scales(x: Array) -> Array:
    """The standard deviation of each column, 1 for constants.

    Where half of the columns span the range of the whole table they are of one kind, such as
    pixels, and share one scale: a pixel that is rarely lit is not magnified.
    """
    found: Array = x.std(0)
    if ((x.min(0) == x.min()) & (x.max(0) == x.max())).mean() >= 0.5 and x.shape[1] > 1:
        found = np.full_like(found, np.sqrt((found**2).mean()))
    return np.where(found > 0, found, 1)


def split(name: str, sources: Sources, draw: Draw, seed: int) -> Rows:
    """A set split by the seed: a quarter for the test, and of the rest some labels.

    >>> wine = split("wine", Sources(), Draw(per_class=5), seed=0)
    >>> wine.x.shape, wine.x_test.shape, np.bincount(wine.y[wine.given])
    ((133, 13), (45, 13), array([5, 5, 5]))
    """
    x, y = whole(name, sources)
    rng = np.random.default_rng(seed)
    test = np.isin(np.arange(len(y)), _dealt(y, rng, lambda count: round(TEST * count)))
    rest, per_class, labels = y[~test], draw.per_class, draw.labels
    if y.dtype.kind == "f":
        per_class = VALUES
    if name.startswith("digits-"):  # named by its number of labels
        per_class, labels = int(name.removeprefix("digits-")) // 10, None
    chosen = _dealt(rest, rng, lambda count: per_class)
    if draw.at_random or draw.labels is not None:
        chosen = _at_random(rest, labels or len(chosen), rng)
    given = np.isin(np.arange(len(rest)), chosen[: len(rest) - 1])  # one row at least has none
    return Rows(x[~test], rest, given, x[test], y[test])


def _dealt(y: Array, rng: np.random.Generator, share: Callable[[int], int]) -> Array:
    """Some rows of every class, by how many it has; of values, some of all."""
    groups = [np.flatnonzero(y == label) for label in np.unique(y)]
    if y.dtype.kind == "f":
        groups = [np.arange(len(y))]
    return np.concatenate([rng.permutation(rows)[: share(len(rows))] for rows in groups])


def _at_random(y: Array, count: int, rng: np.random.Generator) -> Array:
    """So many rows, of at least two classes."""
    while True:
        chosen = rng.permutation(len(y))[:count]
        if len(np.unique(y[chosen])) > 1:
            return chosen
