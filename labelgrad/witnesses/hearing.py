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

from labelgrad.witnesses.base import Array, Opinion, Witness, checked, known_rows

BUDGET = 600.0  # seconds that a witness may take


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
    return Heard(
        witness.name,
        witness.sees_unlabeled,
        np.concatenate([*said, np.zeros((0, case.classes or 2))]),
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

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError
    result, error = outcome[0]
    if error is not None:
        raise error
    return result
