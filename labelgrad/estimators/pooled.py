"""All witnesses in one pool behind scikit-learn's interface: what `labelgrad.fit` does, as a model.

The same rows, seed and settings give the same pool and the same student here and there.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from labelgrad.estimators.inputs import Inputs, as_seed
from labelgrad.estimators.targets import (
    Array,
    PartlyClasses,
    PartlyValues,
    checked_values,
    encoded_classes,
)
from labelgrad.fitting.asked import all_witnesses, check_device, checked_shares
from labelgrad.fitting.conclusion import calibration_of
from labelgrad.fitting.cross_validation import CrossValidation
from labelgrad.fitting.plan import make_plan
from labelgrad.fitting.pooling import Pooled, hear_witnesses
from labelgrad.fitting.student import Student, train_student
from labelgrad.fitting.train import one_thread
from labelgrad.inputs.base import Dataset
from labelgrad.training.evaluation import predict

PREDICTORS = ("pool", "student")


class _Witnesses:
    """What both estimators do with their witnesses; they differ in what they make of y."""

    def __init__(
        self,
        witnesses: str | Sequence[str] | None = None,
        *,
        estimators: Mapping[str, Any] | None = None,
        predictor: str = "pool",
        method: str | None = None,
        steps: int | None = None,
        standardize: bool = True,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ):
        self.witnesses = witnesses
        self.estimators = estimators
        self.predictor = predictor
        self.method = method
        self.steps = steps
        self.standardize = standardize
        self.device = device
        self.random_state = random_state

    def _hear(self, dataset: Dataset, shares: Mapping[str, float] | None = None) -> None:
        """Train the networks, hear all others, weigh them, and teach the student."""
        if self.predictor not in PREDICTORS:
            raise ValueError(f"`predictor` must be pool or student, got {self.predictor!r}.")
        check_device(self.device)
        names = self.witnesses
        plan = make_plan(
            dataset,
            method=self.method,
            steps=self.steps,
            seed=as_seed(self.random_state),
            witnesses=names if names is None or isinstance(names, str) else ",".join(names),
        )
        asked = checked_shares(dataset, shares)
        witnesses = all_witnesses(dataset, plan, self.estimators, None)
        with one_thread(True):
            trained = CrossValidation(dataset, plan, device=self.device)
            for _ in trained.records():
                pass
            self.pooled_: Pooled = hear_witnesses(trained, witnesses, shares=asked)
            student = train_student(trained, self.pooled_) if len(trained.unlabeled) > 1 else None
        self.weights_ = dict(self.pooled_.pool.weights)
        self.notes_ = list(self.pooled_.notes)
        self._keep(trained, student)

    def _keep(self, trained: CrossValidation, student: Student | None) -> None:
        """The student; where there was nothing to teach it, the network by the labels alone."""
        calibration = calibration_of(trained, student)
        self.temperature_ = 1.0 if calibration is None else calibration.temperature
        by_labels = trained.trainer(trained.methods[-1]).evaluated
        network = by_labels if student is None else student.network
        self.module_ = copy.deepcopy(network).cpu().double()  # in the pool it stays as it was
        self.target_mean_, self.target_scale_ = trained.mean, trained.spread

    def _said(self, x: Tensor) -> Array:
        """What the pool says of rows, or the student: log-probabilities, or values."""
        if self.predictor == "pool":
            said = self.pooled_.of_new(x)
            return said if self.pooled_.case.classes else said[:, 0]
        outputs = predict(self.module_, x.double())
        if not self.pooled_.case.classes:
            return outputs[:, 0].numpy()
        return (outputs / self.temperature_).log_softmax(-1).numpy()

    @property
    def student_(self) -> Self:
        """The same model, predicting by its student."""
        check_is_fitted(self)
        other = copy.copy(self)
        other.predictor = "student"
        return other

    def without(self, *witnesses: str) -> Self:
        """The same model with fewer witnesses in its pool, weighed anew; nobody is heard again."""
        check_is_fitted(self)
        other = copy.copy(self)
        other.pooled_ = self.pooled_.without(*witnesses)
        other.weights_ = dict(other.pooled_.pool.weights)
        other.predictor = "pool"
        other._impute()
        return other

    def _impute(self) -> None:
        """A label for every row as fitted."""
        raise NotImplementedError


class PooledClassifier(PartlyClasses, ClassifierMixin, _Witnesses, Inputs, BaseEstimator):  # type: ignore[misc]
    """Linear, trees, neighbours, networks and more, weighed by labels that were hidden from them.

    Unlabeled rows carry `y == -1`. This is what `labelgrad.fit` does with a table.

    Parameters
    ----------
    witnesses : the names of those heard beside the networks, such as "linear,neighbours"; None are
        the usual ones, and "" is none.
    estimators : classifiers of your own, by names of your own, that are heard, too.
    predictor : "pool", or "student": the network that the pool has taught.
    method : what the network learns from unlabeled rows by; None is LGA by evidence.
    steps : how long networks are trained; None is as long as `labelgrad.fit` would.
    standardize : False where the columns of X have unit spread already, and shall stay as they are.
    shares : how often each class occurs among all rows, by its name, where labels do not show it.
    device, random_state : where, and from which seed.

    Attributes
    ----------
    classes_ : the classes, in the order of the columns of probabilities.
    weights_ : how much each witness counts, by its name.
    label_distributions_ : for every row of X as fitted, its soft label, true or the pool's.
    transduction_ : for every row of X as fitted, its label: the true one, or the likeliest.
    student_ : this model, predicting by its student.
    notes_ : what was decided on the way, a sentence each.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> partly = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    >>> model = PooledClassifier("linear,neighbours", steps=50, random_state=0).fit(X, partly)
    >>> bool(model.score(X, y) > 0.8), "linear" in model.weights_
    (True, True)

    """

    def __init__(
        self,
        witnesses: str | Sequence[str] | None = None,
        *,
        estimators: Mapping[str, Any] | None = None,
        predictor: str = "pool",
        method: str | None = None,
        steps: int | None = None,
        standardize: bool = True,
        shares: Mapping[str, float] | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ):
        super().__init__(
            witnesses,
            estimators=estimators,
            predictor=predictor,
            method=method,
            steps=steps,
            standardize=standardize,
            device=device,
            random_state=random_state,
        )
        self.shares = shares

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows with a label, and from rows that carry -1 in its place."""
        x = self._read(X)
        self.classes_, encoded, labeled = encoded_classes(x, y)
        indices = np.full(len(x), -1)
        indices[labeled] = encoded
        names = tuple(str(label) for label in self.classes_)
        shares = None if self.shares is None else {str(k): v for k, v in self.shares.items()}
        self._hear(_dataset(x, torch.from_numpy(indices), "classification", names), shares)
        self._impute()
        return self

    def _impute(self) -> None:
        case = self.pooled_.case
        self.label_distributions_ = np.eye(case.classes)[np.maximum(case.y, 0)]
        if len(case.unlabeled):
            self.label_distributions_[case.unlabeled] = np.exp(self.pooled_.of_rows(case.unlabeled))
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        probabilities: Array = np.exp(self._said(self._prepare(X)))
        probabilities /= probabilities.sum(1, keepdims=True)
        return probabilities

    def predict_proba_by_each(self, X: ArrayLike) -> dict[str, Array]:
        """The same by each witness alone, under its name."""
        check_is_fitted(self)
        said = self.pooled_.said_of_new(self._prepare(X))
        return {name: np.exp(logs) for name, logs in said.items()}

    def predict(self, X: ArrayLike) -> Array:
        """The likeliest class of each row."""
        places = self.predict_proba(X).argmax(1)
        predicted: Array = self.classes_[places]
        return predicted


class PooledRegressor(PartlyValues, RegressorMixin, _Witnesses, Inputs, BaseEstimator):  # type: ignore[misc]
    """The same for values; unlabeled rows carry NaN.

    The parameters are those of `PooledClassifier`, without `shares`.

    Attributes
    ----------
    weights_ : how much each witness counts, by its name.
    transduction_ : for every row of X as fitted, its value: the true one, or the pool's.
    spread_ : for every row of X as fitted, how far from it the value may lie: 0 of a true one, or
        the standard deviation that the pool believes in.
    student_ : this model, predicting by its student.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> partly = np.where(np.arange(100) < 30, y, np.nan)
    >>> model = PooledRegressor("linear", steps=50, random_state=0).fit(X, partly)
    >>> bool(model.score(X, y) > 0.8)
    True

    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows with a value, and from rows that carry NaN in its place."""
        x = self._read(X)
        targets = checked_values(x, y)
        self._hear(_dataset(x, torch.tensor(targets), "regression", ()))
        self.transduction_ = targets.copy()
        self._impute()
        return self

    def _impute(self) -> None:
        unlabeled = self.pooled_.case.unlabeled
        self.transduction_ = self.transduction_.copy()
        self.spread_ = np.zeros(len(self.transduction_))
        if len(unlabeled):
            said = self.pooled_.of_rows(unlabeled)
            self.transduction_[unlabeled] = said[:, 0] * self.target_scale_ + self.target_mean_
            self.spread_[unlabeled] = said[:, 1] * self.target_scale_

    def predict(self, X: ArrayLike) -> Array:
        """The value of each row."""
        check_is_fitted(self)
        values: Array = self._said(self._prepare(X)) * self.target_scale_ + self.target_mean_
        return values


def _dataset(x: Tensor, y: Tensor, task: str, classes: tuple[str, ...]) -> Dataset:
    """Rows as `labelgrad.fit` would have read them."""
    names = [str(row) for row in range(len(x))]
    return Dataset("arrays", x, y, task, classes, names)
