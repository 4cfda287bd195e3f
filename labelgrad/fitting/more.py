"""What more labels would buy: witnesses trained on parts of the labels, and the curve continued.

The run keeps the features of its labeled rows for it. Two quick witnesses learn from a quarter, a
half and three quarters of the labels and are judged by the others; how fast their error falls is
taken for the pool's, which begins where the run's held-out labels put it
(`guarantees.learning_curve`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from labelgrad.files import read_tensors, write_tensors
from labelgrad.fitting.result import Result
from labelgrad.fitting.run_files import SAID_BY
from labelgrad.fitting.verdict import POOL
from labelgrad.guarantees.learning_curve import (
    CurveAhead,
    continued,
    error_draws,
    squared_error_draws,
)
from labelgrad.witnesses.hearing import Case
from labelgrad.witnesses.named import witnesses_named
from labelgrad.witnesses.pool import combine

FILE = "labeled.safetensors"
MOST_NUMBERS = 2**24  # kept: 64 MB
PARTS, SERIES = (0.25, 0.5, 0.75), 8  # of the labels, and how often
QUICK = ("extra trees", "neighbours")
FEWEST = 20  # labels, of which a quarter is five
MORE = (25, 50, 100)
Array = NDArray[np.float64]


def save_labeled(folder: Path, case: Case) -> None:
    """Keep the features and labels of labeled rows, unless they are too many."""
    rows = np.setdiff1d(np.arange(len(case.y)), case.unlabeled)
    x = case.x[rows]
    if 0 < x.size <= MOST_NUMBERS:
        tensors = {
            "x": torch.from_numpy(x.astype(np.float32)),
            "y": torch.from_numpy(np.asarray(case.y[rows])),
        }
        write_tensors(folder / FILE, tensors, {"classes": case.classes})


def load_labeled(result: Result) -> Case:
    """The labeled rows of a run, as witnesses see them."""
    if result.pooled is not None:
        case = result.pooled.case
        rows = np.setdiff1d(np.arange(len(case.y)), case.unlabeled)
        return Case(case.x[rows], case.y[rows], [], case.classes, case.seed)
    path = None if result.folder is None else result.folder / FILE
    if path is None or not path.is_file():
        raise ValueError(
            "What more labels would buy is tried on the features of labeled rows, and this run has "
            "none kept: there were too many, or no witnesses; fit again with witnesses."
        )
    try:
        tensors, info = read_tensors(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error}); fit again with --resume.") from None
    x, y = tensors["x"].double().numpy(), tensors["y"].numpy()
    return Case(x, y, [], info["classes"], result.summary.plan.seed)


def more_labels(
    result: Result,
    more: Sequence[int] = MORE,
    *,
    on_series: Callable[[int, int], None] | None = None,
) -> CurveAhead:
    """The error now and with so many more labels, with a band of 95 %.

    `on_series` is told how many of the trainings are done, and of how many.
    """
    if any(extra < 1 for extra in more):
        raise ValueError(f"`more` must be numbers of labels above 0, got {list(more)}.")
    case = load_labeled(result)
    labels, held_out = len(case.y), len(result.held_out["y"])
    if labels < FEWEST or held_out < FEWEST or not case.x.shape[1]:
        raise ValueError(
            f"What more labels would buy shows from {FEWEST} labels on that can be hidden, and the "
            f"run has {held_out}; give it some more."
        )
    sizes = [max(2, round(part * labels)) for part in PARTS]
    errors = smaller_trainings(case, sizes, on_series=on_series)
    y, said = result.held_out["y"], result.held_out[SAID_BY + POOL]
    if case.classes:
        wrong = int((said.argmax(1) != y).sum())
        anchor = error_draws(wrong, held_out, seed=case.seed)
    else:
        anchor = squared_error_draws((said[:, 0] - y) ** 2, seed=case.seed)
        errors = errors * result.predictor.config.spread  # in the units of the target
    learned_from = 0.75 * labels  # by the models of the folds
    return continued(sizes, errors, anchor, learned_from, labels, more, seed=case.seed)


def smaller_trainings(
    case: Case,
    sizes: Sequence[int],
    *,
    witnesses: Sequence[str] = QUICK,
    series: int = SERIES,
    on_series: Callable[[int, int], None] | None = None,
) -> Array:
    """The error (series, sizes) of quick witnesses on the labels that they did not learn from.

    Each series draws its parts anew, every larger one with the smaller ones in it.
    """
    import warnings

    from threadpoolctl import threadpool_limits

    generator = np.random.default_rng(case.seed)
    found = np.empty((series, len(sizes)))
    for number in range(series):
        order = _mixed(case, generator)
        versions = []
        for size in sizes:
            version = np.full_like(case.y, -1 if case.classes else np.nan)
            version[order[:size]] = case.y[order[:size]]
            versions.append(version)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a search has not converged is no news
            heard = [
                witness.hear(case.x, versions, case.classes, case.seed)
                for witness in witnesses_named(witnesses)
            ]
        for place, size in enumerate(sizes):
            hidden = order[size:]
            said = np.stack([opinions[place].of_rows(hidden) for opinions in heard])
            found[number, place] = _error(case, said, hidden)
        if on_series is not None:
            on_series(number + 1, series)
    return found


def _mixed(case: Case, generator: np.random.Generator) -> NDArray[np.int_]:
    """All rows in an order in which classes come in turn, so that every part has some of each."""
    order = generator.permutation(len(case.y))
    if not case.classes:
        return order
    turns = np.empty(len(order), dtype=float)
    for label in np.unique(case.y):
        mine = np.flatnonzero(case.y[order] == label)
        turns[mine] = (np.arange(len(mine)) + generator.random(len(mine))) / len(mine)
    return order[np.argsort(turns, kind="stable")]


def _error(case: Case, said: Array, hidden: NDArray[np.int_]) -> float:
    """The share that is wrong, never quite none, or the root mean squared error."""
    if not case.classes:
        together = combine(said, np.full(len(said), 1 / len(said)), np.zeros(0))
        return float(np.sqrt(((together[:, 0] - case.y[hidden]) ** 2).mean()))
    known = np.maximum(np.bincount(case.y, minlength=case.classes), 1) / len(case.y)
    together = combine(said, np.full(len(said), 1 / len(said)), known / known.sum())
    wrong = int((together.argmax(1) != case.y[hidden]).sum())
    return (wrong + 0.5) / (len(hidden) + 1)
