"""One method on one split of one set, beside what a person would take in its place.

All see the same rows (`splits.py`) and are judged by the same rule (`clipped`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from labelgrad.bench.sets import Array, Rows
from labelgrad.bench.splits import Draw, Places, split
from labelgrad.peers import PEERS, clipped, peers_for, probabilities, undisturbed, values
from labelgrad.training.results import Line

SURE = 0.9
UNLABELED = {"classification": -1, "regression": np.nan}  # in place of a label


class Said(NamedTuple):
    """What one method says: of the test rows, and of the rows whose label was not given."""

    method: str
    test: Array  # probabilities (rows, classes), or values (rows,)
    others: Array
    more: Line | None = None  # to keep beside it


@dataclass(frozen=True)
class Contender:
    """Something to fit once, and the methods that come of it."""

    title: str
    methods: dict[str, str]  # names, and what tables call them
    fit: Callable[[Rows, int], list[Said]]
    sees_unlabeled: bool = True
    ours: bool = True


def _peer(name: str) -> Contender:
    def fit(rows: Rows, seed: int) -> list[Said]:
        y, wanted = partly(rows), _wanted(rows)
        if rows.classes is None:
            test, others = values(name, rows.x, y, wanted, seed=seed)
        else:
            classes = rows.classes
            test, others = probabilities(name, rows.x, y, wanted, classes=classes, seed=seed)
        return [Said(name, test, others)]

    peer = PEERS[name]
    return Contender(peer.title, {name: peer.title}, fit, peer.sees_unlabeled, ours=False)


def _pooled(rows: Rows, seed: int) -> list[Said]:
    """One fit gives the pool, the student that learned from it, and the pool without LGA."""
    import labelgrad

    kind = "Regressor" if rows.classes is None else "Classifier"
    model = getattr(labelgrad, f"Pooled{kind}")(random_state=seed, standardize=False)
    model.fit(rows.x, partly(rows))
    weights = getattr(model, "weights_", {})
    kept = {"weights": {witness: _rounded(weight) for witness, weight in weights.items()}}
    found = [said_by("pool", model, rows)._replace(more=kept)]
    if hasattr(model, "student_"):
        found.append(said_by("student", model.student_, rows, like=model))
    if hasattr(model, "without"):
        lga = [name for name in model.weights_ if "lga" in name]
        found.append(said_by("pool-without-lga", model.without(*lga), rows, like=model))
    return found


def _lga(rows: Rows, seed: int) -> list[Said]:
    from labelgrad.estimators import LGAClassifier, LGARegressor

    kind = LGARegressor if rows.classes is None else LGAClassifier
    return [
        said_by("lga", kind(random_state=seed, standardize=False).fit(rows.x, partly(rows)), rows)
    ]


def _network(rows: Rows, seed: int) -> list[Said]:
    """LGA's network on the labeled rows alone."""
    from labelgrad.estimators import LGAClassifier, LGARegressor

    kind = LGARegressor if rows.classes is None else LGAClassifier
    model = kind(random_state=seed, standardize=False).fit(rows.x[rows.given], rows.y[rows.given])
    test, others = (_says(model, x, rows) for x in _wanted(rows))
    return [Said("supervised-network", test, others)]


POOLED = {"pool": "pool", "student": "student", "pool-without-lga": "pool without LGA"}
CONTENDERS = {name: _peer(name) for name in PEERS} | {
    "pool": Contender("pool", POOLED, _pooled),
    "lga": Contender("LGA", {"lga": "LGA"}, _lga),
    "supervised-network": Contender(
        "supervised network",
        {"supervised-network": "supervised network"},
        _network,
        sees_unlabeled=False,
    ),
}
TITLES = {name: title for one in CONTENDERS.values() for name, title in one.methods.items()}
OURS = tuple(name for one in CONTENDERS.values() if one.ours for name in one.methods)
LABELS_ONLY = tuple(name for name in PEERS if not PEERS[name].sees_unlabeled)


def contenders_for(task: str) -> tuple[str, ...]:
    """Everybody who can do the task and is there, quick ones first.

    >>> contenders_for("regression")[-1]
    'supervised-network'
    """
    import labelgrad

    ours = [name for name, one in CONTENDERS.items() if one.ours]
    if not hasattr(labelgrad, "PooledClassifier"):
        ours.remove("pool")
    return (*peers_for(task), *ours)


class PeerTrial:
    """One contender on one split of one set; iterate to fit it, then look at `history`.

    >>> trial = PeerTrial("wine", "logistic-regression", seed=0, draw=Draw(), places=Places())
    >>> records = list(trial)
    >>> [(line["method"], line["labels"], line["error"] < 0.2) for line in trial.history]
    [('logistic-regression', 30, True)]
    """

    steps = 1

    def __init__(self, data: str, contender: str, *, seed: int, draw: Draw, places: Places):
        self.rows = split(data, places, draw, seed)
        self.contender, self.seed = CONTENDERS[contender], seed
        self.about = {
            "experiment": "peers",
            "data": data,
            "task": task_of(self.rows),
            "seed": seed,
            "labels": int(self.rows.given.sum()),
            "classes": self.rows.classes,
            "test_rows": len(self.rows.y_test),
        }
        self.history: list[Line] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield {"step": 0, "loss": np.nan}
        begin = time.process_time()
        try:
            with undisturbed():
                found = self.contender.fit(self.rows, self.seed)
            lines = [{"method": said.method} | judged(said, self.rows) for said in found]
        except Exception as error:  # a method that can not do a set is a result, too
            why = (str(error).splitlines() or [""])[0] or type(error).__name__
            lines = [{"method": method, "why": why} for method in self.contender.methods]
        seconds = {"seconds": round(time.process_time() - begin, 2)}
        self.history = [self.about | line | seconds for line in lines]
        yield {"step": 1, "loss": np.nan}


def task_of(rows: Rows) -> str:
    """What there is to predict: classes, or values."""
    return "regression" if rows.classes is None else "classification"


def partly(rows: Rows) -> Array:
    """The labels, and in place of those that are not given -1, or NaN."""
    return np.where(rows.given, rows.y, UNLABELED[task_of(rows)])


def judged(said: Said, rows: Rows) -> Line:
    """Error and loss on the test rows, and how right the sure labels of the other rows are.

    The error of values is the root mean square, in standard deviations of the test rows' values.
    """
    if rows.classes is None:
        if not np.isfinite(said.test).all():
            raise ValueError("a value is not finite")
        wrong = (said.test - rows.y_test) / rows.y_test.std()
        return {"error": _rounded(np.sqrt(np.mean(wrong**2)))} | (said.more or {})
    test, others = clipped(said.test), clipped(said.others)
    truth = rows.y[~rows.given]
    sure = others.max(1) > SURE
    return {
        "error": _rounded(np.mean(test.argmax(1) != rows.y_test)),
        "loss": _rounded(-np.log(test[np.arange(len(test)), rows.y_test]).mean()),
        "unlabeled": len(truth),
        "sure": int(sure.sum()),
        "sure_right": int((others.argmax(1) == truth)[sure].sum()),
    } | (said.more or {})


def said_by(method: str, model: Any, rows: Rows, like: Any = None) -> Said:
    """What an estimator of ours says; of the rows it was fitted on, the labels it imputed."""
    classes = getattr(model, "classes_", getattr(like, "classes_", None))
    test = _says(model, rows.x_test, rows, classes)
    imputed = getattr(model, "label_distributions_", None)
    if rows.classes is None or imputed is None:
        return Said(method, test, _says(model, _wanted(rows)[1], rows, classes))
    return Said(method, test, _whole(imputed[~rows.given], classes, rows))


def _wanted(rows: Rows) -> tuple[Array, Array]:
    return rows.x_test, rows.x[~rows.given]


def _says(model: Any, x: Array, rows: Rows, classes: Array | None = None) -> Array:
    if rows.classes is None:
        return np.ravel(model.predict(x))
    return _whole(model.predict_proba(x), model.classes_ if classes is None else classes, rows)


def _whole(part: Array, classes: Any, rows: Rows) -> Array:
    """A column for every class, also for those without a label."""
    found = np.zeros((len(part), rows.classes or 1))
    found[:, np.asarray(classes).astype(int)] = part
    return found


def _rounded(number: Any) -> float:
    return round(float(number), 5)
