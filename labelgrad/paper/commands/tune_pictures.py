"""`labelgrad tune fashion-mnist`: settings for every method, one budget for each term."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Column, Table

from labelgrad.cli.console import Terminal, add_missing, progress
from labelgrad.paper.commands.options import Options
from labelgrad.paper.commands.pictures import PAPER, TODAY, ready, spelled
from labelgrad.paper.settings import best_of
from labelgrad.training.results import Line, Results


def tune_pictures(data: str, options: Options, *, seed: int) -> None:
    """Round by round, one trial of every method, until each has had its budget."""
    from labelgrad.paper.picture_task import SIZES
    from labelgrad.paper.picture_tuning import Search
    from labelgrad.paper.settings import budget

    ready(data, options)
    methods = [spelled(name) for name in options.methods or (*PAPER, *TODAY)]
    size, labels = asdict(SIZES[options.scale]), options.labels[0]
    results = Results(options.out, {"size": size, "labels": labels, "search_seed": seed})
    path = options.out / "tuning.sqlite"
    searches = {
        name: Search(path, data, name, seed=seed, finished=results.lines) for name in methods
    }
    budgets = {name: budget(name, options.trials) for name in methods}
    while left := {name: s for name, s in searches.items() if s.done < budgets[name]}:
        _round(data, left, results, options)
    mine = [line for line in results.lines if line["method"] in methods]
    Terminal().print(tuned_table(mine))


def tune_together(data: str, options: Options, *, seed: int, storage: str, heartbeat: int) -> None:
    """The same beside other processes, which may be anywhere, until all of it is done."""
    from labelgrad.paper.picture_task import SIZES
    from labelgrad.paper.settings import budget
    from labelgrad.paper.shared_search import SearchWorker, Shared, without_password
    from labelgrad.training.parallel import finish_all

    ready(data, options)
    methods = tuple(spelled(name) for name in options.methods or (*PAPER, *TODAY))
    size, labels = asdict(SIZES[options.scale]), options.labels[0]
    results = Results(options.out, {"size": size, "labels": labels, "search_seed": seed})
    shared = Shared(storage, data, labels, options.scale, options.trials, seed, heartbeat)
    job: dict[str, Any] = {
        "shared": shared,
        "methods": methods,
        "data_folder": options.data,
        "device": options.device,
        "rebuilt": options.rebuilt,
    }
    here = SearchWorker(**job)  # says what is wrong with the database before others begin
    known = {(line["method"], line["number"]) for line in results.lines}
    budgets = {name: budget(name, options.trials) for name in methods}
    if any((name, number) not in known for name in methods for number in range(budgets[name])):
        results.begin(without_password(options.command))
        jobs = {f"worker {number + 1}": job for number in range(options.workers)}
        finish_all(SearchWorker, jobs, workers=options.workers, progress=progress(Terminal()))
        results.add(line for line in here.history if (line["method"], line["number"]) not in known)
    mine = [line for line in results.lines if line["method"] in methods]
    Terminal().print(tuned_table(mine))


def _round(data: str, searches: dict[str, Any], results: Results, options: Options) -> None:
    """One more trial of each method that is left."""
    from labelgrad.paper.picture_task import Task
    from labelgrad.paper.picture_tuning import SEED, PictureTuningTrial

    jobs = {}
    for name, search in searches.items():
        number, settings = search.ask()
        jobs[f"{name}, trial {search.done + 1}"] = {
            "task": Task(data, name, options.labels[0], SEED, rebuilt=options.rebuilt),
            "number": number,
            "settings": settings,
            "scale": options.scale,
            "data_folder": options.data,
            "device": options.device,
        }
    before = len(results.lines)
    add_missing(PictureTuningTrial, jobs, results, workers=options.workers, command=options.command)
    for line in results.lines[before:]:
        searches[line["method"]].tell(line["validation_error"])


def tuned_table(lines: list[Line]) -> Table:
    """The best settings of each method, and of how many trials."""
    table = Table(
        Column("method", no_wrap=True),
        Column("trials", justify="right"),
        Column("validation error %", justify="right"),
        Column("learning rate", justify="right"),
        "its own",
        title="The best trial of each method; a sum has as many as its terms together",
    )
    for name in dict.fromkeys(line["method"] for line in lines):
        best = best_of(lines, name)
        own = (f"{k} {v:g}" for term in best["settings"]["terms"].values() for k, v in term.items())
        rate = f"{best['settings']['learning_rate']:g}"
        trials = str(sum(line["method"] == name for line in lines))
        table.add_row(name, trials, f"{100 * best['validation_error']:.2f}", rate, ", ".join(own))
    return table
