"""Stacking: the weights of base models, and their combined prediction.

For classes the ensemble is log-linear, in log-odds against the class prior π of the labels,

    log p(c|x) = log π_c + Σ_m w_m (log p_m(c|x) − log π_c) + const          w_m ≥ 0

so that a model with weight zero changes nothing, and weights of zero leave the prior. For
regression it is the product of Gaussians with powers w_m: precisions add, and weigh the means.

The weights are a scale s times shares v that add up to one, w = s·v. They minimize the loss of
out-of-fold predictions plus two penalties, each with the strength of two labels:

    mean loss + 2/labels · (Σ_m v_m log(M·v_m) + log² s)

so that few labels leave equal shares and a scale near one: predictions never shrink to the prior.
The out-of-fold prediction of the ensemble uses, for each fold, weights fitted on the other folds.
Where choosing one model has a lower loss by more than a standard error, that model gets all the
weight; the choice is cross-validated as the weights are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from labelgrad.auto.base_models.base import in_parts
from labelgrad.auto.class_prior import label_prior, plausible_class_priors
from labelgrad.auto.config import FitConfig
from labelgrad.auto.cross_fit import CrossFit, Folds
from labelgrad.auto.data.dataset import Dataset, Examples
from labelgrad.auto.task import Array, Classification, Task, clip_confidence, log_normalize

PENALTY = 2.0  # labels
MAX_SCALE, MIN_WEIGHT = 5.0, 2e-3  # smaller ones become zero
UNTRUSTED = 1e-3  # share that a model starts from which must prove itself, per share of the others
MIN_PROBABILITY = 0.01  # that a model may give one of few balanced classes
MIN_PRECISION = 1e-9  # below, nothing is known of a value beyond its standardization
MAX_FOR_PRIOR = 10_000  # unlabeled examples that the class prior is estimated on


def combine(predictions: Array, weights: Array, prior: Array) -> Array:
    """Predictions (models, n, columns) as one (n, columns); the prior is empty for regression.

    >>> predictions = np.log([[[0.8, 0.2]], [[0.1, 0.9]]])
    >>> np.exp(combine(predictions, np.array([1.0, 0.0]), np.array([0.5, 0.5]))).round(2)
    array([[0.8, 0.2]])
    """
    if len(prior):
        logs = np.log(prior)
        return log_normalize(logs + np.tensordot(weights, predictions - logs, 1))
    mean, std = predictions[..., 0], predictions[..., 1]
    precision = weights[:, None] / std**2  # (models, n)
    total = precision.sum(0)
    total = np.where(total < MIN_PRECISION, 1.0, total)
    return np.stack([(precision * mean).sum(0) / total, total**-0.5], axis=1)


def stacked_weights(predictions: Array, y: Array, start: Array, prior: Array, task: Task) -> Array:
    """The weights of the lowest penalized loss; the shares are drawn to `start`."""
    from scipy.optimize import minimize
    from scipy.special import softmax

    if not len(y):
        return start
    strength = PENALTY / len(y)

    def loss(free: Array) -> tuple[float, Array]:
        shares, scale = softmax(free[:-1]), np.exp(free[-1])
        weights, apart = scale * shares, np.log(shares / start)
        combined = combine(predictions, weights, prior)
        if len(prior):
            odds = predictions - np.log(prior)  # (models, n, classes)
            slopes = (np.exp(combined) * odds).sum(-1) - odds[:, np.arange(len(y)), y]
        else:
            own, precision = predictions[..., 0], predictions[..., 1] ** -2
            mean, std = combined.T
            square = y**2 - 2 * y * own + 2 * own * mean - mean**2
            slopes = 0.5 * precision * (square - std**2)
        by_weight = slopes.mean(1)
        by_share = scale * by_weight + strength * (apart + 1)
        by_scale = weights @ by_weight + 2 * strength * free[-1]
        value = task.losses(combined, y).mean() + strength * (shares @ apart + free[-1] ** 2)
        return float(value), np.append(shares * (by_share - shares @ by_share), by_scale)

    begin, end = np.append(np.log(start), 0.0), np.log(MAX_SCALE)
    bounds = [(-20.0, 20.0)] * len(start) + [(-end, end)]
    best = minimize(loss, begin, jac=True, bounds=bounds, method="L-BFGS-B").x
    weights = np.exp(best[-1]) * softmax(best[:-1])
    return np.where(weights < MIN_WEIGHT, 0.0, weights)


def fit_weights(
    predictions: Array, y: Array, fold: Array, start: Array, prior: Array, task: Task
) -> Array:
    """Stacked weights, or all weight on the best model if choosing one is clearly better.

    Both are cross-validated: weights and choice are made on the other folds, since the best of
    several models seems better than it is. Choosing must lower the loss by a standard error.
    Models that start from a small share are not used alone.
    """
    weights = stacked_weights(predictions, y, start, prior, task)
    alone = np.flatnonzero(start == start.max())
    if len(start) < 2 or len(np.unique(fold)) < 2:
        return weights
    losses = np.stack([task.losses(predictions[place], y) for place in alone])  # (models, labels)
    gains = np.zeros(len(y))  # by choosing one
    for one in np.unique(fold):
        mine = fold == one
        others = stacked_weights(predictions[:, ~mine], y[~mine], start, prior, task)
        chosen = losses[:, ~mine].sum(1).argmin()
        stacked = task.losses(combine(predictions[:, mine], others, prior), y[mine])
        gains[mine] = stacked - losses[chosen, mine]
    if gains.mean() <= gains.std() / np.sqrt(len(y)):
        return weights
    return np.asarray(np.eye(len(start))[alone[losses.sum(1).argmin()]])


def _clipped(predictions: Sequence[Array], prior: Array) -> Array:
    """Predictions of all models, no more confident than few labels could make them.

    Where a nearly certain model errs, no weight of the others makes up for it.
    """
    stacked, classes = np.stack(predictions), len(prior)
    if not classes:
        return stacked
    return clip_confidence(stacked, min(MIN_PROBABILITY, 0.1 / classes) * classes * prior)


def _adjusted(prediction: Array, prior: Array, class_priors: Array) -> Array:
    """Log-probabilities under `prior` as those under `class_priors`, averaged; values stay."""
    if not len(prior):
        return prediction
    each = (log_normalize(prediction + np.log(other / prior)) for other in class_priors)
    return clip_confidence(log_normalize(reduce(np.logaddexp, each)))


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Base models with their weights.

    `prior` is the class prior of the labels; `class_priors` are plausible ones of all examples, or
    the one that is known. Predictions are adjusted to each of them and averaged. For regression
    they are empty.
    """

    cross_fits: Sequence[CrossFit]
    weights: dict[str, float]
    fold_weights: Sequence[Array]  # by fold, fitted on the others
    prior: Array
    class_priors: Array  # (plausible, classes)
    out_of_fold: Array  # (held-out labels, columns)
    dataset: Dataset  # that the base models were fitted on
    folds: Folds
    config: FitConfig = field(default_factory=FitConfig)
    notes: Sequence[str] = ()

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.dataset.task

    @property
    def class_prior(self) -> Array:
        """The mean of the plausible class priors of all examples."""
        return np.asarray(self.class_priors.mean(0))

    @property
    def held_out_y(self) -> Array:
        """The labels that are held out, in the order of the folds."""
        return self.dataset.y[self.folds.rows]

    @in_parts
    def predict(self, examples: Examples, fold: int = -1) -> Array:
        """The combined prediction for each example, known or new.

        With a `fold`, models and weights are those that have not seen its labels.
        """
        return self.combine(self.base_predictions(examples, fold), fold)

    def base_predictions(self, examples: Examples, fold: int = -1) -> dict[str, Array]:
        """The prediction of each base model by its name."""
        return {
            each.name: (each.final if fold < 0 else each.by_fold[fold]).predict(examples)
            for each in self.cross_fits
        }

    def combine(self, predictions: Mapping[str, Array], fold: int = -1) -> Array:
        """The combined prediction from those of the base models."""
        weights = np.array(list(self.weights.values())) if fold < 0 else self.fold_weights[fold]
        clipped = _clipped([predictions[name] for name in self.weights], self.prior)
        return _adjusted(combine(clipped, weights, self.prior), self.prior, self.class_priors)

    def without(self, *names: str) -> Ensemble:
        """The ensemble of the other base models, with weights of their own."""
        unknown = [name for name in names if name not in self.weights]
        others = [each for each in self.cross_fits if each.name not in names]
        if unknown or not others:
            raise ValueError(
                f"`names` must be some, not all, of the base models {', '.join(self.weights)}, "
                f"got {', '.join(names)}."
            )
        return stack(others, self.dataset, self.folds, self.config)


def stack(
    cross_fits: Sequence[CrossFit],
    dataset: Dataset,
    folds: Folds,
    config: FitConfig | None = None,
) -> Ensemble:
    """Fit the weights of base models to their out-of-fold predictions.

    Parameters
    ----------
    cross_fits : sequence of CrossFit
        The base models; those that are not `trusted` start from a small weight.
    dataset : Dataset
        What they were fitted on; its unlabeled examples tell the class prior where every class
        has equally many labels.
    folds : Folds
        Which labels were held out together.
    config : FitConfig, optional
        Its `class_prior` is the frequency of each class among all examples, if it is known, and
        `label_sampling` says whether labels have these frequencies.

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
    start = np.array([1.0 if each.trusted else UNTRUSTED for each in cross_fits])
    start = start / start.sum()
    predictions = _clipped([each.out_of_fold for each in cross_fits], prior)
    weights = fit_weights(predictions, y, folds.of, start, prior, task)
    fold_weights, out_of_fold = [], np.zeros((len(y), task.columns))
    for fold in range(len(folds)):
        mine = folds.of == fold
        given = predictions[:, ~mine], y[~mine], folds.of[~mine]
        fold_weights.append(fit_weights(*given, start, prior, task))
        out_of_fold[mine] = combine(predictions[:, mine], fold_weights[-1], prior)
    out_of_fold = clip_confidence(out_of_fold) if is_classes else out_of_fold
    notes = []
    nothing = combine(predictions, np.zeros(len(cross_fits)), prior)
    if len(y) and (task.losses(nothing, y) - task.losses(out_of_fold, y)).mean() <= 0:
        what = "the class frequencies" if is_classes else "the mean of all values"
        notes.append(
            f"On held-out labels the base models are no better than {what}: do not rely on the "
            f"predictions."
        )
    named = {each.name: float(each_w) for each, each_w in zip(cross_fits, weights, strict=True)}
    priors = prior, prior[None]  # of the labels, and of all examples until they are known
    ensemble = Ensemble(cross_fits, named, fold_weights, *priors, out_of_fold, dataset, folds)
    ensemble = replace(ensemble, config=config or FitConfig(), notes=notes)
    return _with_class_priors(ensemble) if is_classes else ensemble


def _with_class_priors(ensemble: Ensemble) -> Ensemble:
    """The ensemble for the class priors of all examples, as given or estimated."""
    dataset, prior, config = ensemble.dataset, ensemble.prior, ensemble.config
    classes, unlabeled, notes = dataset.task.classes, dataset.unlabeled, list(ensemble.notes)
    labels, class_priors = dataset.y[dataset.labeled], prior[None]
    counts = np.bincount(labels, minlength=len(classes))
    if config.class_prior is not None:
        given = np.array([config.class_prior.get(name, 0.0) for name in classes])
        class_priors = np.maximum(given, 1e-6)[None] / np.maximum(given, 1e-6).sum()
    elif counts.min() == counts.max() and len(unlabeled) and config.label_sampling != "random":
        some = unlabeled[:: -(-len(unlabeled) // MAX_FOR_PRIOR)]
        class_priors = plausible_class_priors(ensemble.predict(dataset.examples[some]), labels)
        mean, std = class_priors.mean(0), class_priors.std(0)
        if (abs(mean - prior) > 2 * std).any():
            shares = list(zip(classes, mean, std, strict=True))[:10]
            listed = ", ".join(f"{name} {100 * m:.0f} ± {100 * s:.0f} %" for name, m, s in shares)
            notes.append(
                f"Every class has equally many labels, but not equally many examples: the class "
                f"prior is estimated as {listed}{' …' if len(classes) > 10 else ''}; set it "
                f"with `class_prior` if you know better."
            )
    out_of_fold = _adjusted(ensemble.out_of_fold, prior, class_priors)
    return replace(ensemble, class_priors=class_priors, out_of_fold=out_of_fold, notes=notes)
