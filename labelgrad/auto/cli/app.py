"""The entry point of the command: errors become one line, and one process of several prints."""

from __future__ import annotations

import io
import os
import sys
import warnings
from io import TextIOWrapper
from typing import Any, NoReturn

import click

import labelgrad
from labelgrad.auto.cli import runs, training
from labelgrad.auto.cli.console import visible

INTERRUPTED = 130  # the exit code of a program stopped by Ctrl-C
UNEXPECTED = 70  # of one that has a bug
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

    Fits and stacks base models, distils them into one network, labels every example, and says how
    far the labels can be trusted.
    """


for command in (
    training.fit,
    runs.predict,
    runs.labels,
    runs.audit,
    runs.prevalence,
    runs.label_issues,
    runs.review,
    training.compare,
    runs.export,
    training.methods,
):
    app.add_command(command)


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
    click.echo(f"labelgrad: {visible(message)}", err=True)
    sys.exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"labelgrad: warning: {visible(str(message))}", err=True)
