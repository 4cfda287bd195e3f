"""What people say about examples: one append-only log, a line for each annotation.

A later annotation of the same example is another line, and so is undoing one. When a method that
writes returns, its lines are on the disk. Several processes may append to one log and see each
other's lines. A line that cannot be read is skipped and reported (`AnnotationLog.damaged`); a last
line without its end is left for whoever is writing it.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from labelgrad.auto.data.dataset import Dataset
from labelgrad.auto.data.sources import read_pairs
from labelgrad.auto.label_studio import read_annotations
from labelgrad.auto.plain_values import built
from labelgrad.auto.result import Result
from labelgrad.auto.task import Classification
from labelgrad.files import append_lines, read_json
from labelgrad.nearest import did_you_mean

if TYPE_CHECKING:
    from labelgrad.auto.run import RunFolder

FILE = "annotations.jsonl"
AUDIT = "audit"
HOW = ("correction", "accept", "choose", "page", AUDIT)
WRITTEN = {"ids": "draw", "labels": "look"}  # fields by which a line is known for what it is
Label = str | float


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What all lines of a log have."""

    time: float = 0.0  # seconds since 1970
    line: int = 0  # of the log, from 1


@dataclass(frozen=True)
class Annotation(Entry):
    """The label that a person gave an example, and what was shown to them."""

    id: str
    label: Label
    how: str  # one of HOW
    model: str = ""  # digest of the result that was shown, or that an audit was drawn with
    by: str = ""
    shown: Label | None = None  # label and confidence that the person saw
    shown_confidence: float | None = None


@dataclass(frozen=True)
class Undo(Entry):
    """The newest annotation of an example is withdrawn, and the one before counts again."""

    id: str
    by: str = ""


@dataclass(frozen=True)
class Draw(Entry):
    """Examples drawn at random for an audit, in the order in which they are to be labeled."""

    ids: tuple[str, ...]
    seed: int
    population: int  # how many examples it was drawn from
    model: str  # digest of the result it was drawn with


@dataclass(frozen=True)
class Look(Entry):
    """A person was shown what some random labels guarantee."""

    labels: int  # how many random labels there were
    model: str  # digest of the result they judged


def parse_line(line: bytes, number: int = 0) -> Entry:
    """The entry in one line of a log; a ValueError says what is wrong with the line.

    >>> parse_line(b'{"id": "7", "label": "cat", "how": "accept"}').label
    'cat'
    >>> parse_line(b'{"id": "7", "label": null}')
    Undo(time=0.0, line=0, id='7', by='')
    """
    found = read_json(line.decode("utf-8-sig").encode())
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    is_undo = found.get("label", "") is None
    kind = Draw if "draw" in found else Look if "look" in found else Undo if is_undo else Annotation
    values = {each.name: WRITTEN.get(each.name, each.name) for each in fields(kind)}
    given = {name: found[key] for name, key in values.items() if key in found}
    entry = built(kind, given | {"line": number})
    if isinstance(entry, Annotation) and entry.how not in HOW:
        raise ValueError(f"its label was given by {entry.how!r}")
    return entry


def current(entries: Iterable[Entry]) -> dict[str, list[Annotation]]:
    """The annotations of each example that were not undone, the newest last.

    >>> log = [Annotation("1", "cat", "accept"), Annotation("1", "cow", "choose"), Undo("1")]
    >>> [one.label for one in current(log)["1"]]
    ['cat']
    """
    found: dict[str, list[Annotation]] = {}
    for entry in entries:
        if isinstance(entry, Annotation):
            found.setdefault(entry.id, []).append(entry)
        elif isinstance(entry, Undo) and found.get(entry.id):
            found[entry.id].pop()
            if not found[entry.id]:
                del found[entry.id]
    return found


class AnnotationLog:
    """The log of a run; without a path, an empty one that cannot be written to.

    Parameters
    ----------
    path
        The file, which need not exist yet.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> log = AnnotationLog(Path(mkdtemp(), FILE))
    >>> log.add([Annotation("1.png", "cat", "accept"), Annotation("2.png", "dog", "choose")])
    >>> log.add([Annotation("1.png", "cow", "choose")])
    >>> log.add([Undo("2.png")])
    >>> AnnotationLog(log.path).training_labels()
    {'1.png': 'cow'}
    """

    def __init__(self, path: Path | None):
        self.path = path
        self._file: tuple[int, int] | None = None
        self._reset()
        self.refresh()

    def _reset(self) -> None:
        self._read, self.lines = 0, 0  # bytes and lines that are known
        self.entries: list[Entry] = []
        self.damaged: list[tuple[int, str]] = []  # line, reason
        self._current: dict[str, list[Annotation]] = {}

    def refresh(self) -> int:
        """Read the lines that were appended since; the number of lines."""
        if self.path is None or not self.path.is_file():
            self._reset()
            return 0
        with self.path.open("rb") as file:
            found = os.fstat(file.fileno())
            if (found.st_dev, found.st_ino) != self._file or found.st_size < self._read:
                self._reset()
                self._file = found.st_dev, found.st_ino
            before = file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # whoever writes it is not done
                self._read += len(line)
                self.lines += 1
                try:
                    self.entries.append(parse_line(line, self.lines))
                except ValueError as error:  # UnicodeDecodeError among them
                    self.damaged.append((self.lines, str(error)))
        if self._read > before:
            self._current = current(self.entries)
        return self.lines

    @property
    def notes(self) -> list[str]:
        """A sentence if lines were skipped."""
        if not self.damaged:
            return []
        line, reason = self.damaged[0]
        return [
            f"{len(self.damaged)} of {self.lines} lines of {self.path} cannot be read and are "
            f"skipped, the first in line {line} ({reason})."
        ]

    @property
    def draws(self) -> list[Draw]:
        """All audits that were drawn."""
        return [entry for entry in self.entries if isinstance(entry, Draw)]

    def current(self, name: str) -> Annotation | None:
        """The newest annotation of an example."""
        found = self._current.get(name)
        return found[-1] if found else None

    def annotations(self) -> list[Annotation]:
        """The newest annotation of each example, the newest last."""
        return sorted((found[-1] for found in self._current.values()), key=lambda one: one.line)

    def newest(self, *, audits: bool) -> list[Annotation]:
        """The newest audit of each audited example; or of each example what is no audit."""
        kept = (
            [one for one in found if (one.how == AUDIT) == audits]
            for found in self._current.values()
        )
        return [found[-1] for found in kept if found]

    def training_labels(self) -> dict[str, Label]:
        """The labels to train with, by id; audits stay held out."""
        return {one.id: one.label for one in self.newest(audits=False)}

    def add(self, entries: Sequence[Entry]) -> None:
        """Append annotations, or whatever else a log holds."""
        if not entries:
            return
        if self.path is None:
            raise ValueError("Annotations need a run folder; fit with `out`.")
        written = []
        for entry in entries:
            values = asdict(entry)
            del values["line"], values["time"]  # its place says the line
            line = {WRITTEN.get(k, k): v for k, v in values.items() if v not in (None, "")}
            line["time"] = entry.time or round(time.time(), 3)
            if isinstance(entry, Undo):
                line["label"] = None
            written.append(json.dumps(line, ensure_ascii=False))
        append_lines(self.path, written)
        self.refresh()

    def applied_to(self, dataset: Dataset) -> Dataset:
        """The data set with the labels to train with; new classes extend its task.

        Examples that are not in the data are left out, with a note.
        """
        annotated, notes = self.training_labels(), [*dataset.notes, *self.notes]
        if not annotated:
            return replace(dataset, notes=tuple(notes))
        labels = {row: annotated[id] for row, id in enumerate(dataset.ids) if id in annotated}
        replaced = int(dataset.is_labeled[[*labels]].sum())
        notes.append(
            f"{len(labels)} labels come from annotations in the run folder; {replaced} of them "
            f"replace labels of the data."
        )
        if unknown := len(annotated) - len(labels):
            notes.append(f"{unknown} annotations are of examples that are not in the data.")
        task, y = dataset.task, np.array(dataset.y)
        if isinstance(task, Classification):
            if new := {*map(str, labels.values())} - {*task.classes}:
                task = Classification(tuple(sorted({*task.classes, *new})))
            known = [task.classes.index(name) for name in dataset.task.classes]
            y = np.where(y >= 0, np.array([*known, -1])[y], -1)
        y[[*labels]] = task.encode([*labels.values()])
        if len(np.unique(y[task.is_labeled(y)])) < 2:
            raise ValueError(f"With {self.path} every label is the same; annotate another class.")
        return replace(dataset, y=y, task=task, notes=tuple(notes))


@dataclass(frozen=True)
class Audit:
    """The audits that were drawn with one model."""

    drawn: list[str]  # all examples that were drawn, in their order
    answers: dict[str, Label]
    labels: dict[str, Label | None]  # up to the last labeled one of each draw; None for a gap

    @property
    def unanswered(self) -> list[str]:
        """Examples that were drawn and have no label."""
        return [name for name in self.drawn if name not in self.answers]

    @property
    def gaps(self) -> list[str]:
        """Examples that were left out."""
        return [name for name, label in self.labels.items() if label is None]


def audit_of(log: AnnotationLog, model: str) -> Audit:
    """The audits that were drawn with a model, by its digest.

    A person who labels the examples of a draw in their order and stops has labeled a random part
    of them. A person who leaves one out may do so because it is hard. So examples after the last
    labeled one of a draw are still open, and one without a label before it is a gap.
    """
    draws = [draw.ids for draw in log.draws if draw.model == model]
    drawn = [name for ids in draws for name in ids]
    given = {one.id: one.label for one in log.newest(audits=True) if one.model == model}
    answers = {name: given[name] for name in drawn if name in given}
    labels: dict[str, Label | None] = {}
    for ids in draws:
        last = max((place for place, name in enumerate(ids) if name in answers), default=-1)
        labels |= {name: answers.get(name) for name in ids[: last + 1]}
    return Audit(drawn, answers, labels)


def log_of(run: Result | RunFolder) -> AnnotationLog:
    """The log in the run folder; an empty one without a folder."""
    return AnnotationLog(None if run.folder is None else run.folder / FILE)


def take_corrections(result: Result, path: str | Path, *, new_classes: bool = False) -> str:
    """Add the labels in a file to the log of a run; the next `fit --resume` trains with them.

    Parameters
    ----------
    result
        The run, which needs a folder.
    path
        A CSV file with the column that names the examples in labels.csv ("row", "file" or the id
        column) and a column "label"; empty labels are skipped. Or Label Studio's JSON export.
    new_classes
        Accept labels that are not classes of the run.

    Returns
    -------
    str
        How many labels are new, and how to train with them.
    """
    log, table = log_of(result), result.labels
    rows = table.select(pl.first(), "label", "confidence", "source").iter_rows()
    known = {name: more for name, *more in rows}
    unknown = f"are not in the run; its column {table.columns[0]} must hold ids of labels.csv"
    found, added = read_label_file(Path(path), result, known, unknown, new_classes=new_classes)
    before, new = log.training_labels(), []
    for name, label in found.items():
        *shown, source = known[name]
        if label != before.get(name, None if source == "imputed" else shown[0]):
            new.append(Annotation(name, label, "correction", result.digest, "", *shown))
    log.add(new)
    total = len(log.training_labels())
    if not new:
        return f"{path} holds nothing new; the run has {total} annotations."
    of = f", with the new classes {', '.join(added)}" if added else ""
    return (
        f"{len(new)} new labels{of}; the run has {total} annotations. labelgrad fit --resume "
        f"--out {result.folder} trains with them."
    )


def read_label_file(
    path: Path, result: Result, known: Collection[str], unknown: str, *, new_classes: bool
) -> tuple[dict[str, Label], list[str]]:
    """The labels that are filled in in a file, by id, and those that are no class of the run.

    Parameters
    ----------
    path
        The file.
    result
        The run that it is about.
    known
        The ids that it may name.
    unknown
        What is wrong with other ids.
    new_classes
        Accept labels that are not classes of the run.

    Returns
    -------
    tuple
        Labels as the task has them, and new classes.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    id_name, task = result.labels.columns[0], result.task
    found: dict[str, Label] = {}
    if path.suffix.lower() == ".json":
        pairs = read_annotations(path, id_name)
    else:
        pairs = read_pairs(path, [id_name.casefold()], ["label"])
    for line, cell, written in pairs:
        if not written:
            continue
        name = cell if cell in known else str(PurePosixPath(cell))  # such as ./1.png
        label = written if task.classes else _value(path, written)
        if found.setdefault(name, label) != label:
            two = f"{found[name]!r}, and {label!r} in line {line}; leave one"
            raise ValueError(f"{path.name} gives {name!r} two labels: {two}.")
    strange = [name for name in found if name not in known]
    if strange:
        such = f"{len(strange)} examples, such as {strange[0]!r},"
        raise ValueError(f"{path.name} names {such} that {unknown}.")
    added = sorted({*map(str, found.values())} - {*task.classes}) if task.classes else []
    if added and not new_classes:
        hint = did_you_mean(added[0], task.classes, "the classes are in labels.csv.")
        raise ValueError(
            f"{path.name} has {len(added)} labels that are no class of the run, such as "
            f"{added[0]!r}; accept them with --new-classes, or {hint}"
        )
    return found, added


def _value(path: Path, cell: str) -> float:
    with suppress(ValueError):
        if math.isfinite(float(cell)):
            return float(cell)
    raise ValueError(f"{path.name} must have finite numbers as labels, got {cell!r}.")
