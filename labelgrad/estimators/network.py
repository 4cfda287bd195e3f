"""LGA behind scikit-learn's interface: `fit`, `predict`, and the labels it imputed.

The same rows, seed and settings give the same weights here and through `labelgrad.fit`: the data
are treated by `labelgrad.inputs`, and the training is a `Recipe`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from labelgrad.estimators.inputs import Inputs, as_seed
from labelgrad.estimators.targets import (
    Array,
    PartlyClasses,
    PartlyValues,
    checked_values,
    encoded_classes,
)
from labelgrad.fitting.asked import check_device
from labelgrad.fitting.cross_validation import held_out_folds
from labelgrad.fitting.plan import rate_for, steps_for
from labelgrad.fitting.train import one_thread
from labelgrad.fitting.verdict import temperature
from labelgrad.labels.evidence import Evidence
from labelgrad.labels.lazy_adam import LazyAdam
from labelgrad.losses import CrossEntropy, Loss, SquaredError
from labelgrad.models.mlp import MLP
from labelgrad.objective import Objective
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.supervised import Supervised
from labelgrad.schedules import Schedule, check_count, check_rate
from labelgrad.training.batches import TensorBatches
from labelgrad.training.evaluation import predict
from labelgrad.training.recipe import Recipe, Run, side_by_side

Module = nn.Module | Callable[[], nn.Module]


class _Network:
    """What both estimators do with their network; they differ in what they make of y."""

    def __init__(
        self,
        hidden: Sequence[int] = (128, 128),
        *,
        module: Module | None = None,
        steps: int | None = None,
        learning_rate: float | Schedule | None = None,
        label_rate: float | Schedule | str = "auto",
        supervised_weight: float | Schedule = 0.1,
        batch_size: int = 50,
        calibrate: bool | None = None,
        standardize: bool = True,
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
        self.calibrate = calibrate
        self.standardize = standardize
        self.device = device
        self.random_state = random_state

    def _train(self, x: Tensor, y: Tensor, labeled: Array, width: int, loss: Loss) -> Tensor:
        """Fit the network, and give the labels imputed for the rows that are not labeled."""
        self._check_settings()
        check_device(str(self.device))
        known = torch.from_numpy(labeled)
        given, others = known.nonzero().squeeze(1), (~known).nonzero().squeeze(1)
        labels = torch.zeros(len(x), dtype=y.dtype)
        labels[given] = y
        seed = as_seed(self.random_state)
        steps = steps_for(loss, len(given)) if self.steps is None else self.steps

        def run(rows: Tensor) -> Run:
            return Recipe(
                self._network(x, width),
                lambda: self._objective(len(others), width, loss),
                self._batches(x, labels, rows, seed),
                self._batches(x, None, others, seed) if len(others) else None,
                steps=steps,
                learning_rate=rate_for(loss) if self.learning_rate is None else self.learning_rate,
                loss=loss,
                seed=seed,
                device=self.device,
            ).run()

        is_wanted = self.module is None if self.calibrate is None else self.calibrate
        folds = held_out_folds(y, seed=seed) if is_wanted and width > 1 else []
        final = run(given)
        judged = [run(given[~torch.isin(torch.arange(len(given)), fold)]) for fold in folds]
        with one_thread(self.module is None):
            moves = side_by_side([final, *judged], steps)
            self.history_ = [record for moved, record in moves if moved is final]
        self.temperature_ = 1.0
        if folds:
            said = [
                predict(each.trainer.evaluated.cpu(), x[given[fold]])
                for each, fold in zip(judged, folds, strict=True)
            ]
            self.temperature_ = temperature(torch.cat(said), y[torch.cat(folds)])
        self.module_ = final.trainer.evaluated.cpu()
        if self.module is None:
            self.module_.double()  # a row is then predicted alike alone and among others
        tables = [t.table for t in final.trainer.objective.leaves() if isinstance(t, LGA)]
        return tables[0].labels() if tables else torch.zeros(0, width)

    def _check_settings(self) -> None:
        for name in ("steps", "batch_size"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if isinstance(self.label_rate, str) and self.label_rate != "auto":
            raise ValueError(
                f"`label_rate` must be a number, a schedule or 'auto', got {self.label_rate!r}."
            )
        for name in ("learning_rate", "supervised_weight", "label_rate"):
            if getattr(self, name) not in ("auto", None):
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
            try:
                outputs = predict(built, x[:1])
            except RuntimeError as error:
                raise ValueError(
                    f"`module` must take rows of the shape {tuple(x.shape[1:])}, and it does not "
                    f"({str(error).splitlines()[0]}); change its first layers, or X."
                ) from None
            if outputs.shape[1:] != (width,):
                raise ValueError(
                    f"`module` must give {width} outputs for each row, one for each class or "
                    f"target, got the shape {tuple(outputs.shape)} for one row."
                )
            return built

        return checked

    def _outputs(self, x: Tensor) -> Tensor:
        return predict(self.module_, x.double() if self.module is None else x)


class LGAClassifier(PartlyClasses, ClassifierMixin, _Network, Inputs, BaseEstimator):  # type: ignore[misc]
    """A network fitted by label gradient alignment; unlabeled rows carry `y == -1`.

    Parameters
    ----------
    hidden : the widths of the hidden layers of the default network, a perceptron on
        standardized columns.
    module : a network of your own (or a function that makes one), with one output for each
        class; then X may have any shape, and is passed on as it is.
    steps : how long it is trained; None is as long as `labelgrad.fit` would.
    learning_rate, batch_size, device : how and where it is trained; without a rate it is that of
        `labelgrad.fit`.
    label_rate : `"auto"`: the imputed labels learn by evidence, without a rate. A number or a
        schedule: they learn by the paper's Algorithm 1 at this rate.
    supervised_weight : T, the weight of the labeled loss beside the imputed one.
    calibrate : whether a temperature makes the probabilities honest, found by networks that are
        trained beside this one on parts of the labels. None: for the default network, where that
        costs little.
    standardize : False where the columns of X have unit spread already, and shall stay as they are.
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
    temperature_ : what its outputs are divided by.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> partly = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    >>> model = LGAClassifier(steps=600, random_state=0).fit(X, partly)
    >>> bool(model.score(X, y) > 0.8)
    True

    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows with a label, and from rows that carry -1 in its place."""
        x = self._read(X)
        self.classes_, encoded, labeled = encoded_classes(x, y)
        known = torch.from_numpy(encoded)
        imputed = self._train(x, known, labeled, len(self.classes_), CrossEntropy())
        self.label_distributions_ = np.eye(len(self.classes_))[encoded[np.cumsum(labeled) - 1]]
        self.label_distributions_[~labeled] = imputed.numpy()
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        outputs = self._outputs(self._prepare(X)).double()
        probabilities: Array = (outputs / self.temperature_).softmax(-1).numpy()
        return probabilities

    def predict(self, X: ArrayLike) -> Array:
        """The likeliest class of each row."""
        check_is_fitted(self)
        likeliest = self._outputs(self._prepare(X)).argmax(-1).numpy()
        predicted: Array = self.classes_[likeliest]
        return predicted


class LGARegressor(PartlyValues, RegressorMixin, _Network, Inputs, BaseEstimator):  # type: ignore[misc]
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
        x = self._read(X)
        targets = checked_values(x, y)
        labeled = ~np.isnan(targets)
        self.target_mean_ = targets[labeled].mean()
        self.target_scale_ = targets[labeled].std() or 1.0
        known = torch.from_numpy((targets[labeled] - self.target_mean_) / self.target_scale_)
        imputed = self._train(x, known.float(), labeled, 1, SquaredError())
        self.transduction_ = targets.copy()
        self.transduction_[~labeled] = self._in_units(imputed)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The value of each row."""
        check_is_fitted(self)
        return self._in_units(self._outputs(self._prepare(X)))

    def _in_units(self, standardized: Tensor) -> Array:
        values: Array = standardized[:, 0].double().numpy() * self.target_scale_ + self.target_mean_
        return values
