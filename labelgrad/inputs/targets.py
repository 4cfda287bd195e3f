"""Labels as people write them, made into class indices or numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.inputs.base import VERSION, join_few
from labelgrad.inputs.cells import Format, Typed, as_texts, is_absent, number, storable, values
from labelgrad.inputs.frames import as_series, is_cell, is_missing, object_texts
from labelgrad.inputs.number_formats import number_formats

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

    def preprocessing(self, kind: str, **settings: Any) -> dict[str, Any]:
        """What to keep, as JSON, to read new data alike and name what is predicted for them."""
        kept = {"version": VERSION, "kind": kind, "task": self.task, "classes": list(self.classes)}
        return kept | settings


def targets(
    cells: Sequence[str],
    task: str | None,
    where: str,
    written: Format | None = None,
    *,
    folders: bool = False,
) -> Targets:
    """Make labels of the cells; an empty one is unlabeled. `where` names them in sentences.

    Among numbers a cell such as "NA" is unlabeled, too, among texts it is one of them. Names of
    `folders` are texts even if all are numbers. `written` is how a table writes its numbers.

    >>> targets(["dog", "", "cat"], None, "The column 'pet'").y
    tensor([ 1, -1,  0])
    >>> targets(["0.5", "nan", "2"], None, "The column 'weight'").y
    tensor([0.5000,    nan, 2.0000], dtype=torch.float64)
    """
    notes: list[str] = []
    if task != "classification" and not folders:
        cells, notes = _plain(cells, task, where, written)
    numbers = values(cells, number)
    known = [c for c in cells if c] if numbers is None else numbers[~np.isnan(numbers)]
    if not len(known):
        raise ValueError(f"{where} has no label at all; some examples need theirs.")
    reason = f"The task is {task}, as asked."
    if task is None and folders:
        task, reason = "classification", f"{where} has a subfolder for each class."
    elif task is None:
        decided = _by_text(known, where) if isinstance(known, list) else _by_numbers(known, where)
        task, reason = decided
    if task == "regression":
        found = _regression(cells, numbers, reason, where)
    else:
        found = _classification(cells, numbers is not None and not folders, reason, where)
    return found._replace(notes=notes + found.notes)


def _plain(
    cells: Sequence[str], task: str | None, where: str, written: Format | None
) -> tuple[Sequence[str], list[str]]:
    """Numbers such as 1,5 as a program writes them, and a sentence; few whole ones are names."""
    if written is None and values(cells, number) is None:
        written = next(iter(number_formats(dict.fromkeys(cells))), None)
    if written is None:
        return cells, []
    numbers = values(cells, written.parse)
    if numbers is None:
        return cells, []
    different = np.unique(numbers[~np.isnan(numbers)])
    are_names = len(different) <= FEW_VALUES and bool((different == np.floor(different)).all())
    if are_names and task is None and values(cells, number) is None:
        return cells, []
    texts = as_texts(Typed("numbers", numbers))
    plain = [cell if is_absent(cell) else text for cell, text in zip(cells, texts, strict=True)]
    return plain, [f"{where} holds numbers with {written.said}."] if written.said else []


def label_cells(y: Any, rows: int, file: str = "memory") -> tuple[list[str], list[str]]:
    """Labels in an array or a series as texts, empty where unlabeled, and how that was seen.

    Missing is unlabeled, and so is -1 among whole numbers.

    >>> label_cells([2, -1, 0], rows=3)
    (['2', '', '0'], ['-1 in `y` means unlabeled: 1 rows.'])
    >>> label_cells(np.array(["a", None], dtype=object), rows=2)
    (['a', ''], [])
    """
    series = nw.from_native(as_series(y), pass_through=True, allow_series=True)
    if isinstance(series, nw.DataFrame) and len(series.columns) == 1:
        series = series.get_column(series.columns[0])
    if not isinstance(series, nw.Series):
        labels = np.asarray(y)
    elif series.dtype.is_float() or (series.dtype.is_integer() and not series.null_count()):
        labels = series.to_numpy()
    else:
        labels = np.empty(len(series), dtype=object)
        labels[:] = series.to_list()
    if labels.shape not in ((rows,), (rows, 1)):
        raise ValueError(
            f"`y` in {file} must have one label for each of the {rows} rows of `x`, got the "
            f"shape {labels.shape}."
        )
    labels = labels.reshape(-1)
    return _object_cells(labels, file) if labels.dtype == object else _plain_cells(labels, file)


def _plain_cells(y: NDArray[Any], file: str) -> tuple[list[str], list[str]]:
    if y.dtype.kind not in "buifU":
        raise ValueError(f"`y` in {file} must hold numbers or text, got {y.dtype}.")
    if y.dtype.kind in "Ub":
        return [storable(str(label).strip()) for label in y], []
    if y.dtype.kind == "f" and np.isnan(y).any():
        return ["" if np.isnan(label) else repr(float(label)) for label in y], []
    others = y[y != -1]
    counts_classes = y.dtype.kind in "iu" or bool(
        ((others >= 0) & (others == np.floor(others))).all()
    )
    if not counts_classes or len(others) == len(y):
        return [str(label) for label in y.tolist()], []
    return ["" if label == -1 else str(label) for label in y.tolist()], [
        _minus_one(len(y) - len(others))
    ]


def _object_cells(y: NDArray[Any], file: str) -> tuple[list[str], list[str]]:
    """Texts, or whole numbers, with gaps among them."""
    known = [label for label in y.tolist() if not is_missing(label)]
    strange = [type(label).__name__ for label in known if not is_cell(label)]
    if strange:
        raise ValueError(f"`y` in {file} must hold numbers or text, got a {strange[0]}.")
    cells, unlabeled = object_texts(y.tolist()), sum(label == -1 for label in known)
    if not unlabeled or any(isinstance(label, float) for label in known):
        return cells, []
    return ["" if cell == "-1" else cell for cell in cells], [_minus_one(unlabeled)]


def _minus_one(unlabeled: int) -> str:
    return f"-1 in `y` means unlabeled: {unlabeled} rows."


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
    check_spread(known.numpy(), where)
    notes = [reason, *_unlabeled_note(int(y.isnan().sum())), *_marker_note(cells)]
    return Targets(y, "regression", (), notes)


def check_spread(known: NDArray[np.float64], where: str) -> None:
    """Refuse values whose squares are too large or too small for 64 bits.

    >>> check_spread(np.array([1e300, -1e300]), "The column 'far'")
    Traceback (most recent call last):
    ValueError: The column 'far' must hold numbers whose spread is between 1e-100 and 1e+100, got \
numbers from -1e+300 to 1e+300; give them in another unit.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        spread, low, high = known.std(), known.min(), known.max()
    if low == high or 1e-100 <= spread <= 1e100:
        return
    raise ValueError(
        f"{where} must hold numbers whose spread is between 1e-100 and 1e+100, got numbers from "
        f"{low:g} to {high:g}; give them in another unit."
    )


def _classification(cells: Sequence[str], numeric: bool, reason: str, where: str) -> Targets:
    named = [_class_of_number(cell) for cell in cells] if numeric else list(cells)
    counts = Counter(name for name in named if name)
    classes = sorted(counts, key=number) if numeric else sorted(counts)
    if len(classes) < 2:
        raise ValueError(f"{where} has only one class, {classes[0]!r}: there must be two or more.")
    index = {name: i for i, name in enumerate(classes)} | {"": -1}
    y = torch.from_numpy(np.array([index[name] for name in named], dtype=np.int64))
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
    markers = sorted({cell for cell in cells if cell and is_absent(cell)})
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
    strange = [name for name in classes if is_absent(name) or name == "-1"]
    if strange:
        notes.append(f"Taken for a class, because the cell is not empty: {join_few(strange)}.")
    return notes
