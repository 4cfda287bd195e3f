"""The commands that train: `fit`, `compare`, and `methods`; and options of `FitConfig` for all."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import labelgrad
from labelgrad.auto.cli.console import Terminal, TerminalEvents
from labelgrad.auto.config import FitConfig

if TYPE_CHECKING:
    import polars as pl

    from labelgrad.auto.evaluation import Evaluation

MAX_WORKERS, SMALL = 8, 2 * 10**6  # bytes
FILE = click.Path(path_type=Path)
DASK = click.option("--dask", metavar="ADDRESS", help="Fit base models on this Dask cluster.")
COMPARED = ("base_models", "keep_ensemble", "label_sampling", "class_prior", "time_budget")
Command = TypeVar("Command", bound=Callable[..., Any])


class Share(click.ParamType[float]):
    """A share of all, as `2%` or `0.02`."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """The share as a number."""
        if isinstance(value, float):
            return value
        number, percent, rest = str(value).strip().partition("%")
        share = _number(number) / (100 if percent else 1)
        if rest or not 0 < share < 1:
            self.fail(f"{value!r} is not a share such as 2% or 0.02.", param, ctx)
        return share


class ClassPrior(click.ParamType[dict[str, float]]):
    """Shares of classes, such as `cat=0.2,dog=0.8`; a class may have `=` in its name."""

    name = "prior"

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, float]:
        """The shares by class."""
        if isinstance(value, Mapping):
            return dict(value)
        prior: dict[str, float] = {}
        for word in str(value).split(","):
            name, _, number = (part.strip() for part in word.rpartition("="))
            share = _number(number)
            if not name or name in prior or not 0 < share < math.inf:
                self.fail(f"{word!r} is not a class with a share, such as cat=0.2.", param, ctx)
            prior[name] = share
        return prior


def _number(text: str) -> float:
    with suppress(ValueError):
        return float(text)
    return math.nan


def config_options(*names: str, leave_out: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """Add the options of `FitConfig` to a command: those named, or all but those left out."""

    def add(command: Command) -> Command:
        for each in reversed(fields(FitConfig)):
            wanted = each.name in names if names else each.name not in leave_out
            if wanted and not each.metadata.get("python_only"):
                command = _option(each)(command)
        return command

    return add


def _option(each: Field[Any]) -> Callable[[Any], Any]:
    flag = f"--{each.name.replace('_', '-')}"
    settings: dict[str, Any] = {"help": each.metadata["help"], "default": None}
    kind, choices = str(each.type).replace("[", " ").split()[0], each.metadata.get("choices")
    if kind == "bool":
        return click.option(f"{flag}/--no-{flag[2:]}", **settings)
    types = {"int": int, "float": float, "Mapping": ClassPrior()}
    settings["type"] = click.Choice(choices) if choices else types.get(kind)
    if each.default not in (None, ()) and each.default is not False:
        settings["help"] += f" [default: {each.default}]"
    return click.option(flag, metavar=each.metadata.get("metavar"), **settings)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were typed."""
    return {name: value for name, value in options.items() if value is not None}


@click.command(epilog="Example: labelgrad fit pets.csv --target kind --out runs/pets")
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
    console = Terminal()
    out = default_folder(data or "") if out is None else out
    options = given(options)
    if "workers" not in options:
        # A process for each core; one on a GPU, where torchrun has started several, and for a small
        # table, whose models are fitted before another process has started.
        alone = options.get("device", "cpu") == "cpu" and os.environ.get("WORLD_SIZE", "1") == "1"
        is_small = os.path.isfile(data or "") and os.path.getsize(data or "") < SMALL
        several = alone and not is_small
        options["workers"] = min(MAX_WORKERS, os.cpu_count() or 1) if several else 1
    with closing(TerminalEvents(console)) as events, cluster(dask):
        result = run_fit(data, out=out, resume=resume, events=events, **options)
    console.say(result.summary)  # the answer first, then what it rests on
    if result.evaluation.examples:
        print_leaderboard(console, result.leaderboard(), result.evaluation)
    for note in result.notes:
        events.note(note)
    console.say(f"Report: {out / 'report.html'}")
    console.say(f"Labels: {out / 'labels.csv'}")
    if result.table_file is not None:
        console.say(f"Your table with labels: {out / result.table_file}")


def print_leaderboard(console: Terminal, board: pl.DataFrame, evaluation: Evaluation) -> None:
    """The leaderboard in 80 columns."""
    from labelgrad.auto.evaluation import shown_error

    rows = []
    for row in board.rows(named=True):
        error = None
        if row["error"] is not None:
            ends = (row[name] for name in ("error", "error_low", "error_high"))
            error, low, high = (shown_error(value, evaluation.task) for value in ends)
            error = f"{error} ({low.removesuffix(' %')} – {high.removesuffix(' %')})"
        loss, weight, seconds = (
            None if row[name] is None else f"{row[name]:.{digits}f}"
            for name, digits in (("loss", 3), ("weight", 2), ("seconds", 1))
        )
        rows.append((row["model"] + " *" * row["kept"], error, loss, weight, seconds))
    title = f"On {evaluation.examples} held-out labels; * is saved"
    console.table(title, ("model", "error (95 % interval)", "loss", "weight", "seconds"), rows)


@click.command(epilog="Example: labelgrad compare pets.csv --target kind --models linear,lga")
@click.argument("data", type=click.Path())
@click.option("--models", metavar="NAME,…", help="Base models and methods. [default: as fit has]")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Repetitions.")
@click.option("--out", type=FILE, help="[default: runs/compare-DATA]")
@DASK
@config_options(leave_out=COMPARED)
def compare(
    data: str, models: str | None, seeds: int, out: Path | None, dask: str | None, **options: Any
) -> None:
    """Cross-validate several models on DATA with several seeds, and say which is best.

    All are scored on the same held-out labels. Stopped, the same command continues.
    """
    console = Terminal()
    out = default_folder(data, "compare-") if out is None else out
    with closing(TerminalEvents(console)) as events, cluster(dask):
        comparison = labelgrad.compare(
            data, models=models, seeds=seeds, out=out, events=events, **given(options)
        )
    table = comparison.table()
    console.table(comparison.title, table.columns, table.rows())
    console.say(comparison.summary)


@click.command(epilog="Example: labelgrad methods")
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
def cluster(address: str | None) -> Iterator[None]:
    """Send the work of joblib to a Dask cluster."""
    if address is None:
        yield
        return
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
