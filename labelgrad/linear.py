"""LGA without training: regularization in the metric of the unlabeled examples.

LGA moves the label of an unlabeled example as a step on the true labels would move the model's
output there, and trains the model on these labels. A linear model θ that starts at zero therefore
first moves along Σ·g, where g is the supervised gradient and Σ the covariance of all examples: it
favours directions in which they vary (the paper's Section 3). The same preference as a penalty:

    minimize  Σ_labeled loss(x·θ + b, y)  +  1/(2C) · θᵀ Σ^(−p) θ            p = 1

which is logistic regression for p = 0. Cross-validation on the labels weighs both powers p and all
strengths C: model i counts exp(−n·loss_i / 2). With few labels it is repeated, as how they fall
into folds can decide otherwise. A mean of the logits of linear models is a linear model, so that
the result is one.

The same for functions of a Gaussian kernel, which are linear in its features φ(x): the penalty
prefers functions that differ between groups of examples and hardly within one. Here φ(x) are the
features of Nyström's method, φ(x)·φ(z) ≈ exp(−|x − z|² / 2ℓ²), and cross-validation weighs the
length scales ℓ, too.

No d × d matrix is formed. With an orthonormal basis U of the span of the labeled examples,
θ = Σ^p U a, the penalty is aᵀ H a with H = Uᵀ Σ^p U, and Σ^p U takes p products with the examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from labelgrad.sklearn import Array, PartlyLabeledClassifier, inner_folds

STRENGTHS = np.geomspace(1e-3, 1e2, 6)  # C
MIN_PROBABILITY = 1e-4  # one confident mistake should not decide
STRENGTH_PENALTY = 0.5  # labels; a preference for C = 1, per squared factor of ten
CAUTION = 2.0  # the weights of models trust held-out losses by half: labels are few
REPEATS, FEW_LABELS = 3, 1000  # of the cross-validation; labels of all repeats
TYPICAL = 500  # examples whose median distance is typical
MIN_VARIANCE = 1e-9


class _ByMetric(BaseEstimator):  # type: ignore[misc]
    """What both classifiers do; they differ in the features that their models are linear in."""

    _repeats: ClassVar = 1
    powers: Sequence[int]

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to all rows of X; y is -1 for rows without a label.

        `sample_weight` says how much the label of each row counts beside the others; weights of
        unlabeled rows are ignored.
        """
        if not len(self.powers) or any(p != int(p) or p < 0 for p in self.powers):
            raise ValueError(f"`powers` must be whole numbers from 0 on, got {self.powers!r}.")
        codes = self._encode(X, y)
        examples: Array = validate_data(self, X, dtype=np.float64)
        labeled, losses, heads = np.flatnonzero(codes >= 0), [], []
        target = np.eye(len(self.classes_))[codes[labeled]]
        if sample_weight is not None:
            target *= self._weights(sample_weight, codes)[labeled, None]
        repeats = max(1, min(self._repeats, FEW_LABELS // len(labeled)))
        orders = [np.random.default_rng(n).permutation(len(labeled)) for n in range(repeats)]
        folds = [np.sort(o[fold]) for o in orders for fold in inner_folds(codes[labeled[o]])]
        for features in self._features(examples, fit=True):
            mean = features.mean(0)
            for basis in metric_bases(features - mean, labeled, self.powers):
                inputs, held_out = (features[labeled] - mean) @ basis, np.zeros(len(STRENGTHS))
                for fold in folds:
                    rest = np.delete(np.arange(len(labeled)), fold)
                    path = logistic_path(inputs[rest], target[rest])
                    logs = log_softmax(inputs[fold] @ path[:, :-1] + path[:, -1:], axis=-1)
                    logs = np.maximum(logs, np.log(MIN_PROBABILITY))
                    held_out -= (logs * target[fold]).sum((1, 2))
                losses.append(held_out / repeats + STRENGTH_PENALTY * np.log10(STRENGTHS) ** 2)
                path = logistic_path(inputs, target)  # (strengths, columns + 1, K)
                weights = basis @ path[:, :-1]
                heads.append(
                    np.concatenate([weights, path[:, -1:] - (mean @ weights)[:, None]], axis=1)
                )
        shares = softmax(-np.array(losses) / CAUTION).reshape(-1, len(self.powers), len(STRENGTHS))
        self.power_weights_ = shares.sum((0, 2))
        each = np.array(heads).reshape(*shares.shape, *heads[0].shape[1:])
        self.heads_ = np.einsum("mps,mpsdk->mdk", shares, each)  # of the features of each map
        predicted = self.predict_proba(examples).argmax(1)
        self.transduction_ = self.classes_[np.where(codes >= 0, codes, predicted)]
        return self

    def _features(self, X: Array, *, fit: bool = False) -> Iterable[Array]:
        """What the models are linear in: one array, or one of each length scale."""
        return (X,)

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class."""
        check_is_fitted(self)
        examples: Array = validate_data(self, X, dtype=np.float64, reset=False)
        maps = zip(self._features(examples), self.heads_, strict=True)
        logits = sum(features @ head[:-1] + head[-1] for features, head in maps)
        return np.asarray(softmax(logits, axis=1))


@dataclass(eq=False, repr=False)
class LGALinearClassifier(PartlyLabeledClassifier, _ByMetric):
    """Logistic regression that prefers directions in which all examples vary.

    Columns should have comparable scales, as for any penalized linear model.

    Parameters
    ----------
    powers : sequence of int
        Powers p of the metric; 0 is plain logistic regression and 1 LGA's own metric.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    coef_ : array of shape (n_classes, n_columns)
        Weights of the columns.
    intercept_ : array of shape (n_classes,)
        Intercepts.
    transduction_ : array of shape (n_rows,)
        The given label of each row, or the predicted one.
    power_weights_ : array of shape (n_powers,)
        How much each power counts.

    References
    ----------
    Jackson & Schulman, "Semi-Supervised Learning by Label Gradient Alignment" (2019), Section 3.

    Examples
    --------
    >>> rng, truth = np.random.default_rng(0), np.arange(200) % 2
    >>> X = rng.normal(size=(200, 20))
    >>> X[:, 0] += 6 * truth
    >>> y = np.where(np.arange(200) < 6, truth, -1)  # -1 where there is no label
    >>> model = LGALinearClassifier().fit(X, y)
    >>> model.score(X, truth) > 0.95
    True
    """

    powers: Sequence[int] = (0, 1)
    _needs_unlabeled: ClassVar = False
    _repeats: ClassVar = REPEATS

    @property
    def coef_(self) -> Array:
        """Weights of the columns, (n_classes, n_columns)."""
        return np.asarray(self.heads_[0, :-1].T)

    @property
    def intercept_(self) -> Array:
        """Intercepts, (n_classes,)."""
        return np.asarray(self.heads_[0, -1])


@dataclass(eq=False, repr=False)
class LGAKernelClassifier(PartlyLabeledClassifier, _ByMetric):
    """Kernel logistic regression that prefers functions which differ between groups of examples.

    Columns should have comparable scales.

    Parameters
    ----------
    powers : sequence of int
        Powers p of the metric; 0 is plain kernel logistic regression and 1 LGA's own metric.
    length_scales : sequence of float
        Length scales of the kernel, relative to the median distance of two examples.
    landmarks : int
        How many examples the features are made of, drawn at random.
    random_state : int, optional
        Seeds the drawing.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    transduction_ : array of shape (n_rows,)
        The given label of each row, or the predicted one.
    power_weights_ : array of shape (n_powers,)
        How much each power counts.

    References
    ----------
    Jackson & Schulman, "Semi-Supervised Learning by Label Gradient Alignment" (2019), Section 3;
    Chapelle, Weston & Schölkopf, "Cluster kernels for semi-supervised learning" (2002).

    Examples
    --------
    >>> rng, truth = np.random.default_rng(0), np.arange(300) % 2
    >>> angle = rng.uniform(0, 2 * np.pi, 300)
    >>> X = (1 + 2 * truth)[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)  # two rings
    >>> y = np.where(np.arange(300) < 12, truth, -1)  # -1 where there is no label
    >>> LGAKernelClassifier(random_state=0).fit(X, y).score(X, truth) > 0.95
    True
    """

    powers: Sequence[int] = (1, 2)
    length_scales: Sequence[float] = (0.5, 1.0)
    landmarks: int = 300
    random_state: int | np.random.RandomState | None = None
    _needs_unlabeled: ClassVar = False

    def _features(self, X: Array, *, fit: bool = False) -> Iterable[Array]:
        from scipy.spatial.distance import pdist
        from sklearn.kernel_approximation import Nystroem

        if fit:
            rng = check_random_state(self.random_state)
            some = X[rng.permutation(len(X))[:TYPICAL]]
            typical = float(np.median(pdist(some, "sqeuclidean"))) or 1.0
            drawn = {
                "n_components": min(self.landmarks, len(X)),
                "random_state": rng.randint(2**31),
            }
            gammas = [0.5 / (scale**2 * typical) for scale in self.length_scales]
            self.maps_ = [Nystroem(gamma=gamma, **drawn).fit(X) for gamma in gammas]
        return (each.transform(X) for each in self.maps_)


def metric_bases(X: Array, labeled: Array, powers: Sequence[int]) -> list[Array]:
    """For each power, a basis (columns, k) in which θᵀ Σ^(−p) θ is a multiple of ‖·‖².

    The multiple makes the variance of all examples' features one, whatever the power.
    """
    span = np.linalg.qr(X[labeled].T)[0]  # U, (columns, min(columns, labeled))
    moved, found = span, {}
    for power in range(max(powers) + 1):
        moved = X.T @ (X @ moved) / len(X) if power else span  # Σ^p U
        variances, directions = np.linalg.eigh(span.T @ moved)
        some = variances > MIN_VARIANCE * variances.max()
        basis = moved @ (directions[:, some] / np.sqrt(variances[some]))
        found[power] = basis / (np.std(X @ basis) or 1.0)
    return [found[power] for power in powers]


def logistic_path(X: Array, target: Array) -> Array:
    """Logistic regression for each of `STRENGTHS`: (strengths, columns + 1, classes).

    Rows of `target` add up to the weights of the examples.
    """
    mass = target.sum(1, keepdims=True)
    inputs, size = np.column_stack([X, np.ones(len(X))]), (X.shape[1] + 1, target.shape[1])
    found, flat = [], np.zeros(size[0] * size[1])
    for strength in STRENGTHS:  # each starts where the last one ended

        def loss(flat: Array, strength: float = strength) -> tuple[float, Array]:
            head = flat.reshape(size)
            logits, weight = inputs @ head, head[:-1] / strength
            logits -= logits.max(1, keepdims=True)
            odds = np.exp(logits)
            total = odds.sum(1, keepdims=True)
            gradient = inputs.T @ (odds / total * mass - target)
            gradient[:-1] += weight
            value = (mass * np.log(total)).sum() - (logits * target).sum()
            return float(value + 0.5 * (weight * head[:-1]).sum()), gradient.ravel()

        flat = minimize(loss, flat, jac=True, method="L-BFGS-B", options=OPTIONS).x
        found.append(flat.reshape(size))
    return np.array(found)


OPTIONS = {"maxiter": 200, "maxcor": 20, "gtol": 1e-3}  # of the solver
