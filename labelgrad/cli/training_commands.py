"""What the commands take that train on data: `demo`, `fit`, `compare`, `bench` and its peers.

The work is imported when it begins, so that help does not wait for PyTorch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelgrad.cli.options import (
    Cache,
    Dask,
    Data,
    DataSets,
    Dates,
    Device,
    Download,
    Encoder,
    Labels,
    Mirror,
    Model,
    Picture,
    ResultsOut,
    Size,
    Splits,
    Steps,
    Strict,
    Target,
    Task,
    Text,
    TrialsAtOnce,
)
from labelgrad.cli.words import asking, listed, names_or_none, rate_typed, shares_typed, typed


def demo(
    seeds: Annotated[int, typer.Option(min=1, help="How many splits of the data.")] = 4,
    labels: Annotated[int, typer.Option(help="Labeled digits, a multiple of 10.")] = 50,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps of each network; as `fit` if not said."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Splits side by side.")] = 2,
    out: ResultsOut = Path("runs/demo"),
) -> None:
    """Digits with few labels: the pool and its student beside LGA alone and scikit-learn.

    Killed or stopped, the same command goes on with the splits that are missing.
    """
    from labelgrad.cli.demo import run_demo

    run_demo(seeds=seeds, labels=labels, steps=steps, workers=workers, out=out, command=typed())


def fit(
    data: Data,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/DATA.")] = None,
    labels: Labels = None,
    target: Target = None,
    task: Task = None,
    dates: Dates = None,
    method: Annotated[str | None, typer.Option(help="A sum such as lga+vat.")] = None,
    model: Model = None,
    steps: Steps = None,
    time_budget: Annotated[float | None, typer.Option(help="Minutes, in place of steps.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same result.")] = None,
    device: Device = "cpu",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; else all cores.")] = None,
    dask: Dask = None,
    size: Size = None,
    mirror: Mirror = False,
    witnesses: Annotated[str | None, typer.Option(help="linear,neighbours or none.")] = None,
    opinions: Annotated[
        Path | None, typer.Option(help="CSV of what others say of examples.")
    ] = None,
    describe: Annotated[Path | None, typer.Option(help="CSV of class, description.")] = None,
    shares: Annotated[str | None, typer.Option(help="Such as cat=0.2,dog=0.8.")] = None,
    drawn: Annotated[str | None, typer.Option(help="Labels were: random or by-class.")] = None,
    keep_pool: Annotated[
        bool, typer.Option("--keep-pool", help="Keep the pool for predict --pool.")
    ] = False,
    map_by: Annotated[str | None, typer.Option(help="The page's map: pca or umap.")] = None,
    text: Text = None,
    picture: Picture = None,
    encoder: Encoder = None,
    download: Download = False,
    cache: Cache = None,
    fine_tune: Annotated[bool, typer.Option("--fine-tune", help="Train the encoder, too.")] = False,
    encoder_rate: Annotated[float | None, typer.Option(help="Its share of the rate; 0.01.")] = None,
    spreadsheet_safe: Annotated[
        bool, typer.Option("--spreadsheet-safe", help="Labels for a spreadsheet, too.")
    ] = False,
    strict: Strict = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
) -> None:
    """Hear witnesses on data with few labels, pool them, keep a network they teach.

    The run folder gets the model, labels.csv with a label for every unlabeled
    example, and report.html. Ctrl-C keeps what there is (exit code 130), and
    --resume goes on; after corrections (labelgrad labels) it trains anew.
    As torchrun --nproc-per-node 2 -m labelgrad fit two processes train together.
    """
    from labelgrad.cli.fit import run_fit

    run_fit(
        data,
        out=out or Path("runs") / data.resolve().stem,
        labels=labels,
        target=target,
        task=task,
        dates=dates,
        size=size,
        strict=strict,
        text=text,
        picture=picture,
        encoder=listed(encoder or ""),
        download=download or asking(),
        cache=cache,
        fine_tune=rate_typed(fine_tune, encoder_rate),
        method=method,
        model=model,
        steps=steps,
        time_budget=time_budget,
        seed=seed,
        mirror=mirror or None,
        witnesses=names_or_none(witnesses),
        opinions=opinions,
        descriptions=describe,
        shares=shares_typed(shares),
        drawn=drawn,
        keep_pool=keep_pool,
        map_by=map_by,
        spreadsheet_safe=spreadsheet_safe,
        device=device,
        workers=workers,
        dask=dask,
        resume=resume,
    )


def compare(
    data: Data,
    methods: Annotated[
        str,
        typer.Option(
            help="By commas; else supervised, lga-evidence, vat, lga-evidence+vat, or of values "
            "supervised, lga-evidence, lga. Peers such as random-forest, too."
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="How often each is trained.")] = 3,
    steps: Steps = None,
    labels: Labels = None,
    target: Target = None,
    task: Task = None,
    dates: Dates = None,
    model: Model = None,
    size: Size = None,
    mirror: Mirror = False,
    text: Text = None,
    picture: Picture = None,
    encoder: Encoder = None,
    download: Download = False,
    cache: Cache = None,
    strict: Strict = False,
    device: Device = "cpu",
    workers: Annotated[int, typer.Option(min=1, help="Trainings side by side.")] = 2,
    dask: Dask = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder; runs/compare-DATA if not given.")
    ] = None,
) -> None:
    """Train several methods with several seeds, and say which is best or whether it is chance.

    All are judged by the same labels, held out as fit does it. Killed or stopped, the same command
    goes on; finished trainings are not run again. With --dask they are trained by the workers of a
    Dask cluster, which need labelgrad and get the data from here (pip install 'labelgrad[dask]').
    """
    from labelgrad.cli.compare import run_compare

    run_compare(
        data,
        out=out or Path("runs") / f"compare-{data.resolve().stem}",
        labels=labels,
        target=target,
        task=task,
        dates=dates,
        size=size,
        strict=strict,
        text=text,
        picture=picture,
        encoder=listed(encoder or ""),
        download=download or asking(),
        cache=cache,
        methods=listed(methods) or None,
        seeds=seeds,
        model=model,
        steps=steps,
        mirror=mirror or None,
        device=device,
        workers=workers,
        dask=dask,
        command=typed(),
    )


def bench(
    context: typer.Context,
    sets: Annotated[str, typer.Option(help="Which sets, by commas; else all eleven.")] = "",
    seeds: Splits = 3,
    steps: Annotated[int, typer.Option(min=1, help="Training steps; else the estimators'.")] = 5000,
    workers: TrialsAtOnce = 2,
    dask: Dask = None,
    data: DataSets = None,
    out: ResultsOut = Path("runs/bench"),
) -> None:
    """Compare how LGA's labels can learn: at a rate, tuned or not, and by evidence, on small sets.

    Killed or stopped, the same command goes on where it was; finished trials are not run again.
    """
    if context.invoked_subcommand is not None:
        return
    from labelgrad.cli.bench import run_bench
    from labelgrad.cli.cluster import executor_at

    with executor_at(dask) as executor:
        run_bench(
            sets=listed(sets),
            seeds=seeds,
            steps=steps,
            workers=workers,
            data=data,
            out=out,
            command=typed(),
            executor=executor,
        )


def peers(
    sets: Annotated[str, typer.Option(help="Which sets, by commas; else all there are.")] = "",
    tables: Annotated[
        Path | None, typer.Option(help="Folder of CSV files, each one more set.")
    ] = None,
    target: Annotated[str, typer.Option(help="Column of the labels in each.")] = "target",
    regression: Annotated[
        str, typer.Option(help="Tables, by commas, whose labels are values.")
    ] = "",
    methods: Annotated[str, typer.Option(help="Which methods, by commas; else all.")] = "",
    seeds: Splits = 5,
    labels_per_class: Annotated[int, typer.Option(min=1, help="Labels, evenly by class.")] = 10,
    at_random: Annotated[
        bool, typer.Option("--at-random", help="As many labels, drawn at random.")
    ] = False,
    labels: Annotated[
        int | None, typer.Option(min=2, help="So many of each set, drawn at random.")
    ] = None,
    workers: TrialsAtOnce = 2,
    dask: Dask = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the pictures; else LABELGRAD_DATA.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results, page and pictures go.")] = Path(
        "runs/peers"
    ),
) -> None:
    """Lay LGA beside what people use: forests, boosting, a Gaussian process, label spreading.

    On nine classifications and two regressions, and on tables of your own. Killed or stopped, the
    same command goes on where it was; finished trials are not run again.
    """
    from labelgrad.bench.splits import Draw, Places
    from labelgrad.cli.cluster import executor_at
    from labelgrad.cli.peers import run_peers

    with executor_at(dask) as executor:
        run_peers(
            sets=listed(sets),
            methods=listed(methods),
            seeds=seeds,
            draw=Draw(labels_per_class, at_random, labels),
            places=Places(data, tables, target, listed(regression)),
            workers=workers,
            out=out,
            command=typed(),
            executor=executor,
        )


def methods() -> None:
    """List the methods: where each is from, what a step costs, its settings."""
    from labelgrad.cli.methods import print_methods

    print_methods()
