"""The `labelgrad` command: parses, hands over, and turns errors into one line."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

import labelgrad

INTERRUPTED = 130  # the exit code of a program stopped by Ctrl-C

app = typer.Typer(
    help="Semi-supervised learning by label gradient alignment.",
    epilog="Example: labelgrad fit pictures/ --labels labels.csv --out runs/mine",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Say the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Semi-supervised learning by label gradient alignment."""
    if version:
        typer.echo(f"labelgrad {labelgrad.__version__}")
        raise typer.Exit


@app.command(epilog="Example: labelgrad demo --seeds 2 --steps 1000 --out runs/short")
def demo(
    seeds: Annotated[int, typer.Option(min=1, help="How many splits of the data.")] = 5,
    labels: Annotated[int, typer.Option(help="Labeled digits, a multiple of 10.")] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each run.")] = 5000,
    workers: Annotated[int, typer.Option(min=1, help="Runs side by side.")] = 2,
    out: Annotated[Path, typer.Option(help="Where runs, table and picture go.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Digits with few labels: supervised beside LGA, the same network and budget.

    Killed or stopped, the same command goes on where it was; finished runs are not run again.
    """
    from labelgrad.cli.demo import run_demo

    run_demo(seeds=seeds, labels=labels, steps=steps, workers=workers, out=out)


@app.command(epilog="Example: labelgrad fit pets.csv --target kind --out runs/pets")
def fit(
    data: Annotated[Path, typer.Argument(help="Folder of pictures, table, or .npz file.")],
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/DATA if not given.")] = None,
    labels: Annotated[Path | None, typer.Option(help="CSV with file and label.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of the labels in a table.")] = None,
    task: Annotated[str | None, typer.Option(help="classification or regression.")] = None,
    method: Annotated[str | None, typer.Option(help="A sum such as lga+vat.")] = None,
    model: Annotated[str | None, typer.Option(help="Such as mlp, wrn-10-1, wrn-16-2.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    time_budget: Annotated[float | None, typer.Option(help="Minutes, in place of steps.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same result.")] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu or cuda.")] = "cpu",
    size: Annotated[int | None, typer.Option(help="Side of the pictures, in pixels.")] = None,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Mirrored pictures mean the same.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="A damaged picture is fatal.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
) -> None:
    """Learn from data with few labels, beside a supervised baseline; keep the better model.

    The run folder gets the model, labels.csv with a label for every unlabeled example, and
    report.html to look at. Ctrl-C keeps what there is (exit code 130), and --resume goes on; after
    corrections (labelgrad labels) it trains anew with them.
    """
    from labelgrad.cli.fit import run_fit

    run_fit(
        data,
        out=out or Path("runs") / data.resolve().stem,
        reading={"labels": labels, "target": target, "task": task, "size": size, "strict": strict},
        training={
            "method": method,
            "model": model,
            "steps": steps,
            "time_budget": time_budget,
            "seed": seed,
            "mirror": mirror or None,
        },
        device=device,
        resume=resume,
    )


@app.command(epilog="Example: labelgrad predict runs/pets new.csv --out predictions.csv")
def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    data: Annotated[Path, typer.Argument(help="New data of the same kind.")],
    out: Annotated[Path, typer.Option(help="Where to write them.")] = Path("predictions.csv"),
    all_classes: Annotated[
        bool, typer.Option("--all-classes", help="One column for each class, too.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="A damaged picture is fatal.")] = False,
) -> None:
    """Predict labels for new data, with calibrated probabilities, as CSV."""
    from labelgrad.cli.predict import run_predict

    run_predict(run, data, out=out, all_classes=all_classes, strict=strict)


@app.command(epilog="Example: labelgrad labels runs/pets --look 20 --look-out look.csv")
def labels(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    above: Annotated[float, typer.Option(help="Smallest probability of a sure label.")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="CSV for the sure labels.")] = None,
    look: Annotated[
        int | None, typer.Option(min=0, help="How many doubtful ones to show; else 20.")
    ] = None,
    look_out: Annotated[Path | None, typer.Option(help="CSV for the doubtful ones.")] = None,
    corrections: Annotated[
        Path | None, typer.Option(help="CSV of labels, new or changed, to take.")
    ] = None,
) -> None:
    """Imputed labels to use, imputed labels to look at, and corrections taken back.

    Doubtful are labels that model or neighbours speak against, then those of a small margin.
    Corrections (columns file or row, and label) are kept in the run; fit --resume then trains anew
    with them, because a model that has seen a label cannot be judged by it, and keeps the result
    before in before-corrections.
    """
    from labelgrad.cli.labels import run_labels

    run_labels(run, above=above, out=out, look=look, look_out=look_out, corrections=corrections)


@app.command(epilog="Example: labelgrad compare pets.csv --target kind --methods supervised,lga")
def compare(
    data: Annotated[Path, typer.Argument(help="Folder of pictures, table, or .npz file.")],
    methods: Annotated[
        str, typer.Option(help="By commas; else supervised, lga, vat, lga+vat.")
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="How often each is trained.")] = 3,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    labels: Annotated[Path | None, typer.Option(help="CSV with file and label.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of the labels in a table.")] = None,
    task: Annotated[str | None, typer.Option(help="classification or regression.")] = None,
    model: Annotated[str | None, typer.Option(help="Such as mlp, wrn-10-1, wrn-16-2.")] = None,
    size: Annotated[int | None, typer.Option(help="Side of the pictures, in pixels.")] = None,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Mirrored pictures mean the same.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="A damaged picture is fatal.")] = False,
    device: Annotated[str, typer.Option(help="Where to train: cpu or cuda.")] = "cpu",
    workers: Annotated[int, typer.Option(min=1, help="Trainings side by side.")] = 2,
    out: Annotated[
        Path | None, typer.Option(help="Folder; runs/compare-DATA if not given.")
    ] = None,
) -> None:
    """Train several methods with several seeds, and say which is best or whether it is chance.

    All are judged by the same labels, held out as fit does it. Killed or stopped, the same command
    goes on; finished trainings are not run again.
    """
    from labelgrad.cli.compare import run_compare

    run_compare(
        data,
        methods=_listed(methods),
        seeds=seeds,
        out=out or Path("runs") / f"compare-{data.resolve().stem}",
        reading={"labels": labels, "target": target, "task": task, "size": size, "strict": strict},
        training={"model": model, "steps": steps, "mirror": mirror or None},
        device=device,
        workers=workers,
        command=_command(),
    )


@app.command(epilog="Example: labelgrad export runs/pets --to torchscript")
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    to: Annotated[str, typer.Option(help="torch, torchscript or onnx.")] = "torch",
    out: Annotated[Path | None, typer.Option(help="The file; in the run if not given.")] = None,
) -> None:
    """Write the model for programs without labelgrad, and check that it gives the same outputs.

    It takes pictures (values as in the files) or columns as fit prepares them, and gives
    calibrated probabilities in the order of the classes in config.json, or values.
    """
    from labelgrad.cli.export import run_export

    run_export(run, to=to, out=out)


@app.command(epilog="Example: labelgrad reproduce synthetic --trials 3 --workers 2")
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which experiment; --list has them.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="What there is, and its cost.")] = False,
    trials: Annotated[
        int | None,
        typer.Option("--trials", "--seeds", min=1, help="Trials; else as the paper."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Trials side by side.")] = 2,
    scale: Annotated[
        str | None, typer.Option(help="Size: paper, laptop, or tiny to try it out.")
    ] = None,
    methods: Annotated[str, typer.Option(help="Which methods, by commas; else all.")] = "",
    labels: Annotated[str, typer.Option(help="Label counts, by commas; else all.")] = "",
    imbalance: Annotated[
        float, typer.Option(min=1, help="Largest labeled class over the smallest.")
    ] = 1.0,
    foreign: Annotated[
        float | None, typer.Option(help="Part of the unlabeled that is of unknown classes.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; else LABELGRAD_DATA.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu or cuda.")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder; runs/NAME if not given.")] = None,
) -> None:
    """Run an experiment of the paper and lay the results beside the paper's own.

    Killed or stopped, the same command goes on where it was; a finished run is drawn anew without
    training. The folder gets results.jsonl, commands.jsonl and a figure as PNG and SVG.
    """
    from labelgrad.cli.reproduce import RECIPES, print_recipes, run_recipe

    if list_all:
        print_recipes()
        return
    _check_choice("NAME", name or "nothing", list(RECIPES))
    run_recipe(
        name or "",
        trials=trials,
        workers=workers,
        scale=scale,
        out=out,
        command=_command(),
        methods=_listed(methods),
        labels=_counts(labels),
        imbalance=imbalance,
        foreign=foreign,
        data=data,
        device=device,
    )


@app.command(epilog="Example: labelgrad tune fashion-mnist --methods lga,vat --trials 6")
def tune(
    experiment: Annotated[str, typer.Argument(help="What to tune: synthetic, or a picture set.")],
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials: of the space, or of each method.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Trials side by side.")] = 2,
    scale: Annotated[str | None, typer.Option(help="Size: paper, laptop or tiny.")] = None,
    methods: Annotated[str, typer.Option(help="Which methods, by commas; else all.")] = "",
    labels: Annotated[int, typer.Option(help="Label count at which to tune.")] = 1000,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; else LABELGRAD_DATA.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder; runs/tune-NAME if not given.")] = None,
) -> None:
    """Look for settings: on the shells by distance from the paper's curves, on pictures by Optuna.

    Killed or stopped, the same command goes on where it was; finished trials are not run again.
    """
    from labelgrad.data.picture_sets import SETS

    _check_choice("EXPERIMENT", experiment, ["synthetic", *SETS])
    scales = ["paper", "tiny"] if experiment == "synthetic" else ["laptop", "paper", "tiny"]
    _check_choice("--scale", scale or scales[0], scales)
    folder = out or Path("runs") / f"tune-{experiment}"
    if experiment == "synthetic":
        from labelgrad.cli.tune import tune_synthetic

        tune_synthetic(
            trials=trials or 32,
            seed=seed,
            workers=workers,
            scale=scale or scales[0],
            out=folder,
            command=_command(),
        )
        return
    from labelgrad.cli.options import Options
    from labelgrad.cli.tune_pictures import tune_pictures

    options = Options(
        trials or 6,
        workers,
        scale or scales[0],
        folder,
        _command(),
        methods=_listed(methods),
        labels=(labels,),
        data=data,
    )
    tune_pictures(experiment, options, seed=seed)


@app.command(epilog="Example: labelgrad methods")
def methods() -> None:
    """List the methods: where each is from, what a step costs, its settings."""
    from labelgrad.cli.methods import print_methods

    print_methods()


def _check_choice(name: str, given: str, choices: list[str]) -> None:
    if given not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {given!r}.")


def _listed(given: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in given.split(",") if part.strip())


def _counts(given: str) -> tuple[int, ...]:
    counts = _listed(given)
    if not all(count.isdigit() for count in counts):
        raise ValueError(f"--labels must be whole numbers with commas between, got {given!r}.")
    return tuple(int(count) for count in counts)


def _command() -> str:
    """The command as it was typed, for the record."""
    return shlex.join(["labelgrad", *sys.argv[1:]])


def main() -> None:
    """Run the command; without --debug an error is one line and no traceback."""
    warnings.showwarning = _show_warning
    debug = "--debug" in sys.argv  # wherever it stands, before the command's name or after
    try:
        app(args=[argument for argument in sys.argv[1:] if argument != "--debug"])
    except SystemExit as end:
        if end.code == INTERRUPTED:
            same = "the same command with --resume" if "fit" in sys.argv else "the same command"
            _say(f"stopped; {same} goes on from the last checkpoint.", INTERRUPTED)
        raise
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        if debug:
            raise
        _say(str(error), 1)


def _say(message: str, code: int) -> None:
    typer.echo(f"labelgrad: {message}", err=True)
    sys.exit(code)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"labelgrad: warning: {message}", err=True)
