"""The experiments' commands as tests call them, in this process."""

from functools import partial

from experiments.common import run
from experiments.paper.__main__ import commands as paper
from experiments.tabular.__main__ import commands as tabular
from tests.command import run_here


def experiment(*arguments, cwd=None):
    """Run a command of whichever of the two has it."""
    app = paper if arguments[0] in ("reproduce", "tune", "variants", "pages") else tabular
    return run_here(partial(run, app), arguments, cwd)


def one_sentence(said):
    """What a refusal said: one line, no traceback."""
    assert said.returncode == 1, said.stderr
    (line,) = said.stderr.strip().splitlines()
    assert line.startswith("error: ")
    return line
