"""Labels that a person gives after a look: checked, kept in the run folder, put into the data."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from labelgrad.files import write_whole
from labelgrad.fitting.files import csv_bytes
from labelgrad.fitting.result import Result, every_example
from labelgrad.inputs.base import Dataset, join_few
from labelgrad.inputs.cells import csv_rows, number
from labelgrad.inputs.kinds import kind_named
from labelgrad.nearest import did_you_mean

FILE = "corrections.csv"
Corrections = dict[str, str]  # the label of each name


@dataclass(frozen=True)
class Known:
    """What corrections can be about: examples by their names, and classes, or none for values."""

    key: str
    names: Collection[str]
    classes: Sequence[str]


class Taken(NamedTuple):
    """How many corrections a file had that are news, and how many are kept in all."""

    new: int
    kept: int


def take_corrections(result: Result, path: str | Path) -> Taken:
    """Check a CSV with the columns file (or row) and label, and keep it in the run folder.

    An empty label is none yet. The newest correction of an example counts. The next
    `fit(..., resume=True)` trains anew with them.
    """
    if result.folder is None:
        raise ValueError("Corrections need a run folder to be kept in; fit with `out`.")
    key, classes = result.predictor.config.key, result.predictor.config.classes
    given = {row[key]: row["given"] for row in every_example(result)}
    known = Known(key, given.keys(), classes)
    kept = read_corrections(result.folder / FILE, known)
    found = read_corrections(Path(path), known, must_be=True)
    new = {n: label for n, label in found.items() if _is_news(label, kept.get(n), given[n])}
    if new:
        merged = sorted((kept | new).items())
        write_whole(result.folder / FILE, csv_bytes([key, "label"], merged))
    return Taken(len(new), len(kept | new))


def read_corrections(path: Path, known: Known, *, must_be: bool = False) -> Corrections:
    """The corrections in a file, all of them about known examples and classes."""
    if not path.is_file():
        if must_be:
            raise FileNotFoundError(f"There is no file of corrections {path}.")
        return {}
    found: Corrections = {}
    for line, name, label in _listed(path, known.key):
        if found.setdefault(name, label) != label:
            raise ValueError(
                f"{path.name} gives {name!r} two labels: {found[name]!r}, and {label!r} on line "
                f"{line}."
            )
    _check_names(path, found, known)
    _check_labels(path, found, known)
    return found


def corrected(source: Dataset, folder: Path | None) -> Dataset:
    """The data with the corrections of a run folder put in, or as they are if it has none."""
    found = {} if folder is None else folder_corrections(source, folder)
    if not found:
        return source
    y, place = source.y.clone(), {name: row for row, name in enumerate(source.names)}
    for name, label in found.items():
        y[place[name]] = source.classes.index(label) if source.classes else float(label)
    replaced = sum(bool(source.labeled[place[name]]) for name in found)
    note = (
        f"{len(found)} labels are those of {FILE} in the run folder, {replaced} of them in place "
        f"of labels in the data; what is said of few or uneven labels is without them."
    )
    changed = replace(source, y=y, notes=[*source.notes, note])
    if len(y[changed.labeled].unique()) < 2:
        raise ValueError(
            f"With the corrections in {FILE} every label is the same, and there is nothing to "
            f"learn; correct some of them again."
        )
    return changed


def folder_corrections(source: Dataset, folder: Path) -> Corrections:
    """The corrections that are kept in a run folder, checked against the data."""
    key = kind_named(source.kind).key
    return read_corrections(folder / FILE, Known(key, set(source.names), source.classes))


def mark(corrections: Corrections) -> str | None:
    """A short text that tells one set of corrections from another."""
    if not corrections:
        return None
    content = json.dumps(sorted(corrections.items())).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _listed(path: Path, key: str) -> list[tuple[int, str, str]]:
    rows = list(csv_rows(path))
    header = [cell.casefold() for cell in rows[0][1]] if rows else []
    if key not in header or "label" not in header:
        got = join_few(rows[0][1]) if rows else "nothing"
        raise ValueError(
            f"{path.name} must have the columns {key} and label, got {got} in its first line."
        )
    name, label = header.index(key), header.index("label")
    cells = ((line, row[name], row[label]) for line, row in rows[1:])
    as_named = str if key == "row" else lambda cell: str(PurePosixPath(cell))
    return [(line, as_named(cell), text) for line, cell, text in cells if text]


def _check_names(path: Path, found: Corrections, known: Known) -> None:
    strange = [name for name in found if name not in known.names]
    if strange:
        raise ValueError(
            f"{path.name} names {len(strange)} examples that are not in the data: {join_few(strange)}."
        )


def _check_labels(path: Path, found: Corrections, known: Known) -> None:
    if not known.classes:
        wrong = [label for label in found.values() if not _is_finite(label)]
        if wrong:
            raise ValueError(
                f"{path.name} must have finite numbers as labels, got {join_few(wrong)}."
            )
        return
    strange = sorted({label for label in found.values() if label not in known.classes})
    if strange:
        raise ValueError(
            f"{path.name} has {len(strange)} labels that are no class of the run: {join_few(strange)}; "
            f"{_nearest(strange[0], known.classes)}"
        )


def _nearest(label: str, classes: Sequence[str]) -> str:
    others = f"the classes are {join_few(classes)}, and a new one needs labels in the data and a new run."
    return did_you_mean(label, classes, others)


def _is_finite(cell: str) -> bool:
    try:
        return math.isfinite(number(cell))
    except ValueError:
        return False


def _is_news(label: str, kept: str | None, given: object) -> bool:
    if kept is not None:
        return label != kept
    return float(label) != given if isinstance(given, float) else label != given
