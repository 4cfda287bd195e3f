"""The code in a page of Markdown, and how to run all of it in a few steps."""

import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import typer

from labelgrad import methods
from labelgrad.cli.app import app
from labelgrad.estimators import LGAClassifier

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
FEW = 4  # steps of a training, in place of thousands

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^    (labelgrad .*)$", re.MULTILINE)


class Block(NamedTuple):
    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    """Everything between fences, in order."""
    return [Block(*found) for found in FENCED.findall(page.read_text())]


def commands(code: str) -> list[list[str]]:
    """The arguments of each `labelgrad` command, one a line."""
    lines = [line for line in code.splitlines() if line.startswith("labelgrad ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def all_commands(page: Path) -> list[list[str]]:
    """The commands of a page, those that are only shown included."""
    shown = [code for language, code in blocks(page) if language != "python"]
    text = FENCED.sub("", page.read_text())
    return [found for code in [*shown, *INDENTED.findall(text)] for found in commands(code)]


def check_command(arguments: list[str]) -> None:
    """Let the command parse its arguments, without doing anything."""
    group = typer.main.get_command(app)
    with group.make_context("labelgrad", list(arguments)) as top:
        name, command, rest = group.resolve_command(top, list(arguments))
        inner = command.make_context(name, rest, parent=top)
        if words := [*inner._protected_args, *inner.args]:  # such as the second of `bench peers`
            name, command, rest = command.resolve_command(inner, words)
            command.make_context(name, rest, parent=inner)


def run_command(arguments: list[str]) -> None:
    """Run it in this process; of two options of one name the last counts."""
    few = ["--steps", str(FEW), "--workers", "1"] if arguments[0] in ("fit", "compare") else []
    app(args=[*arguments, *few], standalone_mode=False)


def run_python(code: str, names: dict) -> None:
    """Run it with what the blocks before it have defined."""
    exec(re.sub(r"\bsteps=\d+", f"steps={FEW}", code), names)


def make_quick(monkeypatch) -> None:
    """Train for a few steps where none are asked for, and in this process."""
    monkeypatch.setattr("labelgrad.fitting.plan.usual_steps", lambda *_: FEW)
    monkeypatch.setattr("labelgrad.cli.fit.usual_workers", lambda device: 1)
    monkeypatch.setitem(LGAClassifier.__init__.__kwdefaults__, "steps", FEW)
    known = dict(methods.every_method()) | methods._registered  # what a page adds goes with it
    monkeypatch.setattr("labelgrad.methods._registered", known)
    for name, stand_in in STAND_INS.items():
        monkeypatch.setitem(sys.modules, name, stand_in)


class Logger:
    """Stands in for TensorBoard's writer and for MLflow, which are too large for a test."""

    def __init__(self, folder: str = ""):
        self.told = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.told.append((name, float(value), step))

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.told += [(name, float(value), step) for name, value in metrics.items()]

    def start_run(self):
        return nullcontext()


STAND_INS = {
    "torch.utils.tensorboard": SimpleNamespace(SummaryWriter=Logger),
    "mlflow": Logger(),
}
