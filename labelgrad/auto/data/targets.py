"""Labels as people write them, made into classes or values."""

from __future__ import annotations

from shlex import quote
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl

from labelgrad.auto.data.columns import as_text, floats, join_few
from labelgrad.auto.data.formats import MISSING, NumberFormat, clean, number_formats, parse_cells
from labelgrad.auto.data.sources import from_narwhals, is_cell, object_text
from labelgrad.auto.task import Array, Classification, Regression, Task
from labelgrad.sklearn import no_label_in

FEW_VALUES = 20  # as many different whole numbers may be classes
MANY_CLASSES = 1000
FEW_LABELS = 5
IMBALANCE = 10
WRITE_NONE = "write None where there is no label"
WHOLE = r"^\+?(-?)0*([0-9]+?)(?:\.0*)?$"  # 3, 3.0 and 03 are one class


class Targets(NamedTuple):
    """The labels as a task has them, and what there is to say about them."""

    y: Array
    task: Task
    notes: list[str]


def read_targets(
    labels: pl.Series,
    task: str | None,
    where: str,
    form: NumberFormat | None = None,
    *,
    are_names: bool = False,
    unlabeled: str | None = None,
) -> Targets:
    """Make classes or values of labels.

    Parameters
    ----------
    labels
        Strings or numbers; what is empty is unlabeled. Among numbers a cell such as "NA" is
        unlabeled, too; among texts it is a class.
    task
        "classification" or "regression"; None lets the labels decide.
    where
        What sentences call the labels, such as "The column 'pet'".
    form
        How the table writes the numbers of its target, if not as programs do.
    are_names
        The labels are names of classes even if all of them are numbers, as those of folders.
    unlabeled
        What labels hold where there is none. If it is None and most labels seem to hold such a
        value, a ValueError asks.

    Returns
    -------
    Targets
        The target `y`, the task and notes.

    Examples
    --------
    >>> read_targets(pl.Series(["dog", "", "cat"]), None, "The column 'pet'").y
    array([ 1, -1,  0])
    >>> found = read_targets(pl.Series(["0.5", "nan", "2"]), None, "The column 'weight'")
    >>> found.task, found.y
    (Regression(mean=1.25, scale=0.75), array([-1., nan,  1.]))
    """
    labels, texts, notes = _cells(labels, unlabeled, where)
    numbers = None
    if not are_names and labels.dtype.is_numeric():
        numbers = floats(labels)
    elif not are_names and labels.dtype == pl.String:
        numbers, form = _numbers_in(texts, task, form)
        if form is not None and form.description:
            notes.append(f"{where} holds numbers with {form.description}.")
    known: Any = texts.drop_nulls() if numbers is None else numbers[~np.isnan(numbers)]
    if not len(known):
        raise ValueError(f"{where} has no label at all; some examples need one.")
    _check_labeled(texts, numbers, unlabeled, where)
    if task is not None:
        reason = f"The task is {task}, as given."
    elif are_names:
        task, reason = "classification", f"{where} names a class for each labeled example."
    elif numbers is None:
        task, reason = _task_of_texts(known, where)
    else:
        task, reason = _task_of_numbers(known, where)
    make = _regression if task == "regression" else _classification
    found = make(texts, numbers, [*notes, reason], where)
    if found.task.is_labeled(found.y).all():
        found.notes.append("Every example has a label: this is supervised learning.")
    markers = texts.filter(texts.str.to_lowercase().is_in(MISSING)).unique().sort()
    if len(markers) and numbers is not None:
        found.notes.append(f"Unlabeled, although the cell is not empty: {join_few(markers)}.")
    return found


def _cells(
    labels: pl.Series, unlabeled: str | None, where: str
) -> tuple[pl.Series, pl.Series, list[str]]:
    """The labels, and the same as texts, null where there is none; and notes."""
    texts = as_text(labels).str.strip_chars()
    texts = texts.set(texts == "", None)
    if not unlabeled:
        return labels, texts, []
    means_none = (texts == unlabeled) | (texts.str.replace(WHOLE, "${1}${2}") == unlabeled)
    if not means_none.any():
        raise ValueError(f"{where} never holds {unlabeled!r}; leave `unlabeled_value` out.")
    known, count = pl.when(~means_none), means_none.sum()
    labels, texts = (pl.select(known.then(one)).to_series() for one in (labels, texts))
    return labels, texts, [f"{unlabeled!r} means unlabeled: {count} examples."]


def _check_labeled(
    texts: pl.Series, numbers: Array | None, unlabeled: str | None, where: str
) -> None:
    """Ask if most labels seem to mean that there is none, and nobody has said so."""
    if unlabeled is not None:
        return
    cells = texts
    if numbers is not None:
        cells = texts.filter(~np.isnan(numbers)).str.replace(WHOLE, "${1}${2}")
    names = cells.drop_nulls().value_counts(name="count", sort=True)
    head, total = dict(names.head(3).rows()), int(names["count"].sum())
    if (value := no_label_in(head, total)) is not None:
        option = "--unlabeled-value"
        raise ValueError(
            f"{where} holds {value!r} in {head[value]} of {total} labels; if it means that there "
            f"is no label, use {option}={quote(value)}, and if it is a class, {option}=''."
        )


def _numbers_in(
    texts: pl.Series, task: str | None, form: NumberFormat | None
) -> tuple[Array | None, NumberFormat | None]:
    """All labels as numbers, NaN where there is none, and their format; None if they are names."""
    numbers, cells = parse_cells(texts, None)
    plain = numbers.to_numpy() if numbers.null_count() == cells.null_count() else None
    if task != "classification" and plain is None and form is None:
        form = next(iter(number_formats(cells.drop_nulls().unique())), None)
    if task == "classification" or form is None:
        return plain, None
    found = parse_cells(texts, form)[0].to_numpy()
    different = np.unique(found[~np.isnan(found)])
    few = len(different) <= FEW_VALUES and bool((different == np.floor(different)).all())
    if few and task is None and plain is None:
        return None, None  # names such as 10 %
    return found, form


def _task_of_texts(known: pl.Series, where: str) -> tuple[str, str]:
    count, labels = known.n_unique(), len(known)
    if count > MANY_CLASSES or (count > FEW_VALUES and 2 * count > labels):
        raise ValueError(
            f"{where} has {count} different texts in {labels} labels and is probably not a class; "
            f"choose another column, or use --task classification."
        )
    return "classification", f"{where} holds text, so the task is classification."


def _task_of_numbers(known: Array, where: str) -> tuple[str, str]:
    different = np.unique(known)
    count, labels = len(different), len(known)
    whole = bool((different == np.floor(different)).all() and np.isfinite(different).all())
    gapless = whole and different[0] in (0, 1) and different[-1] - different[0] == count - 1
    if whole and count <= FEW_VALUES and (gapless or 2 * count <= labels):
        why = f"{where} holds {count} different whole numbers in {labels} labels"
        return "classification", f"{why}, so the task is classification (--task regression if not)."
    why = f"{where} holds {count} different numbers in {labels} labels"
    return "regression", f"{why}, so the task is regression (--task classification if not)."


def _regression(texts: pl.Series, numbers: Array | None, notes: list[str], where: str) -> Targets:
    if numbers is None:
        cells = clean(texts)
        wrong = cells.filter(cells.cast(pl.Float64, strict=False).is_null() & cells.is_not_null())
        raise ValueError(f"{where} must hold numbers for regression, got {wrong[0]!r}.")
    known = numbers[~np.isnan(numbers)]
    if np.isinf(known).any():
        raise ValueError(f"{where} must hold finite numbers, got infinity.")
    low, high = known.min(), known.max()
    if low == high:
        raise ValueError(f"{where} has the same value {low:g} in every label: nothing to learn.")
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = float(known.mean()), float(known.std())
    if not 1e-100 <= scale <= 1e100:
        raise ValueError(
            f"{where} must have a standard deviation between 1e-100 and 1e+100, got numbers from "
            f"{low:g} to {high:g}; give them in another unit."
        )
    return Targets((numbers - mean) / scale, Regression(mean, scale), notes)


def _classification(
    texts: pl.Series, numbers: Array | None, notes: list[str], where: str
) -> Targets:
    cells = texts if numbers is None else clean(texts).str.replace(WHOLE, "${1}${2}")
    name = pl.col("name")
    names = cells.drop_nulls().alias("name").value_counts(name="count")
    names = names.sort(name if numbers is None else name.cast(pl.Float64), name)
    classes, counts = names["name"].to_list(), names["count"].to_list()
    if len(classes) < 2:
        raise ValueError(f"{where} has only one class, {classes[0]!r}: there must be two or more.")
    codes = dict(zip(classes, range(len(classes)), strict=True))
    y = cells.replace_strict(codes, default=-1, return_dtype=pl.Int64).to_numpy()
    rare = [name for name, count in names.rows() if count < FEW_LABELS]
    if rare:
        notes.append(f"Fewer than {FEW_LABELS} labels: {join_few(rare)}.")
    most, least = max(counts), min(counts)
    if most >= IMBALANCE * least:
        one, other = classes[counts.index(most)], classes[counts.index(least)]
        notes.append(f"The classes are imbalanced: {most} labels of {one!r}, {least} of {other!r}.")
    strange = [name for name in classes if name.lower() in (*MISSING, "-1")]
    if strange:
        notes.append(f"Read as a class, because the cell is not empty: {join_few(strange)}.")
    return Targets(y, Classification(tuple(classes)), notes)


def label_series(y: Any, rows: int, task: str | None = None) -> tuple[pl.Series, list[str]]:
    """Labels in an array or a series, null where unlabeled, and notes.

    Parameters
    ----------
    y
        One label for each row: missing is unlabeled, and so is -1 among whole numbers.
    rows
        How many there must be.
    task
        As in `read_targets`.

    Returns
    -------
    tuple
        A polars series of strings or numbers, and notes.

    Examples
    --------
    >>> series, notes = label_series([2, -1, 0], rows=3)
    >>> series.to_list(), notes
    ([2, None, 0], ['-1 in `y` means unlabeled: 1 rows.'])
    >>> label_series(np.array(["cat", -1]), rows=2)
    Traceback (most recent call last):
    ValueError: `y` must hold text or numbers, got text with '-1' in it; write None where there is \
no label.
    """
    labels = _as_labels(y)
    if labels.shape not in ((rows,), (rows, 1)):
        raise ValueError(
            f"`y` must have one label for each of the {rows} rows, got {labels.shape}."
        )
    if not isinstance(labels, pl.Series):
        labels = labels.reshape(-1)
        labels = _from_objects(labels) if labels.dtype.kind in "OU" else _from_array(labels, task)
    if labels.dtype == pl.String:  # into which NumPy turns a -1 or NaN among other text
        markers = labels.filter(labels.is_in(["-1", "-1.0", "nan"]))
        numbers, cells = parse_cells(labels, None)
        if len(markers) and numbers.null_count() > cells.null_count():
            raise ValueError(
                f"`y` must hold text or numbers, got text with {markers[0]!r} in it; {WRITE_NONE}."
            )
    if not labels.dtype.is_numeric() or labels.dtype.is_unsigned_integer():
        return labels, []
    if labels.dtype.is_float():
        labels = labels.fill_nan(None)
        others = labels.filter(labels != -1)
        if labels.null_count() or not ((others >= 0) & (others == others.floor())).all():
            return labels, []
    unlabeled = int((labels == -1).sum())
    notes = [f"-1 in `y` means unlabeled: {unlabeled} rows."] if unlabeled else []
    return labels.set(labels == -1, None), notes


def _as_labels(y: Any) -> Any:
    """A polars series of what a data frame library has, a NumPy array of all else."""
    series = nw.from_native(y, pass_through=True, allow_series=True)
    if isinstance(series, nw.DataFrame) and len(series.columns) == 1:
        series = series.get_column(series.columns[0])
    if not isinstance(series, nw.Series):
        labels = np.asarray(y)
        is_list = labels.dtype.kind == "U" and not isinstance(y, np.ndarray)
        return np.asarray(y, dtype=object) if is_list else labels  # NumPy makes text of numbers
    if series.dtype == nw.Object:
        return np.fromiter(series.to_list(), dtype=object)
    return from_narwhals(series)


def _from_array(y: Array, task: str | None) -> pl.Series:
    if y.dtype.kind not in "buif":
        raise ValueError(f"`y` must hold numbers or text, got {y.dtype}.")
    if y.dtype.kind == "u" and task != "regression" and (y == np.iinfo(y.dtype).max).any():
        raise ValueError(
            f"`y` must hold classes in a signed type, got {np.iinfo(y.dtype).max} in {y.dtype}, as "
            f"-1 becomes there; use y.astype(int) and mark the unlabeled."
        )
    return pl.Series(y.astype(np.float64) if y.dtype.kind == "f" else y)


def _from_objects(y: Array) -> pl.Series:
    """Texts, or numbers, or booleans, with gaps among them."""
    known = [cell for cell in y.tolist() if is_cell(cell)]
    cells = [cell if is_cell(cell) else None for cell in y.tolist()]
    for cell in y.tolist():  # besides None, NaN, and what pandas has in their place
        if not is_cell(cell) and str(cell).lower() not in MISSING:
            raise ValueError(f"`y` must hold numbers or text, got a {type(cell).__name__}.")
    names = {str: "text", bool | np.bool_: "booleans", int | float | np.number: "numbers"}
    names[object] = "objects"
    kinds = {next(names[types] for types in names if isinstance(cell, types)) for cell in known}
    if len(kinds) > 1:
        found = " and ".join(sorted(kinds))
        raise ValueError(f"`y` must hold labels of one type, got {found}; {WRITE_NONE}.")
    if kinds == {"numbers"}:
        whole = all(isinstance(cell, int | np.integer) for cell in known)
        return pl.Series(cells, dtype=pl.Int64 if whole else pl.Float64, strict=False)
    texts = [None if cell is None else object_text(cell) for cell in cells]
    return pl.Series(texts, dtype=pl.String)
