"""Digits with few labels: the pool and its student beside what a person would try first.

One fit of `PooledClassifier` gives four of the six methods: our supervised network and LGA's are
witnesses of the pool. All see the same rows. There is no validation part: of 50 labels none can be
spared, and nothing is chosen by the test.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from labelgrad.bench.peer_trial import CONTENDERS, Said, judged, partly
from labelgrad.bench.sets import Rows
from labelgrad.datasets.digits import Split, digits
from labelgrad.estimators.pooled import PooledClassifier
from labelgrad.fitting.pooling import NETWORK
from labelgrad.inputs.columns import unit_columns
from labelgrad.inputs.kinds import prepare, read_inputs
from labelgrad.peers import clipped, undisturbed
from labelgrad.training.results import Line
from labelgrad.witnesses.named import USUAL

PEERS = {"logistic-regression": "logistic regression", "label-spreading-knn": "label spreading"}
NETWORKS = {"supervised": "supervised network", "lga-evidence": "LGA network"}
OURS = NETWORKS | {"pool": "pool", "student": "student"}
TITLES = PEERS | OURS


class DigitsTrial:
    """All methods on one split; iterate to fit them, then `history` has a line for each.

    >>> trial = DigitsTrial(seed=0, network_steps=5, witnesses="linear")
    >>> records = list(trial)
    >>> [line["method"] for line in trial.history][-2:]
    ['pool', 'student']
    """

    steps = 1

    def __init__(
        self,
        *,
        seed: int,
        labels: int = 50,
        network_steps: int | None = None,
        witnesses: str | None = None,
    ):
        self.rows, self.seed = rows_of(digits(labels=labels, seed=seed)), seed
        # Not those that happen to be installed: everybody is to see the same numbers.
        heard = USUAL["classification"] if witnesses is None else witnesses
        self.model = PooledClassifier(heard, steps=network_steps, random_state=seed)
        self.history: list[Line] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield {"step": 0, "loss": np.nan}
        with undisturbed():
            said = [self._by_peer(name) for name in PEERS] + self._by_pool()
        self.history = [
            {"seed": self.seed, "method": each.method} | self._line(each) for each in said
        ]
        yield {"step": 1, "loss": np.nan}

    def _by_peer(self, name: str) -> Said:
        begin = time.perf_counter()
        said = CONTENDERS[name].fit(at_unit_variance(self.rows), self.seed)[0]
        return said._replace(more={"seconds": _since(begin)})

    def _by_pool(self) -> list[Said]:
        """The networks, the pool and the student, of one fit."""
        rows, begin = self.rows, time.perf_counter()
        model = self.model.fit(rows.x, partly(rows))
        seconds, others = _since(begin), rows.x[~rows.given]
        test, imputed = model.predict_proba(rows.x_test), model.label_distributions_[~rows.given]
        student = model.student_
        return [
            *self._by_networks(),
            Said("pool", test, imputed, {"seconds": seconds}),
            Said(
                "student",
                student.predict_proba(rows.x_test),
                student.predict_proba(others),
                {"seconds": seconds},
            ),
        ]

    def _by_networks(self) -> list[Said]:
        rows, model = self.rows, self.model
        test = model.predict_proba_by_each(rows.x_test)
        others = model.predict_proba_by_each(rows.x[~rows.given])
        seconds = {heard.name: round(heard.seconds, 2) for heard in model.pooled_.heard}
        return [
            Said(method, test[name], others[name], {"seconds": seconds[name]})
            for method, name in ((method, NETWORK + method) for method in NETWORKS)
        ]

    def _line(self, said: Said) -> Line:
        """How good it is, and how many of the unlabeled rows' labels are right."""
        right = clipped(said.others).argmax(1) == self.rows.y[~self.rows.given]
        return judged(said, self.rows) | {"right": int(right.sum())}


def rows_of(split: Split) -> Rows:
    """The labeled and the unlabeled digits in one table, and those for the test.

    >>> rows = rows_of(digits(labels=50, seed=0))
    >>> rows.x.shape, int(rows.given.sum()), rows.x_test.shape
    ((1447, 64), 50, (350, 64))
    """
    x, y = (
        np.concatenate([part.numpy() for part in parts])
        for parts in zip(split.labeled, split.unlabeled, strict=True)
    )
    given = np.arange(len(y)) < len(split.labeled[1])
    return Rows(x, y, given, *(part.numpy() for part in split.test))


def at_unit_variance(rows: Rows) -> Rows:
    """The pixels as scikit-learn's methods get them, on the one scale that the networks have, too.

    >>> rows = at_unit_variance(rows_of(digits(labels=50, seed=0)))
    >>> bool(abs((rows.x**2).mean() - 1) < 0.1)
    True
    """
    found = read_inputs(rows.x)
    test = prepare(found.preprocessing, rows.x_test)
    return replace(rows, x=unit_columns(found.x), x_test=unit_columns(test.x))


def _since(begin: float) -> float:
    return round(time.perf_counter() - begin, 2)
