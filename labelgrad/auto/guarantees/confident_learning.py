"""Given labels that are probably wrong, by out-of-fold probabilities.

Confident learning (Northcutt, Jiang and Chuang 2021): a class is confidently predicted where its
out-of-fold probability is at least its mean over the examples labeled with that class. A label is
an issue if another class is confidently predicted and more probable than the label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class RankedLabels(NamedTuple):
    """All labels, the most likely wrong first, and how many of them are issues.

    `other` is the most probable other class of each label, and `margin` the probability of the
    label minus that of the other class; both in the order of the input.
    """

    order: NDArray[np.int_]
    issues: int
    other: NDArray[np.int_]
    margin: NDArray[np.float64]


def rank_labels(probabilities: NDArray[np.float64], y: NDArray[np.int_]) -> RankedLabels:
    """Rank labels by out-of-fold probabilities (labels, classes).

    >>> predicted = np.array([[0.9, 0.1], [0.95, 0.05], [0.2, 0.8], [0.1, 0.9]])
    >>> ranked = rank_labels(predicted, np.array([0, 1, 1, 1]))
    >>> ranked.order, ranked.issues, ranked.other[ranked.order[0]]
    (array([1, 2, 0, 3]), 1, np.int64(0))
    """
    rows, classes = np.arange(len(y)), probabilities.shape[1]
    own = probabilities[rows, y]
    counts = np.bincount(y, minlength=classes)
    threshold = np.bincount(y, own, classes) / np.maximum(counts, 1)
    threshold[counts == 0] = 1.0
    others = probabilities.copy()
    others[rows, y] = -1.0
    other = others.argmax(1)
    margin = own - others[rows, other]
    is_issue = (others >= threshold).any(1) & (margin < 0)
    return RankedLabels(np.lexsort((margin, ~is_issue)), int(is_issue.sum()), other, margin)
