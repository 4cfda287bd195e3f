"""What a witness is: something with an opinion about labels, and how opinions are written down.

Of classes an opinion is log-probabilities, (rows, classes). Of values it is a mean and a spread,
(rows, 2). A witness is asked once for all versions of the labels, each with some of them hidden, so
that what does not depend on labels, such as a graph, is made once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LEAST = 1e-4  # no class is held to be less likely: one that is wrong should not cost everything
AT_ONCE = 20_000  # rows that are asked about at once
NARROWEST = 1e-3  # spread of a value, in units of all values' spread


class Opinion(Protocol):
    """What a witness says, once it has heard some labels."""

    def of_rows(self, rows: Array) -> Array:
        """About rows of the examples it was asked about."""
        ...

    def of_new(self, x: Any) -> Array:
        """About other examples."""
        ...


class Witness(Protocol):
    """Anything with an opinion about labels."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def sees_unlabeled(self) -> bool:
        """Whether unlabeled rows shape its opinion."""
        ...

    def hear(self, x: Array, labels: Sequence[Array], classes: int, seed: int) -> Sequence[Opinion]:
        """One opinion for each version of the labels.

        `x` is (rows, columns). A version has an entry for each row: a class index, or -1; with
        `classes=0` a value, or NaN.
        """
        ...


@dataclass(frozen=True, eq=False)
class Learned:
    """The opinion of a model that was learned: the same for rows it was shown and for new ones."""

    x: Array
    model: Any  # what has been fitted
    says: Callable[[Any, Array, int], Array]  # of the model, examples and classes
    classes: int

    def of_rows(self, rows: Array) -> Array:
        """About rows of the examples it was asked about."""
        return in_parts(self.of_new, self.x, rows)

    def of_new(self, x: Array) -> Array:
        """About other examples."""
        if not len(x):  # which few models take
            return np.zeros((0, self.classes or 2))
        return self.says(self.model, x, self.classes)


def in_parts(says: Callable[[Array], Array], x: Array, rows: Array) -> Array:
    """What is said of these rows of `x`: of many, some at a time, so that never all are copied.

    >>> in_parts(lambda x: 2 * x, np.eye(3), np.array([2, 0]))
    array([[0., 0., 2.],
           [2., 0., 0.]])
    """
    if len(rows) <= AT_ONCE:
        return says(x[rows])
    starts = range(0, len(rows), AT_ONCE)
    return np.concatenate([says(x[rows[start : start + AT_ONCE]]) for start in starts])


def known_rows(labels: Array) -> Array:
    """The rows that have a label.

    >>> known_rows(np.array([2, -1, 0])), known_rows(np.array([np.nan, 0.5]))
    (array([0, 2]), array([1]))
    """
    known = ~np.isnan(labels) if labels.dtype.kind == "f" else labels >= 0
    return np.flatnonzero(known)


def even_parts(y: Array, parts: int) -> Array:
    """To which of so many parts each label belongs; classes, or values, are spread evenly.

    >>> even_parts(np.array([0, 0, 1, 1, 1]), 2)
    array([0, 1, 0, 1, 0])
    """
    found = np.empty(len(y), dtype=int)
    found[np.argsort(y, kind="stable")] = np.arange(len(y)) % parts
    return found


def log_probabilities(found: Any, places: Any, classes: int) -> Array:
    """Probabilities of some classes as log-probabilities of all, none of them too sure.

    >>> np.exp(log_probabilities([[0.25, 0.75]], [0, 2], 3)).round(2)
    array([[0.25, 0.  , 0.75]])
    """
    found = np.asarray(found, dtype=float)
    total = found.sum(1)
    if (found < 0).any() or (abs(total - 1) > 0.01).any():
        raise ValueError("its probabilities are negative, or do not add up to 1")
    every = np.zeros((len(found), classes))
    every[:, np.asarray(places, dtype=int)] = found
    every = np.maximum(every, LEAST)
    logs: Array = np.log(every / every.sum(1, keepdims=True))
    return logs


def values_with_spread(mean: Any, spread: Any) -> Array:
    """A mean and a spread for each row; one spread may be that of all.

    >>> values_with_spread([1.0, 2.0], 0.5)
    array([[1. , 0.5],
           [2. , 0.5]])
    """
    mean = np.asarray(mean, dtype=float)
    return np.stack([mean, np.maximum(np.broadcast_to(spread, mean.shape), NARROWEST)], axis=1)


def checked(opinion: Array, rows: int, classes: int) -> Array:
    """The opinion, if it is one: a row each, finite, log-probabilities that add up to one.

    >>> checked(np.log([[0.5, 0.6]]), 1, 2)
    Traceback (most recent call last):
    ValueError: its probabilities add up to 1.1 in a row
    """
    width = classes or 2
    if opinion.shape != (rows, width):
        raise ValueError(f"it gave the shape {opinion.shape} for {rows} rows and {width} columns")
    if not np.isfinite(opinion).all():
        raise ValueError("it gave numbers that are not finite")
    if not classes:
        if (opinion[:, 1] <= 0).any():
            raise ValueError("it gave a spread that is not positive")
        return opinion
    total = np.exp(opinion).sum(1)
    if len(total) and abs(total - 1).max() > 0.01:
        raise ValueError(
            f"its probabilities add up to {total[abs(total - 1).argmax()]:.3g} in a row"
        )
    return normalized(opinion)


def normalized(logits: Array) -> Array:
    """Log-probabilities from numbers that are so but for one added to each row.

    >>> np.exp(normalized(np.array([[7.0, 7.0]])))
    array([[0.5, 0.5]])
    """
    shifted = logits - logits.max(-1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found


def not_too_sure(logs: Array) -> Array:
    """The same log-probabilities, none below the least."""
    return normalized(np.maximum(logs, math.log(LEAST)))
