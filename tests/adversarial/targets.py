"""What is attacked: tiny fits and trainings, and all that a person gets to see of them."""

from __future__ import annotations

import io
import os
import shutil
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import typer.main

from labelgrad import LGA, MLP, Run, Supervised, TensorBatches, Trainer
from labelgrad.cli import fit as fit_command
from labelgrad.cli.app import main
from labelgrad.fitting import verdict
from tests.adversarial.cases import Finding

RESULT = ("config.json", "model.safetensors", "labels.csv", "examples.csv", "result.json")
QUICK = ("--steps", "2", "--witnesses", "neighbours")
ROWS, LABELED = 40, 14


def settle() -> None:
    """Make this process one that can be forked, and its fits quick."""
    torch.set_num_threads(1)
    verdict.RESAMPLES = 20
    typer.main.get_command = cache(typer.main.get_command)  # half of a short command's time
    fit_command.usual_workers = lambda device: 1


def table(path: Path, *, values: bool = False, labeled: int = LABELED, seed: int = 0) -> Path:
    """A small table with a number, a text and a gap."""
    rng = np.random.default_rng(seed)
    lines = ["size,kind,weight,label"]
    for row in range(ROWS):
        x = rng.normal(size=2)
        kind = "round" if x[0] + rng.normal() > 0 else "long"
        answer = f"{x.sum():.3f}" if values else ("yes" if x.sum() > 0 else "no")
        gap = "" if row % 9 == 5 else f"{x[1]:.3f}"
        lines.append(f"{x[0]:.3f},{kind},{gap},{answer if row < labeled else ''}")
    path.write_text("\n".join(lines) + "\n")
    return path


def arrays(path: Path) -> Path:
    """Pictures of 8×8 in an array."""
    rng = np.random.default_rng(1)
    y = np.arange(ROWS) % 2
    x = (rng.integers(0, 200, size=(ROWS, 8, 8)) + 40 * y[:, None, None]).astype(np.uint8)
    np.savez(path, x=x, y=np.where(np.arange(ROWS) < LABELED, y, -1))
    return path


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def command(*arguments: object, cwd: Path) -> Said:
    """A command in this process; an error that is no exit comes through."""
    before, out, err, code = (sys.argv, warnings.showwarning), io.StringIO(), io.StringIO(), 0
    sys.argv = ["labelgrad", *map(str, arguments)]
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.argv, warnings.showwarning = before
    return Said(code, out.getvalue(), err.getvalue())


def refused(said: Said) -> bool:
    """Whether a command refused, which must be in one sentence."""
    if said.code == 0:
        return False
    lines = [line for line in said.err.splitlines() if not line.startswith("labelgrad: warning: ")]
    if said.code not in (1, 2) or len(lines) != 1 or "Traceback" in said.err:
        raise Finding(f"exit {said.code}: {said.err[-2000:]}")
    return True


def answer(run: Path, new: Path, *, pool: bool = False) -> dict[str, str]:
    """What `predict` and `labels` say about a run; nothing where they refuse."""
    found = {}
    place = run.parent
    for name, arguments in {
        "predict": ("predict", run, new, "--out", place / "predictions.csv"),
        "labels": ("labels", run, "--above", "0.5", "--out", place / "sure.csv"),
        **({"pool": ("predict", run, new, "--pool", "--out", place / "pool.csv")} if pool else {}),
    }.items():
        said = command(*arguments, cwd=place)
        written = Path(str(arguments[-1]))
        found[name] = "" if refused(said) else said.out + written.read_text()
        written.unlink(missing_ok=True)
        if "nan" in found[name].lower().replace("nano", ""):
            raise Finding(f"{name} says nan: {found[name][:500]}")
    return found


def content(run: Path) -> dict[str, bytes]:
    """The bytes of a result that must be the same however a run came to its end."""
    found = {name: (run / name).read_bytes() for name in RESULT if name != "result.json"}
    left = [path.name for path in run.rglob("*") if path.name.endswith(".partial")]
    if left or (run / ".lock").exists():
        raise Finding(f"left behind: {left or '.lock'}")
    return found


def fit(place: Path) -> None:
    """A fit by the command, begun or gone on with, in a folder with pets.csv."""
    said = command("fit", "pets.csv", "--out", "run", "--resume", *QUICK, cwd=place)
    if refused(said):
        raise Finding(f"a fit was refused: {said.err}")


def mapped(place: Path) -> Run:
    """A training in Python whose label table is a file."""
    torch.manual_seed(0)
    x, y = torch.randn(60, 4), torch.arange(60) % 2
    x += y[:, None]
    trainer = Trainer(
        MLP(4, (8,), 2),
        0.2 * Supervised() + LGA(40, 2, folder=place / "run" / "table"),
        TensorBatches(x, y, rows=torch.arange(20), batch_size=10),
        TensorBatches(x, rows=torch.arange(20, 60), batch_size=10),
    )
    return Run(trainer, steps=24, folder=place / "run", evaluate_every=8, checkpoint_every=4)


def mapped_content(place: Path) -> dict[str, bytes]:
    """Model, optimizer and table of a training at its end."""
    run = mapped(place)
    state = run.trainer.state
    found = {name: value.numpy().tobytes() for name, value in state.tensors.items()}
    found["table"] = (place / "run" / "table" / "table.npy").read_bytes()
    (lga,) = (term for term in run.trainer.objective.leaves() if isinstance(term, LGA))
    return found | {"labels": lga.table.labels().numpy().tobytes()}


def copied(source: Path, target: Path) -> Path:
    """A fresh copy of a folder."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))


def own_folder(place: Path) -> Path:
    """A folder of this process alone."""
    mine = place / f"process-{os.getpid()}"
    mine.mkdir(exist_ok=True)
    return mine
