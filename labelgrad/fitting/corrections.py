"""Labels that a person gives after a look: checked, kept in the run folder, put into the data.

They come as a file, kept as `corrections.csv`, or one by one from the page (`decisions`). Of one
example the newest counts.

A run that has new ones begins anew, its last result set aside. Networks that go on from the old
weights would have seen the labels that now judge them, so all trainings begin at their first step.
The folder is never a mixture: the old model leaves it first, and until the new plan is written
every step can be repeated.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from labelgrad.files import csv_bytes, write_whole
from labelgrad.fitting.audits import FILE as AUDITS
from labelgrad.fitting.decisions import FILE as DECISIONS
from labelgrad.fitting.decisions import Decision, Decisions
from labelgrad.fitting.many_labels import names_of
from labelgrad.fitting.plan import FILE as PLAN
from labelgrad.fitting.plan import Plan, begun_with, save_plan, usable_method
from labelgrad.fitting.result import Result
from labelgrad.fitting.run_files import BEFORE, CONFIG, HALF
from labelgrad.fitting.run_folder import LOCK, in_use, known_digests, write_files
from labelgrad.fitting.source import FILE as SOURCE
from labelgrad.inputs.base import Dataset, join_few
from labelgrad.inputs.cells import number
from labelgrad.inputs.folder import listed_labels
from labelgrad.inputs.kinds import kind_named
from labelgrad.inputs.row_names import places_of, quickly_found
from labelgrad.nearest import did_you_mean

FILE = "corrections.csv"
CHECKPOINT = "checkpoint"  # where the trainings of a run keep their state
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
    names = names_of(result.examples)
    known = Known(key, quickly_found(names), classes)
    kept = kept_corrections(result.folder, known)
    found = read_corrections(Path(path), known, must_be=True)
    places = places_of(names, found)
    given = {name: result.examples[place].given for name, place in places.items()}
    new = {n: label for n, label in found.items() if _is_news(label, kept.get(n), given[n])}
    if new:
        merged = sorted((read_corrections(result.folder / FILE, known) | new).items())
        with in_use(result.folder):
            write_files(result.folder, {FILE: csv_bytes([key, "label"], merged)})
        decided = Decisions(result.folder / DECISIONS)
        later = [Decision(n, label, "csv") for n, label in new.items() if decided.standing(n)]
        if later:  # else what was decided on the page would count, though it is older
            decided.add(later)
    return Taken(len(new), len(kept | new))


def kept_corrections(folder: Path, known: Known) -> Corrections:
    """All corrections of a run folder, from files and from the page."""
    path = folder / DECISIONS
    decided = {name: _cell(label) for name, label in Decisions(path).corrections().items()}
    _check_names(path, decided, known)
    _check_labels(path, list(decided.values()), known.classes)
    return read_corrections(folder / FILE, known) | decided


def read_corrections(path: Path, known: Known, *, must_be: bool = False) -> Corrections:
    """The corrections in a file, all of them about known examples and classes."""
    if not path.is_file():
        if must_be:
            raise FileNotFoundError(f"There is no file of corrections {path}.")
        return {}
    found: Corrections = {}
    for line, cell, written in listed_labels(path, [known.key], ["label"]):
        name = str(PurePosixPath(cell)) if known.key == "file" else cell
        name, label = _exact(name, known.names), _exact(written, known.classes)
        if not label:
            continue
        if found.setdefault(name, label) != label:
            raise ValueError(
                f"{path.name} gives {name!r} two labels: {found[name]!r}, and {label!r} on line "
                f"{line}."
            )
    _check_names(path, found, known)
    _check_labels(path, list(found.values()), known.classes)
    return found


def corrected(dataset: Dataset, folder: Path) -> Dataset:
    """The data with the corrections of a run folder put in, or as they are if it has none."""
    found = folder_corrections(dataset, folder)
    if not found:
        return dataset
    y, place = dataset.y.clone(), places_of(dataset.names, found)
    for name, label in found.items():
        y[place[name]] = dataset.classes.index(label) if dataset.classes else float(label)
    replaced = sum(bool(dataset.labeled[place[name]]) for name in found)
    note = (
        f"{len(found)} labels are {_where(folder)} in the run folder, {replaced} of them in "
        f"place of labels in the data; what is said of few or uneven labels is without them."
    )
    changed = replace(dataset, y=y, notes=[*dataset.notes, note, *changed_notes(folder)])
    if len(y[changed.labeled].unique()) < 2:
        raise ValueError(
            f"With the corrections in {folder} every label is the same, and there is nothing to "
            f"learn; correct some of them again."
        )
    return changed


def folder_corrections(dataset: Dataset, folder: Path) -> Corrections:
    """The corrections that are kept in a run folder, checked against the data."""
    known = Known(kind_named(dataset.kind).key, quickly_found(dataset.names), dataset.classes)
    return kept_corrections(folder, known)


def has_corrections(folder: Path) -> bool:
    """Whether a run folder has any, from files or from the page."""
    return (folder / FILE).is_file() or (folder / DECISIONS).is_file()


def changed_notes(folder: Path) -> list[str]:
    """A sentence if the kept corrections were changed by other hands than `take_corrections`."""
    path = folder / FILE
    if not path.is_file() or not known_digests(folder).is_changed(FILE, path.read_bytes()):
        return []
    return [f"{FILE} in the run folder was changed after the corrections were taken."]


def fingerprint(corrections: Corrections) -> str | None:
    """A short text that tells one set of corrections from another."""
    if not corrections:
        return None
    content = json.dumps(sorted(corrections.items())).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def restart_if_corrected(folder: Path, plan: Plan, dataset: Dataset) -> Plan:
    """The plan to go on with, of a new beginning if there are corrections it does not know.

    The dataset is as it was read, without corrections.
    """
    now = fingerprint(folder_corrections(dataset, folder))
    if begun_with(folder) != now:
        plan = replace(plan, method=usable_method(corrected(dataset, folder), plan.method))
        _set_aside(folder)
        save_plan(folder, plan, dataset, corrections=now)
        if (folder / FILE).is_file():
            write_files(folder, {FILE: (folder / FILE).read_bytes()})
    if (folder / HALF).exists():
        shutil.rmtree(folder / BEFORE, ignore_errors=True)
        (folder / HALF).replace(folder / BEFORE)
    return plan


def _set_aside(folder: Path) -> None:
    """Move the old result away, the config first: without it there is no finished run."""
    aside = folder / HALF
    aside.mkdir(exist_ok=True)
    stay = {PLAN, FILE, AUDITS, DECISIONS, SOURCE, CHECKPOINT, BEFORE, HALF, LOCK}
    found = sorted(folder.iterdir(), key=lambda path: (path.name != CONFIG, path.name))
    for path in found:
        if path.name not in stay:
            path.replace(aside / path.name)
    write_whole(aside / PLAN, (folder / PLAN).read_bytes())
    if (folder / CHECKPOINT).exists():
        shutil.rmtree(folder / CHECKPOINT)


def _where(folder: Path) -> str:
    found = [name for name in (FILE, DECISIONS) if (folder / name).is_file()]
    return f"those of {' and '.join(found)}"


def _cell(label: str | float) -> str:
    return label if isinstance(label, str) else repr(float(label))


def _check_names(path: Path, found: Collection[str], known: Known) -> None:
    strange = [name for name in found if name not in known.names]
    if strange:
        raise ValueError(
            f"{path.name} names {len(strange)} examples that are not in the data: "
            f"{join_few(strange)}."
        )


def _check_labels(path: Path, labels: Sequence[str], classes: Sequence[str]) -> None:
    if not classes:
        wrong = [label for label in labels if not _is_finite(label)]
        if wrong:
            raise ValueError(
                f"{path.name} must have finite numbers as labels, got {join_few(wrong)}."
            )
        return
    strange = sorted({label for label in labels if label not in classes})
    if strange:
        others = (
            f"the classes are {join_few(classes)}, and a new one needs labels in the data and a "
            f"new run."
        )
        raise ValueError(
            f"{path.name} has {len(strange)} labels that are no class of the run: "
            f"{join_few(strange)}; {did_you_mean(strange[0], classes, others)}"
        )


def _exact(cell: str, names: Collection[str]) -> str:
    """The cell without the apostrophe that `spreadsheet_safe` put before a name of the run."""
    return cell[1:] if cell not in names and cell[:1] == "'" and cell[1:] in names else cell


def _is_finite(cell: str) -> bool:
    try:
        return math.isfinite(number(cell))
    except ValueError:
        return False


def _is_news(label: str, kept: str | None, given: object) -> bool:
    if kept is not None:
        return label != kept
    return float(label) != given if isinstance(given, float) else label != given
