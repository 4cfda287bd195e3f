"""LGA with scikit-learn's interface: a network that learns from labeled and unlabeled rows.

Rows without a label carry -1 in a classification and NaN in a regression.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Self

import narwhals as nw
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn
from torch.nn import functional as F

from labelgrad.functional import one_thread
from labelgrad.labels.rules import Evidence, LazyAdam
from labelgrad.losses import CrossEntropy, Loss, SquaredError
from labelgrad.models.mlp import MLP
from labelgrad.objective import Objective
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.supervised import Supervised
from labelgrad.schedules import Schedule, check_count
from labelgrad.training.batches import TensorBatches
from labelgrad.training.evaluation import fit_temperature, predict
from labelgrad.training.recipe import Recipe, Run

Array = NDArray[Any]
STEPS, RATE = 2000, 1e-3
REGRESSION_RATE = 2e-4
REGRESSION_STEPS, STEPS_PER_LABEL = (300, 5000), 5  # overfitted values are worse than half-learned
ROW_LENGTH = 3.0  # of a row as the default network sees it, however many columns there are
FOLDS = 4
NO_LABEL = (  # what people write where there is no label
    *("unknown", "unk", "unlabeled", "unlabelled", "not labeled", "no label", "undefined"),
    *("missing", "?", "??", "-", "--", "-1", "na", "n/a", "nan", "null", "none", "tbd", "todo"),
)
NEEDS_Y = (
    "this estimator requires y to be passed, but the target y is None: give a label for each row."
)


def as_seed(random_state: Any) -> int:
    """A seed: the number itself, or one that is drawn from what scikit-learn makes of it.

    >>> as_seed(3)
    3
    """
    if isinstance(random_state, int | np.integer):
        check_count("random_state", random_state, least=0, most=2**63 - 1)
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


def known_classes(y: Any) -> tuple[Array, Array]:
    """The known labels, and which rows have one; -1 and missing labels are unlabeled.

    >>> known_classes(np.array([2, -1, 5]))
    (array([2, 5]), array([ True, False,  True]))
    """
    y = _as_array(y, missing=-1)
    if y.dtype.kind == "f":
        check_array(y, ensure_2d=False, input_name="y")  # NaN is no class
    unlabeled = [label in (None, -1, "") or label != label for label in y.tolist()]
    labeled = ~np.array(unlabeled, dtype=bool)
    labels = y[labeled]
    if labels.dtype.kind == "U" and (labels == "-1").any():
        raise ValueError("y must not hold the text '-1'; write None where there is no label.")
    if labels.dtype.kind == "u" and (labels == np.iinfo(labels.dtype).max).any():
        raise ValueError(
            f"y must hold classes in a signed type, got {labels.max()} in {labels.dtype}, which -1 "
            f"becomes there; mark rows after y.astype(int)."
        )
    if labels.dtype == object and len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError("y must hold labels of one type, got text and numbers.")
    return np.asarray(labels.tolist()) if labels.dtype == object else labels, labeled


def no_label_in(counts: Mapping[str, int], total: int) -> str | None:
    """The label that most rows have, if it reads like "no label" and two others are left.

    Parameters
    ----------
    counts
        How often the commonest labels occur, three or more if there are as many.
    total
        How many labels there are.

    Returns
    -------
    str or None
        A label such as "unknown" or "-1", if more than half of all are that.

    Examples
    --------
    >>> no_label_in({"Unknown": 9, "cat": 3, "dog": 4}, 16), no_label_in({"-1": 9, "1": 3}, 12)
    ('Unknown', None)
    """
    most = max(counts, key=counts.__getitem__, default="")
    is_most = len(counts) > 2 and 2 * counts[most] > total
    return most if is_most and most.lower() in NO_LABEL else None


def inner_folds(y: Array) -> list[Array]:
    """Places of labels to hold out in turn, stratified; the only label of a class never is.

    >>> [fold.tolist() for fold in inner_folds(np.array([0, 0, 1, 1, 0, 1, 2]))]
    [[0, 3], [1, 5], [4], [2]]
    """
    several = np.flatnonzero(np.bincount(y)[y] > 1)
    order = several[np.argsort(y[several], kind="stable")]
    return [order[n::FOLDS] for n in range(min(FOLDS, len(order)))]


def known_values(y: Any) -> tuple[Array, Array]:
    """The known values, and which rows have one.

    >>> known_values([2.5, np.nan])
    (array([2.5]), array([ True, False]))
    """
    y = _as_array(y, missing=np.nan)
    values = check_array(
        y, ensure_2d=False, ensure_all_finite="allow-nan", dtype=np.float64, input_name="y"
    )
    labeled = ~np.isnan(values)
    return values[labeled], labeled


def labeled_scorer(scoring: str | Callable[..., float]) -> Callable[..., float]:
    """A scorer of scikit-learn that leaves out unlabeled rows, for `GridSearchCV` and its kin.

    Parameters
    ----------
    scoring : str or callable
        A name such as "neg_log_loss", or a scorer.

    Returns
    -------
    callable
        A scorer.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from labelgrad import LGALinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> partly = np.where(np.arange(len(y)) % 5 == 0, y, -1)
    >>> scorer = labeled_scorer("neg_log_loss")
    >>> bool(cross_val_score(LGALinearClassifier(), X, partly, cv=3, scoring=scorer).mean() > -0.5)
    True
    """
    return partial(_score_labeled, get_scorer(scoring))


def _score_labeled(scorer: Callable[..., float], estimator: Any, X: Any, y: Any) -> float:
    known, labeled = (known_classes if is_classifier(estimator) else known_values)(y)
    return float(scorer(estimator, _safe_indexing(X, np.flatnonzero(labeled)), known))


def _as_array(y: Any, missing: float) -> Array:
    """A target as an array, with `missing` where a series of pandas or polars has none."""
    series = nw.from_native(y, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        return np.asarray(column_or_1d(y, warn=True))
    gaps = series.is_null().to_numpy()
    if not gaps.any():
        return np.asarray(series.to_numpy())
    filled = [missing if gap else label for label, gap in zip(series, gaps, strict=True)]
    return np.array(filled, dtype=object)


class PartlyLabeled:
    """What estimators of partly labeled rows share: how they read `y`, and how they score."""

    _known: Callable[[Any], tuple[Array, Array]]
    _needs_unlabeled: ClassVar = True

    def _read_target(self, X: Any, y: Any) -> tuple[Array, Array]:
        """The known labels of the rows of X, and which rows have one."""
        if y is None:
            raise ValueError(NEEDS_Y)
        known, labeled = self._known(y)
        check_consistent_length(X, labeled)
        if not labeled.any():
            raise ValueError(f"y needs a labeled row, got {len(labeled)} marked unlabeled.")
        if labeled.all() and self._needs_unlabeled:
            warnings.warn(
                "y has no unlabeled row (-1, or NaN in a regression): the fit is supervised.",
                stacklevel=4,
            )
        return known, labeled

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy or R² on the rows that have a label; unlabeled ones are left out."""
        known, labeled = self._known(y)
        weight = None if sample_weight is None else np.asarray(sample_weight)[labeled]
        rows = _safe_indexing(X, np.flatnonzero(labeled))
        return float(super().score(rows, known, weight))  # type: ignore[misc]


class PartlyLabeledClassifier(PartlyLabeled, ClassifierMixin):  # type: ignore[misc]
    """Unlabeled rows carry -1."""

    _known = staticmethod(known_classes)

    def _encode(self, X: Any, y: Any) -> Array:
        """The target as class indices, -1 where unlabeled; sets `classes_`."""
        labels, labeled = self._read_target(X, y)
        check_classification_targets(labels)
        counts = Counter(labels.tolist()) if labels.dtype.kind == "U" else Counter[str]()
        if (unknown := no_label_in(counts, len(labels))) is not None:
            raise ValueError(
                f"y holds {unknown!r} in {counts[unknown]} of {len(labels)} labels; write None "
                f"there if it means that there is no label, or give the class another name."
            )
        self.classes_, encoded = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y needs two classes or more, got one class: {self.classes_[0]}.")
        codes = np.full(len(labeled), -1)
        codes[labeled] = encoded
        return codes

    def _weights(self, sample_weight: ArrayLike | None, codes: Array) -> Array:
        """How much each labeled row counts, 1 on average; weights of other rows are ignored."""
        given = np.ones(len(codes)) if sample_weight is None else sample_weight
        weights = column_or_1d(given, dtype=np.float64)
        check_consistent_length(weights, codes)
        if (weights < 0).any() or not 0 < (mean := weights[codes >= 0].mean()) < np.inf:
            raise ValueError("`sample_weight` must be zero or more, and not zero for all labels.")
        return np.asarray(weights / mean)

    def _set_labels(self, codes: Array, imputed: Array) -> None:
        """The labels of all rows as fitted, from the distributions of the unlabeled ones."""
        self.label_distributions_ = np.eye(len(self.classes_))[codes]
        self.label_distributions_[codes < 0] = imputed
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class of each row."""
        places = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[places])


class PartlyLabeledRegressor(PartlyLabeled, RegressorMixin):  # type: ignore[misc]
    """Unlabeled rows carry NaN."""

    _known = staticmethod(known_values)

    def _standardize(self, X: Any, y: Any) -> Array:
        """The target as standardized values, NaN where unlabeled; sets `mean_` and `scale_`."""
        known, labeled = self._read_target(X, y)
        self.mean_, self.scale_ = float(known.mean()), float(known.std()) or 1.0
        self.transduction_ = np.full(len(labeled), np.nan)
        self.transduction_[labeled] = known
        return (self.transduction_ - self.mean_) / self.scale_

    def _in_units(self, standardized: Array) -> Array:
        return np.asarray(standardized * self.scale_ + self.mean_)

    def predict(self, X: ArrayLike) -> Array:
        """The value of each row."""
        return self._in_units(self._predict(X)[:, 0])


@dataclass(eq=False, repr=False)
class _Network(BaseEstimator):  # type: ignore[misc]
    """What both estimators do with their network; they differ in what they make of `y`."""

    hidden: Sequence[int] = (128, 128)
    _: KW_ONLY
    module: nn.Module | Callable[[], nn.Module] | None = None
    steps: int | None = None
    learning_rate: float | Schedule | None = None
    label_rate: float | Schedule | str = "auto"
    supervised_weight: float | Schedule = 0.1
    batch_size: int = 50
    calibrate: bool | None = None
    device: str | torch.device = "cpu"
    random_state: int | np.random.RandomState | None = None
    _loss: ClassVar[Loss]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.module is None
        tags.input_tags.three_d_array = self.module is not None
        return tags

    def _inputs(self, X: Any, *, reset: bool = False) -> Tensor:
        """X as the network sees it: standardized columns, or any shape for the user's own."""
        own = self.module is not None
        checks = {"order": "C", "reset": reset}  # in C order frames and arrays sum alike
        if own:
            found = validate_data(
                self, X, dtype=np.float32, allow_nd=True, ensure_2d=False, **checks
            )
            return torch.from_numpy(np.array(found))
        checked = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", **checks)
        if reset:
            imputer = SimpleImputer(add_indicator=True, keep_empty_features=True)
            self.scaler_ = make_pipeline(imputer, StandardScaler()).fit(checked)
        x: Tensor = torch.from_numpy(self.scaler_.transform(checked))
        return x * (ROW_LENGTH / math.sqrt(x.shape[1]))

    def _train(self, x: Tensor, y: Array, weights: Array, outputs: int) -> Array:
        """Train the network; what it has learned as labels of the unlabeled rows."""
        seed = as_seed(self.random_state)
        x = x.float()
        with one_thread(self.module is None):
            final = self._run(x, y, weights, outputs, seed)
            self.history_ = list(final)
            self.temperature_ = self._temperature(x, y, weights, outputs, seed)
        self.module_ = final.trainer.evaluated.cpu()
        if self.module is None:
            self.module_.double()  # so that a row is predicted alike alone and among others
        tables = [t.table for t in final.trainer.objective.leaves() if isinstance(t, LGA)]
        return tables[0].labels().double().numpy() if tables else np.zeros((0, outputs))

    def _temperature(self, x: Tensor, y: Array, weights: Array, outputs: int, seed: int) -> float:
        """The temperature that held-out labels ask for; they are imputed like unlabeled ones."""
        wanted = self.module is None if self.calibrate is None else self.calibrate
        if not wanted or not isinstance(self._loss, CrossEntropy):
            return 1.0
        shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(y >= 0))
        folds = [shuffled[places] for places in inner_folds(y[shuffled])]
        if not folds:
            return 1.0
        found = []
        for rows in folds:
            seen = y.copy()
            seen[rows] = -1
            run = self._run(x, seen, weights, outputs, seed).finish()
            found.append(predict(run.trainer.evaluated.cpu(), x[rows]))
        rows, logits = np.concatenate(folds), torch.cat(found).double().numpy()
        return fit_temperature(logits, y[rows], weights=weights[rows])

    def _run(self, x: Tensor, y: Array, weights: Array, outputs: int, seed: int) -> Run:
        """A training on the labels of `y`, which is -1 or NaN where there is none."""
        is_classes = isinstance(self._loss, CrossEntropy)
        labeled = y >= 0 if is_classes else ~np.isnan(y)
        known, others = (torch.from_numpy(np.flatnonzero(m)) for m in (labeled, ~labeled))
        targets = torch.from_numpy(np.where(labeled, y, 0))
        steps, rate = STEPS, RATE
        if not is_classes:
            targets, rate = targets.float(), REGRESSION_RATE
            steps = int(np.clip(STEPS_PER_LABEL * len(known), *REGRESSION_STEPS))
        if (weights[labeled] != 1).any():  # labels add up to their weights
            targets = F.one_hot(targets, outputs) * torch.from_numpy(weights).float()[:, None]
        size, most = min(self.batch_size, len(known)), min(self.batch_size, len(others))
        return Recipe(
            lambda: self._network(x, outputs),
            lambda: self._objective(len(others), outputs),
            TensorBatches(x, targets, rows=known, batch_size=size, seed=seed),
            TensorBatches(x, rows=others, batch_size=most, seed=seed) if most else None,
            steps=steps if self.steps is None else self.steps,
            learning_rate=rate if self.learning_rate is None else self.learning_rate,
            loss=self._loss,
            seed=seed,
            device=self.device,
        ).run()

    def _objective(self, unlabeled: int, outputs: int) -> Objective:
        if not unlabeled:
            return Supervised()
        rate = self.label_rate
        rule = Evidence() if rate == "auto" else LazyAdam(rate)  # type: ignore[arg-type]
        lga = LGA(unlabeled, outputs, loss=self._loss, rule=rule)
        return self.supervised_weight * Supervised() + lga

    def _network(self, x: Tensor, outputs: int) -> nn.Module:
        """The default network, or a copy of the user's, which is never changed."""
        module = self.module
        if module is None:
            return MLP(x.shape[1], self.hidden, outputs)
        built = copy.deepcopy(module) if isinstance(module, nn.Module) else module()
        found = predict(built, x[:1])
        if found.shape[1:] != (outputs,):
            shape = tuple(found.shape)
            raise ValueError(f"`module` must give {outputs} outputs for each row, got {shape}.")
        return built

    def _predict(self, X: Any) -> Array:
        """What the network gives for new rows."""
        check_is_fitted(self)
        return np.asarray(predict(self.module_, self._inputs(X)).double())


class LGAClassifier(PartlyLabeledClassifier, _Network):
    """A network fitted by label gradient alignment; unlabeled rows carry `y == -1`.

    X is an array or a data frame of numbers, missing ones among them. For categories, dates and
    texts use a pipeline of scikit-learn, or `StackedClassifier`.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the hidden layers of the default network, a perceptron on standardized columns.
    module : torch.nn.Module or callable, optional
        A network of your own, or a function that makes one, with one output for each class; then
        X may have any shape, and is passed on as it is.
    steps : int, optional
        Training steps; 2000 by default, fewer for few values in a regression.
    learning_rate, batch_size, device
        How and where the network is trained.
    label_rate : float, Schedule or "auto"
        With "auto" the imputed labels learn by evidence, without a rate; otherwise by the paper's
        Algorithm 1 at this rate.
    supervised_weight : float or Schedule
        Weight of the labeled loss beside the imputed one.
    calibrate : bool, optional
        Whether a temperature calibrates the probabilities; it is fitted on held-out labels, which
        takes four more trainings. By default for the default network.
    random_state : int, optional
        The same number gives the same result.

    Attributes
    ----------
    classes_ : array
        In the order of the columns of probabilities.
    label_distributions_ : array of shape (rows, classes)
        The soft label of every row of X as fitted, given or imputed.
    transduction_ : array of shape (rows,)
        The label of every row of X as fitted, given or most probable.
    history_ : list of dict
        A record of every training step.
    module_ : torch.nn.Module
        The fitted network.
    temperature_ : float
        Logits are divided by it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> partly = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    >>> model = LGAClassifier(steps=100, learning_rate=5e-3, random_state=0)
    >>> model = model.fit(X, partly)
    >>> bool(model.score(X, y) > 0.8)
    True

    """

    _loss = CrossEntropy()

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows with a label, and from rows that carry -1 in its place.

        `sample_weight` says how much the label of each row counts beside the others; weights of
        unlabeled rows are ignored.
        """
        x = self._inputs(X, reset=True)
        codes = self._encode(x, y)
        weights = self._weights(sample_weight, codes)
        self._set_labels(codes, self._train(x, codes, weights, len(self.classes_)))
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class, in the order of `classes_`."""
        return np.asarray(softmax(self._predict(X) / self.temperature_, axis=1))


class LGARegressor(PartlyLabeledRegressor, _Network):
    """A network for values, fitted by label gradient alignment; unlabeled rows carry NaN.

    The parameters are those of `LGAClassifier`. Targets are standardized inside, so that a rate
    that suits one data set suits another in other units. Rows have no weights.

    Attributes
    ----------
    transduction_ : array of shape (rows,)
        The value of every row of X as fitted, given or imputed.
    history_ : list of dict
        A record of every training step.
    module_ : torch.nn.Module
        The fitted network, which gives standardized targets.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X @ [1.0, 2.0, 3.0]
    >>> partly = np.where(np.arange(200) < 30, y, np.nan)
    >>> model = LGARegressor(steps=150, learning_rate=5e-3, random_state=0).fit(X, partly)
    >>> bool(model.score(X, y) > 0.8)
    True

    """

    _loss = SquaredError()

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows with a value, and from rows that carry NaN in its place."""
        x = self._inputs(X, reset=True)
        values = self._standardize(x, y)
        imputed = self._train(x, values, np.ones(len(values)), 1)
        self.transduction_[np.isnan(values)] = self._in_units(imputed[:, 0])
        return self
