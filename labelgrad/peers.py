"""What a person would try first on the same rows: scikit-learn's usual methods, and CatBoost.

Each has one set of settings for every table, with the care that somebody takes who knows it: what
needs tuning chooses by cross-validation, within the labels. Inputs have columns of unit variance,
and values are handed over in standard deviations of those that are given.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgrad.nearest import did_you_mean

Array = NDArray[Any]
TREES, BOOSTED = 200, 500  # trees of a forest, and of CatBoost
STRENGTHS = np.logspace(-3, 2, 11)  # C of the logistic regression, 1 / α of ridge
MOST_FOLDS = 4
NEIGHBOURS = 10
LEAST = 1e-4  # a probability, before a loss
FEW = 3  # rows that a leaf needs; the usual 20 would be all labels there are


@dataclass(frozen=True)
class Given:
    """What an estimator is made for."""

    seed: int
    columns: int
    rows: int  # that it is fitted on
    fewest: int = 0  # labels of the rarest class


@dataclass(frozen=True)
class Peer:
    """A method by what it makes for classes and for values; some see unlabeled rows, too."""

    title: str
    classes: Callable[[Given], Any] | None
    values: Callable[[Given], Any] | None
    sees_unlabeled: bool = False
    needs: str = "sklearn"  # the package


def _logistic_regression(given: Given) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=5000)


def _tuned_logistic_regression(given: Given) -> Any:
    """C by cross-validation; where a class has one label there is nothing to hold out."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    if given.fewest < 2:
        return _logistic_regression(given)
    folds = StratifiedKFold(min(MOST_FOLDS, given.fewest), shuffle=True, random_state=given.seed)
    return GridSearchCV(
        _logistic_regression(given), {"C": STRENGTHS}, scoring="neg_log_loss", cv=folds
    )


def _ridge(given: Given) -> Any:
    from sklearn.linear_model import RidgeCV

    return RidgeCV(1 / STRENGTHS)


def _forest(name: str) -> Callable[[Given], Any]:
    def make(given: Given) -> Any:
        from sklearn import ensemble

        return getattr(ensemble, name)(TREES, random_state=given.seed)

    return make


def _boosting(name: str) -> Callable[[Given], Any]:
    def make(given: Given) -> Any:
        from sklearn import ensemble

        make_one = getattr(ensemble, f"HistGradientBoosting{name}")
        return make_one(min_samples_leaf=FEW, early_stopping=False, random_state=given.seed)

    return make


def _gaussian_process(given: Given) -> Any:
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF

    # Two rows are about √(2 · columns) apart.
    return GaussianProcessClassifier(1.0 * RBF(given.columns**0.5), random_state=given.seed)


def _gaussian_process_of_values(given: Given) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    kernel = 1.0 * RBF(given.columns**0.5) + WhiteKernel(0.1)
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=given.seed)


def _svm(given: Given) -> Any:
    """Probabilities by Platt's scaling, on folds or, where a class has one label, on all labels."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    everything = np.arange(given.rows)
    folds: Any = [(everything, everything)]
    if given.fewest > 1:
        folds = min(MOST_FOLDS, given.fewest)
    return CalibratedClassifierCV(SVC(), cv=folds, ensemble=False)


def _svm_of_values(given: Given) -> Any:
    from sklearn.svm import SVR

    return SVR()


def _neighbours(given: Given) -> Any:
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor(min(NEIGHBOURS // 2, given.rows), weights="distance")


def _self_training(given: Given) -> Any:
    from sklearn.semi_supervised import SelfTrainingClassifier

    return SelfTrainingClassifier(_logistic_regression(given))


def _spreading_to_neighbours(given: Given) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    return LabelSpreading(kernel="knn", n_neighbors=min(NEIGHBOURS, given.rows), max_iter=200)


def _spreading_by_distance(given: Given) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    return LabelSpreading(kernel="rbf", gamma=1 / given.columns, max_iter=200)


def _catboost(name: str) -> Callable[[Given], Any]:
    def make(given: Given) -> Any:
        import catboost

        return getattr(catboost, name)(
            iterations=BOOSTED,
            thread_count=1,
            random_seed=given.seed,
            allow_writing_files=False,
            verbose=False,
        )

    return make


PEERS = {
    "logistic-regression": Peer("logistic regression", _logistic_regression, None),
    "logistic-regression-cv": Peer("logistic regression, tuned", _tuned_logistic_regression, None),
    "ridge": Peer("ridge regression", None, _ridge),
    "random-forest": Peer(
        "random forest", _forest("RandomForestClassifier"), _forest("RandomForestRegressor")
    ),
    "extra-trees": Peer(
        "extra trees", _forest("ExtraTreesClassifier"), _forest("ExtraTreesRegressor")
    ),
    "gradient-boosting": Peer("gradient boosting", _boosting("Classifier"), _boosting("Regressor")),
    "catboost": Peer(
        "CatBoost",
        _catboost("CatBoostClassifier"),
        _catboost("CatBoostRegressor"),
        needs="catboost",
    ),
    "gaussian-process": Peer("Gaussian process", _gaussian_process, _gaussian_process_of_values),
    "svm": Peer("support vectors", _svm, _svm_of_values),
    "k-neighbours": Peer("nearest neighbours", None, _neighbours),
    "self-training": Peer("self-training", _self_training, None, sees_unlabeled=True),
    "label-spreading-knn": Peer(
        "label spreading, neighbours", _spreading_to_neighbours, None, sees_unlabeled=True
    ),
    "label-spreading-rbf": Peer(
        "label spreading, distance", _spreading_by_distance, None, sees_unlabeled=True
    ),
}


def peers_for(task: str) -> tuple[str, ...]:
    """The names of the peers that do such a task and are installed.

    >>> [name for name in peers_for("regression") if name != "catboost"][:3]
    ['ridge', 'random-forest', 'extra-trees']
    """
    return tuple(
        name
        for name, peer in PEERS.items()
        if _maker(peer, task) is not None and find_spec(peer.needs) is not None
    )


def check_peer(name: str, task: str) -> None:
    """Refuse a name that is no peer, or one that can not do the task here.

    >>> check_peer("ridge", "classification")
    Traceback (most recent call last):
    ValueError: ridge is for regression, and the task is classification; leave it out.
    """
    if name not in PEERS:
        hint = did_you_mean(name, PEERS, f"there are {', '.join(PEERS)}.")
        raise ValueError(f"there is no peer {name!r}; {hint}")
    if _maker(PEERS[name], task) is None:
        other = "regression" if task == "classification" else "classification"
        raise ValueError(f"{name} is for {other}, and the task is {task}; leave it out.")
    if find_spec(PEERS[name].needs) is None:
        needs = PEERS[name].needs
        raise ValueError(f"{name} needs {needs}, which is not installed: pip install {needs}.")


def probabilities(
    name: str, x: Array, y: Array, wanted: Sequence[Array], *, classes: int, seed: int
) -> list[Array]:
    """Fit a peer to labels from 0 on, -1 where there is none; what it says of each wanted table.

    A class without a label has the probability 0. Rows of which the peer says nothing, as label
    spreading does of those that are near none, have the frequencies of the labels.

    >>> x, y = np.array([[0.0], [0.1], [2.0], [2.1]]), np.array([0, -1, 2, -1])
    >>> found = probabilities("logistic-regression", x, y, [x], classes=3, seed=0)
    >>> found[0].argmax(1), found[0][:, 1]
    (array([0, 0, 2, 2]), array([0., 0., 0., 0.]))
    """
    peer, known = PEERS[name], y >= 0
    seen = np.ones_like(known) if peer.sees_unlabeled else known
    counts = np.bincount(y[known], minlength=classes)
    given = Given(seed, x.shape[1], int(seen.sum()), int(counts[counts > 0].min()))
    with undisturbed():
        model = _made(peer, "classification", given).fit(x[seen], y[seen])
        said = [model.predict_proba(table) for table in wanted]
    found = []
    for part in said:
        whole = np.zeros((len(part), classes))
        whole[:, np.ravel(model.classes_).astype(int)] = part
        silent = ~np.isfinite(whole).all(1) | (whole.sum(1) <= 0)
        whole[silent] = counts / counts.sum()
        found.append(whole)
    return found


def values(name: str, x: Array, y: Array, wanted: Sequence[Array], *, seed: int) -> list[Array]:
    """Fit a peer to values, NaN where there is none; what it says of each wanted table.

    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([10.0, 20.0, np.nan, 40.0])
    >>> values("ridge", x, y, [x], seed=0)[0].round()
    array([10., 20., 30., 40.])
    """
    known = ~np.isnan(y)
    mean, spread = y[known].mean(), y[known].std() or 1.0
    given = Given(seed, x.shape[1], int(known.sum()))
    with undisturbed():
        model = _made(PEERS[name], "regression", given).fit(x[known], (y[known] - mean) / spread)
        return [np.ravel(model.predict(table)) * spread + mean for table in wanted]


def clipped(said: Array) -> Array:
    """Probabilities of at least `LEAST`, which add up to 1 again.

    One row on which a method is certain and wrong shall not decide a mean of losses.

    >>> clipped(np.array([[1.0, 0.0]])).round(5)
    array([[9.999e-01, 1.000e-04]])
    """
    if not np.isfinite(said).all():
        raise ValueError("a probability is not finite")
    least = np.maximum(said, LEAST)
    found: Array = least / least.sum(1, keepdims=True)
    return found


@contextmanager
def undisturbed() -> Iterator[None]:
    """No warnings, which nobody could act on, and one thread: side by side they would fight."""
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _maker(peer: Peer, task: str) -> Callable[[Given], Any] | None:
    return peer.classes if task == "classification" else peer.values


def _made(peer: Peer, task: str, given: Given) -> Any:
    maker = _maker(peer, task)
    if maker is None:
        raise ValueError(f"{peer.title} can not do {task}; choose another.")
    return maker(given)
