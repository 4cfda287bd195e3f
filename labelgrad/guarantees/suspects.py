"""Given labels that are probably wrong, by what was said of them while they were hidden.

Confident learning (Northcutt, Jiang and Chuang 2021): a class is spoken for where its out-of-fold
probability is at least what it usually is for labels of that class. A label is suspect if another
class is spoken for, and is the likelier one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Suspects(NamedTuple):
    """All labels, the most suspect first; how many of them speak for another class, and for which.

    `margin` is the probability of the label given less that of the likeliest other class.
    """

    order: NDArray[np.int_]
    suspect: int
    other: NDArray[np.int_]  # of each label, in the order they came
    margin: NDArray[np.float64]


def rank_suspects(probabilities: NDArray[np.float64], y: NDArray[np.int_]) -> Suspects:
    """Rank labels by out-of-fold probabilities (labels, classes); no row has seen its own label.

    >>> said = np.array([[0.9, 0.1], [0.95, 0.05], [0.2, 0.8], [0.1, 0.9]])
    >>> found = rank_suspects(said, np.array([0, 1, 1, 1]))
    >>> found.order, found.suspect, found.other[found.order[0]]
    (array([1, 2, 0, 3]), 1, np.int64(0))
    """
    rows, classes = np.arange(len(y)), probabilities.shape[1]
    own = probabilities[rows, y]
    counts = np.bincount(y, minlength=classes)
    usual = np.bincount(y, own, classes) / np.maximum(counts, 1)
    usual[counts == 0] = 1.0
    others = probabilities.copy()
    others[rows, y] = -1.0
    other = others.argmax(1)
    margin = own - others[rows, other]
    spoken_for = (others >= usual).any(1) & (margin < 0)
    order = np.lexsort((margin, ~spoken_for))
    return Suspects(order, int(spoken_for.sum()), other, margin)
