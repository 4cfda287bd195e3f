"""What unlabeled examples tell of the classes: how frequent each is, and whether there are others.

Labels drawn at random have the class frequencies of the data. Ten labels of each class do not.
Saerens et al., "Adjusting the outputs of a classifier to new a priori probabilities" (2002): under
another prior π than that of the labels, π⁰, predictions become

    p'(c|x) ∝ p(c|x) · π_c / π⁰_c          π_c ∝ mean_x p'(c|x)

and EM finds the prior under which they are most likely. As few labels leave it uncertain, ensembles
average over priors of its posterior, by Gibbs sampling: classes of m unlabeled examples are drawn
from p'(c|x), then the prior from a Dirichlet distribution given their counts. How much its
concentration draws it to π⁰ is sampled, too: where the counts are about even, it is much. A model
learned p(c|x)/π⁰ from n labels, and its errors do not average out over more examples, so m = n.

Examples of classes that nobody labeled are far from all labeled examples. Let L be the distances of
labeled examples to the nearest other one, and U those of the unlabeled examples, which are a
mixture: of known classes, with the distances of L, and of unknown ones, which are farther away,

    f_U(d) = (1 − π) f_L(d) + π f_O(d)          P(known | d) = (1 − π) f_L(d) / f_U(d)

The ratio of the densities is an isotonic regression, as it falls with the distance, and 1 − π is
the smallest ratio of the distribution functions around the median, where distances of unknown
classes are rare (positive-unlabeled learning). Few labels do not show how far a known class can
reach, so one more labeled example is assumed at the largest distance.
"""

from __future__ import annotations

import numpy as np

from labelgrad.auto.task import Array, log_normalize

CONCENTRATIONS = 2.0 ** np.arange(-1, 7)  # for each class
DISCARDED, DRAWS, THINNING = 50, 100, 5  # of the Gibbs sampler; one step in five is kept
ITERATIONS, TOLERANCE, MIN_SHARE = 500, 1e-7, 1e-4
DOUBT = 1.0  # standard errors by which U exceeds L: up to here all classes count as known
CENTRE = (0.3, 0.4, 0.5, 0.6, 0.7)  # quantiles of L


def label_prior(y: Array, classes: int) -> Array:
    """The class frequencies of the labels, none of them zero.

    >>> label_prior(np.array([0, 0, 1]), 2).round(3)
    array([0.667, 0.333])
    """
    counts = np.maximum(np.bincount(y, minlength=classes).astype(float), MIN_SHARE)
    return np.asarray(counts / counts.sum())


def estimate_class_prior(log_probabilities: Array, prior: Array) -> Array:
    """The prior under which predictions that assume `prior` are most likely.

    >>> rare = np.log(np.array([[0.99, 0.01]] * 9 + [[0.01, 0.99]]))
    >>> estimate_class_prior(rare, np.array([0.5, 0.5])).round(2)
    array([0.91, 0.09])
    """
    estimate, evidence = prior, log_probabilities - np.log(prior)
    for _ in range(ITERATIONS):
        each = np.exp(log_normalize(evidence + np.log(estimate)))
        counts = np.maximum(each.mean(0), MIN_SHARE)
        moved = counts / counts.sum()
        if abs(moved - estimate).max() < TOLERANCE:
            break
        estimate = moved
    return estimate


def plausible_class_priors(log_probabilities: Array, y: Array) -> Array:
    """Priors of the posterior, where every class has equally many labels `y`.

    Parameters
    ----------
    log_probabilities : array of shape (n, classes)
        Predictions of unlabeled examples that assume the frequencies of the labels.
    y : array of shape (labels,)
        The labels.

    Returns
    -------
    array of shape (draws, classes)

    Examples
    --------
    >>> rare = np.log(np.array([[0.99, 0.01]] * 9 + [[0.01, 0.99]]))
    >>> plausible_class_priors(rare, np.array([0, 1] * 20)).mean(0).round(1)
    array([0.9, 0.1])
    >>> plausible_class_priors(rare, np.array([0, 1] * 2)).mean(0).round(1)
    array([0.7, 0.3])
    """
    from scipy.special import gammaln

    rng, n = np.random.default_rng(0), len(y)
    prior = label_prior(y, log_probabilities.shape[1])
    ratios, drawn = np.exp(log_probabilities) / prior, []
    alphas = len(prior) * np.outer(CONCENTRATIONS, prior)  # (concentrations, classes)
    totals = alphas.sum(1)
    constants = gammaln(totals) - gammaln(totals + n) - gammaln(alphas).sum(1)
    for _ in range(DISCARDED + DRAWS * THINNING):
        cumulative = (ratios[rng.integers(len(ratios), size=n)] * prior).cumsum(1)
        of = (cumulative < rng.random((n, 1)) * cumulative[:, -1:]).sum(1)
        counts = np.bincount(of, minlength=len(prior))
        likely = constants + gammaln(alphas + counts).sum(1)  # the counts' Dirichlet-multinomial
        chances = np.exp(likely - likely.max())
        alpha = alphas[rng.choice(len(alphas), p=chances / chances.sum())]
        prior = np.maximum(rng.dirichlet(alpha + counts), MIN_SHARE)
        prior /= prior.sum()
        drawn.append(prior)
    return np.stack(drawn[DISCARDED::THINNING])


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
        All ones unless unlabeled examples are farther away by a standard error (Mann-Whitney);
        from two standard errors on, unknown classes are certain to exist.

    Examples
    --------
    >>> near, far = np.linspace(0, 1, 100), np.linspace(2, 3, 50)
    >>> float(probability_known(near, near, np.ones(100)).min())
    1.0
    >>> probability_known(near, np.append(near, far), np.ones(100))[[0, -1]].round(1)
    array([1., 0.])
    """
    from sklearn.isotonic import IsotonicRegression

    share = weights / weights.sum()
    order, sorted_unlabeled = np.argsort(labeled), np.sort(unlabeled)
    below = np.searchsorted(sorted_unlabeled, labeled, side="left")
    until = np.searchsorted(sorted_unlabeled, labeled, side="right")
    farther = share @ (1 - (below + until) / 2 / len(unlabeled))
    uneven = (share**2).sum()  # 1 / labels, if all count the same
    doubt = np.clip((farther - 0.5) / np.sqrt(uneven / 12) - DOUBT, 0.0, 1.0)
    if not doubt:
        return np.ones(len(unlabeled))
    farthest, each = [unlabeled.max()], np.full(len(unlabeled), (1 + uneven) / len(unlabeled))
    counts = np.concatenate([share, [uneven], each])
    is_labeled = np.arange(len(counts)) <= len(labeled)
    regression = IsotonicRegression(increasing=False, y_min=1e-6, y_max=1 - 1e-6)
    regression.fit(np.concatenate([labeled, farthest, unlabeled]), is_labeled, counts)
    chance = regression.predict(unlabeled)  # that one of both, drawn equally often, is labeled
    cumulative = share[order].cumsum()
    places = np.minimum(np.searchsorted(cumulative, CENTRE), len(labeled) - 1)
    ratios = until[order][places] / len(unlabeled) / cumulative[places]
    known = np.minimum(1.0, min(1.0, ratios.min()) * chance / (1 - chance))
    return np.asarray(1 - doubt * (1 - known))
