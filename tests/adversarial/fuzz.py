"""Fuzzed data of every kind: what is read is a dataset, or the refusal is one sentence."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from labelgrad.fitting.corrections import Known, read_corrections
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import prepare as prepare_new
from labelgrad.inputs.kinds import read
from labelgrad.witnesses.opinions import read_opinions
from tests import test_inputs_fuzz as known
from tests.adversarial.cases import Finding, Part, only_inside
from tests.adversarial.targets import own_folder, table

NAMES, CLASSES = [str(row) for row in range(1, 9)], ["cat", "dog"]
CORRECTIONS = b"row,label\n1,cat\n2,dog\n3,\n"
OPINIONS = b"row,anna,model: cat,model: dog\n1,cat,0.2,0.8\n2,dog,0.5,0.5\n3,,,\n"
SEMICOLONS = "größe;wann;preis;y\n1,5;07.08.1998;1.234,56;a\n2,5;08.08.1998;€ 12;b\n3;;12 %;\n"
KINDS = (
    *("csv", "csv", "tsv", "semicolons", "utf-16", "npz", "npz", "arrays", "parquet", "parquet"),
    *("pictures", "opinions", "opinions", "corrections", "corrections", "new csv", "new npz"),
)


def prepare(place: Path) -> None:
    """Whole files, to treat new ones like them."""
    place.mkdir(parents=True, exist_ok=True)
    table(place / "pets.csv")
    (place / "old.csv").write_bytes(known.TABLE)
    (place / "old.npz").write_bytes(known.npz())


def case(seed: int, draw: random.Random, place: Path) -> str:
    """One file, changed at random."""
    kind, mine = draw.choice(KINDS), own_folder(place) / "fuzz"
    shutil.rmtree(mine, ignore_errors=True)
    if kind != "pictures" and kind != "arrays":
        mine.mkdir()
    try:
        with only_inside(mine):
            _read(kind, mine, place, draw)
    except (ValueError, OSError) as error:
        said = str(error)
        if "\n" in said or not said or said.startswith("[Errno"):
            raise Finding(f"{kind}: {said!r}") from None
        return f"{kind}: refused"
    return f"{kind}: read"


def _read(kind: str, mine: Path, place: Path, draw: random.Random) -> None:
    if kind == "opinions":
        path = _written(mine / "opinions.csv", OPINIONS, draw)
        read_opinions(path, NAMES, CLASSES if draw.random() < 0.7 else [], mean=0.0, spread=1.0)
    elif kind == "corrections":
        path = _written(mine / "corrections.csv", CORRECTIONS, draw)
        read_corrections(path, Known("row", NAMES, CLASSES if draw.random() < 0.7 else []))
    elif kind.startswith("new "):
        suffix = kind.removeprefix("new ")
        old = read(place / f"old.{suffix}").preprocessing
        whole = (place / f"old.{suffix}").read_bytes()
        prepare_new(old, _written(mine / f"new.{suffix}", whole, draw))
    else:
        dataset = read(_data(kind, mine, place, draw))
        if not isinstance(dataset, Dataset) or len(dataset.x) != len(dataset.names):
            raise Finding(f"{kind} gave {dataset}")


def _data(kind: str, mine: Path, place: Path, draw: random.Random) -> Path:
    if kind == "pictures":
        return known.write_pictures(mine, draw)
    if kind == "arrays":
        return known.write_arrays(mine, draw)
    whole = {
        "csv": known.TABLE if draw.random() < 0.5 else (place / "pets.csv").read_bytes(),
        "tsv": known.TABLE.replace(b",", b"\t"),
        "semicolons": SEMICOLONS.encode(draw.choice(["utf-8", "latin-1"])),
        "utf-16": known.TABLE.decode().encode("utf-16"),
        "npz": known.npz(),
        "parquet": known.parquet() if kind == "parquet" else b"",
    }[kind]
    suffix = kind if kind in ("npz", "parquet", "tsv") else "csv"
    return _written(mine / f"data.{suffix}", whole, draw)


def _written(path: Path, whole: bytes, draw: random.Random) -> Path:
    path.write_bytes(known.mutated(whole, draw))
    return path


PART = Part("fuzzed inputs", prepare, case, batch=2000, share=1.5)
assert os.name == "posix", "cases are forked"
