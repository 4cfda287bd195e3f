"""`tune cifar10` and the other image sets: Optuna's search, the same budget for every term.

Each method has a learning rate and the main settings of its terms. A sum is tuned as a sum, with as
many trials as its terms have together. The first trial has the usual values, a sum's second one
those that its terms were found with. Trials are scored by validation error, on a split that no
experiment reports, and never see a test image. With `--storage` the same command on any number of
machines works on one search; Optuna repeats a trial whose process has died.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Any

from experiments.common import Line, Results, aligned, run_trials, table
from experiments.paper.image_experiments import PAPER, RECENT, Options, check_data, spelled
from experiments.paper.image_task import SIZES, Task
from experiments.paper.image_trial import tuning_trial
from experiments.paper.settings import (
    LEARNING_RATE,
    Hyperparameters,
    best_of,
    budget,
    by_term,
    first_settings,
    own_settings,
)
from labelgrad.functional import mixed_seed

SEED = 1000  # of the split


def tune_images(data: str, options: Options, *, seed: int, storage: str | None) -> None:
    """Search for the settings of every method, and print the best."""
    check_data(data, options)
    methods = [spelled(name) for name in options.methods or (*PAPER, *RECENT)]
    size, labels = asdict(SIZES[options.scale]), options.labels[0]
    results = Results(options.out, {"size": size, "labels": labels, "search_seed": seed})
    options.out.mkdir(parents=True, exist_ok=True)
    storage = storage or f"sqlite:///{options.out.absolute() / 'tuning.sqlite'}"
    opened(storage)  # creates the tables before several processes ask for them
    jobs = {}
    for name in methods:
        known = [line["number"] for line in results.lines if line["method"] == name]
        trials = budget(name, options.trials)
        if len(known) < trials:
            task = Task(data, name, labels, SEED, rebuilt=options.rebuilt)
            jobs[name] = {"task": task, "trials": trials, "seed": seed, "storage": storage}
            jobs[name] |= {"known": known, "where": options.where}
    run_trials(search, jobs, results, options.workers)
    print("The best trial of each method; a sum has as many trials as its terms together")
    print(aligned(tuned_table([line for line in results.lines if line["method"] in methods])))


def search(
    task: Task, *, trials: int, seed: int, storage: str, known: list[int], where: dict[str, Any]
) -> list[Line]:
    """Run a method's trials until so many are complete; gives the lines that are not known."""
    import optuna

    def objective(trial: optuna.Trial) -> float:
        settings, extra = suggested(trial, task.method), {"number": trial.number}
        (line,) = tuning_trial(task, settings=settings, extra=extra, **where)
        trial.set_user_attr("line", line)
        return float(line["validation_error"])

    def complete() -> list[Any]:
        return study.get_trials(states=[optuna.trial.TrialState.COMPLETE])

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=opened(storage),
        study_name=f"{task.data}, {task.method}, {task.labels} labels, {where['scale']}, {seed}",
        load_if_exists=True,
    )
    for settings in first_settings(task.method):
        study.enqueue_trial(settings, skip_if_exists=True)
    while (done := len(complete())) < trials:
        # Seeded by its place, so that a search that was interrupted continues as it would have.
        study.sampler = optuna.samplers.TPESampler(seed=mixed_seed(seed, done) % 2**32)
        study.optimize(objective, n_trials=1)
    return [trial.user_attrs["line"] for trial in complete() if trial.number not in known]


def opened(storage: str) -> Any:
    """The database of a search, in which a process that dies loses its trial to another one."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.storages.RDBStorage(
            storage,
            heartbeat_interval=60,
            grace_period=120,
            heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(),
        )


def suggested(trial: Any, method: str) -> Hyperparameters:
    """The settings that Optuna suggests for a trial of the method, to three digits."""
    ranges = {"learning_rate": LEARNING_RATE, **own_settings(method)}
    found = {
        name: float(f"{trial.suggest_float(name, own.low, own.high, log=True):.3g}")
        for name, own in ranges.items()
    }
    return Hyperparameters(found.pop("learning_rate"), by_term(found))


def tuned_table(lines: list[Line]) -> str:
    """The best settings of each method, and of how many trials."""
    rows = []
    for name in dict.fromkeys(line["method"] for line in lines):
        best = best_of(lines, name)
        own = (f"{k} {v:g}" for term in best["settings"]["terms"].values() for k, v in term.items())
        rate = f"{best['settings']['learning_rate']:g}"
        trials = str(sum(line["method"] == name for line in lines))
        rows.append([name, trials, f"{100 * best['validation_error']:.2f}", rate, ", ".join(own)])
    return table(["method", "trials", "validation error %", "learning rate", "its own"], rows)
