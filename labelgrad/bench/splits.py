"""Sets as every method of the comparison sees them: the same rows, columns and few labels.

They are the small sets of `sets.py`, and tables of a folder. Columns have unit variance over all
rows of a set, those of the test among them; no label has a part in that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from labelgrad.bench.sets import SETS, TEST, Array, Rows
from labelgrad.datasets.fashion_mnist import CHECKSUMS as PICTURE_FILES
from labelgrad.datasets.fashion_mnist import FOLDER as PICTURES
from labelgrad.datasets.files import data_folder
from labelgrad.inputs.columns import unit_columns
from labelgrad.inputs.kinds import read, read_inputs
from labelgrad.nearest import did_you_mean

VALUES = 50  # labels of a regression
OWN_COUNTS = ("digits-30", "digits-50", "digits-100")  # the sets that are named by theirs


@dataclass(frozen=True)
class Draw:
    """How many labels are given, and whether evenly by class or at random.

    With `labels` there are as many, at random. With `at_random` there are as many as an even draw
    of `per_class` has.
    """

    per_class: int = 10
    at_random: bool = False
    labels: int | None = None


@dataclass(frozen=True)
class Places:
    """Where sets are: pictures, and a folder of tables; which of these are regressions."""

    pictures: Path | None = None
    tables: Path | None = None
    target: str = "target"
    regressions: tuple[str, ...] = ()


def set_names(places: Places, asked: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The sets that were asked for, or all that are there without a download.

    >>> set_names(Places(Path("nowhere")))[:4]
    ('digits-30', 'digits-50', 'digits-100', 'shells')
    """
    files = _files(places)
    twice = [name for name in files if name in SETS]
    if twice:
        raise ValueError(
            f"{files[twice[0]]} has the name of a small set, {twice[0]!r}; rename the file."
        )
    strange = [name for name in places.regressions if name not in files]
    if strange:
        raise ValueError(f"--regression must name tables of the folder, got {strange[0]!r}.")
    for name in asked:
        if name not in SETS and name not in files:
            known = (*SETS, *files)
            hint = did_you_mean(name, known, f"there are {', '.join(known)}.")
            raise ValueError(f"there is no set {name!r}; {hint}")
    there = [name for name in SETS if name != PICTURES or _has_pictures(places)]
    return asked or (*there, *files)


@lru_cache(maxsize=2)  # the trials of a set come one after another
def whole(name: str, places: Places) -> tuple[Array, Array]:
    """All rows and labels of a set: whole numbers from 0 on are classes, others are values."""
    if name in SETS:
        x, y = SETS[name].read(places.pictures)
        return unit_columns(read_inputs(x).x), y
    task = "regression" if name in places.regressions else None
    files = _files(places)
    if name not in files:  # of a worker on another machine, which has other files
        raise FileNotFoundError(f"{places.tables}/{name}.csv is missing; put it there.")
    table = read(files[name], target=places.target, task=task)
    known = table.labeled.numpy()
    return unit_columns(table.x)[known], table.y.numpy()[known]


def split(name: str, places: Places, draw: Draw, seed: int) -> Rows:
    """A set split by the seed: a quarter for the test, and of the rest some labels.

    >>> wine = split("wine", Places(), Draw(per_class=5), seed=0)
    >>> wine.x.shape, wine.x_test.shape, np.bincount(wine.y[wine.given])
    ((133, 13), (45, 13), array([5, 5, 5]))
    """
    x, y = whole(name, places)
    rng = np.random.default_rng(seed)
    held = dealt(y, rng, lambda count: round(TEST * count))
    test = np.isin(np.arange(len(y)), held)
    given = _given(name, y[~test], draw, rng)
    return Rows(x[~test], y[~test], given, x[test], y[test])


def dealt(y: Array, rng: np.random.Generator, share: Callable[[int], int]) -> Array:
    """Some rows of every class, by how many it has; of values, some of all.

    >>> y = np.array([0, 0, 0, 0, 1, 1])
    >>> np.bincount(y[dealt(y, np.random.default_rng(0), lambda count: count // 2)])
    array([2, 1])
    """
    groups = [np.flatnonzero(y == label) for label in np.unique(y)]
    if y.dtype.kind == "f":
        groups = [np.arange(len(y))]
    return np.concatenate([rng.permutation(rows)[: share(len(rows))] for rows in groups])


def _given(name: str, y: Array, draw: Draw, rng: np.random.Generator) -> Array:
    """Which rows have their label; one of every set at least has none."""
    per_class, labels = draw.per_class, draw.labels
    if y.dtype.kind == "f":
        per_class = VALUES
    if name in OWN_COUNTS:
        per_class, labels = (SETS[name].labels or 0) // len(np.unique(y)), None
    chosen = dealt(y, rng, lambda count: per_class)
    if draw.at_random or draw.labels is not None:
        chosen = _at_random(y, labels or len(chosen), rng)
    return np.isin(np.arange(len(y)), chosen[: len(y) - 1])


def _at_random(y: Array, count: int, rng: np.random.Generator) -> Array:
    """As many rows, of at least two classes."""
    if count < 2:
        raise ValueError(f"two labels at least are needed, got {count}.")
    while True:
        chosen = rng.permutation(len(y))[:count]
        if len(np.unique(y[chosen])) > 1:
            return chosen


def _files(places: Places) -> dict[str, Path]:
    if places.tables is None:
        return {}
    if not places.tables.is_dir():
        raise ValueError(f"--tables must be a folder of CSV files, got {places.tables}.")
    found = {path.stem: path for path in sorted(places.tables.glob("*.csv"))}
    if not found:
        raise ValueError(f"{places.tables} has no CSV file; name another folder with --tables.")
    return found


def _has_pictures(places: Places) -> bool:
    home = data_folder(places.pictures) / PICTURES
    return all(any(home.glob(f"{name}*")) for name in PICTURE_FILES)
