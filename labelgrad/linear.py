"""LGA for a linear model without training: regularization in the metric of the unlabeled examples.

LGA moves the label of an unlabeled example as a step on the true labels would move the model's
output there, and trains the model on these labels. A linear model θ that starts at zero therefore
first moves along Σ·g, where g is the supervised gradient and Σ the covariance of all examples: it
favours directions in which they vary (the paper's Section 3). The same preference as a penalty:

    minimize  Σ_labeled loss(x·θ + b, y)  +  1/(2C) · θᵀ Σ^(−p) θ            p = 1

which is logistic regression for p = 0. Cross-validation on the labels weighs both powers p and all
strengths C: model i counts exp(−n·loss_i / 2). With few labels it is repeated, as how they fall
into folds can decide otherwise. A mean of the logits of linear models is a linear model, so that
the result is one.

No d × d matrix is formed. With an orthonormal basis U of the span of the labeled examples,
θ = Σ^p U a, the penalty is aᵀ H a with H = Uᵀ Σ^p U, and Σ^p U takes p products with the examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from labelgrad.sklearn import Array, PartlyLabeledClassifier, inner_folds

STRENGTHS = np.geomspace(1e-3, 1e2, 6)  # C
MIN_PROBABILITY = 1e-4  # one confident mistake should not decide
STRENGTH_PENALTY = 0.5  # labels; a preference for C = 1, per squared factor of ten
CAUTION = 2.0  # the weights of models trust held-out losses by half: labels are few
REPEATS, FEW_LABELS = 3, 1000  # of the cross-validation; labels of all repeats
MIN_VARIANCE = 1e-9


class LGALinearClassifier(PartlyLabeledClassifier, BaseEstimator):  # type: ignore[misc]
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

    _needs_unlabeled = False

    def __init__(self, powers: Sequence[int] = (0, 1)):
        self.powers = powers

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to all rows of X; y is -1 for rows without a label.

        `sample_weight` says how much the label of each row counts beside the others; weights of
        unlabeled rows are ignored.
        """
        if not len(self.powers) or any(p != int(p) or p < 0 for p in self.powers):
            raise ValueError(f"`powers` must be whole numbers from 0 on, got {self.powers!r}.")
        codes = self._encode(X, y)
        examples: Array = validate_data(self, X, dtype=np.float64)
        labeled = np.flatnonzero(codes >= 0)
        mean, target = examples.mean(0), np.eye(len(self.classes_))[codes[labeled]]
        target *= self._weights(sample_weight, codes)[labeled, None]
        centered = examples - mean
        repeats = max(1, min(REPEATS, FEW_LABELS // len(labeled)))
        orders = [np.random.default_rng(n).permutation(len(labeled)) for n in range(repeats)]
        folds = [np.sort(o[fold]) for o in orders for fold in inner_folds(codes[labeled[o]])]
        heads, losses = [], []  # of each power, by strength
        for basis in metric_bases(centered, labeled, self.powers):
            features = centered[labeled] @ basis
            held_out = np.zeros(len(STRENGTHS))
            for fold in folds:
                rest = np.delete(np.arange(len(labeled)), fold)
                path = logistic_path(features[rest], target[rest])  # (strengths, columns + 1, K)
                logs = log_softmax(features[fold] @ path[:, :-1] + path[:, -1:], axis=-1)
                logs = np.maximum(logs, np.log(MIN_PROBABILITY))
                held_out -= (logs * target[fold]).sum((1, 2))
            losses.append(held_out / repeats + STRENGTH_PENALTY * np.log10(STRENGTHS) ** 2)
            path = logistic_path(features, target)
            heads.append(np.concatenate([basis @ path[:, :-1], path[:, -1:]], axis=1))
        weights = softmax(-np.array(losses) / CAUTION)  # (powers, strengths)
        head = np.tensordot(weights, np.array(heads), 2)  # (columns + 1, K)
        self.power_weights_, self.coef_ = weights.sum(1), head[:-1].T
        self.intercept_ = head[-1] - mean @ head[:-1]
        predicted = self.predict_proba(examples).argmax(1)
        self.transduction_ = self.classes_[np.where(codes >= 0, codes, predicted)]
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        probabilities: Array = softmax(X @ self.coef_.T + self.intercept_, axis=1)
        return probabilities


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
