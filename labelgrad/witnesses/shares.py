"""How often each class occurs among all rows, where the labels do not say.

Labels that are drawn at random have the classes' shares. Ten labels of each class have not: then
half of the probability of a rare class is the draw's. Saerens et al., "Adjusting the outputs of a
classifier to new a priori probabilities" (2002): by EM the shares are found under which the
probabilities of the unlabeled rows are most likely,

    p'(c|x) ∝ p(c|x) · π_c / π⁰_c          π_c ∝ Σ_x p'(c|x) + pull · rows · π⁰_c

with a pull to the labels' own shares π⁰. A classifier that errs moves shares, too: so they are
believed only where they differ by more than its errors explain.
"""

from __future__ import annotations

import numpy as np

from labelgrad.witnesses.base import Array, normalized

PULL = 0.2  # of all rows, that have the labels' shares whatever is found
BEYOND_ERRORS = 1.5  # times the error is how far shares must lie from the labels' to be believed
STEPS, CLOSE, LEAST = 500, 1e-7, 1e-4


def label_shares(y: Array, classes: int) -> Array:
    """The shares that the labels have, none of them zero.

    >>> label_shares(np.array([0, 0, 1]), 2).round(3)
    array([0.667, 0.333])
    """
    counts = np.maximum(np.bincount(y, minlength=classes).astype(float), LEAST)
    shares: Array = counts / counts.sum()
    return shares


def evenly_drawn(y: Array, classes: int) -> bool:
    """Whether there are equally many labels of each class, which says nothing about shares.

    >>> evenly_drawn(np.array([0, 1, 0, 1]), 2), evenly_drawn(np.array([0, 0, 1]), 2)
    (True, False)
    """
    counts = np.bincount(y, minlength=classes)
    return bool(classes > 1 and counts.min() == counts.max())


def estimated_shares(logs: Array, known: Array, *, pull: float = PULL) -> Array:
    """The shares under which log-probabilities of unlabeled rows, made for `known`, are likeliest.

    >>> rare = np.log(np.array([[0.99, 0.01]] * 9 + [[0.01, 0.99]]))
    >>> estimated_shares(rare, np.array([0.5, 0.5]), pull=0).round(2)
    array([0.91, 0.09])
    """
    shares, evidence = known, logs - np.log(known)
    for _ in range(STEPS):
        each = np.exp(normalized(evidence + np.log(shares)))
        counts = np.maximum(each.mean(0) + pull * known, LEAST)
        moved = counts / counts.sum()
        if abs(moved - shares).max() < CLOSE:
            break
        shares = moved
    return shares


def believed_shares(logs: Array, y: Array, classes: int, error: float) -> Array:
    """The estimated shares where labels are drawn evenly and errors do not explain them."""
    known = label_shares(y, classes)
    if not evenly_drawn(y, classes) or not len(logs):
        return known
    found = estimated_shares(logs, known)
    apart = abs(found - known).sum() / 2
    return found if apart > BEYOND_ERRORS * (error + 1 / len(y)) else known
