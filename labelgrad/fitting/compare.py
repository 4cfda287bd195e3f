"""`labelgrad.compare`: methods and seeds on the same held-out labels, and what may be chance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from labelgrad.encoders.found import Given
from labelgrad.encoders.hub import Allow
from labelgrad.fitting.asked import Reading, check_device, encoding_of
from labelgrad.fitting.cross_validation import OnProgress, held_out_folds
from labelgrad.fitting.jobs import Callbacks, TrainingJob, as_arrays
from labelgrad.fitting.peer_folds import OTHERS, PeerFolds, PeerPlan, check_other
from labelgrad.fitting.plan import Plan, make_plan
from labelgrad.fitting.ranking import Ranking, rank
from labelgrad.fitting.verdict import BASELINE
from labelgrad.inputs.base import Dataset
from labelgrad.methods import parts
from labelgrad.nearest import did_you_mean
from labelgrad.training.parallel import History, Work, finish_all
from labelgrad.training.results import Line, Results

METHODS = {
    "classification": (BASELINE, "lga-evidence", "vat", "lga-evidence+vat"),
    "regression": (BASELINE, "lga-evidence", "lga"),
}
AnyPlan = Plan | PeerPlan
KEPT = {"method", "seed", "loss", "seconds", "rows", "wrong"}  # of a trial


def compare(
    data: str | Path | ArrayLike | Dataset,
    y: ArrayLike | None = None,
    *,
    labels: str | Path | None = None,
    target: str | None = None,
    task: str | None = None,
    size: int | None = None,
    strict: bool = False,
    dates: str | None = None,
    text: str | Sequence[str] | None = None,
    picture: str | Sequence[str] | None = None,
    encoder: Given | Sequence[Given] | None = None,
    download: Allow = False,
    cache: str | Path | None = None,
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    model: str | None = None,
    steps: int | None = None,
    mirror: bool | None = None,
    device: str = "cpu",
    workers: int = 1,
    executor: Executor | None = None,
    out: str | Path | None = None,
    command: str = "labelgrad.compare",
    on_data: Callable[[Dataset], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    on_progress: OnProgress | None = None,
    on_trial: Callable[[int, int], None] | None = None,
) -> Ranking:
    """Train several methods with several seeds, and say which is best or whether it is chance.

    `data`, `y` and the eleven after them are as in `labelgrad.fit`, and so are `model`, `steps`,
    `mirror`, `device`, `workers`, `on_data`, `on_note` and `on_progress`. A seed deals the labels
    into folds as `fit` does, and gives the first weights and the batches: the same for all methods.
    Methods may be peers, too, such as "random-forest" (`labelgrad.peers`).

    With an `executor`, any `concurrent.futures.Executor`, the trials go there in place of `workers`
    of this machine, each with the data; `on_progress` then hears of each at its end alone.

    With `out` finished trials are kept, and not run again; `command` is written down beside them.
    `on_trial` is given how many of the trials are done.

    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> y = np.where(np.arange(40) < 16, x[:, 0] > 0, -1)
    >>> found = compare(x, y, methods=["supervised", "lga"], seeds=2, steps=5)
    >>> [scored.method for scored in found.methods], found.examples
    (['supervised', 'lga'], 16)
    """
    check_device(device)
    reading = Reading(labels, target, task, size, strict, dates, text, picture)
    encoding = encoding_of(encoder, download, cache, device, on_note, on_progress)
    dataset = reading.dataset(data, y, encoding)
    plans = trial_plans(dataset, methods, seeds, model=model, steps=steps, mirror=mirror)
    results = None if out is None else trial_results(Path(out), dataset, plans)
    if on_data is not None:
        on_data(dataset)
    lines = [] if results is None else list(results.lines)
    done = {(line["method"], line["seed"]) for line in lines}
    to_do = {trial_name(plan): plan for plan in plans if (plan.method, plan.seed) not in done}
    if results is not None and to_do:
        results.begin(command)

    def keep(name: str, found: History) -> None:
        lines.extend(found)
        if results is not None:
            results.add(found)

    told = Callbacks(on_progress, on_trial)
    if workers > 1 or executor is not None:
        handed = as_arrays(dataset, by_path=executor is None)
        jobs = {
            name: {"dataset": handed, "plan": plan, "device": device}
            for name, plan in to_do.items()
        }
        finish_all(
            make_trial, jobs, workers=workers, progress=told, when_done=keep, executor=executor
        )
    else:
        for number, (name, plan) in enumerate(to_do.items(), 1):
            trial = make_trial(dataset, plan, device)
            for record in trial:
                told.update(name, record["step"], trial.steps, record["loss"])
            keep(name, trial.history)
            told.count(number, len(to_do))
    return ranking(dataset.task, plans, lines)


def make_trial(dataset: Dataset, plan: AnyPlan, device: str) -> Work:
    """The work of one method and seed."""
    if isinstance(plan, PeerPlan):
        return PeerFolds(dataset, plan)
    return Trial(dataset, plan, only=plan.method, device=device)


class Trial(TrainingJob):
    """One method and seed, on every fold; iterating trains, and `history` is what came of it."""

    @property
    def history(self) -> History:
        """One line: how wrong the method was about every held-out example."""
        plan, held_out = self.trained.plan, self.trained.held_out()
        wrong, losses = held_out.mistakes()
        line = {
            "method": plan.method,
            "seed": plan.seed,
            "loss": float(losses[plan.method].mean()),
            "seconds": round(self.trained.seconds, 2),
            "rows": held_out.rows.tolist(),
            "wrong": wrong[plan.method].tolist(),
        }
        return [line]


def trial_plans(
    dataset: Dataset,
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    *,
    model: str | None = None,
    steps: int | None = None,
    mirror: bool | None = None,
) -> list[AnyPlan]:
    """One plan for each method and seed, each checked, seed by seed."""
    if seeds < 1:
        raise ValueError(f"`seeds` must be at least 1, got {seeds}.")
    chosen = methods or METHODS[dataset.task]
    plans: list[AnyPlan] = []
    for name in chosen:
        _check_name(name, dataset.task)
        if name in OTHERS:
            plans.append(PeerPlan(name))
        else:
            plan = make_plan(dataset, method=name, model=model, steps=steps, mirror=mirror)
            plans.append(plan)
    names = [plan.method for plan in plans]
    if any(
        isinstance(plan, Plan) and plan.method == BASELINE and parts(name)
        for name, plan in zip(chosen, plans, strict=True)
    ):
        raise ValueError(
            "The methods differ by what they do with unlabeled examples, and the data have fewer "
            "than two."
        )
    if len(set(names)) < max(2, len(names)):
        raise ValueError(
            f"A comparison needs two or more methods, each once, got {', '.join(names)}."
        )
    known = dataset.y[dataset.labeled]
    if not held_out_folds(known, seed=0):
        raise ValueError(
            f"None of the {len(known)} labels can be held out to judge by: a comparison needs two "
            f"labels of a class, or four values."
        )
    return [replace(plan, seed=seed) for seed in range(seeds) for plan in plans]


def _check_name(name: str, task: str) -> None:
    """Refuse what is neither a method nor a peer, with the nearest of either."""
    if name in OTHERS:
        check_other(name, task)
        return
    try:
        parts(name)
    except ValueError:
        hint = did_you_mean(name, OTHERS, "")
        if not hint:
            raise
        raise ValueError(f"there is no method {name!r}; {hint}") from None


def trial_name(plan: AnyPlan) -> str:
    """What a trial is called while it is under way."""
    return f"{plan.method}, seed {plan.seed}"


def trial_results(folder: Path, dataset: Dataset, plans: Sequence[AnyPlan]) -> Results:
    """The trials that a folder holds, all of the same data and, but for method and seed, plan."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"A comparison needs a folder, and {folder} is a file; choose another.")
    content = hashlib.blake2b(digest_size=16)
    for tensor in (dataset.x, dataset.y):
        content.update(np.ascontiguousarray(tensor.numpy()).data)
    of_networks = next((asdict(plan) for plan in plans if isinstance(plan, Plan)), {})
    shared = {k: v for k, v in of_networks.items() if k not in ("method", "seed")}
    settings: Line = {"data": content.hexdigest(), "task": dataset.task, **shared}
    try:
        results = Results(folder, settings)
        whole = all(line.keys() >= KEPT for line in results.lines)
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise ValueError(f"The results in {folder} are damaged or of another kind; choose another.")
    return results


def ranking(task: str, plans: Sequence[AnyPlan], lines: Sequence[Line]) -> Ranking:
    """The methods of the plans in their order, ranked by the outcomes of their trials."""
    done = {(line["method"], line["seed"]): line for line in lines}
    return rank(task, [done[plan.method, plan.seed] for plan in plans])
