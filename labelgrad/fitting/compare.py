"""Several methods and seeds on the same held-out labels: which is best, if it is not chance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from labelgrad.fitting.contest import Contest
from labelgrad.fitting.folds import held_out_folds
from labelgrad.fitting.held_out import mistakes
from labelgrad.fitting.plan import Plan, make_plan
from labelgrad.fitting.ranking import Ranking, rank
from labelgrad.fitting.verdict import BASELINE
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import read
from labelgrad.methods import parts
from labelgrad.training.results import Line, Results

METHODS = {
    "classification": (BASELINE, "lga-evidence", "vat", "lga-evidence+vat"),
    "regression": (BASELINE, "lga-evidence", "lga"),
}
KEPT = {"method", "seed", "loss", "seconds", "rows", "wrong"}  # of a trial
Watch = Callable[[str, int, int, float], None]  # the trial, its steps done and in all, the loss


def compare(
    data: str | Path | ArrayLike,
    y: ArrayLike | None = None,
    *,
    labels: str | Path | None = None,
    target: str | None = None,
    task: str | None = None,
    size: int | None = None,
    strict: bool = False,
    **options: Any,
) -> Ranking:
    """Train several methods with several seeds, and say which is best or whether it is chance.

    `data` and `y` are as in `labelgrad.fit`; `options` are those of `compare_source`.

    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> y = np.where(np.arange(40) < 16, x[:, 0] > 0, -1)
    >>> found = compare(x, y, methods=["supervised", "lga"], seeds=2, steps=5)
    >>> [scored.method for scored in found.methods], found.examples
    (['supervised', 'lga'], 16)
    """
    reading: dict[str, Any] = {"labels": labels, "target": target, "size": size, "strict": strict}
    return compare_source(read(data, y, task=task, **reading), **options)


def compare_source(
    source: Dataset,
    *,
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    model: str | None = None,
    steps: int | None = None,
    mirror: bool | None = None,
    out: str | Path | None = None,
    watch: Watch = lambda name, done, total, loss: None,
) -> Ranking:
    """Train every method with every seed, and judge them all by the labels held out of each.

    A seed deals the labels into folds as `fit` does, and gives the first weights and the batches:
    the same for all methods. With `out` finished trials are kept, and not run again.
    """
    plans = trial_plans(
        source, methods=methods, seeds=seeds, model=model, steps=steps, mirror=mirror
    )
    results = None if out is None else trial_results(Path(out), source, plans)
    lines = [] if results is None else results.lines
    to_do = missing(plans, lines)
    if results is not None and to_do:
        results.begin("labelgrad.compare")
    for plan in to_do:
        trial = Trial(source, plan)
        for record in trial:
            watch(trial_name(plan), record["step"], trial.steps, record["loss"])
        lines = [*lines, *trial.history]
        if results is not None:
            results.add(trial.history)
    return ranking(source, plans, lines)


def trial_plans(
    source: Dataset,
    *,
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    **asked: Any,
) -> list[Plan]:
    """One plan for each method and seed, each checked, seed by seed."""
    if seeds < 1:
        raise ValueError(f"`seeds` must be at least 1, got {seeds}.")
    chosen = methods or METHODS[source.task]
    plans = [make_plan(source, method=name, **asked) for name in chosen]
    names = [plan.method for plan in plans]
    if any(parts(name) and found == BASELINE for name, found in zip(chosen, names, strict=True)):
        raise ValueError(
            "The methods differ by what they do with unlabeled examples, and the data have fewer "
            "than two."
        )
    if len(set(names)) < max(2, len(names)):
        raise ValueError(
            f"A comparison needs two or more methods, each once, got {', '.join(names)}."
        )
    labels = source.y[source.labeled]
    if not held_out_folds(labels, seed=0):
        raise ValueError(
            f"None of the {len(labels)} labels can be held out to judge by: a comparison needs two "
            f"labels of a class, or four values."
        )
    return [replace(plan, seed=seed) for seed in range(seeds) for plan in plans]


def trial_results(folder: Path, source: Dataset, plans: Sequence[Plan]) -> Results:
    """The trials that a folder holds, all of the same data and the same plan."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"A comparison needs a folder, and {folder} is a file; choose another.")
    try:
        results = Results(folder, fixed_settings(source, plans))
        whole = all(line.keys() >= KEPT for line in results.lines)
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise ValueError(f"The results in {folder} are damaged or of another kind; choose another.")
    return results


def missing(plans: Sequence[Plan], lines: Sequence[Line]) -> list[Plan]:
    """The plans that no line is the outcome of."""
    done = {(line["method"], line["seed"]) for line in lines}
    return [plan for plan in plans if (plan.method, plan.seed) not in done]


def ranking(source: Dataset, plans: Sequence[Plan], lines: Sequence[Line]) -> Ranking:
    """The methods of the plans, ranked by the outcomes of their trials."""
    done = {(line["method"], line["seed"]): line for line in lines}  # in the order they ended
    return rank(source.task, [done[plan.method, plan.seed] for plan in plans])


def fixed_settings(source: Dataset, plans: Sequence[Plan]) -> Line:
    """What all trials of a folder share: the data, and the plan but for method and seed."""
    content = hashlib.blake2b(digest_size=16)
    for tensor in (source.x, source.y):
        content.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    shared = {k: v for k, v in asdict(plans[0]).items() if k not in ("method", "seed")}
    return {"data": content.hexdigest(), "task": source.task, **shared}


def trial_name(plan: Plan) -> str:
    """What a trial is called while it is under way."""
    return f"{plan.method}, seed {plan.seed}"


class Trial:
    """One method and seed, on every fold; iterating trains, and `history` is what came of it."""

    def __init__(self, source: Dataset, plan: Plan, device: str = "cpu"):
        y = torch.as_tensor(source.y)  # another process is handed arrays
        source = replace(source, x=torch.as_tensor(source.x), y=y)
        self._plan = plan
        self._contest = Contest(source, plan, device=device, only=plan.method)
        self.steps = plan.steps * len(self._contest.trainings)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for loss in self._contest.losses():
            yield {"step": self._contest.done, "loss": loss}

    @property
    def history(self) -> list[Line]:
        """One line: how wrong the method was about every held-out example."""
        contest, method = self._contest, self._plan.method
        held_out = contest.held_out()
        wrong, losses = mistakes(held_out, contest.source.task, contest.spread)
        line = {
            "method": method,
            "seed": self._plan.seed,
            "loss": float(losses[method].mean()),
            "seconds": round(contest.seconds, 2),
            "rows": held_out.rows.tolist(),
            "wrong": wrong[method].tolist(),
        }
        return [line]
