"""The `labelgrad` command: parses, hands over, and turns errors into one line."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

import labelgrad
from labelgrad.cli import look_at_methods, own_data

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
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each run.")] = 7000,
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


app.add_typer(own_data.commands)  # without a name they stand beside `demo`
app.add_typer(look_at_methods.commands)
for plugin in entry_points(group="labelgrad.commands"):  # the paper's, and those of other packages
    app.add_typer(plugin.load())


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
