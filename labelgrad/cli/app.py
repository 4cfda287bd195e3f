"""The `labelgrad` command: what it takes, to whom it hands over, and errors in one line.

The work is imported when it begins, so that help does not wait for PyTorch.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from io import TextIOWrapper
from typing import Annotated

import typer

import labelgrad
from labelgrad.cli import run_commands as runs
from labelgrad.cli import training_commands as training
from labelgrad.cli.words import one_line, visible

INTERRUPTED = 130  # the exit code of a program stopped by Ctrl-C
UNFORESEEN = 70  # of one that has a mistake in it

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


EXAMPLES: dict[Callable[..., None], str] = {  # of each command, in the order of the help
    training.demo: "demo --seeds 2 --labels 100 --out runs/short",
    training.fit: "fit pets.csv --target kind --witnesses linear,neighbours",
    runs.predict: "predict runs/pets new.csv --out predictions.csv",
    runs.labels: "labels runs/pets --wrong-at-most 2% --out labels.csv",
    runs.audit: "audit runs/pets --rows 60 --out audit.csv",
    runs.count: "count runs/pets --out shares.csv",
    runs.more: "more runs/pets --labels 25,50,100",
    runs.suspects: "suspects runs/pets --most 20 --out look.csv",
    runs.review: "review runs/pets --port 8765",
    training.compare: "compare pets.csv --target kind --methods supervised,lga",
    runs.export: "export runs/pets --to torchscript",
    training.methods: "methods",
}
for command, example in EXAMPLES.items():
    app.command(epilog=f"Example: labelgrad {example}")(command)

benches = typer.Typer(invoke_without_command=True)
benches.callback(epilog="Example: labelgrad bench --sets wine,digits-50 --seeds 3 --workers 2")(
    training.bench
)
benches.command(
    epilog="Example: labelgrad bench peers --sets wine,iris --methods lga,random-forest --seeds 2"
)(training.peers)
app.add_typer(benches, name="bench")

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
