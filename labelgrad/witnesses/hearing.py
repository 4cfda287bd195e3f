"""Witnesses heard: what each said about labels that were hidden from it, and about all the rest.

A witness that fails, takes too long or says nonsense is left out with a sentence.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelgrad.witnesses.base import (
    Array,
    Opinion,
    Witness,
    checked,
    known_rows,
    values_with_spread,
)

BUDGET = 600.0  # seconds that a witness may take
LEFT_ALONE = "labelgrad: a witness"  # what its thread is called
SILENT = 1e3  # a spread, in units of all values', that says nothing


@dataclass(frozen=True, eq=False)
class Heard:
    """What one witness said."""

    name: str
    sees_unlabeled: bool
    out_of_fold: Array  # (hidden labels, columns), in the order of the folds
    opinion: Opinion  # after all labels
    seconds: float = 0.0
    folds: Sequence[Opinion] = ()  # with each fold hidden
    presumed: bool = True  # whether it counts before hidden labels have spoken for it


@dataclass(frozen=True, eq=False)
class Case:
    """What witnesses are asked about: examples, labels, and which of them are hidden in turn.

    >>> case = Case(np.zeros((4, 1)), np.array([0, 1, -1, 0]), [np.array([0]), np.array([1, 3])], 2)
    >>> [version.tolist() for version in case.versions]
    [[-1, 1, -1, 0], [0, -1, -1, -1], [0, 1, -1, 0]]
    >>> case.hidden
    array([0, 1, 3])
    """

    x: Array  # (rows, columns), every column of about unit spread
    y: Array  # (rows,), -1 or NaN where there is no label
    folds: Sequence[Array]  # rows whose labels are hidden together
    classes: int  # 0 of values
    seed: int = 0

    @property
    def versions(self) -> list[Array]:
        """The labels with each fold hidden, and at last all of them."""
        nothing = -1 if self.classes else np.nan
        found = []
        for fold in [*self.folds, np.zeros(0, dtype=int)]:
            version = self.y.copy()
            version[fold] = nothing
            found.append(version)
        return found

    @property
    def hidden(self) -> Array:
        """All rows whose labels are hidden at some time, fold after fold."""
        return np.concatenate([*self.folds, np.zeros(0, dtype=int)]).astype(int)

    @property
    def unlabeled(self) -> Array:
        """The rows without a label."""
        known = np.zeros(len(self.y), dtype=bool)
        known[known_rows(self.y)] = True
        return np.flatnonzero(~known)


@dataclass(frozen=True, eq=False)
class Rescaled:
    """An opinion of values that is so many times as unsure as it says."""

    opinion: Opinion
    factor: float

    def of_rows(self, rows: Array) -> Array:
        """About rows of the examples it was asked about."""
        return rescaled(self.opinion.of_rows(rows), self.factor)

    def of_new(self, x: Any) -> Array:
        """About other examples."""
        return rescaled(self.opinion.of_new(x), self.factor)


def rescaled(said: Array, factor: float) -> Array:
    """The same values with so many times the spread."""
    return values_with_spread(said[:, 0], factor * said[:, 1])


def spread_factor(said: Array, y: Array) -> float:
    """How many times as far off hidden values are as spreads (values, 2) say, with a pull to 1.

    Whoever says nothing of a value is not off.

    >>> round(spread_factor(np.array([[0.0, 1.0]] * 3), np.array([3.0, -3.0, 3.0])), 2)
    2.65
    """
    spoken = said[:, 1] < SILENT
    off = (y - said[:, 0])[spoken] / said[spoken, 1]
    return float(np.sqrt(((off**2).sum() + 1) / (len(off) + 1)))


def hear_one(witness: Witness, case: Case) -> Heard:
    """Hear one witness; what is no opinion is refused."""
    began = time.perf_counter()
    *folds, final = witness.hear(case.x, case.versions, case.classes, case.seed)
    if len(folds) != len(case.folds):
        raise ValueError(f"it gave {len(folds) + 1} opinions for {len(case.folds) + 1} versions")
    said = [
        checked(opinion.of_rows(rows), len(rows), case.classes)
        for opinion, rows in zip(folds, case.folds, strict=True)
    ]
    checked(final.of_rows(np.arange(len(case.x))), len(case.x), case.classes)
    out_of_fold = np.concatenate([*said, np.zeros((0, case.classes or 2))])
    if not case.classes and len(out_of_fold):
        factor = spread_factor(out_of_fold, case.y[case.hidden])
        out_of_fold = rescaled(out_of_fold, factor)
        folds = [Rescaled(opinion, factor) for opinion in folds]
        final = Rescaled(final, factor)
    return Heard(
        witness.name,
        witness.sees_unlabeled,
        out_of_fold,
        final,
        time.perf_counter() - began,
        folds,
        not len(case.hidden) or bool(getattr(witness, "presumed", True)),
    )


def hear_all(
    witnesses: Iterable[Witness],
    case: Case,
    *,
    budget: float = BUDGET,
    on_witness: Callable[[str], None] | None = None,
) -> tuple[list[Heard], list[str]]:
    """The heard, and a sentence for each witness that was left out."""
    from threadpoolctl import threadpool_limits

    heard: list[Heard] = []
    notes: list[str] = []
    for witness in witnesses:
        if on_witness is not None:
            on_witness(witness.name)
        try:
            # Their products are so small that threads only wait, and that a search has not
            # converged is no news to anyone.
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                heard.append(within(budget, hear_one, witness, case))
        except TimeoutError:
            notes.append(f"The witness {witness.name!r} took more than {budget:g} s: left out.")
        except Exception as error:  # whatever it is, the others can be heard
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            notes.append(f"The witness {witness.name!r} is left out: {reason.rstrip('.')}.")
    return heard, notes


def left_alone() -> bool:
    """Whether a witness that took too long is still at it, in a thread that cannot be stopped.

    A process that has one ends best by `os._exit`: native code that is still running crashes while
    the interpreter is taken down.

    >>> left_alone()
    False
    """
    return any(thread.name == LEFT_ALONE for thread in threading.enumerate())


def within(seconds: float, work: Callable[..., Any], *arguments: Any) -> Any:
    """What `work` returns, if it does so in time; else it is left alone with itself.

    >>> within(5.0, sum, [1, 2])
    3
    """
    outcome: list[Any] = []

    def attempt() -> None:
        try:
            outcome.append((work(*arguments), None))
        except BaseException as error:  # handed over to whoever waits
            outcome.append((None, error))

    thread = threading.Thread(target=attempt, name=LEFT_ALONE, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError
    result, error = outcome[0]
    if error is not None:
        raise error
    return result
