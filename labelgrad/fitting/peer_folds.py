"""What people use otherwise as a method of a comparison: the same folds, the same labels to judge.

Peers see the rows with columns of unit variance; of pictures, the pixels of each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgrad.fitting.cross_validation import held_out_folds, in_spreads
from labelgrad.fitting.jobs import as_tensors
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.columns import unit_columns
from labelgrad.inputs.spreads import spreads
from labelgrad.peers import PEERS, check_peer, clipped, probabilities, undisturbed, values
from labelgrad.training.parallel import History

Array = NDArray[Any]
POOL = "pool"
OTHERS = (*PEERS, POOL)  # what can be compared beside the methods of a plan


@dataclass(frozen=True)
class PeerPlan:
    """A peer and the seed that deals the labels into folds."""

    method: str
    seed: int = 0


class PeerFolds:
    """One peer and seed, on every fold; iterating fits, and `history` is what came of it.

    >>> from labelgrad.inputs.kinds import read
    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> data = read(x, np.where(np.arange(40) < 16, x[:, 0] > 0, -1))
    >>> trial = PeerFolds(data, PeerPlan("svm"))
    >>> [record["step"] for record in trial], len(trial.history[0]["wrong"])
    ([1, 2, 3, 4], 16)
    """

    def __init__(self, dataset: Dataset, plan: PeerPlan):
        dataset = as_tensors(dataset)
        self.plan, self.task, self.classes = plan, dataset.task, len(dataset.classes)
        self.x, self.y = _rows(dataset), dataset.y.numpy()
        labeled = dataset.labeled.nonzero().squeeze(1)
        scaled, _, self.spread = in_spreads(dataset)
        folds = held_out_folds(scaled[labeled], seed=plan.seed)
        self.folds = [labeled[fold].numpy() for fold in folds]
        self.steps = len(self.folds)
        self._said: list[Array] = []
        self._seconds = 0.0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, fold in enumerate(self.folds, 1):
            partly = self.y.copy()
            partly[fold] = -1 if self.classes else np.nan
            # Held-out rows have no part in the training, not even as unlabeled ones.
            rest = np.setdiff1d(np.arange(len(partly)), fold)
            begin = time.process_time()
            self._said.append(self._predict(self.x[rest], partly[rest], self.x[fold]))
            self._seconds += time.process_time() - begin
            yield {"step": number, "loss": float(self._losses(fold, self._said[-1]).mean())}

    @property
    def history(self) -> History:
        """One line: how wrong the peer was about every held-out example."""
        judged = list(zip(self.folds, self._said, strict=True))
        line = {
            "method": self.plan.method,
            "seed": self.plan.seed,
            "loss": float(np.concatenate([self._losses(*each) for each in judged]).mean()),
            "seconds": round(self._seconds, 2),
            "rows": np.concatenate(self.folds).tolist(),
            "wrong": np.concatenate([self._wrong(*each) for each in judged]).tolist(),
        }
        return [line]

    def _predict(self, x: Array, y: Array, wanted: Array) -> Array:
        name, seed = self.plan.method, self.plan.seed
        if name == POOL:
            with undisturbed():
                model = _pooled(self.task)(random_state=seed).fit(x, y)
                said = model.predict_proba(wanted) if self.classes else model.predict(wanted)
        elif self.classes:
            (said,) = probabilities(name, x, y, [wanted], classes=self.classes, seed=seed)
        else:
            (said,) = values(name, x, y, [wanted], seed=seed)
        return clipped(said) if self.classes else np.ravel(said)

    def _losses(self, fold: Array, said: Array) -> Array:
        if self.classes:
            losses: Array = -np.log(said[np.arange(len(fold)), self.y[fold]])
            return losses
        return self._wrong(fold, said) / self.spread**2 / 2

    def _wrong(self, fold: Array, said: Array) -> Array:
        if self.classes:
            return np.asarray(said.argmax(1) != self.y[fold], dtype=float)
        return np.asarray((said - self.y[fold]) ** 2)


def check_other(name: str, task: str) -> None:
    """Refuse a peer that can not do the task, and the pool where there is none."""
    if name != POOL:
        check_peer(name, task)
    elif _pooled(task) is None:
        raise ValueError("pool is no method of this version of labelgrad; leave it out.")


def _pooled(task: str) -> Any:
    import labelgrad

    name = "PooledClassifier" if task == "classification" else "PooledRegressor"
    return getattr(labelgrad, name, None)


def _rows(dataset: Dataset) -> Array:
    if dataset.x.ndim == 2:
        return unit_columns(dataset.x)
    pixels: Array = dataset.x.flatten(1).double().numpy()
    mean, spread = spreads(pixels)
    return (pixels - mean) / spread
