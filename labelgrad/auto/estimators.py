"""The stacked ensemble of `labelgrad.fit` with scikit-learn's interface."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import validation

from labelgrad.auto.base_models.registry import base_models
from labelgrad.auto.config import FitConfig
from labelgrad.auto.cross_fit import cross_fit, label_groups, make_folds
from labelgrad.auto.data.dataset import Dataset, Examples, read
from labelgrad.auto.distillation import distill
from labelgrad.auto.stacking import stack
from labelgrad.auto.task import Array, Classification, Regression
from labelgrad.sklearn import PartlyLabeledClassifier, PartlyLabeledRegressor, as_seed

PREDICTORS = ("ensemble", "student")


@dataclass(eq=False, repr=False)
class _Stacked(BaseEstimator):  # type: ignore[misc]
    """What both estimators do; they differ in what they make of `y`."""

    base_models: str | Sequence[str] | None = None
    _: KW_ONLY
    estimators: Mapping[str, Any] | None = None
    predictor: str = "ensemble"
    steps: int | None = None
    workers: int = 1
    random_state: int | np.random.RandomState | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = True  # in data frames
        return tags

    def _read(self, X: Any) -> Dataset:
        """The rows of a fit, with any labels; how new rows become features is stored."""
        X = self._checked(X, reset=True)
        self.frames_, self.columns_ = None, None
        if _is_frame(X):
            self.frames_ = nw.get_native_namespace(X).__name__
            self.columns_ = [str(name) for name in nw.from_native(X).columns]
        dataset = read(X, np.arange(len(X)) % 2, FitConfig(task="classification"))
        for note in dataset.notes:
            if note.startswith("Left out"):
                warnings.warn(note, stacklevel=3)
        self.preprocessor_ = dataset.preprocessor
        return dataset

    def _examples(self, X: Any) -> Examples:
        """New rows."""
        validation.check_is_fitted(self)
        X = self._checked(X, reset=False)
        if self.columns_ is not None and not _is_frame(X):  # columns by their positions
            columns = dict(zip(self.columns_, X.T, strict=True))
            X = nw.from_dict(columns, backend=self.frames_).to_native()
        return self.preprocessor_.transform(X, FitConfig()).examples

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """A data frame with columns of any kind, or an array of numbers."""
        if _is_frame(X) and (reset or self.columns_ is not None):
            validation._check_feature_names(self, X, reset=reset)
            validation._check_n_features(self, X, reset=reset)
            return X
        return validation.validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan"
        )

    def _stack(self, dataset: Dataset, class_prior: Mapping[str, float] | None = None) -> None:
        """Cross-fit and stack the base models, and train the student if it is to predict."""
        if self.predictor not in PREDICTORS:
            raise ValueError(f"`predictor` must be ensemble or student, got {self.predictor!r}.")
        config = FitConfig(
            base_models=self.base_models,  # type: ignore[arg-type]
            estimators=self.estimators,
            steps=self.steps,
            seed=as_seed(self.random_state),
            workers=self.workers,
            class_prior=class_prior,
        )
        groups, _ = label_groups(dataset)
        folds = make_folds(dataset.y, dataset.task, config.seed, groups)
        models = base_models(config.base_models, config, dataset)
        fits, notes = cross_fit(models, dataset, folds, config)
        self.ensemble_ = stack(fits, dataset, folds, config)
        self.student_ = None
        if self.predictor == "student":
            self.student_ = distill(self.ensemble_, dataset, config).network
        self.notes_ = [*notes, *self.ensemble_.notes]
        self._impute()

    def _impute(self) -> Array:
        """Set the weights, and predict the unlabeled rows; subclasses set the labels of all."""
        self.weights_ = dict(self.ensemble_.weights)
        dataset = self.ensemble_.dataset
        return self.ensemble_.predict(dataset.examples[dataset.unlabeled])

    def _predict(self, X: Any) -> Array:
        examples = self._examples(X)  # refuses an estimator that is not fitted
        return (self.student_ or self.ensemble_).predict(examples)

    def without(self, *names: str) -> Self:
        """The same estimator without some base models, with new weights; nothing is fitted again.

        Parameters
        ----------
        *names
            Of base models in `weights_`.

        """
        other = copy.copy(self)
        other.ensemble_ = self.ensemble_.without(*names)
        other.predictor, other.student_ = "ensemble", None
        other._impute()
        return other


@dataclass(eq=False, repr=False)
class StackedClassifier(PartlyLabeledClassifier, _Stacked):
    """Linear models, trees, graphs and more, stacked on their out-of-fold predictions.

    Unlabeled rows carry `y == -1`. This is what `labelgrad.fit` does with a table. `fit` takes no
    `sample_weight`, because graphs and Gaussian processes have none; `LGAClassifier` and
    `LGALinearClassifier` take it.

    Parameters
    ----------
    base_models : str or sequence of str, optional
        Names such as "linear,neighbours", or training methods such as "lga+vat"; by default those
        that `labelgrad.fit` stacks.
    estimators : mapping of str to classifier, optional
        Classifiers of your own, to be stacked as well.
    predictor : {"ensemble", "student"}
        Whether the ensemble predicts, or the network that is distilled from it.
    steps : int, optional
        Training steps of each network.
    class_prior : mapping of class to float, optional
        Frequency of each class among all rows, where the labels do not show it.
    workers : int
        Processes that fit base models side by side.
    random_state : int, optional
        The same number gives the same result.

    Attributes
    ----------
    classes_ : array
        In the order of the columns of probabilities.
    weights_ : dict
        The weight of each base model.
    label_distributions_ : array of shape (rows, classes)
        The soft label of every row of X as fitted, given or the ensemble's.
    transduction_ : array of shape (rows,)
        The label of every row of X as fitted, given or most probable.
    notes_ : list of str
        What a person should know, a sentence each.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> partly = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    >>> model = StackedClassifier("linear,neighbours", random_state=0).fit(X, partly)
    >>> bool(model.score(X, y) > 0.8), list(model.weights_)
    (True, ['linear', 'neighbours'])

    """

    _: KW_ONLY
    class_prior: Mapping[Any, float] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows with a label, and from rows that carry -1 in its place."""
        dataset = self._read(X)
        codes = self._encode(dataset.X, y)
        task = Classification(tuple(str(label) for label in self.classes_))
        prior = self.class_prior
        named = None if prior is None else {str(name): share for name, share in prior.items()}
        self._stack(replace(dataset, y=codes, task=task), named)
        return self

    def _impute(self) -> Array:
        prediction, y = super()._impute(), self.ensemble_.dataset.y
        self._set_labels(y, np.exp(prediction))
        return prediction

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class, in the order of `classes_`."""
        probabilities: Array = np.exp(self._predict(X))
        probabilities /= probabilities.sum(1, keepdims=True)
        return probabilities

    def predict_proba_by_model(self, X: ArrayLike) -> dict[str, Array]:
        """The same by each base model."""
        found = self.ensemble_.base_predictions(self._examples(X))
        return {name: np.exp(prediction) for name, prediction in found.items()}


class StackedRegressor(PartlyLabeledRegressor, _Stacked):
    """The same for values; unlabeled rows carry NaN.

    The parameters are those of `StackedClassifier`, without `class_prior`.

    Attributes
    ----------
    weights_ : dict
        The weight of each base model.
    transduction_ : array of shape (rows,)
        The value of every row of X as fitted, given or the ensemble's.
    std_ : array of shape (rows,)
        The standard deviation of the ensemble's value, 0 for a given one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> partly = np.where(np.arange(100) < 30, y, np.nan)
    >>> model = StackedRegressor("linear,neighbours", random_state=0).fit(X, partly)
    >>> bool(model.score(X, y) > 0.8)
    True

    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows with a value, and from rows that carry NaN in its place."""
        dataset = self._read(X)
        values = self._standardize(dataset.X, y)
        self._stack(replace(dataset, y=values, task=Regression(self.mean_, self.scale_)))
        return self

    def _impute(self) -> Array:
        prediction, unlabeled = super()._impute(), self.ensemble_.dataset.unlabeled
        self.transduction_ = self.transduction_.copy()
        self.transduction_[unlabeled] = self._in_units(prediction[:, 0])
        self.std_ = np.zeros(len(self.transduction_))
        self.std_[unlabeled] = prediction[:, 1] * self.scale_
        return prediction


def _is_frame(X: Any) -> bool:
    found = nw.from_native(X, eager_only=True, pass_through=True)
    return isinstance(found, nw.DataFrame) and all(isinstance(c, str) for c in found.columns)
