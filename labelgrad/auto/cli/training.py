"""The commands that train: `fit`, `compare`, and `methods`, which lists what can be trained."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labelgrad.auto.cli.options import config_options, given

if TYPE_CHECKING:
    from labelgrad.auto.cli.console import Terminal
    from labelgrad.auto.result import Result

MAX_WORKERS = 8
MANY_CLASSES = 20  # the counts of more would fill the screen
COMPARED = ("base_models", "keep_ensemble", "label_sampling", "class_prior", "time_budget")


@click.command(epilog="Example: labelgrad fit pets.csv --target kind --out runs/pets")
@click.argument("data", type=click.Path(), required=False)
@click.option("--out", type=click.Path(path_type=Path), help="Run folder. [default: runs/DATA]")
@click.option(
    "--resume", is_flag=True, help="Continue the run in --out with its options and its DATA."
)
@click.option("--dask", metavar="ADDRESS", help="Fit base models on this Dask cluster.")
@config_options()
def fit(data: str | None, out: Path | None, resume: bool, dask: str | None, **options: Any) -> None:
    """Label every example of DATA: a table, an .npz file, or a folder of images or texts.

    Base models are cross-validated and stacked on their out-of-fold predictions, and the ensemble
    is distilled into one network. The run folder gets the model, labels.csv with a label for every
    example, and report.html. Ctrl-C stops; --resume continues to the same result. After
    corrections --resume trains again with them.
    """
    from labelgrad.auto.cli.console import Terminal, TerminalEvents
    from labelgrad.auto.fit import fit as run_fit

    if data is None and not (resume and out):
        raise click.UsageError("DATA is missing; only --resume with --out does without it.")
    console = Terminal()
    out = default_folder(data or "") if out is None else out
    options = given(options)
    if "workers" not in options:
        options["workers"] = default_workers(options.get("device", "cpu"))
    with TerminalEvents(console) as events, cluster(dask):
        result = run_fit(data, out=out, resume=resume, events=events, **options)
    show_result(console, result, set(events.notes))
    console.say(f"Report: {out / 'report.html'}")
    console.say(f"Labels: {out / 'labels.csv'}")


def show_result(console: Terminal, result: Result, noted: set[str]) -> None:
    """The answer first, then the leaderboard, then what to know about it."""
    console.say(result.summary)
    rows = result.leaderboard().rows(named=True)
    if rows:
        columns = list(rows[0])
        console.table(
            f"On {result.evaluation.examples} held-out labels",
            columns,
            ([shown(row[name]) for name in columns] for row in rows),
        )
    for note in result.notes:
        if note not in noted:
            console.say(note)


def shown(value: Any) -> str:
    """A cell of a table on the terminal."""
    if value is None or value != value:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@click.command(epilog="Example: labelgrad compare pets.csv --target kind --models linear,lga")
@click.argument("data", type=click.Path())
@click.option(
    "--models", metavar="NAME,…", help="Base models and training methods. [default: as fit has]"
)
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Repetitions.")
@click.option("--out", type=click.Path(path_type=Path), help="[default: runs/compare-DATA]")
@click.option("--dask", metavar="ADDRESS", help="Fit them on this Dask cluster.")
@config_options(leave_out=COMPARED)
def compare(
    data: str,
    models: str | None,
    seeds: int,
    out: Path | None,
    dask: str | None,
    **options: Any,
) -> None:
    """Cross-validate several models on DATA with several seeds, and say which is best.

    All are scored on the same held-out labels. Stopped, the same command continues.
    """
    from labelgrad.auto.cli.console import Terminal, TerminalEvents
    from labelgrad.auto.compare import compare as run_compare

    console = Terminal()
    out = default_folder(data, "compare-") if out is None else out
    with TerminalEvents(console) as events, cluster(dask):
        comparison = run_compare(
            data, models=models, seeds=seeds, out=out, events=events, **given(options)
        )
    rows = comparison.table().rows(named=True)
    columns = list(rows[0])
    console.table(comparison.title, columns, ([shown(r[c]) for c in columns] for r in rows))
    console.say(comparison.summary)


@click.command(epilog="Example: labelgrad methods")
def methods() -> None:
    """List the training methods: paper, cost of a step, settings."""
    from labelgrad.auto.cli.console import Terminal
    from labelgrad.methods import Problem, every_method

    example, gradient = Problem(rows=10_000, width=10, batch_size=50, steps=10_000), 3
    rows = [("supervised", "–", gradient, "Supervised()")]
    for name, method in every_method().items():
        passes, settings = gradient + method.passes, repr(method.build(example))
        rows.append((name, method.paper, passes, settings))
    console = Terminal()
    console.table("", ("method", "paper", "forward passes a step", "settings"), rows)
    console.say("Methods add: lga+vat, vat+entmin, lga+fixmatch.")


def default_folder(data: str, prefix: str = "") -> Path:
    """The run folder of data for which none is given."""
    return Path("runs") / f"{prefix}{Path(data).name.partition('.')[0] or 'data'}"


def default_workers(device: str) -> int:
    """A process for each core; one on a GPU, and one where torchrun has started several."""
    if device != "cpu" or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return 1
    return min(MAX_WORKERS, os.cpu_count() or 1)


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
