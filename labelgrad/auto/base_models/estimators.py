"""Base models that are estimators of scikit-learn, or keep to its interface.

A hyperparameter that the data must choose is chosen inside `fit`, on the labels it may see.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from labelgrad.auto.base_models.base import FittedModel, in_parts, log_probabilities
from labelgrad.auto.data.dataset import Examples
from labelgrad.auto.task import Array, Classification, Task

INNER_FOLDS = 4
TREE_PRIOR = 0.5  # votes shared by all classes: trees that agree may all be wrong
TREE_STD = 0.1  # added to the standard deviation of the trees' values
UNREACHED = 1e-9  # probability of a class that no label has spread to
MAX_ROWS = 50_000  # for estimators that copy all examples, unlabeled ones too
MAX_GAUSSIAN_PROCESS = 1000  # labels; the time grows with their cube


@dataclass(frozen=True, eq=False)
class Setting:
    """What an estimator is built for."""

    y: Array  # the labels it will see
    columns: int
    seed: int


Make = Callable[[Setting], Any]


def read_probabilities(estimator: Any, X: Array, task: Task) -> Array:
    """The prediction of a classifier, or of a regressor with standard deviations."""
    if isinstance(task, Classification):
        probabilities = np.asarray(estimator.predict_proba(X), dtype=float)
        return log_probabilities(probabilities, np.ravel(estimator.classes_), task)
    try:
        mean, std = estimator.predict(X, return_std=True)
    except TypeError:  # cross-fitting scales the one standard deviation to the held-out errors
        mean, std = estimator.predict(X), 1.0
    return task.from_outputs(np.ravel(mean), std)


@dataclass(frozen=True)
class EstimatorModel:
    """A base model that builds and fits an estimator.

    >>> from labelgrad.auto.base_models.registry import BASE_MODELS
    >>> examples = Examples(np.array([[0.0], [0.1], [0.9], [1.0], [0.95]], np.float32))
    >>> task, y = Classification(("a", "b")), np.array([0, 0, 1, 1, -1])
    >>> fitted = BASE_MODELS["linear"]().fit(examples, y, task=task, seed=0)
    >>> int(fitted.predict(examples[np.array([4])]).argmax())
    1
    """

    name: str
    classifier: Make | None = None
    regressor: Make | None = None
    read: str = "probabilities"  # of `READ_BY`: how its output becomes a prediction
    uses_unlabeled: bool = False

    def fit(self, examples: Examples, y: Array, *, task: Task, seed: int) -> FittedModel:
        """Fit a new estimator on the labeled examples, or on all if it uses unlabeled ones."""
        make = self.classifier if isinstance(task, Classification) else self.regressor
        if make is None:
            raise ValueError(f"it does not support {task.name}")
        if self.uses_unlabeled and len(examples) > MAX_ROWS:
            raise ValueError(f"it is limited to {MAX_ROWS:,} examples")
        known = np.flatnonzero(task.is_labeled(y))
        rows = np.arange(len(y)) if self.uses_unlabeled else known
        X = np.asarray(examples.X[rows], dtype=np.float64)
        estimator = make(Setting(y[known], X.shape[1], seed)).fit(X, y[rows])
        return FittedEstimator(estimator, self.read, task)


@dataclass(frozen=True, eq=False)
class FittedEstimator:
    """A fitted estimator."""

    estimator: Any
    read: str
    task: Task

    @in_parts
    def predict(self, examples: Examples) -> Array:
        """A prediction for each example."""
        return READ_BY[self.read](self.estimator, examples.X.astype(np.float64), self.task)


def user_estimator(name: str, estimator: Any) -> EstimatorModel:
    """Any classifier or regressor with scikit-learn's interface; it is cloned, never changed.

    A regressor without `return_std` predicts one standard deviation for all examples.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> user_estimator("naive Bayes", GaussianNB()).name
    'naive Bayes'
    """
    make = partial(_cloned, estimator)
    return EstimatorModel(name, make, make)


def _cloned(estimator: Any, setting: Setting) -> Any:
    from sklearn.base import clone

    del setting
    return clone(estimator, safe=False)


def read_spread_labels(estimator: Any, X: Array, task: Task) -> Array:
    """The prediction of label spreading; where no label has arrived, all classes are equal."""
    assert isinstance(task, Classification)
    with np.errstate(invalid="ignore"):  # where nothing has arrived, zero is divided by zero
        mass = np.nan_to_num(estimator.predict_proba(X)) + UNREACHED
    return log_probabilities(mass / mass.sum(1, keepdims=True), estimator.classes_, task)


def read_trees(estimator: Any, X: Array, task: Task) -> Array:
    """The trees' votes with a weak prior, or the mean and standard deviation of their values."""
    if isinstance(task, Classification):
        trees = len(estimator.estimators_)
        votes = trees * estimator.predict_proba(X) + TREE_PRIOR / len(estimator.classes_)
        return log_probabilities(votes / (trees + TREE_PRIOR), estimator.classes_, task)
    values = np.stack([tree.predict(X) for tree in estimator.estimators_])
    return task.from_outputs(values.mean(0), values.std(0) + TREE_STD)


READ_BY: dict[str, Callable[[Any, Array, Task], Array]] = {
    "probabilities": read_probabilities,
    "trees": read_trees,
    "spread labels": read_spread_labels,
}


def build(path: str, setting: Setting, *, seeded: str | None = None, **parameters: Any) -> Any:
    """An estimator by the path of its class; `seeded` names the parameter for the seed.

    >>> build("sklearn.svm.SVR", Setting(np.zeros(2), 1, seed=0), C=2.0)
    SVR(C=2.0)
    """
    module, name = path.rsplit(".", 1)
    seed = {} if seeded is None else {seeded: setting.seed}
    return getattr(import_module(module), name)(**parameters, **seed)


def self_training(setting: Setting) -> Any:
    """Logistic regression that adds its own confident predictions as labels (Yarowsky, 1995)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    del setting
    return SelfTrainingClassifier(LogisticRegression(max_iter=300))


def gaussian_classifier(setting: Setting) -> Any:
    """A Gaussian process; its length scale is chosen by marginal likelihood."""
    from sklearn.gaussian_process import GaussianProcessClassifier

    return GaussianProcessClassifier(_smooth_kernel(setting), random_state=setting.seed)


def gaussian_regressor(setting: Setting, *, ard: bool = False) -> Any:
    """A Gaussian process; length scale and noise are chosen by marginal likelihood.

    Automatic relevance determination (`ard`) gives every column a length scale of its own.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import WhiteKernel

    kernel = _smooth_kernel(setting, ard) + WhiteKernel(0.1)
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=setting.seed)


def _smooth_kernel(setting: Setting, ard: bool = False) -> Any:
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    if len(setting.y) > MAX_GAUSSIAN_PROCESS:
        raise ValueError(f"it is limited to {MAX_GAUSSIAN_PROCESS:,} labels")
    length = math.sqrt(setting.columns)
    lengths = [length] * (setting.columns if ard else 1)
    return ConstantKernel(1.0) * RBF(lengths, (1e-2 * length, 1e5))


def support_vectors(setting: Setting) -> Any:
    """A support vector machine with probabilities by Platt scaling on held-out examples."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    everything = np.arange(len(setting.y))
    rarest = np.unique(setting.y, return_counts=True)[1].min()  # labels of the rarest class
    folds: Any = min(INNER_FOLDS, int(rarest))
    return CalibratedClassifierCV(
        SVC(), cv=folds if folds > 1 else [(everything, everything)], ensemble=False
    )
