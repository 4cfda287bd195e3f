"""LGA behind scikit-learn's interface: `fit`, `predict`, and the labels it imputed."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import Tensor, nn

from labelgrad.functional import random_numbers
from labelgrad.inputs.row_scale import row_scale
from labelgrad.labels.evidence import Evidence
from labelgrad.labels.lazy_adam import LazyAdam
from labelgrad.losses import CrossEntropy, Loss, SquaredError
from labelgrad.models.mlp import MLP
from labelgrad.objective import Objective
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.supervised import Supervised
from labelgrad.schedules import Schedule, check_rate
from labelgrad.training.batches import TensorBatches
from labelgrad.training.evaluation import predict
from labelgrad.training.recipe import Recipe

Array = NDArray[Any]
Module = nn.Module | Callable[[], nn.Module]


class _Network:
    """What both estimators do with X and their network; they differ in what they make of y."""

    def __init__(
        self,
        hidden: Sequence[int] = (128, 128),
        *,
        module: Module | None = None,
        steps: int = 5000,
        learning_rate: float | Schedule = 2e-4,
        label_rate: float | Schedule | str = "auto",
        supervised_weight: float | Schedule = 0.1,
        batch_size: int = 50,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.hidden = hidden
        self.module = module
        self.steps = steps
        self.learning_rate = learning_rate
        self.label_rate = label_rate
        self.supervised_weight = supervised_weight
        self.batch_size = batch_size
        self.random_state = random_state

    def _inputs(self, X: ArrayLike, *, reset: bool) -> Array:
        """X as an array of numbers: a table, or any shape when the network is the user's own."""
        own = self.module is not None
        checked: Array = validate_data(
            self, X, reset=reset, dtype=np.float32, allow_nd=own, ensure_2d=not own
        )
        return checked

    def _train(self, x: Array, y: Tensor, labeled: Array, width: int, loss: Loss) -> Tensor:
        """Fit the network, and give the labels imputed for the rows that are not labeled."""
        self._check_settings()
        seed = int(check_random_state(self.random_state).randint(2**31))
        self._measure_scale(x)
        self.module_ = self._build(x, width, seed)
        inputs, known = self._scaled(x).float(), torch.from_numpy(labeled)
        given, others = known.nonzero().squeeze(1), (~known).nonzero().squeeze(1)
        labels = torch.zeros(len(inputs), *y.shape[1:], dtype=y.dtype)
        labels[given] = y
        recipe = Recipe(
            self.module_,
            lambda: self._objective(len(others), width, loss),
            self._batches(inputs, labels, given, seed),
            self._batches(inputs, None, others, seed) if len(others) else None,
            steps=self.steps,
            learning_rate=self.learning_rate,
            loss=loss,
            seed=seed,
        )
        run = recipe.run()
        self.history_ = list(run)
        if self.module is None:
            self.module_.double()  # a row is then predicted alike alone and among others
        tables = [t.table for t in run.trainer.objective.leaves() if isinstance(t, LGA)]
        return tables[0].labels() if tables else torch.zeros(0, width)

    def _check_settings(self) -> None:
        for name in ("steps", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}.")
        if isinstance(self.label_rate, str) and self.label_rate != "auto":
            raise ValueError(
                f"`label_rate` must be a number, a schedule or 'auto', got {self.label_rate!r}."
            )
        for name in ("learning_rate", "supervised_weight", "label_rate"):
            if getattr(self, name) != "auto":
                check_rate(name, getattr(self, name))

    def _objective(self, rows: int, width: int, loss: Loss) -> Objective:
        if not rows:
            return Supervised()
        rule = Evidence() if isinstance(self.label_rate, str) else LazyAdam(self.label_rate)
        return self.supervised_weight * Supervised() + LGA(rows, width, loss=loss, rule=rule)

    def _batches(self, x: Tensor, y: Tensor | None, rows: Tensor, seed: int) -> TensorBatches:
        size = min(self.batch_size, len(rows))
        return TensorBatches(x, y, rows=rows, batch_size=size, seed=seed)

    def _build(self, x: Array, width: int, seed: int) -> nn.Module:
        """A network of our own, or a copy of the user's: what was passed in is never changed."""
        with random_numbers(torch.device("cpu"), seed):
            if self.module is None:
                return MLP(x.shape[1], self.hidden, width)
            module = self.module
            built = copy.deepcopy(module) if isinstance(module, nn.Module) else module()
        outputs = predict(built, torch.from_numpy(x[:1]))
        if outputs.shape[1:] != (width,):
            raise ValueError(
                f"`module` must give {width} outputs for each row, one for each class or target, "
                f"got the shape {tuple(outputs.shape)} for one row."
            )
        return built

    def _measure_scale(self, x: Array) -> None:
        """Columns of a table are standardized; what the user's own network gets is left alone."""
        if self.module is None:
            self.mean_, self.scale_ = row_scale(x)

    def _scaled(self, x: Array) -> Tensor:
        return torch.from_numpy(x if self.module is not None else (x - self.mean_) / self.scale_)

    def _outputs(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return predict(self.module_, self._scaled(self._inputs(X, reset=False)))


class LGAClassifier(ClassifierMixin, _Network, BaseEstimator):  # type: ignore[misc]
    """A network fitted by label gradient alignment; unlabeled rows carry `y == -1`.

    Parameters
    ----------
    hidden : the widths of the hidden layers of the default network, a perceptron on
        standardized columns.
    module : a network of your own (or a function that makes one), with one output for each
        class; then X may have any shape, and is passed on as it is.
    steps, learning_rate, batch_size : how the network is trained.
    label_rate : `"auto"`: the imputed labels learn by evidence, without a rate. A number or a
        schedule: they learn by the paper's Algorithm 1 at this rate.
    supervised_weight : T, the weight of the labeled loss beside the imputed one.
    random_state : the same number gives the same result.

    Attributes
    ----------
    classes_ : the classes, in the order of the columns of probabilities.
    label_distributions_ : for every row of X as fitted, its soft label: the true one, or imputed.
    transduction_ : for every row of X as fitted, its label: the true one, or the likeliest.
    history_ : a record of every training step.
    module_ : the fitted network.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> partly = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    >>> model = LGAClassifier(steps=600, random_state=0).fit(X, partly)
    >>> bool(model.score(X, y) > 0.8)
    True

    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows with a label, and from rows that carry -1 in its place."""
        if y is None:
            raise ValueError(_NEEDS_Y)
        x, targets = self._inputs(X, reset=True), column_or_1d(y, warn=True)
        check_consistent_length(x, targets)
        if targets.dtype.kind == "f":
            check_array(targets, ensure_2d=False, input_name="y")  # NaN is no class
        labeled = _is_labeled(targets)
        _need_labels(labeled)
        check_classification_targets(targets[labeled])
        self.classes_, encoded = np.unique(targets[labeled], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y needs labels of at least two classes, got one class: {self.classes_[0]}."
            )
        known = torch.from_numpy(encoded)
        imputed = self._train(x, known, labeled, len(self.classes_), CrossEntropy())
        self.label_distributions_ = np.eye(len(self.classes_))[encoded[np.cumsum(labeled) - 1]]
        self.label_distributions_[~labeled] = imputed.numpy()
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class, in the order of `classes_`."""
        probabilities: Array = self._outputs(X).double().softmax(-1).numpy()
        return probabilities

    def predict(self, X: ArrayLike) -> Array:
        """The likeliest class of each row."""
        likeliest = self._outputs(X).argmax(-1).numpy()
        predicted: Array = self.classes_[likeliest]
        return predicted

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on the rows that have a label; unlabeled ones are left out."""
        labeled = _is_labeled(column_or_1d(y))
        return float(super().score(*_rows(labeled, X, y, sample_weight)))


class LGARegressor(RegressorMixin, _Network, BaseEstimator):  # type: ignore[misc]
    """A network for values, fitted by label gradient alignment; unlabeled rows carry NaN.

    The parameters are those of `LGAClassifier`. Targets are standardized inside, so a rate that
    suits one set suits another in other units.

    Attributes
    ----------
    transduction_ : for every row of X as fitted, its value: the true one, or the imputed.
    history_ : a record of every training step.
    module_ : the fitted network, which gives standardized targets.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> partly = np.where(np.arange(200) < 30, y, np.nan)
    >>> model = LGARegressor(steps=500, learning_rate=1e-3, random_state=0).fit(X, partly)
    >>> bool(model.score(X, y) > 0.8)
    True

    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows with a value, and from rows that carry NaN in its place."""
        if y is None:
            raise ValueError(_NEEDS_Y)
        x = self._inputs(X, reset=True)
        targets = check_array(
            column_or_1d(y, warn=True),
            ensure_2d=False,
            ensure_all_finite="allow-nan",
            dtype=np.float64,
            input_name="y",
        )
        check_consistent_length(x, targets)
        labeled = ~np.isnan(targets)
        _need_labels(labeled)
        self.target_mean_ = targets[labeled].mean()
        self.target_scale_ = targets[labeled].std() or 1.0
        known = torch.from_numpy((targets[labeled] - self.target_mean_) / self.target_scale_)
        imputed = self._train(x, known.float(), labeled, 1, SquaredError())
        self.transduction_ = targets.copy()
        self.transduction_[~labeled] = self._values(imputed)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The value of each row."""
        return self._values(self._outputs(X))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R² on the rows that have a value; unlabeled ones are left out."""
        labeled = ~np.isnan(np.asarray(column_or_1d(y), dtype=np.float64))
        return float(super().score(*_rows(labeled, X, y, sample_weight)))

    def _values(self, standardized: Tensor) -> Array:
        values: Array = standardized[:, 0].double().numpy() * self.target_scale_ + self.target_mean_
        return values


_NEEDS_Y = (
    "this estimator requires y to be passed, but the target y is None: give one label for each "
    "row of X, with -1 (classes) or NaN (values) where there is none."
)


def _is_labeled(y: Array) -> Array:
    """Where y is not -1; texts are always labels."""
    if y.dtype.kind in "US":
        return np.ones(len(y), dtype=bool)
    return np.array([label != -1 for label in y], dtype=bool) if y.dtype == object else y != -1


def _need_labels(labeled: Array) -> None:
    if not labeled.any():
        raise ValueError(
            f"y needs at least one labeled row, got none: all {len(labeled)} are marked unlabeled."
        )
    if labeled.all():
        warnings.warn(
            "y has no unlabeled row (-1, or NaN in a regression), so the network is trained on the "
            "labels alone.",
            stacklevel=3,
        )


def _rows(chosen: Array, *arrays: Any) -> list[Any]:
    return [
        None if array is None else _safe_indexing(array, np.flatnonzero(chosen)) for array in arrays
    ]
