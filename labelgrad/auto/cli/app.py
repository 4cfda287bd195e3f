"""The command: what trains, and the entry point, where errors become one line."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

import labelgrad
from labelgrad.auto.cli import runs
from labelgrad.auto.cli.console import Terminal, visible
from labelgrad.auto.cli.options import FILE, config_options

if TYPE_CHECKING:
    from labelgrad.auto.evaluation import Evaluation

MAX_WORKERS, SMALL = 8, 2 * 10**6  # bytes
DASK = click.option("--dask", metavar="ADDRESS", help="Fit base models on this Dask cluster.")
COMPARED = ("base_models", "keep_ensemble", "label_sampling", "class_prior", "time_budget")
INTERRUPTED = 130  # the exit code of a program stopped by Ctrl-C
UNEXPECTED = 70  # of one that has a bug
LONGEST = 1000  # letters of an error
OUT_OF_MEMORY = "memory ran out; use fewer or smaller examples, or a smaller network."
NO_MEMORY = ("failed to map segment", "allocate memory", "not enough memory", "out of memory")


@click.group(
    epilog="Example: labelgrad fit pets.csv --target kind --out runs/pets",
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
@click.version_option(labelgrad.__version__, prog_name="labelgrad", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def app(debug: bool) -> None:
    """Semi-supervised learning: few labels, many unlabeled examples.

    Fits and stacks base models, distills them into one network, labels every example, and reports
    how far the labels can be trusted.
    """


for command in (
    runs.predict,
    runs.labels,
    runs.audit,
    runs.prevalence,
    runs.label_issues,
    runs.review,
    runs.export,
):
    app.add_command(command)


@app.command(epilog="Example: labelgrad fit pets.csv --target kind --out runs/pets")
@click.argument("data", type=click.Path(), required=False)
@click.option("--out", type=FILE, help="Run folder. [default: runs/DATA]")
@click.option("--resume", is_flag=True, help="Continue the run in --out with its options and DATA.")
@DASK
@config_options()
def fit(data: str | None, out: Path | None, resume: bool, dask: str | None, **options: Any) -> None:
    """Label every example of DATA: a table, an .npz file, or a folder of images or texts.

    Base models are cross-validated and stacked on their out-of-fold predictions, and the ensemble
    is distilled into one network. The run folder gets the model, labels.csv with a label for every
    example, a copy of the table with its labels filled in, and report.html. Ctrl-C stops; --resume
    continues to the same result. After corrections --resume trains again with them.
    """
    from labelgrad.auto.fit import fit as run_fit

    if data is None and not (resume and out):
        raise click.UsageError("DATA is missing; only --resume with --out does without it.")
    out = default_folder(data or "") if out is None else out
    options = {name: value for name, value in options.items() if value is not None}  # were typed
    if "workers" not in options:
        # A process for each core; one on a GPU, where torchrun has started several, and for a small
        # table, whose models are fitted before another process has started.
        alone = options.get("device", "cpu") == "cpu" and os.environ.get("WORLD_SIZE", "1") == "1"
        is_small = os.path.isfile(data or "") and os.path.getsize(data or "") < SMALL
        several = alone and not is_small
        options["workers"] = min(MAX_WORKERS, os.cpu_count() or 1) if several else 1
    with closing(Terminal()) as console, cluster(dask) if dask else nullcontext():
        result = run_fit(data, out=out, resume=resume, events=console, **options)
    console.say(result.evaluation.summary)  # the answer first, then what it rests on
    if result.evaluation.examples:
        print_leaderboard(console, result.evaluation)
    for note in result.about.notes:
        console.note(note)
    console.say(f"Report: {out / 'report.html'}")
    console.say(f"Labels: {out / 'labels.csv'}")
    if result.table_file is not None:
        console.say(f"Your table with labels: {out / result.table_file}")


def print_leaderboard(console: Terminal, evaluation: Evaluation) -> None:
    """The leaderboard in 80 columns."""
    from labelgrad.auto.evaluation import STUDENT, shown_error

    rows = []
    for row in evaluation.leaderboard().rows(named=True):
        error = None
        if row["error"] is not None:
            ends = (row[name] for name in ("error", "error_low", "error_high"))
            error, low, high = (shown_error(value, evaluation.task) for value in ends)
            error = f"{error} ({low.removesuffix(' %')} – {high.removesuffix(' %')})"
        loss, weight, seconds = (
            None if row[name] is None else f"{row[name]:.{digits}f}"
            for name, digits in (("loss", 3), ("weight", 2), ("seconds", 1))
        )
        rows.append((row["model"] + " *" * (row["model"] == STUDENT), error, loss, weight, seconds))
    title = f"On {evaluation.examples} held-out labels; * is saved"
    console.table(title, ("model", "error (95 % interval)", "loss", "weight", "seconds"), rows)


@app.command(epilog="Example: labelgrad compare pets.csv --target kind --models linear,lga")
@click.argument("data", type=click.Path())
@click.option("--models", metavar="NAME,…", help="Base models, methods, ensemble or student.")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Repetitions.")
@click.option("--out", type=FILE, help="[default: runs/compare-DATA]")
@DASK
@config_options(leave_out=COMPARED)
def compare(
    data: str, models: str | None, seeds: int, out: Path | None, dask: str | None, **options: Any
) -> None:
    """Cross-validate several models on DATA with several seeds, and say which is best.

    All are scored on the same held-out labels. After a stop, the same command continues.
    """
    out = default_folder(data, "compare-") if out is None else out
    options = {name: value for name, value in options.items() if value is not None}
    with closing(Terminal()) as console, cluster(dask) if dask else nullcontext():
        comparison = labelgrad.compare(
            data, models=models, seeds=seeds, out=out, events=console, **options
        )
    table = comparison.table().drop("std_over_seeds", "seconds")  # 80 columns
    console.table(comparison.title, table.columns, table.rows())
    console.say(comparison.summary)


@app.command(epilog="Example: labelgrad methods")
def methods() -> None:
    """List the training methods: paper, cost of a step, settings."""
    from labelgrad.methods import Problem, every_method

    example, gradient = Problem(rows=10_000, width=10, batch_size=50, steps=10_000), 3
    rows = [("supervised", "–", gradient, "Supervised()")]
    for name, method in every_method().items():
        rows.append((name, method.paper, gradient + method.passes, repr(method.build(example))))
    console = Terminal()
    console.table("", ("method", "paper", "forward passes a step", "settings"), rows)
    console.say("Methods add: lga+vat, vat+entmin, lga+fixmatch.")


def default_folder(data: str, prefix: str = "") -> Path:
    """The run folder of data for which none is given."""
    return Path("runs") / f"{prefix}{Path(data).name.partition('.')[0] or 'data'}"


@contextmanager
def cluster(address: str) -> Iterator[None]:
    """Send the work of joblib to a Dask cluster."""
    try:
        from distributed import Client
        from joblib import parallel_config
    except ImportError:
        raise ImportError("--dask needs Dask: pip install 'labelgrad[dask]'.") from None
    try:
        client = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError):
        raise ValueError(f"No Dask scheduler answers at {address}; start one there.") from None
    with client, parallel_config(backend="dask"):
        yield


def main() -> None:
    """Run the command; without --debug an error is one line and no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may lack a character
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0":
        # Of the processes of torchrun only the first prints.
        sys.stdout = io.StringIO()
        warnings.showwarning = lambda *_, **__: None
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    try:
        app(args=arguments, standalone_mode=False)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        again = "the same command with --resume" if "fit" in arguments else "the same command"
        _fail(f"stopped; {again} goes on from the last checkpoint.", INTERRUPTED)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        expected = isinstance(error, ValueError | TypeError | RuntimeError | OSError | ImportError)
        if expected or isinstance(error, MemoryError):
            _fail(_one_line(error), 1)
        name = f"{type(error).__name__}: {_one_line(error)}"
        _fail(f"unexpected error ({name}); --debug shows where.", UNEXPECTED)


def _one_line(error: BaseException) -> str:
    message = " ".join(str(error).split())
    if isinstance(error, MemoryError) or any(sign in message for sign in NO_MEMORY):
        return OUT_OF_MEMORY
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be read or written: {error.strerror}."
    return message


def _fail(message: str, code: int) -> NoReturn:
    if len(message) > LONGEST:  # a cell of the data may be in it
        message = f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 :]}"
    click.echo(f"labelgrad: {visible(message)}", err=True)
    sys.exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"labelgrad: warning: {visible(str(message))}", err=True)
