"""What the two commands take; the `labelgrad` command finds them by their entry point."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelgrad.cli.options import Dask, DataSets, Device, TrialsAtOnce
from labelgrad.cli.words import check_choice, counts, listed, typed

commands = typer.Typer()
Rebuilt = Annotated[
    bool, typer.Option("--rebuilt", help="SVHN's files are rebuilt, not the authors'.")
]


@commands.command(epilog="Example: labelgrad reproduce synthetic --trials 3 --workers 2")
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which experiment; --list has them.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="What there is, and its cost.")] = False,
    trials: Annotated[
        int | None,
        typer.Option("--trials", "--seeds", min=1, help="Trials; else as the paper."),
    ] = None,
    workers: TrialsAtOnce = 2,
    dask: Dask = None,
    scale: Annotated[
        str | None, typer.Option(help="Size: paper, laptop, or tiny to try it out.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of a training on pictures; else the scale's.")
    ] = None,
    tuned: Annotated[
        Path | None, typer.Option(help="Settings for pictures: a folder of `labelgrad tune`.")
    ] = None,
    methods: Annotated[str, typer.Option(help="Which methods, by commas; else all.")] = "",
    labels: Annotated[str, typer.Option(help="Label counts, by commas; else all.")] = "",
    imbalance: Annotated[
        float, typer.Option(min=1, help="Largest labeled class over the smallest.")
    ] = 1.0,
    foreign: Annotated[
        float | None, typer.Option(help="Part of the unlabeled that is of unknown classes.")
    ] = None,
    rebuilt: Rebuilt = False,
    data: DataSets = None,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder; runs/NAME if not given.")] = None,
) -> None:
    """Run an experiment of the paper and lay the results beside the paper's own.

    Killed or stopped, the same command goes on where it was; a finished run is drawn anew without
    training. The folder gets results.jsonl, commands.jsonl and a figure as PNG and SVG. With --dask
    the workers of a Dask cluster train, with the pictures on their own machines.
    """
    from labelgrad.cli.cluster import executor_at
    from labelgrad.paper.commands.reproduce import RECIPES, print_recipes, run_recipe

    if list_all:
        print_recipes()
        return
    check_choice("NAME", name or "nothing", list(RECIPES))
    with executor_at(dask) as executor:
        run_recipe(
            name or "",
            trials=trials,
            workers=workers,
            executor=executor,
            scale=scale,
            steps=steps,
            tuned=tuned,
            out=out,
            command=typed(),
            methods=listed(methods),
            labels=counts(labels),
            imbalance=imbalance,
            foreign=foreign,
            rebuilt=rebuilt,
            data=data,
            device=device,
        )


@commands.command(epilog="Example: labelgrad tune fashion-mnist --methods lga,vat --trials 6")
def tune(
    experiment: Annotated[str, typer.Argument(help="What to tune: synthetic, or a picture set.")],
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials: of the space, or of each term of a method.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    workers: TrialsAtOnce = 2,
    scale: Annotated[str | None, typer.Option(help="Size: paper, laptop or tiny.")] = None,
    methods: Annotated[str, typer.Option(help="Which methods, by commas; else all.")] = "",
    labels: Annotated[int, typer.Option(help="Label count at which to tune.")] = 1000,
    rebuilt: Rebuilt = False,
    data: DataSets = None,
    device: Device = "cpu",
    storage: Annotated[
        str | None, typer.Option(help="Search with others: postgresql://user@host/database.")
    ] = None,
    heartbeat: Annotated[
        int, typer.Option(min=1, help="With --storage: seconds between signs of life.")
    ] = 60,
    out: Annotated[Path | None, typer.Option(help="Folder; runs/tune-NAME if not given.")] = None,
) -> None:
    """Look for settings: on the shells by distance from the paper's curves, on pictures by Optuna.

    Killed or stopped, the same command goes on where it was; finished trials are not run again.
    With --storage the same command on any number of machines works on one search, and a trial whose
    machine has died is run again by another. Which settings are tried then depends on who is when.
    """
    from labelgrad.datasets.picture_sets import SETS

    check_choice("EXPERIMENT", experiment, ["synthetic", *SETS])
    scales = ["paper", "tiny"] if experiment == "synthetic" else ["laptop", "paper", "tiny"]
    check_choice("--scale", scale or scales[0], scales)
    folder = out or Path("runs") / f"tune-{experiment}"
    if experiment == "synthetic":
        if storage is not None:
            raise ValueError("--storage is for picture sets; the search on the shells has stages.")
        from labelgrad.paper.commands.tune_synthetic import tune_synthetic

        tune_synthetic(
            trials=trials or 32,
            seed=seed,
            workers=workers,
            scale=scale or scales[0],
            out=folder,
            command=typed(),
        )
        return
    from labelgrad.paper.commands.options import Options
    from labelgrad.paper.commands.tune_pictures import tune_pictures, tune_together

    options = Options(
        trials or 6,
        workers,
        scale or scales[0],
        folder,
        typed(),
        methods=listed(methods),
        labels=(labels,),
        data=data,
        device=device,
        rebuilt=rebuilt,
    )
    if storage is None:
        tune_pictures(experiment, options, seed=seed)
    else:
        tune_together(experiment, options, seed=seed, storage=storage, heartbeat=heartbeat)
