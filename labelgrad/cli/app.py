"""The `labelgrad` command: what it takes, to whom it hands over, and errors in one line.

The work is imported when it begins, so that help does not wait for PyTorch.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from importlib.metadata import entry_points
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

import labelgrad
from labelgrad.cli.words import (
    asking,
    counts,
    listed,
    names_or_none,
    one_line,
    rate_typed,
    share_typed,
    shares_typed,
    typed,
    visible,
)

INTERRUPTED = 130  # the exit code of a program stopped by Ctrl-C
UNFORESEEN = 70  # of one that has a mistake in it
SAFE = "No cell begins like a formula."
DASK = "Train on this cluster: tcp://host:8786."
DATES = "day-first or month-first, if unclear."

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


@app.command(epilog="Example: labelgrad demo --seeds 2 --labels 100 --out runs/short")
def demo(
    seeds: Annotated[int, typer.Option(min=1, help="How many splits of the data.")] = 4,
    labels: Annotated[int, typer.Option(help="Labeled digits, a multiple of 10.")] = 50,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps of each network; as `fit` if not said."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Splits side by side.")] = 2,
    out: Annotated[Path, typer.Option(help="Where results and picture go.")] = Path("runs/demo"),
) -> None:
    """Digits with few labels: the pool and its student beside LGA alone and scikit-learn.

    Killed or stopped, the same command goes on with the splits that are missing.
    """
    from labelgrad.cli.demo import run_demo

    run_demo(seeds=seeds, labels=labels, steps=steps, workers=workers, out=out, command=typed())


@app.command(epilog="Example: labelgrad fit pets.csv --target kind --witnesses linear,neighbours")
def fit(
    data: Annotated[Path, typer.Argument(help="Folder of pictures, texts, Parquet; table; .npz.")],
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/DATA.")] = None,
    labels: Annotated[Path | None, typer.Option(help="CSV with file and label.")] = None,
    target: Annotated[str | None, typer.Option(help="A table's column of labels.")] = None,
    task: Annotated[str | None, typer.Option(help="classification or regression.")] = None,
    dates: Annotated[str | None, typer.Option(help=DATES)] = None,
    method: Annotated[str | None, typer.Option(help="A sum such as lga+vat.")] = None,
    model: Annotated[str | None, typer.Option(help="Such as mlp, linear, wrn-10-1.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    time_budget: Annotated[float | None, typer.Option(help="Minutes, in place of steps.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same result.")] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu or cuda.")] = "cpu",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; else all cores.")] = None,
    dask: Annotated[str | None, typer.Option(help=DASK)] = None,
    size: Annotated[int | None, typer.Option(help="Pictures' side, in pixels.")] = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Mirrored means the same.")] = False,
    witnesses: Annotated[
        str | None, typer.Option(help="Such as linear,neighbours; or none.")
    ] = None,
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
    text: Annotated[list[str] | None, typer.Option(help="Column of texts; else found.")] = None,
    picture: Annotated[list[str] | None, typer.Option(help="Column of picture files.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Name, folder or none, by commas.")] = None,
    download: Annotated[
        bool, typer.Option("--download", help="An encoder may be fetched.")
    ] = False,
    cache: Annotated[
        Path | None, typer.Option(help="Folder of kept features, pictures, tables.")
    ] = None,
    fine_tune: Annotated[bool, typer.Option("--fine-tune", help="Train the encoder, too.")] = False,
    encoder_rate: Annotated[float | None, typer.Option(help="Its share of the rate; 0.01.")] = None,
    spreadsheet_safe: Annotated[
        bool, typer.Option("--spreadsheet-safe", help="Labels for a spreadsheet, too.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="A damaged picture is fatal.")] = False,
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


@app.command(epilog="Example: labelgrad predict runs/pets new.csv --out predictions.csv")
def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    data: Annotated[Path, typer.Argument(help="New data of the same kind.")],
    out: Annotated[Path, typer.Option(help="Where to write them.")] = Path("predictions.csv"),
    all_classes: Annotated[
        bool | None,
        typer.Option(
            "--all-classes/--no-all-classes",
            help="A column for each class, too; if not said, up to twenty.",
        ),
    ] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="Ask the kept pool in place of the student.")
    ] = False,
    spreadsheet_safe: Annotated[bool, typer.Option("--spreadsheet-safe", help=SAFE)] = False,
    strict: Annotated[bool, typer.Option("--strict", help="A damaged picture is fatal.")] = False,
    encoder: Annotated[
        str | None, typer.Option(help="Its folder, where it is elsewhere now.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder of kept features, pictures, tables.")
    ] = None,
) -> None:
    """Predict labels for new data, with calibrated probabilities, as CSV."""
    from labelgrad.cli.predict import run_predict

    run_predict(
        run,
        data,
        out=out,
        all_classes=all_classes,
        strict=strict,
        pool=pool,
        encoder=listed(encoder or ""),
        cache=cache,
        spreadsheet_safe=spreadsheet_safe,
    )


@app.command(epilog="Example: labelgrad labels runs/pets --wrong-at-most 2% --out labels.csv")
def labels(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    above: Annotated[float, typer.Option(help="Smallest probability of a sure label.")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="CSV for the labels to use.")] = None,
    wrong_at_most: Annotated[
        str | None, typer.Option(help="Hand back labels with this promise: 2%.")
    ] = None,
    confidence: Annotated[str, typer.Option(help="Of the promise.")] = "95%",
    on_average: Annotated[
        bool, typer.Option("--on-average", help="Promise it on average only.")
    ] = False,
    rest_by_hand: Annotated[
        bool, typer.Option("--rest-by-hand", help="Promise it of all rows, others by hand.")
    ] = False,
    look: Annotated[
        int | None, typer.Option(min=0, help="How many doubtful ones to show; else 20.")
    ] = None,
    look_out: Annotated[Path | None, typer.Option(help="CSV for the doubtful ones.")] = None,
    corrections: Annotated[
        Path | None, typer.Option(help="CSV of labels, new or changed, to take.")
    ] = None,
    spreadsheet_safe: Annotated[bool, typer.Option("--spreadsheet-safe", help=SAFE)] = False,
) -> None:
    """Imputed labels to use, imputed labels to look at, and corrections taken back.

    With --wrong-at-most the largest set of labels of which no more are wrong, at the confidence
    asked for; it needs labels drawn at random (labelgrad audit, or fit --drawn random).
    Doubtful are labels that model or neighbours speak against, then those of a small margin.
    Corrections (columns file or row, and label) are kept in the run; fit --resume then trains anew
    with them, because a model that has seen a label cannot be judged by it, and keeps the result
    before in before-corrections.
    """
    from labelgrad.cli.labels import run_labels

    promise = None
    if wrong_at_most is not None:
        promise = {
            "wrong_at_most": share_typed("--wrong-at-most", wrong_at_most),
            "confidence": share_typed("--confidence", confidence),
            "on_average": on_average,
            "rest_by_hand": rest_by_hand,
        }
    run_labels(
        run,
        above=above,
        out=out,
        look=look,
        look_out=look_out,
        corrections=corrections,
        promise=promise,
        spreadsheet_safe=spreadsheet_safe,
    )


@app.command(epilog="Example: labelgrad audit runs/pets --rows 60 --out audit.csv")
def audit(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    rows: Annotated[int | None, typer.Option(help="So many rows, drawn at random.")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV to fill in.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the draw; else the run's.")] = None,
    filled: Annotated[Path | None, typer.Option(help="CSV that is filled in, to take.")] = None,
    new_classes: Annotated[
        bool, typer.Option("--new-classes", help="Take labels that are no class of the run.")
    ] = False,
) -> None:
    """Draw rows at random to look at, without what the run thinks; take them back filled in.

    Promises and intervals rest on them. No row is drawn twice. Look at them in their order: who
    stops has looked at a random part, and who leaves out what is hard has not.
    """
    from labelgrad.cli.promises import run_audit

    run_audit(run, rows=rows, out=out, seed=seed, filled=filled, new_classes=new_classes)


@app.command(epilog="Example: labelgrad count runs/pets --out shares.csv")
def count(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    confidence: Annotated[str, typer.Option(help="Of the intervals.")] = "95%",
    out: Annotated[Path | None, typer.Option(help="CSV for them.")] = None,
) -> None:
    """Each class's share of all rows, or the mean of all values, with an interval.

    By labels drawn at random (labelgrad audit, or fit --drawn random) and what the pool says of
    every row, beside the interval of those labels alone.
    """
    from labelgrad.cli.promises import run_count

    run_count(run, confidence=share_typed("--confidence", confidence), out=out)


@app.command(epilog="Example: labelgrad more runs/pets --labels 25,50,100")
def more(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    labels: Annotated[str, typer.Option(help="How many more, by commas.")] = "25,50,100",
    out: Annotated[Path | None, typer.Option(help="The picture; in the run if not given.")] = None,
) -> None:
    """What more labels would buy: the error ahead, with a band, from parts of those there are."""
    from labelgrad.cli.promises import run_more

    run_more(run, more=counts(labels), out=out)


@app.command(epilog="Example: labelgrad suspects runs/pets --most 20 --out look.csv")
def suspects(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    most: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20,
    out: Annotated[Path | None, typer.Option(help="CSV to fill in, for corrections.")] = None,
) -> None:
    """Given labels that are probably wrong, by what was said of them while they were hidden."""
    from labelgrad.cli.promises import run_suspects

    run_suspects(run, most=most, out=out)


@app.command(epilog="Example: labelgrad review runs/pets --port 8765")
def review(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    data: Annotated[
        Path | None, typer.Option(help="The run's data, if they are not where they were.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page; 0 is any free.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it in the browser, too.")
    ] = True,
    audit: Annotated[
        bool, typer.Option("--audit", help="Begin with random rows, predictions hidden.")
    ] = False,
    wrong_at_most: Annotated[
        str, typer.Option(help="The promise that audits are counted for.")
    ] = "2%",
) -> None:
    """Open a page to work on: look at labels, decide by keyboard, audit, train anew.

    For this machine only, at an address with a secret in it. Every decision is on the disk before
    the next example is shown. fit --resume, or a button, trains anew with them. It needs the extra
    `review`: pip install 'labelgrad[review]'.
    """
    from labelgrad.cli.review import run_review

    run_review(
        run,
        data=data,
        port=port,
        browser=browser,
        audit=audit,
        at_most=share_typed("--wrong-at-most", wrong_at_most),
    )


@app.command(epilog="Example: labelgrad compare pets.csv --target kind --methods supervised,lga")
def compare(
    data: Annotated[Path, typer.Argument(help="Folder of pictures, texts, Parquet; table; .npz.")],
    methods: Annotated[
        str,
        typer.Option(
            help="By commas; else supervised, lga-evidence, vat, lga-evidence+vat, or of values "
            "supervised, lga-evidence, lga. Peers such as random-forest, too."
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="How often each is trained.")] = 3,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    labels: Annotated[Path | None, typer.Option(help="CSV with file and label.")] = None,
    target: Annotated[str | None, typer.Option(help="A table's column of labels.")] = None,
    task: Annotated[str | None, typer.Option(help="classification or regression.")] = None,
    dates: Annotated[str | None, typer.Option(help=DATES)] = None,
    model: Annotated[str | None, typer.Option(help="Such as mlp, linear, wrn-10-1.")] = None,
    size: Annotated[int | None, typer.Option(help="Pictures' side, in pixels.")] = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Mirrored means the same.")] = False,
    text: Annotated[list[str] | None, typer.Option(help="Column of texts; else found.")] = None,
    picture: Annotated[list[str] | None, typer.Option(help="Column of picture files.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Name, folder or none, by commas.")] = None,
    download: Annotated[
        bool, typer.Option("--download", help="An encoder may be fetched.")
    ] = False,
    cache: Annotated[
        Path | None, typer.Option(help="Folder of kept features, pictures, tables.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A damaged picture is fatal.")] = False,
    device: Annotated[str, typer.Option(help="Where to train: cpu or cuda.")] = "cpu",
    workers: Annotated[int, typer.Option(min=1, help="Trainings side by side.")] = 2,
    dask: Annotated[str | None, typer.Option(help=DASK)] = None,
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


@app.command(epilog="Example: labelgrad export runs/pets --to torchscript")
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")],
    to: Annotated[str, typer.Option(help="torch, torchscript or onnx.")] = "torch",
    out: Annotated[Path | None, typer.Option(help="The file; in the run if not given.")] = None,
    with_encoder: Annotated[
        bool, typer.Option("--with-encoder", help="The encoder of pictures, too: pixels in.")
    ] = False,
    encoder: Annotated[
        str | None, typer.Option(help="Its folder, where it is elsewhere now.")
    ] = None,
) -> None:
    """Write the model for programs without labelgrad, and check that it gives the same outputs.

    It takes pictures (values as in the files) or columns as fit prepares them, and gives
    calibrated probabilities in the order of the classes in config.json, or values.
    """
    from labelgrad.cli.export import run_export

    run_export(run, to=to, out=out, with_encoder=with_encoder, encoder=listed(encoder or ""))


benches = typer.Typer(invoke_without_command=True)
app.add_typer(benches, name="bench")


@benches.callback(epilog="Example: labelgrad bench --sets wine,digits-50 --seeds 3 --workers 2")
def bench(
    context: typer.Context,
    sets: Annotated[str, typer.Option(help="Which sets, by commas; else all eleven.")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Splits of each set.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Training steps; else the estimators'.")] = 5000,
    workers: Annotated[int, typer.Option(min=1, help="Trials side by side.")] = 2,
    dask: Annotated[str | None, typer.Option(help=DASK)] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; else LABELGRAD_DATA.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where results and picture go.")] = Path("runs/bench"),
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


@benches.command(
    epilog="Example: labelgrad bench peers --sets wine,iris --methods lga,random-forest --seeds 2"
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
    seeds: Annotated[int, typer.Option(min=1, help="Splits of each set.")] = 5,
    labels_per_class: Annotated[int, typer.Option(min=1, help="Labels, evenly by class.")] = 10,
    at_random: Annotated[
        bool, typer.Option("--at-random", help="As many labels, drawn at random.")
    ] = False,
    labels: Annotated[
        int | None, typer.Option(min=2, help="So many of each set, drawn at random.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Trials side by side.")] = 2,
    dask: Annotated[str | None, typer.Option(help=DASK)] = None,
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


@app.command(epilog="Example: labelgrad methods")
def methods() -> None:
    """List the methods: where each is from, what a step costs, its settings."""
    from labelgrad.cli.methods import print_methods

    print_methods()


for plugin in entry_points(group="labelgrad.commands"):  # the paper's, and those of other packages
    app.add_typer(plugin.load())  # without a name they stand beside ours


def main() -> None:
    """Run the command, and end: at once, if a witness cannot be stopped."""
    code: str | int | None = None
    try:
        _run()
    except SystemExit as end:
        code = end.code
    hearing = sys.modules.get("labelgrad.witnesses.hearing")  # if anybody was heard
    if hearing is not None and hearing.left_alone():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)
    sys.exit(code)


def _run() -> None:
    """Run the command; without --debug an error is one line and no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may lack a letter
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    if _of_torchrun() > 0:  # one process of those that train together speaks
        sys.stdout = io.StringIO()
        warnings.showwarning = lambda *_, **__: None
    debug = "--debug" in sys.argv  # wherever it stands, before the command's name or after
    try:
        app(args=[argument for argument in sys.argv[1:] if argument != "--debug"])
    except SystemExit as end:
        if end.code == INTERRUPTED:
            same = "the same command with --resume" if "fit" in sys.argv else "the same command"
            _say(f"stopped; {same} goes on from the last checkpoint.", INTERRUPTED)
        raise
    except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
        if debug:
            raise
        _say(one_line(error), 1, error)
    except Exception as error:
        if debug:
            raise
        told = f"{type(error).__name__}: {one_line(error)}"
        message = f"an error that was not foreseen ({told}); --debug shows where."
        _say(message, UNFORESEEN, error)


def _of_torchrun() -> int:
    """Which of the processes that torchrun started this is; 0 where it started none."""
    return int(os.environ.get("RANK", "0")) if "TORCHELASTIC_RUN_ID" in os.environ else 0


def _say(message: str, code: int, error: Exception | None = None) -> None:
    if not getattr(error, "told_by_another", False):
        typer.echo(f"labelgrad: {visible(message)}", err=True)
    sys.exit(code)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"labelgrad: warning: {visible(str(message))}", err=True)
