"""The commands that look at methods: on many sets, and by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelgrad.cli.words import listed, typed

commands = typer.Typer()


@commands.command(epilog="Example: labelgrad bench --sets wine,digits-50 --seeds 3 --workers 2")
def bench(
    sets: Annotated[str, typer.Option(help="Which sets, by commas; else all eleven.")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Splits of each set.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Training steps; else the estimators'.")] = 5000,
    workers: Annotated[int, typer.Option(min=1, help="Trials side by side.")] = 2,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; else LABELGRAD_DATA.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results and picture go.")] = Path("runs/bench"),
) -> None:
    """Compare how LGA's labels can learn: at a rate, tuned or not, and by evidence, on small sets.

    Killed or stopped, the same command goes on where it was; finished trials are not run again.
    """
    from labelgrad.cli.bench import run_bench

    run_bench(
        sets=listed(sets),
        seeds=seeds,
        steps=steps,
        workers=workers,
        data=data,
        out=out,
        command=typed(),
    )


@commands.command(epilog="Example: labelgrad methods")
def methods() -> None:
    """List the methods: where each is from, what a step costs, its settings."""
    from labelgrad.cli.methods import print_methods

    print_methods()
