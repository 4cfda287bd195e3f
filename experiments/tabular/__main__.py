"""`python -m experiments.tabular`: the bench on small tables, the demo, LGA's label rules."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from experiments.common import Results, check_choice, commands_for, listed, run, run_trials, typed
from experiments.tabular.bench import bench_trial
from experiments.tabular.data import SETS, VALUES, Draw, Sources, set_names, stratified, whole
from experiments.tabular.demo import run_demo
from experiments.tabular.label_rules import METHODS, SETTINGS, rule_trial, show_label_rules
from experiments.tabular.leaderboard import LEAST, show
from experiments.tabular.methods import TITLES, available, fits_for

commands = commands_for(
    "The experiments on small tables. After an interruption the same command continues."
)
Sets = Annotated[str, typer.Option(help="Data sets, separated by commas; default: all.")]
Seeds = Annotated[int, typer.Option(min=1, help="Splits of each data set.")]
Workers = Annotated[int, typer.Option(min=1, help="Trials in parallel.")]
Data = Annotated[Path | None, typer.Option(help="Folder of Fashion-MNIST.")]
Out = Annotated[Path, typer.Option(help="Folder of results and figures.")]


@commands.command()
def demo(
    seeds: Seeds = 4,
    labels: Annotated[int, typer.Option(help="Labeled digits, a multiple of 10.")] = 50,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps per network.")] = None,
    workers: Workers = 2,
    out: Out = Path("runs/demo"),
) -> None:
    """Digits with few labels: the ensemble and its student beside LGA alone and scikit-learn."""
    run_demo(seeds=seeds, labels=labels, steps=steps, workers=workers, out=out)


@commands.command()
def bench(
    sets: Sets = "",
    tables: Annotated[Path | None, typer.Option(help="Folder of CSV files: data sets.")] = None,
    target: Annotated[str, typer.Option(help="Column of the labels in each.")] = "target",
    regression: Annotated[str, typer.Option(help="Tables that are regressions.")] = "",
    methods: Annotated[str, typer.Option(help="Methods; default: all.")] = "",
    seeds: Seeds = 5,
    labels_per_class: Annotated[int, typer.Option(min=1, help="Labels of each class.")] = 10,
    at_random: Annotated[
        bool, typer.Option("--at-random", help="As many labels, drawn at random.")
    ] = False,
    labels: Annotated[
        int | None, typer.Option(min=2, help="So many labels, drawn at random, such as 50.")
    ] = None,
    workers: Workers = 2,
    data: Data = None,
    out: Out = Path("runs/bench"),
) -> None:
    """Compare the ensemble and LGA with baselines, on small data sets and on your own tables."""
    asked = listed(methods)
    check_choice("--methods", list(filter(available, TITLES)), *asked)
    folder = tables.absolute() if tables else None
    sources = Sources(data, folder, target, listed(regression))
    names, draw = set_names(sources, listed(sets)), Draw(labels_per_class, at_random, labels)
    kinds = {name: whole(name, sources)[1].dtype.kind for name in names}
    tasks = {name: "regression" if kinds[name] == "f" else "classification" for name in names}
    results = Results(out, {"least": LEAST, "values": VALUES} | asdict(draw))
    given = {"draw": draw, "sources": sources}
    jobs = {
        f"{name}, {fit}, seed {seed}": {"data": name, "fit": fit, "seed": seed, **given}
        for seed in range(seeds)
        for name in names
        for fit in fits_for(tasks[name], asked)
        if not results.has(data=name, method=fit, seed=seed)
    }
    run_trials(bench_trial, jobs, results, workers)
    wanted = [x for x in results.lines if x["method"] in (asked or TITLES)]
    show([x for x in wanted if x["seed"] < seeds and x["data"] in names], out, typed())


@commands.command()
def label_rules(
    sets: Sets = "",
    seeds: Seeds = 3,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 5000,
    workers: Workers = 2,
    data: Data = None,
    out: Out = Path("runs/label-rules"),
) -> None:
    """Compare how LGA's labels learn: at a rate, tuned or not, and by evidence."""
    names = listed(sets) or tuple(SETS)
    for name in names:
        stratified(name, 0, data)  # raises before any training
    results = Results(out, {"steps": steps, **SETTINGS})
    jobs = {}
    for seed, name, method in product(range(seeds), names, METHODS):
        key = {"data": name, "method": method.kind, "setting": method.setting, "seed": seed}
        if not results.has(**key):
            title = f"{name}, {method.kind} {method.setting:.2g}, seed {seed}"
            jobs[title] = {**key, "steps": steps, "folder": data}
    run_trials(rule_trial, jobs, results, workers)
    lines = [x for x in results.lines if x["seed"] < seeds and x["data"] in names]
    show_label_rules(lines, out)


if __name__ == "__main__":
    run(commands)
