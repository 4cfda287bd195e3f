"""The methods of the bench: baselines of scikit-learn and CatBoost, and ours.

Each baseline has one set of settings for every table, chosen with care: what needs tuning is tuned
by cross-validation within the labels. Only this file knows the estimators of `labelgrad`. TabPFN is
among them where the environment variable TABPFN_V1 is the path of its weights.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from experiments.common import Line
from experiments.tabular.data import Array, Rows

TREES, BOOSTED = 200, 500  # trees of a forest, and of CatBoost
STRENGTHS = np.logspace(-3, 2, 11)  # C of the logistic regression, 1 / α of ridge
MOST_FOLDS, NEIGHBOURS = 4, 10
# Of gradient boosting; the usual 20 rows of a leaf would be all labels there are.
BOOSTING = {"min_samples_leaf": 3, "early_stopping": False}
TABPFN = os.environ.get("TABPFN_V1", "")
SEMI_SUPERVISED = ("self-training", "label-spreading-knn", "label-spreading-rbf")


class Predictions(NamedTuple):
    """A method's predictions for the test rows, and for the rows whose label was not given."""

    method: str
    test: Array  # probabilities (rows, classes), or values (rows,)
    unlabeled: Array
    extra: Line | None = None  # to save beside the scores


def _classifiers(rows: Rows, seed: int) -> dict[str, Callable[[], Any]]:
    from sklearn import ensemble, gaussian_process, semi_supervised
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.svm import SVC

    from experiments.tabular.tabpfn import TabPFN

    counts, labeled = np.bincount(rows.y[rows.given]), np.arange(int(rows.given.sum()))
    width, fewest = rows.x.shape[1], int(counts[counts > 0].min())
    logistic, folds = LogisticRegression(max_iter=5000), min(MOST_FOLDS, fewest)
    tuned: Any = logistic
    platt: Any = [(labeled, labeled)]  # if a class has one label, none is held out
    if fewest > 1:
        shuffled = StratifiedKFold(folds, shuffle=True, random_state=seed)
        tuned = GridSearchCV(logistic, {"C": STRENGTHS}, scoring="neg_log_loss", cv=shuffled)
        platt = folds
    kernel = 1.0 * gaussian_process.kernels.RBF(width**0.5)  # rows are about √(2 · columns) apart
    nearest = {"kernel": "knn", "n_neighbors": min(NEIGHBOURS, len(rows.x)), "max_iter": 200}
    by_distance = {"kernel": "rbf", "gamma": 1 / width, "max_iter": 200}
    spreading, drawn = semi_supervised.LabelSpreading, {"random_state": seed}
    return {
        "logistic-regression": lambda: logistic,
        "logistic-regression-cv": lambda: tuned,
        "random-forest": lambda: ensemble.RandomForestClassifier(TREES, **drawn),
        "extra-trees": lambda: ensemble.ExtraTreesClassifier(TREES, **drawn),
        "gradient-boosting": lambda: ensemble.HistGradientBoostingClassifier(**BOOSTING, **drawn),
        "catboost": lambda: _catboost("CatBoostClassifier", seed),
        "gaussian-process": lambda: gaussian_process.GaussianProcessClassifier(kernel, **drawn),
        "svm": lambda: CalibratedClassifierCV(SVC(), cv=platt, ensemble=False),
        "tabpfn": lambda: TabPFN(TABPFN, **drawn),
        "self-training": lambda: semi_supervised.SelfTrainingClassifier(logistic),
        "label-spreading-knn": lambda: spreading(**nearest),
        "label-spreading-rbf": lambda: spreading(**by_distance),
    }


def _regressors(rows: Rows, seed: int) -> dict[str, Callable[[], Any]]:
    from sklearn import ensemble
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.linear_model import RidgeCV
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.svm import SVR

    kernel = 1.0 * kernels.RBF(rows.x.shape[1] ** 0.5) + kernels.WhiteKernel(0.1)
    process, drawn = {"normalize_y": True, "random_state": seed}, {"random_state": seed}
    nearest = min(NEIGHBOURS // 2, int(rows.given.sum()))
    return {
        "ridge": lambda: RidgeCV(1 / STRENGTHS),
        "random-forest": lambda: ensemble.RandomForestRegressor(TREES, **drawn),
        "extra-trees": lambda: ensemble.ExtraTreesRegressor(TREES, **drawn),
        "gradient-boosting": lambda: ensemble.HistGradientBoostingRegressor(**BOOSTING, **drawn),
        "catboost": lambda: _catboost("CatBoostRegressor", seed),
        "gaussian-process": lambda: GaussianProcessRegressor(kernel, **process),
        "svm": lambda: SVR(),
        "k-neighbours": lambda: KNeighborsRegressor(nearest, weights="distance"),
    }


def _catboost(name: str, seed: int) -> Any:
    import catboost

    quiet = {"thread_count": 1, "allow_writing_files": False, "verbose": False}
    return getattr(catboost, name)(iterations=BOOSTED, random_seed=seed, **quiet)


def _baseline(name: str) -> Callable[[Rows, int], list[Predictions]]:
    def fit(rows: Rows, seed: int) -> list[Predictions]:
        if rows.classes is None:  # in standard deviations of the given values
            y = rows.y[rows.given]
            mean, scale = y.mean(), y.std() or 1.0
            model = _regressors(rows, seed)[name]().fit(rows.x[rows.given], (y - mean) / scale)
            found = predictions(name, model, rows)
            return [Predictions(name, found.test * scale + mean, found.unlabeled * scale + mean)]
        seen = np.ones(len(rows.y), bool) if name in SEMI_SUPERVISED else rows.given
        labels = rows.partial.astype(int)[seen]
        model = _classifiers(rows, seed)[name]().fit(rows.x[seen], labels)
        return [predictions(name, model, rows)]

    return fit


def predictions(name: str, model: Any, rows: Rows, extra: Line | None = None) -> Predictions:
    """What a model predicts for the test rows, and for the rows whose label was not given."""
    wanted = rows.x_test, rows.x[~rows.given]
    if rows.classes is None:
        test, others = (np.ravel(model.predict(x)) for x in wanted)
    else:
        test, others = (probabilities(model, x, rows) for x in wanted)
    return Predictions(name, test, others, extra)


def probabilities(model: Any, x: Array, rows: Rows) -> Array:
    """A column for every class; rows without a prediction have the frequencies of the labels."""
    return whole(model.predict_proba(x), model.classes_, rows)


def whole(part: Array, classes: Any, rows: Rows) -> Array:
    """Probabilities of all classes, out of those of the classes that had a label."""
    found = np.zeros((len(part), rows.classes or 1))
    found[:, np.ravel(classes).astype(int)] = part
    # Label spreading has none for rows that are near no other.
    empty = ~np.isfinite(found).all(1) | (found.sum(1) <= 0)
    found[empty] = np.bincount(rows.y[rows.given], minlength=found.shape[1]) / rows.given.sum()
    return found


def predicted(name: str, model: Any, rows: Rows, extra: Line | None = None) -> Predictions:
    """The predictions of one of our estimators; for the fitted rows, the labels it imputed."""
    if rows.classes is None:
        return predictions(name, model, rows, extra)
    imputed = whole(model.label_distributions_[~rows.given], model.classes_, rows)
    return Predictions(name, probabilities(model, rows.x_test, rows), imputed, extra)


def stacked(rows: Rows, seed: int, **options: Any) -> tuple[Any, Any]:
    """The stacked ensemble and its student, of one fit."""
    from labelgrad.auto.estimators import StackedClassifier, StackedRegressor

    kind = StackedRegressor if rows.classes is None else StackedClassifier
    student = kind(predictor="student", random_state=seed, **options).fit(rows.x, rows.partial)
    model = copy.copy(student)
    model.predictor, model.student_ = "ensemble", None
    return model, student


def _ensemble(rows: Rows, seed: int) -> list[Predictions]:
    """One fit gives the ensemble, its student, and the ensemble without LGA.

    The student's are its own predictions: the labels that were imputed are the ensemble's.
    """
    model, student = stacked(rows, seed)
    weights = {name: round(float(weight), 5) for name, weight in model.weights_.items()}
    found = [
        predicted("pool", model, rows, extra={"weights": weights}),
        predictions("student", student, rows),
    ]
    lga = [name for name in weights if "lga" in name]
    return [*found, predicted("pool-without-lga", model.without(*lga), rows)]


def _with_tabpfn(rows: Rows, seed: int) -> list[Predictions]:
    """The ensemble with one more base model."""
    from experiments.tabular.tabpfn import TabPFN
    from labelgrad.auto.estimators import StackedClassifier

    model = StackedClassifier(
        predictor="ensemble",  # a student would ask TabPFN about thousands of mixed rows
        estimators={"tabpfn": TabPFN(TABPFN, random_state=seed)},
        random_state=seed,
    )
    return [predicted("pool-with-tabpfn", model.fit(rows.x, rows.partial), rows)]


def lga(rows: Rows, seed: int, **options: Any) -> list[Predictions]:
    """LGA alone."""
    return [predicted("lga", _network(rows, seed, options).fit(rows.x, rows.partial), rows)]


def supervised_network(rows: Rows, seed: int, **options: Any) -> list[Predictions]:
    """LGA's network on the labeled rows alone."""
    model = _network(rows, seed, options).fit(rows.x[rows.given], rows.y[rows.given])
    return [predictions("supervised-network", model, rows)]


def _network(rows: Rows, seed: int, options: dict[str, Any]) -> Any:
    from labelgrad.sklearn import LGAClassifier, LGARegressor

    kind = LGARegressor if rows.classes is None else LGAClassifier
    return kind(random_state=seed, **options)


BASELINES = {
    "logistic-regression": "logistic regression",
    "logistic-regression-cv": "logistic regression, tuned",
    "ridge": "ridge regression",
    "random-forest": "random forest",
    "extra-trees": "extra trees",
    "gradient-boosting": "gradient boosting",
    "catboost": "CatBoost",
    "gaussian-process": "Gaussian process",
    "svm": "support vectors",
    "tabpfn": "TabPFN v1",
    "k-neighbours": "nearest neighbours",
    "self-training": "self-training",
    "label-spreading-knn": "label spreading, neighbours",
    "label-spreading-rbf": "label spreading, distance",
}
OURS = {
    "pool": "ensemble",
    "student": "student",
    "pool-without-lga": "ensemble without LGA",
    "pool-with-tabpfn": "ensemble with TabPFN v1",
    "lga": "LGA",
    "supervised-network": "supervised network",
}
TITLES = BASELINES | OURS
ONE_TASK = {"ridge": "regression", "k-neighbours": "regression"} | dict.fromkeys(
    ("logistic-regression", "logistic-regression-cv", *SEMI_SUPERVISED), "classification"
)
ONE_TASK |= dict.fromkeys(("tabpfn", "pool-with-tabpfn"), "classification")
FITS: dict[str, Callable[[Rows, int], list[Predictions]]] = {
    **{name: _baseline(name) for name in BASELINES},
    "pool": _ensemble,
    "pool-with-tabpfn": _with_tabpfn,
    "lga": lga,
    "supervised-network": supervised_network,
}
OF_ONE_FIT = {"student": "pool", "pool-without-lga": "pool"}


def fits_for(task: str, methods: tuple[str, ...] = ()) -> list[str]:
    """What is to be fitted for these methods (default: all) that can do the task.

    >>> fits_for("regression", ("ridge", "svm", "student", "self-training"))
    ['ridge', 'svm', 'pool']
    """
    wanted = {OF_ONE_FIT.get(name, name) for name in methods or TITLES}
    return [
        name
        for name in FITS
        if name in wanted and ONE_TASK.get(name, task) == task and available(name)
    ]


def available(method: str) -> bool:
    """Whether what the method needs is on this machine."""
    if "tabpfn" in method:
        return bool(TABPFN)
    return method != "catboost" or find_spec("catboost") is not None


@contextmanager
def undisturbed() -> Iterator[None]:
    """No warnings, and one thread: trials run in parallel."""
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
