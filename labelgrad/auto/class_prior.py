"""What unlabeled examples tell of the classes: how frequent each is, and whether there are others.

Labels drawn at random have the class frequencies of the data. Ten labels of each class do not.
Saerens et al., "Adjusting the outputs of a classifier to new a priori probabilities" (2002): EM
finds the prior under which the predictions for unlabeled examples are most likely,

    p'(c|x) ∝ p(c|x) · π_c / π⁰_c          π_c ∝ mean_x p'(c|x) + penalty · π⁰_c

with a penalty towards the labels' own frequencies π⁰. A classifier's errors move the estimate,
too, so it is used only where it differs by more than they explain.

Examples of classes that nobody labeled are far from all labeled examples. Let L be the distances of
labeled examples to the nearest other one, and U those of the unlabeled examples, which are a
mixture: of known classes, with the distances of L, and of unknown ones, which are farther away,

    f_U(d) = (1 − π) f_L(d) + π f_O(d)          P(known | d) = (1 − π) f_L(d) / f_U(d)

The ratio of the densities is an isotonic regression, as it falls with the distance, and 1 − π is
the smallest ratio of the distribution functions around the median, where distances of unknown
classes are rare (positive-unlabeled learning).
"""

from __future__ import annotations

import numpy as np

from labelgrad.auto.task import Array, log_normalize

PENALTY = 0.2  # share of all examples that have the labels' frequencies in any case
ERROR_MARGIN = 1.5  # times the error rate is how far the estimate must lie from the labels'
ITERATIONS, TOLERANCE, MIN_SHARE = 500, 1e-7, 1e-4
UNLIKELY = 1.64  # standard errors that U must exceed L by, or all classes count as known
CENTRE = (0.3, 0.4, 0.5, 0.6, 0.7)  # quantiles of L


def label_prior(y: Array, classes: int) -> Array:
    """The class frequencies of the labels, none of them zero.

    >>> label_prior(np.array([0, 0, 1]), 2).round(3)
    array([0.667, 0.333])
    """
    counts = np.maximum(np.bincount(y, minlength=classes).astype(float), MIN_SHARE)
    return np.asarray(counts / counts.sum())


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


def probability_known(labeled: Array, unlabeled: Array, weights: Array) -> Array:
    """The probability that each unlabeled example is of a labeled class, by its distance.

    Parameters
    ----------
    labeled : array of shape (labels,)
        Distance of each labeled example to the nearest other one.
    unlabeled : array of shape (n,)
        Distance of each unlabeled example to the nearest labeled one.
    weights : array of shape (labels,)
        What each labeled example counts, where the labels do not have the frequencies of the
        classes.

    Returns
    -------
    array of shape (n,)
        All ones unless unlabeled examples are farther away than chance explains (Mann-Whitney).

    Examples
    --------
    >>> near, far = np.linspace(0, 1, 100), np.linspace(2, 3, 50)
    >>> float(probability_known(near, near, np.ones(100)).min())
    1.0
    >>> probability_known(near, np.append(near, far), np.ones(100))[[0, -1]].round(2)
    array([1., 0.])
    """
    from sklearn.isotonic import IsotonicRegression

    share = weights / weights.sum()
    order, sorted_unlabeled = np.argsort(labeled), np.sort(unlabeled)
    below = np.searchsorted(sorted_unlabeled, labeled, side="left")
    until = np.searchsorted(sorted_unlabeled, labeled, side="right")
    farther = share @ (1 - (below + until) / 2 / len(unlabeled))
    standard_error = np.sqrt((share**2).sum() / 12)
    if farther - 0.5 < UNLIKELY * standard_error:
        return np.ones(len(unlabeled))
    counts = np.concatenate([share, np.full(len(unlabeled), 1 / len(unlabeled))])
    is_labeled = np.arange(len(counts)) < len(labeled)
    regression = IsotonicRegression(increasing=False, y_min=1e-6, y_max=1 - 1e-6)
    regression.fit(np.concatenate([labeled, unlabeled]), is_labeled, counts)
    chance = regression.predict(unlabeled)  # that one of both, drawn equally often, is labeled
    cumulative = share[order].cumsum()
    places = np.minimum(np.searchsorted(cumulative, CENTRE), len(labeled) - 1)
    ratios = until[order][places] / len(unlabeled) / cumulative[places]
    return np.asarray(np.minimum(1.0, min(1.0, ratios.min()) * chance / (1 - chance)))
