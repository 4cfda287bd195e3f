"""What is attacked: small data, and finished runs of them."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl

from tests.adversarial.cases import Failure, command

ROWS, LABELED = 40, 16
FAST = ("--steps", "4", "--workers", "1", "--base-models", "linear,neighbours")
FIT = ("fit", "pets.csv", "--target", "label", *FAST)
RESULT = ("labels.csv", "model.safetensors")
DATA = {"classes": "pets.csv", "values": "prices.csv", "pixels": "images.npz"}
MINE = "a file of the user's"


def frame(*, values: bool = False) -> pl.DataFrame:
    """A small table with a number, a word, a date and gaps; most labels are missing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 2)).round(3)
    truth = x.sum(1).tolist() if values else np.where(x.sum(1) > 0, "yes", "no").tolist()
    return pl.DataFrame(
        {
            "size": x[:, 0],
            "kind": np.where(x[:, 0] > rng.normal(size=ROWS), "round", "long"),
            "weight": [None if row % 9 == 5 else v for row, v in enumerate(x[:, 1])],
            "since": [f"2024-{row % 12 + 1:02}-{row % 28 + 1:02}" for row in range(ROWS)],
            "label": [one if row < LABELED else None for row, one in enumerate(truth)],
        }
    )


def npz() -> bytes:
    """Images of 8×8 in two classes."""
    rng, y, packed = np.random.default_rng(1), np.arange(ROWS) % 2, io.BytesIO()
    x = (rng.integers(0, 200, size=(ROWS, 8, 8)) + 40 * y[:, None, None]).astype(np.uint8)
    np.savez(packed, x=x, y=np.where(np.arange(ROWS) < LABELED, y, -1))
    return packed.getvalue()


def write_data(place: Path) -> None:
    """The data of all runs."""
    frame().write_csv(place / "pets.csv")
    frame(values=True).write_csv(place / "prices.csv")
    (place / "images.npz").write_bytes(npz())


def finished_runs(place: Path) -> None:
    """A finished run of each kind of data, with a file of the user's, and what it gives."""
    write_data(place)
    models = ("--base-models", "linear,extra trees,neighbours,label spreading")
    target = ("--target", "label", *FAST, "--keep-ensemble")
    for order in (
        ("fit", "pets.csv", *target, *models, "--out", "run-classes"),
        ("fit", "prices.csv", *target, "--out", "run-values"),
        ("fit", "images.npz", *FAST, "--base-models", "lga", "--out", "run-pixels"),
    ):
        if (ended := command(*order, cwd=place)).returncode:
            raise Failure(ended.stderr)
    for kind in DATA:
        (place / f"run-{kind}" / "mine.txt").write_text(MINE)
        (place / "case").mkdir()
        found = outcomes(place / "case", *copy_run(place / "case", kind))
        (place / f"outcomes-{kind}.json").write_text(json.dumps(found))
        shutil.rmtree(place / "case")


def copy_run(place: Path, kind: str) -> tuple[Path, Path]:
    """A copy of a finished run, and its data, inside the folder of a case."""
    for name in DATA.values():
        shutil.copy(place.parent / name, place)
    return Path(shutil.copytree(place.parent / f"run-{kind}", place / "run")), place / DATA[kind]


def outcomes(place: Path, run: Path, data: Path) -> dict[str, str]:
    """What the commands say about a run; nothing where they refuse."""
    orders = {
        "predict": ("predict", run, data, "--out", "predictions.csv"),
        "ensemble": ("predict", run, data, "--ensemble", "--out", "predictions.csv"),
        "labels": ("labels", run, "--above", "0.5", "--out", "good.csv"),
        "audit": ("audit", run),
        "label-issues": ("label-issues", run),
    }
    if data.suffix == ".npz":
        del orders["ensemble"]
    found = {}
    for name, order in orders.items():
        ended, out = command(*order, cwd=place), place / order[-1]
        written = out.read_text() if out.is_file() else ""
        found[name] = "" if ended.returncode else ended.stdout + written
        if ",nan" in found[name].lower():
            raise Failure(f"{name} wrote nan: {found[name][:500]}")
    if (run / "mine.txt").is_file() and (run / "mine.txt").read_text() != MINE:
        raise Failure("a file of the user's was changed")
    return found
