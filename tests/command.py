"""The commands as a person types them, run in this process: starting another takes seconds."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from labelgrad.auto.cli.app import main

ROOT = Path(__file__).parents[1]


def run_here(
    program: Callable[[], object], words: Sequence[object], cwd: Path | None = None
) -> CompletedProcess[str]:
    """Let a program read these words from `sys.argv`, and give what it printed and its code."""
    typed, out, err, code = [str(word) for word in words], io.StringIO(), io.StringIO(), 0
    with (
        chdir(cwd or Path.cwd()),
        patch.object(sys, "argv", ["program", *typed]),
        patch.dict(os.environ, COLUMNS="200"),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        try:
            program()
        except SystemExit as end:
            code = int(end.code or 0)
    return CompletedProcess(typed, code, out.getvalue(), err.getvalue())


def labelgrad(arguments: Sequence[object], *, cwd: Path | None = None) -> CompletedProcess[str]:
    """Run `labelgrad`."""
    return run_here(main, arguments, cwd)


def run_ok(arguments: Sequence[object], *, cwd: Path | None = None) -> str:
    """Run `labelgrad`, which must succeed, and give what it printed."""
    done = labelgrad(arguments, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(arguments: Sequence[object], *, cwd: Path | None = None) -> str:
    """Run `labelgrad`, which must refuse, and give its one line of error."""
    done = labelgrad(arguments, cwd=cwd)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    return line
