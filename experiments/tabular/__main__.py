"""`python -m experiments.tabular`: the bench on small tables, the demo, LGA's label rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.common import commands_for, listed, run, typed

NAME = "experiments.tabular"
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
    from experiments.tabular.demo import run_demo

    run_demo(seeds=seeds, labels=labels, steps=steps, workers=workers, out=out, command=typed(NAME))


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
    from experiments.tabular.bench import run_bench
    from experiments.tabular.data import Draw, Sources

    run_bench(
        sets=listed(sets),
        methods=listed(methods),
        seeds=seeds,
        draw=Draw(labels_per_class, at_random, labels),
        sources=Sources(data, tables, target, listed(regression)),
        workers=workers,
        out=out,
        command=typed(NAME),
    )


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
    from experiments.tabular.label_rules import run_label_rules

    run_label_rules(
        sets=listed(sets),
        seeds=seeds,
        steps=steps,
        workers=workers,
        data=data,
        out=out,
        command=typed(NAME),
    )


if __name__ == "__main__":
    run(commands)
