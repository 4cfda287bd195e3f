"""In which order examples are shown, and which of them: places only, never the examples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from labelgrad.guarantees.suspects import rank_suspects
from labelgrad.nearest import did_you_mean
from labelgrad.review.run import NONE, Array, FinishedRun

SUSPECTS = "suspects"


@dataclass(frozen=True)
class Wanted:
    """What somebody asks to see; None is whatever there is."""

    order: str = "useful"
    label: int | None = None  # the imputed class
    low: float = 0.0  # of the probability
    high: float = 1.0
    search: str = ""
    decided: bool = False  # show what is decided in place of what is open

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            hint = did_you_mean(self.order, ORDERS, "choose one of them.")
            raise ValueError(
                f"The order must be one of {', '.join(ORDERS)}, got {self.order!r}; {hint}"
            )


def disagreement(run: FinishedRun) -> Array:
    """How much speaks against each imputed label: the share of witnesses, model and neighbours."""
    against, voices = np.zeros(len(run.names)), np.zeros(len(run.names))
    rows = run.unlabeled
    if run.is_value:
        with np.errstate(invalid="ignore"):
            apart = np.maximum(abs(run.label - run.prediction), abs(run.label - run.neighbours))
        return np.asarray(np.nan_to_num(apart, nan=0.0))
    if run.statements is not None:
        said = run.statements.said[run.place[rows]]
        against[rows] += (said != run.label[rows, None]).sum(1)
        voices[rows] += said.shape[1]
    against += (run.prediction != run.label) & (run.place != NONE)
    against += np.nan_to_num(run.apart)
    voices += 2
    return against / voices


def usefulness(run: FinishedRun) -> Array:
    """How much a look is worth: the label is probably wrong, or those who were asked differ."""
    apart = disagreement(run)
    if run.is_value:
        return apart
    doubt: Array = np.nan_to_num(1 - run.probability.astype(np.float64), nan=0.0)
    return doubt + 0.25 * apart


def _useful(run: FinishedRun) -> Array:
    return _sorted(run, -usefulness(run))


def _sure(run: FinishedRun) -> Array:
    return _sorted(run, disagreement(run) if run.is_value else -run.probability)


def _unsure(run: FinishedRun) -> Array:
    return _sorted(run, -disagreement(run) if run.is_value else run.probability)


def _disagreement(run: FinishedRun) -> Array:
    return _sorted(run, -disagreement(run))


def _names(run: FinishedRun) -> Array:
    return run.unlabeled


def _random(run: FinishedRun) -> Array:
    seed = int.from_bytes(hashlib.blake2b(run.digest.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).permutation(run.unlabeled)  # the same for everybody


def suspects(run: FinishedRun) -> Array:
    """Given labels that the pool, which had not seen them, speaks against; the worst first."""
    held = run.held_out
    if not len(held.rows):
        return held.rows.astype(np.int64)
    if run.is_value:
        worth = abs(held.said - held.y)
        return np.asarray(held.rows[np.argsort(-worth, kind="stable")])
    ranked = rank_suspects(np.exp(held.said), held.y)
    return np.asarray(held.rows[ranked.order[: ranked.suspect]])


ORDERS: dict[str, Callable[[FinishedRun], Array]] = {
    "useful": _useful,
    "unsure": _unsure,
    "sure": _sure,
    "disagreement": _disagreement,
    "random": _random,
    "data": _names,
    SUSPECTS: suspects,
}


class Queue:
    """The examples of a run in any order; each order is worked out once."""

    def __init__(self, run: FinishedRun):
        self.run = run
        self._ordered: dict[str, Array] = {}

    def rows(self, wanted: Wanted, decided: Array, found: Array | None = None) -> Array:
        """The examples that fit, in the order wanted.

        `decided` says of every example whether it is, and `found` which ones a search has found.
        """
        if wanted.order not in self._ordered:
            self._ordered[wanted.order] = ORDERS[wanted.order](self.run).astype(np.int32)
        rows = self._ordered[wanted.order]
        fits = decided[rows] == wanted.decided
        if wanted.label is not None and wanted.order != SUSPECTS:
            fits &= self.run.label[rows] == wanted.label
        if (wanted.low, wanted.high) != (0.0, 1.0) and not self.run.is_value:
            sure = self.run.probability[rows]
            fits &= (sure >= wanted.low) & (sure <= wanted.high)
        if found is not None:
            fits &= np.isin(rows, found)
        return np.asarray(rows[fits])


def _sorted(run: FinishedRun, key: Array) -> Array:
    """The unlabeled examples, the smallest key first."""
    rows = run.unlabeled
    found: Array = rows[np.argsort(key[rows], kind="stable")]
    return found
