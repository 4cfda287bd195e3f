"""The experiments' commands as tests call them, in this process."""

import io
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

from experiments.common import run
from experiments.paper.__main__ import commands as paper
from experiments.tabular.__main__ import commands as tabular

COMMAND = {
    name: [sys.executable, "-m", f"experiments.{name}"] for name in ("paper", "tabular")
}  # in a process of its own


def experiment(*arguments, cwd=None):
    """Run a command of whichever of the two has it."""
    words, before = [str(argument) for argument in arguments], sys.argv
    app = paper if words[0] in ("reproduce", "tune", "variants", "pages") else tabular
    sys.argv, code = ["experiments", *words], 0
    out, err = io.StringIO(), io.StringIO()
    with chdir(cwd or Path.cwd()), redirect_stdout(out), redirect_stderr(err):
        try:
            run(app)
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.argv = before
    return CompletedProcess(words, code, out.getvalue(), err.getvalue())


def one_sentence(said):
    """What a refusal said: one line, no traceback."""
    assert said.returncode == 1, said.stderr
    (line,) = said.stderr.strip().splitlines()
    assert line.startswith("error: ")
    return line
