"""Stacking: the weights of base models, and their combined prediction.

For classes the ensemble is log-linear, in log-odds against the class prior π of the labels,

    log p(c|x) = log π_c + Σ_m w_m (log p_m(c|x) − log π_c) + const          w_m ≥ 0

so that a model with weight zero changes nothing, and weights of zero leave the prior. For
regression it is the product of Gaussians with powers w_m: precisions add, and weigh the means.

The weights minimize the loss of out-of-fold predictions plus a penalty on their distance from
equal weights that has the strength of five labels: mean loss + 5/labels · Σ(w_m − 1/M)². The
out-of-fold prediction of the ensemble uses, for each fold, weights fitted on the other folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labelgrad.auto.class_prior import estimate_by_class, label_prior
from labelgrad.auto.cross_fit import CrossFit, Folds
from labelgrad.auto.data.dataset import Dataset, Examples
from labelgrad.auto.task import Array, Classification, Task, clip_confidence, log_normalize

PENALTY = 5.0  # labels
MAX_WEIGHT, MIN_WEIGHT = 3.0, 2e-3  # smaller ones become zero
MIN_PROBABILITY = 0.01  # that a model may give one of few balanced classes
MIN_PRECISION = 1e-9  # below, nothing is known of a value beyond its standardization
MAX_FOR_PRIOR = 50_000  # unlabeled examples that the class prior is estimated on


@dataclass(frozen=True, eq=False)
class LogLinearStacker:
    """Fits weights to predictions, and combines predictions by weights.

    >>> task = Classification(("a", "b"))
    >>> stacker = LogLinearStacker(task, np.array([0.5, 0.5]))
    >>> predictions = np.log([[[0.8, 0.2]], [[0.1, 0.9]]])
    >>> np.exp(stacker.combine(predictions, np.array([1.0, 0.0]))).round(2)
    array([[0.8, 0.2]])
    """

    task: Task
    prior: Array  # (classes,) of the labels; empty for regression

    def combine(self, predictions: Array, weights: Array) -> Array:
        """Predictions (models, n, columns) as one (n, columns)."""
        return self._weighted(self._clipped(predictions), weights)

    def _clipped(self, predictions: Array) -> Array:
        """Predictions no more confident than few labels could make them.

        Where a nearly certain model errs, no weight of the others makes up for it.
        """
        classes = len(self.prior)
        if not classes:
            return predictions
        return clip_confidence(
            predictions, min(MIN_PROBABILITY, 0.1 / classes) * classes * self.prior
        )

    def fit(self, predictions: Array, y: Array, start: Array) -> Array:
        """The weights of the lowest penalized loss; the penalty is on the distance from `start`."""
        from scipy.optimize import minimize

        if not len(y):
            return start
        strength, clipped = PENALTY / len(y), self._clipped(predictions)

        def loss(weights: Array) -> tuple[float, Array]:
            combined, away = self._weighted(clipped, weights), weights - start
            value = self.task.losses(combined, y).mean() + strength * (away**2).sum()
            return float(value), self._gradient(clipped, combined, y) + 2 * strength * away

        bounds = [(0.0 if len(self.prior) else 1e-3, MAX_WEIGHT)] * len(predictions)
        best = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
        weights: Array = np.where(best < MIN_WEIGHT, 0.0, best)
        return weights

    def _weighted(self, predictions: Array, weights: Array) -> Array:
        if len(self.prior):
            prior = np.log(self.prior)
            return log_normalize(prior + np.tensordot(weights, predictions - prior, 1))
        mean, std = predictions[..., 0], predictions[..., 1]
        precision = weights[:, None] / std**2  # (models, n)
        total = precision.sum(0)
        total = np.where(total < MIN_PRECISION, 1.0, total)
        return np.stack([(precision * mean).sum(0) / total, total**-0.5], axis=1)

    def _gradient(self, predictions: Array, combined: Array, y: Array) -> Array:
        gradient: Array
        if len(self.prior):
            odds = predictions - np.log(self.prior)  # (models, n, classes)
            expected = (np.exp(combined) * odds).sum(-1)
            gradient = (expected - odds[:, np.arange(len(y)), y]).mean(1)
            return gradient
        own, precision = predictions[..., 0], predictions[..., 1] ** -2
        mean, std = combined.T
        square = y**2 - 2 * y * own + 2 * own * mean - mean**2
        gradient = (0.5 * precision * (square - std**2)).mean(1)
        return gradient


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Base models with their weights.

    `prior` is the class prior of the labels and `class_prior` that of all examples, as given or
    estimated; predictions are adjusted from one to the other. Both are empty for regression.
    """

    cross_fits: Sequence[CrossFit]
    weights: dict[str, float]
    fold_weights: Sequence[Array]  # by fold, fitted on the others
    prior: Array
    class_prior: Array
    out_of_fold: Array  # (held-out labels, columns)
    dataset: Dataset  # that the base models were fitted on
    folds: Folds
    given_prior: Mapping[str, float] | None = None
    notes: Sequence[str] = ()

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.dataset.task

    @property
    def held_out_y(self) -> Array:
        """The labels that are held out, in the order of the folds."""
        return self.dataset.y[self.folds.rows]

    @property
    def importance(self) -> Array:
        """How much each held-out label counts in an estimate for all examples."""
        y = self.held_out_y
        return (self.class_prior / self.prior)[y] if len(self.prior) else np.ones(len(y))

    def predict(self, examples: Examples, fold: int = -1) -> Array:
        """The combined prediction for each example, known or new.

        With a `fold`, models and weights are those that have not seen its labels.
        """
        parts = [np.zeros((0, self.task.columns))]
        for part in examples.parts():
            if fold < 0:
                parts.append(self.combine(self.base_predictions(part)))
            else:
                stacked = np.stack([each.by_fold[fold].predict(part) for each in self.cross_fits])
                parts.append(self._combined(stacked, self.fold_weights[fold]))
        return np.concatenate(parts)

    def base_predictions(self, examples: Examples) -> dict[str, Array]:
        """The prediction of each base model by its name."""
        return {each.name: each.final.predict(examples) for each in self.cross_fits}

    def combine(self, predictions: Mapping[str, Array]) -> Array:
        """The combined prediction from those of the base models."""
        stacked = np.stack([predictions[name] for name in self.weights])
        return self._combined(stacked, np.array(list(self.weights.values())))

    def _combined(self, stacked: Array, weights: Array) -> Array:
        combined = LogLinearStacker(self.task, self.prior).combine(stacked, weights)
        return _adjusted(combined, self.prior, self.class_prior)

    def without(self, *names: str) -> Ensemble:
        """The ensemble of the other base models, with weights of their own."""
        unknown = [name for name in names if name not in self.weights]
        others = [each for each in self.cross_fits if each.name not in names]
        if unknown or not others:
            raise ValueError(
                f"`names` must be some, not all, of the base models {', '.join(self.weights)}, "
                f"got {', '.join(names)}."
            )
        return stack(others, self.dataset, self.folds, self.given_prior)


def stack(
    cross_fits: Sequence[CrossFit],
    dataset: Dataset,
    folds: Folds,
    class_prior: Mapping[str, float] | None = None,
) -> Ensemble:
    """Fit the weights of base models to their out-of-fold predictions.

    Parameters
    ----------
    cross_fits : sequence of CrossFit
        The base models; those that are not `trusted` start from a weight of zero.
    dataset : Dataset
        What they were fitted on; its unlabeled examples tell the class prior where every class
        has equally many labels.
    folds : Folds
        Which labels were held out together.
    class_prior : mapping of class to float, optional
        The frequency of each class among all examples, if it is known.

    Returns
    -------
    Ensemble
        Where no label could be held out, its weights are equal.
    """
    if not cross_fits:
        raise ValueError("The ensemble needs at least one base model, and all were left out.")
    task, y = dataset.task, dataset.y[folds.rows]
    is_classes = isinstance(task, Classification)
    prior = label_prior(dataset.y[dataset.labeled], task.columns) if is_classes else np.zeros(0)
    stacker = LogLinearStacker(task, prior)
    start = np.array([float(each.trusted) for each in cross_fits])
    start = start / start.sum() if start.any() else np.full(len(start), 1 / len(start))
    predictions = np.stack([each.out_of_fold for each in cross_fits])
    weights = stacker.fit(predictions, y, start)
    fold_weights, out_of_fold = [], np.zeros((len(y), task.columns))
    for fold in range(len(folds)):
        mine = folds.of == fold
        fold_weights.append(stacker.fit(predictions[:, ~mine], y[~mine], start))
        out_of_fold[mine] = stacker.combine(predictions[:, mine], fold_weights[-1])
    out_of_fold = clip_confidence(out_of_fold) if is_classes else out_of_fold
    notes = []
    nothing = stacker.combine(predictions, np.zeros(len(cross_fits)))
    if len(y) and (task.losses(nothing, y) - task.losses(out_of_fold, y)).mean() <= 0:
        what = "the class frequencies" if is_classes else "the mean of all values"
        notes.append(
            f"On held-out labels the base models are no better than {what}: do not rely on the "
            f"predictions."
        )
    named = dict(zip([each.name for each in cross_fits], weights.tolist(), strict=True))
    ensemble = Ensemble(
        cross_fits,
        named,
        fold_weights,
        prior,
        prior,
        out_of_fold,
        dataset,
        folds,
        class_prior,
        notes,
    )
    return _with_class_prior(ensemble) if is_classes else ensemble


def _with_class_prior(ensemble: Ensemble) -> Ensemble:
    """The ensemble for the class prior of all examples, as given or estimated."""
    dataset, prior, notes = ensemble.dataset, ensemble.prior, list(ensemble.notes)
    classes, unlabeled = dataset.task.classes, dataset.unlabeled
    labels = dataset.y[dataset.labeled]
    class_prior, counts = prior, np.bincount(labels, minlength=len(classes))
    if ensemble.given_prior is not None:
        given = np.array([ensemble.given_prior.get(name, 0.0) for name in classes])
        class_prior = np.maximum(given, 1e-6) / np.maximum(given, 1e-6).sum()
    elif counts.min() == counts.max() and len(unlabeled):
        y = ensemble.held_out_y
        error = dataset.task.error(ensemble.out_of_fold, y) if len(y) else 1.0
        some = unlabeled[:: -(-len(unlabeled) // MAX_FOR_PRIOR)]
        class_prior = estimate_by_class(ensemble.predict(dataset.examples[some]), labels, error)
        if abs(class_prior - prior).max() > 0.01:
            shares = zip(classes, class_prior, strict=True)
            listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in list(shares)[:10])
            notes.append(
                f"Every class has equally many labels, but not equally many examples: the class "
                f"prior is estimated as {listed}{' …' if len(class_prior) > 10 else ''}; set it "
                f"with `class_prior` if you know better."
            )
    out_of_fold = _adjusted(ensemble.out_of_fold, prior, class_prior)
    return replace(ensemble, class_prior=class_prior, out_of_fold=out_of_fold, notes=notes)


def _adjusted(prediction: Array, prior: Array, class_prior: Array) -> Array:
    """Log-probabilities under `prior` as those under `class_prior`; values stay."""
    return clip_confidence(prediction + np.log(class_prior / prior)) if len(prior) else prediction
