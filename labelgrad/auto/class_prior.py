"""How frequent each class is among all examples, where the labels do not tell.

Labels drawn at random have the class frequencies of the data. Ten labels of each class do not.
Saerens et al., "Adjusting the outputs of a classifier to new a priori probabilities" (2002): EM
finds the prior under which the predictions for unlabeled examples are most likely,

    p'(c|x) ∝ p(c|x) · π_c / π⁰_c          π_c ∝ mean_x p'(c|x) + penalty · π⁰_c

with a penalty towards the labels' own frequencies π⁰. A classifier's errors move the estimate,
too, so it is used only where it differs by more than they explain.
"""

from __future__ import annotations

import numpy as np

from labelgrad.auto.task import Array, log_normalize

PENALTY = 0.2  # share of all examples that have the labels' frequencies in any case
ERROR_MARGIN = 1.5  # times the error rate is how far the estimate must lie from the labels'
ITERATIONS, TOLERANCE, MIN_SHARE = 500, 1e-7, 1e-4


def label_prior(y: Array, classes: int) -> Array:
    """The class frequencies of the labels, none of them zero.

    >>> label_prior(np.array([0, 0, 1]), 2).round(3)
    array([0.667, 0.333])
    """
    counts = np.maximum(np.bincount(y, minlength=classes).astype(float), MIN_SHARE)
    prior: Array = counts / counts.sum()
    return prior


def estimate_class_prior(
    log_probabilities: Array, prior: Array, *, penalty: float = PENALTY
) -> Array:
    """The prior under which predictions that assume `prior` are most likely.

    >>> rare = np.log(np.array([[0.99, 0.01]] * 9 + [[0.01, 0.99]]))
    >>> estimate_class_prior(rare, np.array([0.5, 0.5]), penalty=0).round(2)
    array([0.91, 0.09])
    """
    estimate, evidence = prior, log_probabilities - np.log(prior)
    for _ in range(ITERATIONS):
        each = np.exp(log_normalize(evidence + np.log(estimate)))
        counts = np.maximum(each.mean(0) + penalty * prior, MIN_SHARE)
        moved = counts / counts.sum()
        if abs(moved - estimate).max() < TOLERANCE:
            break
        estimate = moved
    return estimate


def estimate_by_class(log_probabilities: Array, y: Array, error: float) -> Array:
    """The estimate where every class has equally many labels `y`, unless errors explain it.

    Then it is the labels' own prior; `error` is the error rate of the predictions.

    >>> rare = np.log(np.array([[0.99, 0.01]] * 9 + [[0.01, 0.99]]))
    >>> estimate_by_class(rare, np.array([0, 1] * 20), error=0.01).round(1)
    array([0.8, 0.2])
    >>> estimate_by_class(rare, np.array([0, 1] * 20), error=0.5).round(1)
    array([0.5, 0.5])
    """
    prior = label_prior(y, log_probabilities.shape[1])
    estimate = estimate_class_prior(log_probabilities, prior)
    apart = abs(estimate - prior).sum() / 2
    return estimate if apart > ERROR_MARGIN * (error + 1 / len(y)) else prior
