"""Witnesses that are models of other libraries: what a person would pick without us.

All come from scikit-learn, or keep to its interface. A strength that the data must choose is chosen
inside, by the labels that the witness may know.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelgrad.witnesses.base import (
    Array,
    Learned,
    Opinion,
    known_rows,
    log_probabilities,
    values_with_spread,
)

STRENGTHS = np.geomspace(1e-3, 1e3, 13)  # C of a logistic regression
PULL_TO_USUAL = 1.0  # labels' worth of a preference for C = 1, for each factor of ten away from it
INNER_FOLDS = 4
MANY_COLUMNS = 300  # of features: with so many, half of the strengths will do
TREES = 200
NEIGHBOURS = 10
UNREACHED = 1e-9  # of a class, where labels have not spread to
DOUBT = 0.5  # votes for no class in particular: trees that agree may all be wrong
DOUBT_OF_VALUES = 0.1  # of the spread of the known values
MOST_ROWS = 50_000  # for those that are shown all rows, and would copy them several times
MOST_FOR_KERNEL = 1000  # labels; its work grows with their cube

Make = Callable[[Array, int, int], Any]  # known labels, columns, seed → a model to be fitted
Says = Callable[[Any, Array, int], Array]  # a fitted model, examples, classes → an opinion


@dataclass(frozen=True)
class Model:
    """A model that is made and fitted anew for each version of the labels.

    >>> x = np.array([[0.0], [0.1], [0.9], [1.0], [0.95]])
    >>> (opinion,) = linear().hear(x, [np.array([0, 0, 1, 1, -1])], 2, seed=0)
    >>> int(opinion.of_rows(np.array([4])).argmax())
    1
    """

    name: str
    make: Make
    says: Says
    sees_unlabeled: bool = False

    def hear(self, x: Array, labels: Sequence[Array], classes: int, seed: int) -> Sequence[Opinion]:
        """One opinion for each version of the labels."""
        return [self._heard(x, version, classes, seed) for version in labels]

    def _heard(self, x: Array, labels: Array, classes: int, seed: int) -> Opinion:
        if self.sees_unlabeled and len(x) > MOST_ROWS:
            raise ValueError(f"it is for up to {MOST_ROWS:,} rows")
        known = known_rows(labels)
        rows = np.arange(len(x)) if self.sees_unlabeled else known
        model = self.make(labels[known], x.shape[1], seed).fit(x[rows], labels[rows])
        return Learned(x, getattr(model, "best_estimator_", model), self.says, classes)


def is_values(y: Array) -> bool:
    """Whether known labels are values, not classes."""
    return y.dtype.kind == "f"


def linear() -> Model:
    """Logistic regression, its strength by cross-validation; for values Bayesian ridge."""
    return Model("linear", _linear, probabilities_or_values)


def _linear(y: Array, columns: int, seed: int) -> Any:
    from sklearn.linear_model import BayesianRidge, LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    if is_values(y):
        return BayesianRidge()
    fewest = int(np.unique(y, return_counts=True)[1].min())
    if fewest < 2:  # nothing can be held out, so the strength is the usual one
        return LogisticRegression(max_iter=500)
    folds = StratifiedKFold(min(INNER_FOLDS, fewest), shuffle=True, random_state=seed)

    strengths = STRENGTHS if columns < MANY_COLUMNS else STRENGTHS[::2]

    def strongest(found: dict[str, Any]) -> int:
        """The lowest loss, with a pull to the usual strength: few labels choose by chance."""
        away = PULL_TO_USUAL / len(y) * np.log10(strengths) ** 2
        return int(np.argmax(found["mean_test_score"] - away))

    usual = LogisticRegression(max_iter=300)
    grid = {"C": strengths.tolist()}
    search = GridSearchCV(usual, grid, scoring="neg_log_loss", cv=folds, refit=strongest)
    return InSpan(search) if columns > len(y) else search


class InSpan:
    """A search for a linear model, made in the span of the rows: there its weights are anyway.

    A hundred labels span a hundred directions of a thousand columns, and a penalty on the weights'
    length is the same in each basis. `best_estimator_` is a model of all columns.
    """

    def __init__(self, search: Any):
        self.search = search

    def fit(self, x: Array, y: Array) -> InSpan:
        """Search with fewer columns, and turn what was found back."""
        basis = np.linalg.qr(x.T)[0]  # (columns, rows)
        self.best_estimator_ = self.search.fit(x @ basis, y).best_estimator_
        self.best_estimator_.coef_ = self.best_estimator_.coef_ @ basis.T
        self.best_estimator_.n_features_in_ = x.shape[1]
        return self


def self_training() -> Model:
    """Logistic regression that takes over its own sure predictions as labels (Yarowsky, 1995)."""
    return Model("self-training", _self_training, probabilities_or_values, sees_unlabeled=True)


def _self_training(y: Array, columns: int, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    if is_values(y):
        raise ValueError("it is for classes")
    return SelfTrainingClassifier(LogisticRegression(max_iter=300))


def label_spreading() -> Model:
    """scikit-learn's label spreading over directed neighbours: near labels count for most."""
    return Model("label spreading", _label_spreading, spread_or_near, sees_unlabeled=True)


def _label_spreading(y: Array, columns: int, seed: int) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    if is_values(y):
        raise ValueError("it is for classes")
    return LabelSpreading("knn", n_neighbors=NEIGHBOURS)


def forest() -> Model:
    """A random forest; for values the spread is that of its trees."""
    return Model("random forest", _forest, votes_or_trees)


def _forest(y: Array, columns: int, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestRegressor if is_values(y) else RandomForestClassifier
    return kind(TREES, random_state=seed)


def extra_trees() -> Model:
    """Trees that split at random places: smoother than a forest, often better with few labels."""
    return Model("extra trees", _extra_trees, votes_or_trees)


def _extra_trees(y: Array, columns: int, seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    kind = ExtraTreesRegressor if is_values(y) else ExtraTreesClassifier
    return kind(TREES, random_state=seed)


def kernel() -> Model:
    """A Gaussian process; its length scale and its noise by marginal likelihood."""
    return Model("kernel", _kernel, probabilities_or_values)


def _kernel(y: Array, columns: int, seed: int) -> Any:
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    if len(y) > MOST_FOR_KERNEL:
        raise ValueError(f"it is for up to {MOST_FOR_KERNEL} labels")
    smooth = ConstantKernel(1.0) * RBF(math.sqrt(columns), (1e-2 * math.sqrt(columns), 1e5))
    if is_values(y):
        return GaussianProcessRegressor(
            smooth + WhiteKernel(0.1), normalize_y=True, random_state=seed
        )
    return GaussianProcessClassifier(smooth, random_state=seed)


def catboost() -> Model:
    """Gradient boosting by CatBoost, where it is installed."""
    return Model("catboost", _catboost, probabilities_or_values)


def _catboost(y: Array, columns: int, seed: int) -> Any:
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostRegressor if is_values(y) else CatBoostClassifier
    return kind(200, random_seed=seed, verbose=0, allow_writing_files=False, thread_count=1)


def tabicl() -> Model:
    """TabICL, a pretrained model for tables, where it is installed."""
    return Model("tabicl", _tabicl, probabilities_or_values)


def _tabicl(y: Array, columns: int, seed: int) -> Any:
    from tabicl import TabICLClassifier, TabICLRegressor

    kind = TabICLRegressor if is_values(y) else TabICLClassifier
    return kind(random_state=seed)


def given(model: Any, name: str) -> Model:
    """Any classifier or regressor with scikit-learn's interface; it is copied, never changed.

    The spread of a regressor is the error it makes when cross-validated.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> given(GaussianNB(), "bayes").name
    'bayes'
    """

    def make(y: Array, columns: int, seed: int) -> Any:
        from sklearn.base import clone

        new = clone(model) if hasattr(model, "get_params") else copy.deepcopy(model)
        return WithSpread(new) if is_values(y) else new

    return Model(name, make, probabilities_or_values)


class WithSpread:
    """A regressor, and how far it is off where it is cross-validated."""

    def __init__(self, model: Any, spread: float = 1.0):
        self.model, self.spread = model, spread

    def fit(self, x: Array, y: Array) -> WithSpread:
        """Cross-validate it, then fit it to all."""
        from sklearn.model_selection import KFold, cross_val_predict

        folds = KFold(min(INNER_FOLDS, len(y)), shuffle=True, random_state=0)
        off = cross_val_predict(self.model, x, y, cv=folds) - y
        self.spread = float(np.sqrt((off**2).mean()))
        self.model.fit(x, y)
        return self

    def predict(self, x: Array) -> Array:
        found: Array = self.model.predict(x)
        return found


def probabilities_or_values(model: Any, x: Array, classes: int) -> Array:
    """What a fitted classifier says, or a regressor with its spread."""
    if classes:
        return log_probabilities(model.predict_proba(x), model.classes_, classes)
    if isinstance(model, WithSpread):
        return values_with_spread(model.predict(x), model.spread)
    try:
        mean, spread = model.predict(x, return_std=True)
    except TypeError:
        mean, spread = model.predict(x), 1.0
    return values_with_spread(mean, spread)


def spread_or_near(model: Any, x: Array, classes: int) -> Array:
    """What has spread to rows; one that nothing has reached is as likely of any class."""
    with np.errstate(invalid="ignore"):  # where nothing has arrived it is divided by nothing
        said = np.nan_to_num(model.predict_proba(x)) + UNREACHED
    return log_probabilities(said / said.sum(1, keepdims=True), model.classes_, classes)


def votes_or_trees(model: Any, x: Array, classes: int) -> Array:
    """The trees' votes, and half a vote for every class alike; or their mean, and their spread."""
    if classes:
        trees = len(model.estimators_)
        votes = trees * model.predict_proba(x) + DOUBT / len(model.classes_)
        return log_probabilities(votes / (trees + DOUBT), model.classes_, classes)
    each = np.stack([tree.predict(x) for tree in model.estimators_])
    mean, spread = each.mean(0), each.std(0)
    return values_with_spread(mean, spread + DOUBT_OF_VALUES)
