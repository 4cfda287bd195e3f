"""Labels as people write them, made into class indices or numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.inputs.cells import MISSING, number, values
from labelgrad.inputs.dataset import VERSION, join_few

TASKS = ("classification", "regression")
FEW_VALUES = 20  # as many different whole numbers may be classes, and strings are never too many
MANY_CLASSES = 1000
FEW_LABELS = 5
UNEVEN = 10


class Targets(NamedTuple):
    """The labels, what kind they are, and what there is to say about them."""

    y: Tensor
    task: str
    classes: tuple[str, ...]
    notes: list[str]

    def preparation(self, kind: str, **settings: Any) -> dict[str, Any]:
        """What to keep, as JSON, to read new data alike and name what is predicted for them."""
        kept = {"version": VERSION, "kind": kind, "task": self.task, "classes": list(self.classes)}
        return kept | settings


def targets(
    cells: Sequence[str], task: str | None, where: str, *, folders: bool = False
) -> Targets:
    """Make labels of the cells; an empty one is unlabeled. `where` names them in sentences.

    Among numbers a cell such as "NA" is unlabeled, too, among texts it is one of them. Names of
    `folders` are texts even if all are numbers.

    >>> targets(["dog", "", "cat"], None, "The column 'pet'").y
    tensor([ 1, -1,  0])
    >>> targets(["0.5", "nan", "2"], None, "The column 'weight'").y
    tensor([0.5000,    nan, 2.0000], dtype=torch.float64)
    """
    numbers = values(cells, number)
    known = [c for c in cells if c] if numbers is None else numbers[~np.isnan(numbers)]
    if not len(known):
        raise ValueError(f"{where} has no label at all; some examples need theirs.")
    reason = f"The task is {task}, as asked."
    if task is None and folders:
        task, reason = "classification", f"{where} has a subfolder for each class."
    elif task is None:
        task, reason = _decide(known, where)
    if task == "regression":
        return _regression(cells, numbers, reason, where)
    return _classification(cells, numbers is not None and not folders, reason, where)


def _decide(known: list[str] | NDArray[np.float64], where: str) -> tuple[str, str]:
    return _by_text(known, where) if isinstance(known, list) else _by_numbers(known, where)


def _by_text(known: Sequence[str], where: str) -> tuple[str, str]:
    count, labels = len(set(known)), len(known)
    if count > MANY_CLASSES or (count > FEW_VALUES and 2 * count > labels):
        raise ValueError(
            f"{where} has {count} different texts in {labels} labels and is probably not a class; "
            f"choose another column, or say that it is with `task` (--task classification)."
        )
    return "classification", f"{where} holds text, so the task is classification."


def _by_numbers(known: NDArray[np.float64], where: str) -> tuple[str, str]:
    different = np.unique(known)
    count, labels = len(different), len(known)
    whole = bool((different == np.floor(different)).all() and np.isfinite(different).all())
    gapless = whole and different[0] in (0, 1) and different[-1] - different[0] == count - 1
    if whole and count <= FEW_VALUES and (gapless or 2 * count <= labels):
        why = f"{where} holds {count} different whole numbers in {labels} labels"
        return "classification", f"{why}, so the task is classification (--task regression if not)."
    why = f"{where} holds {count} different numbers in {labels} labels"
    return "regression", f"{why}, so the task is regression (--task classification if not)."


def _regression(cells: Sequence[str], numbers: object, reason: str, where: str) -> Targets:
    if numbers is None:
        wrong = next(cell for cell in cells if values([cell], number) is None)
        raise ValueError(f"{where} must hold numbers for regression, got {wrong!r}.")
    y = torch.as_tensor(numbers, dtype=torch.float64)
    known = y[~y.isnan()]
    if known.isinf().any():
        raise ValueError(f"{where} must hold finite numbers, got infinity.")
    if known.min() == known.max():
        raise ValueError(
            f"{where} has the same value {known[0]:g} in every label: nothing to learn."
        )
    notes = [reason, *_unlabeled_note(int(y.isnan().sum())), *_marker_note(cells)]
    return Targets(y, "regression", (), notes)


def _classification(cells: Sequence[str], numeric: bool, reason: str, where: str) -> Targets:
    named = [_class_of_number(cell) for cell in cells] if numeric else list(cells)
    counts = Counter(name for name in named if name)
    classes = sorted(counts, key=number) if numeric else sorted(counts)
    if len(classes) < 2:
        raise ValueError(f"{where} has only one class, {classes[0]!r}: there must be two or more.")
    index = {name: i for i, name in enumerate(classes)} | {"": -1}
    y = torch.tensor([index[name] for name in named])
    notes = [reason, *_unlabeled_note(named.count("")), *_class_notes(counts, classes)]
    notes += _marker_note(cells) if numeric else []
    return Targets(y, "classification", tuple(classes), notes)


def _class_of_number(cell: str) -> str:
    """One name for 3 and 3.0: a column of whole numbers with gaps is often written as floats."""
    value = number(cell)
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() else cell


def _unlabeled_note(unlabeled: int) -> list[str]:
    if unlabeled:
        return []
    return [
        "Every example has a label, so there is nothing to impute: this is supervised learning."
    ]


def _marker_note(cells: Sequence[str]) -> list[str]:
    markers = sorted({cell for cell in cells if cell and cell.casefold() in MISSING})
    return [f"Unlabeled, although the cell is not empty: {join_few(markers)}."] if markers else []


def _class_notes(counts: Counter[str], classes: Sequence[str]) -> list[str]:
    notes = []
    rare = [name for name in classes if counts[name] < FEW_LABELS]
    if rare:
        notes.append(f"Fewer than {FEW_LABELS} labels: {join_few(rare)}.")
    most, least = max(classes, key=counts.__getitem__), min(classes, key=counts.__getitem__)
    if counts[most] >= UNEVEN * counts[least]:
        notes.append(
            f"The classes are uneven: {counts[most]} labels of {most!r}, {counts[least]} of "
            f"{least!r}."
        )
    strange = [name for name in classes if name.casefold() in MISSING or name == "-1"]
    if strange:
        notes.append(f"Taken for a class, because the cell is not empty: {join_few(strange)}.")
    return notes
