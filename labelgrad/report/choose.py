"""Which of many imputed labels are worth a look."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Rows(NamedTuple):
    """Rows of the unlabeled examples, the most telling ones of each group first."""

    surest: list[int]
    least_sure: list[int]
    contested: list[int]


def choose(labels: Any, predictions: Any, *, most: int = 48) -> Rows:
    """At most `most` rows of each group, shared out evenly among the imputed classes.

    Both are probabilities, a row for each example. The surest have the highest, the least sure the
    smallest margin between the two highest; the contested are those where the model's class is
    another, the farther apart the sooner.

    >>> labels = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]]
    >>> choose(labels, [[0.8, 0.2], [0.1, 0.9], [0.2, 0.8]], most=2)
    Rows(surest=[0, 2], least_sure=[1, 2], contested=[1])
    """
    table, model = np.asarray(labels, dtype=float), np.asarray(predictions, dtype=float)
    if table.shape != model.shape or table.ndim != 2 or table.shape[1] < 2:
        raise ValueError(
            f"`labels` and `predictions` must have a row for each example and a column for each of "
            f"two or more classes, got the shapes {table.shape} and {model.shape}."
        )
    imputed, highest = table.argmax(1), np.sort(table, axis=1)
    margin = highest[:, -1] - highest[:, -2]
    apart = np.abs(table - model).sum(1)
    disputed = np.where(model.argmax(1) != imputed, apart, -np.inf)
    return Rows(
        _share(highest[:, -1], imputed, most),
        _share(-margin, imputed, most),
        _share(disputed, imputed, most),
    )


def choose_numbers(labels: Any, predictions: Any, *, most: int = 24) -> Rows:
    """The same for a regression: the surest labels are nearest to the model's, contested far.

    >>> choose_numbers([1.0, 5.0, 3.0], [1.1, 9.0, 3.0], most=2)
    Rows(surest=[2, 0], least_sure=[], contested=[1, 0])
    """
    apart = np.abs(np.asarray(labels, dtype=float) - np.asarray(predictions, dtype=float)).ravel()
    order = np.argsort(apart, kind="stable").tolist()
    return Rows(order[:most], [], order[::-1][:most])


def _share(worth: NDArray[Any], group: NDArray[Any], most: int) -> list[int]:
    """The rows worth most, none at −∞: the best of each class, then the second best, and so on."""
    order = np.argsort(-worth, kind="stable")
    order = order[np.isfinite(worth[order])]
    seen: Counter[int] = Counter()
    turns = []
    for ranked, row in enumerate(order.tolist()):
        turns.append((seen[int(group[row])], ranked, row))
        seen[int(group[row])] += 1
    chosen = sorted(turns)[:most]
    return [row for _, _, row in sorted(chosen, key=lambda turn: turn[1])]
