"""The code in a page of Markdown, and how to run all of it in a few steps."""

import re
import shlex
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from typer.main import get_command

from experiments.paper.__main__ import commands as paper
from experiments.tabular.__main__ import commands as tabular
from labelgrad import methods
from labelgrad import sklearn as estimators
from labelgrad.auto import distillation
from labelgrad.auto.base_models import networks, registry
from labelgrad.auto.cli.app import app

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
FEW = 4  # steps of a training, in place of thousands

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^    ((?:labelgrad|python -m experiments\.\w+) .*)$", re.MULTILINE)
EXPERIMENTS = {"experiments.paper": get_command(paper), "experiments.tabular": get_command(tabular)}


class Block(NamedTuple):
    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    """Everything between fences, in order."""
    return [Block(*found) for found in FENCED.findall(page.read_text())]


def commands(code: str) -> list[list[str]]:
    """The arguments of each `labelgrad` command, one a line; an experiment's with `python -m`."""
    lines = [shlex.split(line, comments=True) for line in code.splitlines() if _ours(line)]
    return [line[1:] if line[0] == "labelgrad" else line for line in lines]


def _ours(line: str) -> bool:
    started = line.split()[2:3]
    return line.startswith("labelgrad ") or (
        line.startswith("python -m ") and started[0] in EXPERIMENTS
    )


def all_commands(page: Path) -> list[list[str]]:
    """The commands of a page, those that are only shown included."""
    shown = [code for language, code in blocks(page) if language != "python"]
    text = FENCED.sub("", page.read_text())
    return [found for code in [*shown, *INDENTED.findall(text)] for found in commands(code)]


def check_command(arguments: list[str]) -> None:
    """Let the command parse its arguments, without doing anything."""
    group = app
    if arguments[:2] == ["python", "-m"]:
        group, arguments = EXPERIMENTS[arguments[2]], arguments[3:]
    with group.make_context("labelgrad", list(arguments)) as top:
        name, command, rest = group.resolve_command(top, list(arguments))
        command.make_context(name, rest, parent=top)


def run_command(arguments: list[str]) -> None:
    """Run it in this process; of two options with one name the last counts."""
    few = ["--steps", str(FEW), "--workers", "1"] if arguments[0] in ("fit", "compare") else []
    app(args=[*arguments, *few], standalone_mode=False)


def run_python(code: str, names: dict) -> None:
    """Run it with what the blocks before it have defined."""
    exec(re.sub(r"\bsteps=\d+", f"steps={FEW}", code), names)


def make_quick(monkeypatch) -> None:
    """Train for a few steps by default."""
    for name in ("TABLE", "FEATURES", "IMAGES"):
        few = replace(getattr(networks, name), steps=FEW)
        monkeypatch.setattr(networks, name, few)
        if hasattr(estimators, name):
            monkeypatch.setattr(estimators, name, few)
    for module in (networks, estimators):
        monkeypatch.setattr(module, "REGRESSION_STEPS", (FEW, FEW))
    monkeypatch.setattr(distillation, "TABLE_STEPS", FEW)
    monkeypatch.setattr("labelgrad.sklearn.STEPS", FEW)
    known = dict(methods.every_method()) | methods._registered  # what a page adds goes with it
    monkeypatch.setattr("labelgrad.methods._registered", known)
    monkeypatch.setattr(registry, "BASE_MODELS", dict(registry.BASE_MODELS))
    for name, stand_in in STAND_INS.items():
        monkeypatch.setitem(sys.modules, name, stand_in)


class Logger:
    """Stands in for TensorBoard's writer and for MLflow, which are too large for a test."""

    def __init__(self, folder: str = ""):
        self.logged = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.logged.append((name, float(value), step))

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.logged += [(name, float(value), step) for name, value in metrics.items()]

    def start_run(self):
        return nullcontext()


STAND_INS = {
    "torch.utils.tensorboard": SimpleNamespace(SummaryWriter=Logger),
    "mlflow": Logger(),
}
