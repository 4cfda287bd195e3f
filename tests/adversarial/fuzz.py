"""Fuzzed data of every kind: what is read is a dataset, or the refusal is one sentence."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from labelgrad.fitting.corrections import Known, read_corrections
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import prepare as prepare_new
from labelgrad.inputs.kinds import read
from labelgrad.witnesses.opinions import read_opinions
from tests import fuzz_tables
from tests import test_inputs_fuzz as known
from tests.adversarial.cases import Finding, Part, only_inside
from tests.adversarial.targets import own_folder, table

NAMES, CLASSES = [str(row) for row in range(1, 9)], ["cat", "dog"]
CORRECTIONS = b"row,label\n1,cat\n2,dog\n3,\n"
VALUES = b"row,anna,model\n1,0.5,1e3\n2,,-2\n3,4,0\n"
CORRECTED_VALUES = b"row,label\n1,2\n2,-1e3\n3,\n"
OPINIONS = b"row,anna,model: cat,model: dog\n1,cat,0.2,0.8\n2,dog,0.5,0.5\n3,,,\n"
SEMICOLONS = "größe;wann;preis;y\n1,5;17.08.1998;1.234,56;a\n2,5;18.08.1998;€ 12;b\n3;;12 %;\n"
KINDS = (
    *("csv", "csv", "tsv", "semicolons", "utf-16", "npz", "npz", "arrays", "parquet", "parquet"),
    *("pictures", "opinions", "opinions", "corrections", "corrections", "new csv", "new npz"),
    *("made up",) * 8,
)


def prepare(place: Path) -> None:
    """Whole files, to treat new ones like them."""
    place.mkdir(parents=True, exist_ok=True)
    table(place / "pets.csv")
    (place / "old.csv").write_bytes(known.TABLE)
    (place / "old.npz").write_bytes(known.npz())
    for classes, text in ((CLASSES, OPINIONS), ([], VALUES)):  # what is fuzzed can be read whole
        (place / "opinions.csv").write_bytes(text)
        read_opinions(place / "opinions.csv", NAMES, classes, mean=0.0, spread=1.0)
    for classes in (CLASSES, []):
        (place / "corrections.csv").write_bytes(CORRECTIONS if classes else CORRECTED_VALUES)
        read_corrections(place / "corrections.csv", Known("row", NAMES, classes))
    (place / "semicolons.csv").write_text(SEMICOLONS, encoding="utf-8")
    read(place / "semicolons.csv")


def case(seed: int, draw: random.Random, place: Path) -> str:
    """One file, changed or made up at random."""
    kind, mine = draw.choice(KINDS), own_folder(place) / "fuzz"
    shutil.rmtree(mine, ignore_errors=True)
    if kind != "pictures" and kind != "arrays":
        mine.mkdir()
    if kind == "made up":
        name, content = next(fuzz_tables.cases(draw.getrandbits(60)))
        with only_inside(mine):
            end = fuzz_tables.came_of(name, content, mine)
        return f"{kind}: {'read' if end == 'read' else 'refused'}"
    reading = _written_down(kind, mine, place, draw)  # what fails here is not a refusal
    try:
        with only_inside(mine):
            reading()
    except (ValueError, OSError) as error:
        said = str(error)
        if "\n" in said or not said or said.startswith("[Errno"):
            raise Finding(f"{kind}: {said!r}") from None
        return f"{kind}: refused"
    return f"{kind}: read"


def _written_down(kind: str, mine: Path, place: Path, draw: random.Random) -> Callable[[], object]:
    """Write the file, and give what reads it."""
    classes = CLASSES if draw.random() < 0.7 else []
    if kind == "opinions":
        path = _written(mine / "opinions.csv", OPINIONS if classes else VALUES, draw)
        return lambda: read_opinions(path, NAMES, classes, mean=0.0, spread=1.0)
    if kind == "corrections":
        whole = CORRECTIONS if classes else CORRECTED_VALUES
        path = _written(mine / "corrections.csv", whole, draw)
        return lambda: read_corrections(path, Known("row", NAMES, classes))
    if kind.startswith("new "):
        suffix = kind.removeprefix("new ")
        old = read(place / f"old.{suffix}").preprocessing
        path = _written(mine / f"new.{suffix}", (place / f"old.{suffix}").read_bytes(), draw)
        return lambda: prepare_new(old, path)
    path = _data(kind, mine, place, draw)
    return lambda: _whole(read(path))


def _whole(dataset: Dataset) -> None:
    if not isinstance(dataset, Dataset) or len(dataset.x) != len(dataset.names):
        raise Finding(f"reading gave {dataset}")


def _data(kind: str, mine: Path, place: Path, draw: random.Random) -> Path:
    if kind == "pictures":
        return known.write_pictures(mine, draw)
    if kind == "arrays":
        return known.write_arrays(mine, draw)
    whole = {
        "csv": known.TABLE if draw.random() < 0.5 else (place / "pets.csv").read_bytes(),
        "tsv": known.TABLE.replace(b",", b"\t"),
        "semicolons": SEMICOLONS.encode(draw.choice(["utf-8", "cp1252"])),
        "utf-16": known.TABLE.decode().encode("utf-16"),
        "npz": known.npz(),
        "parquet": known.parquet(),
    }[kind]
    suffix = kind if kind in ("npz", "parquet", "tsv") else "csv"
    return _written(mine / f"data.{suffix}", whole, draw)


def _written(path: Path, whole: bytes, draw: random.Random) -> Path:
    changes = 1 if draw.random() < 0.5 else draw.randint(2, 6)
    path.write_bytes(known.mutated(whole, draw, changes))
    return path


PART = Part("fuzzed inputs", prepare, case, batch=2000, share=1.5)
assert os.name == "posix", "cases are forked"
