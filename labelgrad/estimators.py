"""LGA behind scikit-learn's interface: `fit`, `predict`, and the labels it imputed.

The same rows, seed and settings give the same weights here and through `labelgrad.fit`: the data
are treated by `labelgrad.inputs`, and the training is a `Recipe`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import narwhals as nw
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import Tensor, nn

from labelgrad.fitting.fit import check_device
from labelgrad.fitting.plan import steps_for
from labelgrad.inputs.frames import frame_columns, is_frame
from labelgrad.inputs.kinds import prepare, read_inputs
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
        steps: int | None = None,
        learning_rate: float | Schedule = 2e-4,
        label_rate: float | Schedule | str = "auto",
        supervised_weight: float | Schedule = 0.1,
        batch_size: int = 50,
        device: str | torch.device = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ):
        self.hidden = hidden
        self.module = module
        self.steps = steps
        self.learning_rate = learning_rate
        self.label_rate = label_rate
        self.supervised_weight = supervised_weight
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self.module is None
        return tags

    def _read(self, X: Any) -> Tensor:
        """X of a fit as the network sees it; how new rows are treated alike is kept."""
        if self.module is not None:
            return torch.from_numpy(self._numbers(X, reset=True))
        if is_frame(X):
            _check_feature_names(self, X, reset=True)
            _check_n_features(self, X, reset=True)
            self.frames_: str | None = nw.get_native_namespace(X).__name__
            self.columns_ = frame_columns(X)[0]
        else:
            self.frames_, X = None, self._numbers(X, reset=True)
        found = read_inputs(X)
        for note in found.notes:
            if note.startswith("Left out"):
                warnings.warn(note, stacklevel=3)
        self.preprocessing_ = found.preprocessing
        return found.x

    def _prepare(self, X: Any) -> Tensor:
        """New rows as the network sees them."""
        if self.module is not None:
            return torch.from_numpy(self._numbers(X, reset=False))
        if self.frames_ is None or not is_frame(X):
            X = self._numbers(X, reset=False)
        else:
            _check_feature_names(self, X, reset=False)
            _check_n_features(self, X, reset=False)
        if self.frames_ is not None and not is_frame(X):  # columns by their places
            backend: Any = self.frames_
            columns = dict(zip(self.columns_, X.T, strict=True))
            X = nw.from_dict(columns, backend=backend).to_native()
        return prepare(self.preprocessing_, X).x

    def _numbers(self, X: Any, *, reset: bool) -> Array:
        """X as an array of numbers: a table, or any shape when the network is the user's own."""
        own = self.module is not None
        checked: Array = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float32 if own else np.float64,
            allow_nd=own,
            ensure_2d=not own,
            ensure_all_finite=True if own else "allow-nan",
        )
        return checked

    def _train(self, x: Tensor, y: Tensor, labeled: Array, width: int, loss: Loss) -> Tensor:
        """Fit the network, and give the labels imputed for the rows that are not labeled."""
        self._check_settings()
        check_device(str(self.device))
        known = torch.from_numpy(labeled)
        given, others = known.nonzero().squeeze(1), (~known).nonzero().squeeze(1)
        labels = torch.zeros(len(x), dtype=y.dtype)
        labels[given] = y
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        run = Recipe(
            self._network(x, width),
            lambda: self._objective(len(others), width, loss),
            self._batches(x, labels, given, int(seed)),
            self._batches(x, None, others, int(seed)) if len(others) else None,
            steps=steps_for(loss, len(given)) if self.steps is None else self.steps,
            learning_rate=self.learning_rate,
            loss=loss,
            seed=int(seed),
            device=self.device,
        ).run()
        self.history_ = list(run)
        self.module_ = run.trainer.evaluated.cpu()
        if self.module is None:
            self.module_.double()  # a row is then predicted alike alone and among others
        tables = [t.table for t in run.trainer.objective.leaves() if isinstance(t, LGA)]
        return tables[0].labels() if tables else torch.zeros(0, width)

    def _check_settings(self) -> None:
        for name in ("steps", "batch_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
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

    def _network(self, x: Tensor, width: int) -> Callable[[], nn.Module]:
        """A network of our own, or a copy of the user's: what was passed in is never changed."""
        module = self.module
        if module is None:
            return lambda: MLP(x.shape[1], self.hidden, width)

        def checked() -> nn.Module:
            built = copy.deepcopy(module) if isinstance(module, nn.Module) else module()
            outputs = predict(built, x[:1])
            if outputs.shape[1:] != (width,):
                raise ValueError(
                    f"`module` must give {width} outputs for each row, one for each class or "
                    f"target, got the shape {tuple(outputs.shape)} for one row."
                )
            return built

        return checked

    def _outputs(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        x = self._prepare(X)
        return predict(self.module_, x.double() if self.module is None else x)


class LGAClassifier(ClassifierMixin, _Network, BaseEstimator):  # type: ignore[misc]
    """A network fitted by label gradient alignment; unlabeled rows carry `y == -1`.

    Parameters
    ----------
    hidden : the widths of the hidden layers of the default network, a perceptron on
        standardized columns.
    module : a network of your own (or a function that makes one), with one output for each
        class; then X may have any shape, and is passed on as it is.
    steps : how long it is trained; None is as long as `labelgrad.fit` would.
    learning_rate, batch_size, device : how and where it is trained.
    label_rate : `"auto"`: the imputed labels learn by evidence, without a rate. A number or a
        schedule: they learn by the paper's Algorithm 1 at this rate.
    supervised_weight : T, the weight of the labeled loss beside the imputed one.
    random_state : the same number gives the same result, and that of `labelgrad.fit` with this
        `seed`.

    X is an array of numbers, missing ones among them, or a data frame of pandas or polars with
    numbers, categories, dates and texts.

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
        x, (targets, labeled) = self._read(X), _classes(y)
        check_consistent_length(x, labeled)
        _need_labels(labeled)
        check_classification_targets(targets)
        self.classes_, encoded = np.unique(targets, return_inverse=True)
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
        classes, labeled = _classes(y)
        kept = _rows(labeled, X, sample_weight)
        return float(super().score(kept[0], classes, kept[1]))


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
        x, targets = self._read(X), _values(y)
        check_consistent_length(x, targets)
        labeled = ~np.isnan(targets)
        _need_labels(labeled)
        self.target_mean_ = targets[labeled].mean()
        self.target_scale_ = targets[labeled].std() or 1.0
        known = torch.from_numpy((targets[labeled] - self.target_mean_) / self.target_scale_)
        imputed = self._train(x, known.float(), labeled, 1, SquaredError())
        self.transduction_ = targets.copy()
        self.transduction_[~labeled] = self._in_units(imputed)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The value of each row."""
        return self._in_units(self._outputs(X))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R² on the rows that have a value; unlabeled ones are left out."""
        values = _values(y)
        kept = _rows(~np.isnan(values), X, values, sample_weight)
        return float(super().score(*kept))

    def _in_units(self, standardized: Tensor) -> Array:
        values: Array = standardized[:, 0].double().numpy() * self.target_scale_ + self.target_mean_
        return values


_NEEDS_Y = (
    "this estimator requires y to be passed, but the target y is None: give one label for each "
    "row of X, with -1 (classes) or NaN (values) where there is none."
)


def _classes(y: Any) -> tuple[Array, Array]:
    """The known labels, and which rows have one; -1 and what is missing are none.

    >>> _classes(np.array([2, -1, 5]))
    (array([2, 5]), array([ True, False,  True]))
    """
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        missing, known = series.is_null().to_numpy(), series.filter(~series.is_null())
        y = np.asarray(known.to_numpy())
        if y.dtype == object:  # texts, perhaps with -1 among them, or numbers of a nullable type
            y = np.empty(len(known), dtype=object)
            y[:] = known.to_list()
    else:
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f":
            check_array(y, ensure_2d=False, input_name="y")  # NaN is no class
        missing = np.zeros(len(y), dtype=bool)
        if y.dtype == object:
            missing = np.array([label is None or label != label for label in y])
        y = y[~missing]
    is_label = np.array([label != -1 for label in y.tolist()], dtype=bool)  # texts always are
    labeled = ~missing
    labeled[labeled] = is_label
    labels = y[is_label]
    return np.asarray(labels.tolist()) if labels.dtype == object else labels, labeled


def _values(y: Any) -> Array:
    """The values, NaN where there is none."""
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        missing = series.is_null().to_numpy()
        y = np.full(len(missing), np.nan)
        y[~missing] = np.asarray(series.filter(~series.is_null()).to_list(), dtype=np.float64)
    values: Array = check_array(
        column_or_1d(y, warn=True),
        ensure_2d=False,
        ensure_all_finite="allow-nan",
        dtype=np.float64,
        input_name="y",
    )
    return values


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
