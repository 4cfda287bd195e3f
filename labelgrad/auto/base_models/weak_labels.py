"""Weak labels: a CSV file of labels by rules, other models, language models or crowds.

The first column has the ids of the examples. Each other column is a base model, with a class or a
value in the cells that it labels. Columns named `SOURCE:CLASS` are the probabilities of one source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from labelgrad.auto.base_models.base import FittedModel, log_probabilities, positions_of
from labelgrad.auto.class_prior import label_prior
from labelgrad.auto.data.columns import join_few
from labelgrad.auto.data.dataset import Examples
from labelgrad.auto.task import Array, Classification, Task
from labelgrad.reasons import reason_of

ABSTAIN_STD = 1e6  # of a value that the source does not give


@dataclass(frozen=True, eq=False)
class WeakLabels:
    """A source that has labeled some examples already.

    The accuracy of a source that gives classes is estimated on the labels that it may see; one
    that is worse than chance abstains, and is never inverted.

    >>> labels, task = np.array([0.0, 1.0, 1.0, np.nan]), Classification(("a", "b"))
    >>> examples = Examples(np.zeros((4, 1)), rows=np.arange(4))
    >>> model = WeakLabels("rule", labels)
    >>> fitted = model.fit(examples, np.array([0, 1, -1, -1]), task=task, seed=0)
    >>> np.exp(fitted.predict(examples)).round(2)
    array([[0.75, 0.25],
           [0.25, 0.75],
           [0.25, 0.75],
           [0.5 , 0.5 ]])
    """

    name: str
    labels: Array  # (n,) class indices or values, or (n, classes) probabilities; NaN abstains
    uses_unlabeled: bool = True
    trusted: bool = False  # anybody can write a file: it must show what it adds
    predicts_new: bool = False

    def fit(self, examples: Examples, y: Array, *, task: Task, seed: int) -> FittedModel:
        """Estimate how accurate the source is."""
        del seed
        rows = np.arange(len(y)) if examples.rows is None else examples.rows
        given = self.labels[rows]
        if isinstance(task, Classification):
            every, given = np.arange(task.columns), self._probabilities(given, y, task.columns)
            abstain = np.log(label_prior(y[y >= 0], task.columns))
            prediction = np.tile(abstain, (len(y), 1))
            complete = np.flatnonzero(~np.isnan(given).any(1))
            prediction[complete] = log_probabilities(given[complete], every, task)
            return FittedWeakLabels(prediction, abstain, rows)
        abstains = np.isnan(given)
        errors = (given - y)[task.is_labeled(y) & ~abstains]
        std = np.sqrt(((errors**2).sum() + 1) / (len(errors) + 1))
        values = np.where(abstains, 0.0, given)
        prediction = task.from_outputs(values, np.where(abstains, ABSTAIN_STD, std))
        return FittedWeakLabels(prediction, np.array([0.0, ABSTAIN_STD]), rows)

    def _probabilities(self, given: Array, y: Array, classes: int) -> Array:
        """Probabilities, NaN where the source abstains; of classes by their accuracy."""
        if given.ndim == 2:
            return given
        known = (y >= 0) & ~np.isnan(given)
        right = int((given[known] == y[known]).sum())
        accuracy = (right + 1) / (int(known.sum()) + classes)
        found = np.full((len(given), classes), np.nan)
        if accuracy > 1 / classes:
            rows = np.flatnonzero(~np.isnan(given))
            found[rows] = (1 - accuracy) / max(1, classes - 1)
            found[rows, given[rows].astype(int)] = accuracy
        return found


@dataclass(frozen=True, eq=False)
class FittedWeakLabels:
    """Predictions for the examples of the file; it abstains for all others."""

    prediction: Array
    abstain: Array
    rows: Array

    def predict(self, examples: Examples) -> Array:
        """The source's prediction for known examples."""
        places = positions_of(self.rows, examples)
        return np.where(places[:, None] < 0, self.abstain, self.prediction[places])


def read_weak_labels(path: str | Path, ids: Sequence[str], task: Task) -> list[WeakLabels]:
    r"""The sources of a CSV file.

    Parameters
    ----------
    path : str or Path
        The file, in UTF-8.
    ids : sequence of str
        The ids of all examples, in their order.
    task : Task
        Tells the classes, or the units of values.

    Returns
    -------
    list of WeakLabels

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "rules.csv")
    >>> _ = file.write_text("row,rule\n2,cat\n1,\n")
    >>> read_weak_labels(file, ["1", "2"], Classification(("cat", "dog")))[0].labels
    array([nan,  0.])
    """
    place = Path(path)
    try:
        cells = pl.read_csv(place, infer_schema=False).fill_null("")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(
            f"The weak labels {place} cannot be read ({reason_of(error)}); give a CSV file in "
            f"UTF-8 with as many cells in each line."
        ) from None
    if cells.width < 2 or not all(name.strip() for name in cells.columns[1:]):
        raise ValueError(
            f"The weak labels {place} need a header with names for the ids and one or more "
            f"sources, got {join_few(cells.columns)}."
        )
    first = cells.to_series(0)
    row_of = {str(name): row for row, name in enumerate(ids)}
    wrong = first.filter(first.is_duplicated() | ~first.is_in([*row_of]))
    if len(wrong):
        raise ValueError(
            f"The first column of the weak labels {place} must have ids of examples, once each; "
            f"{join_few(wrong.unique(maintain_order=True), 3)} are repeated or not in the data."
        )
    rows = [row_of[name] for name in first]
    columns = {name.strip(): cells[name].str.strip_chars() for name in cells.columns[1:]}
    sources = []
    for name, given in _sources(place, columns, task).items():
        labels = np.full((len(ids), *given.shape[1:]), np.nan)
        labels[rows] = given
        sources.append(WeakLabels(name, labels))
    return sources


def _sources(place: Path, columns: Mapping[str, pl.Series], task: Task) -> dict[str, Array]:
    """The labels or probabilities of each source, NaN where it abstains."""
    sources: dict[str, Array] = {}
    probabilities: dict[str, dict[str, Array]] = {}
    for name, cells in columns.items():
        cuts = (at for at in range(1, len(name)) if name[at] == ":")
        cut = next((at for at in cuts if name[at + 1 :].strip() in task.classes), None)
        if cut is None:
            sources[name] = _labels(place, cells, task)
        else:
            mine = probabilities.setdefault(name[:cut].strip(), {})
            mine[name[cut + 1 :].strip()] = _numbers(place, cells)
    for source, mine in probabilities.items():
        missing = [name for name in task.classes if name not in mine]
        if missing or source in sources:
            what = f"lacks {join_few(missing)}" if missing else "has a column of labels, too"
            raise ValueError(
                f"The weak labels {place} need one column for each class by {source!r}, which "
                f"{what}."
            )
        given = np.stack([mine[name] for name in task.classes], axis=1)
        outside = given[(given < 0) | (given > 1)]
        if len(outside):
            raise ValueError(
                f"The probabilities in {place} must be from 0 to 1, got {float(outside[0])}."
            )
        total = given.sum(1, keepdims=True)
        sources[source] = np.where(total > 0, given / np.where(total > 0, total, 1), np.nan)
    return sources


def _labels(place: Path, cells: pl.Series, task: Task) -> Array:
    """The cells of one source as labels, NaN where it abstains."""
    if not isinstance(task, Classification):
        return (_numbers(place, cells) - task.mean) / task.scale
    codes = {name: code for code, name in enumerate(task.classes)}
    unknown = {cell: None for cell in cells if cell and cell not in codes}
    if unknown:
        raise ValueError(
            f"The weak labels {place} must be classes of the data, {join_few(task.classes)}, got "
            f"{join_few(unknown)}."
        )
    return np.array([codes.get(cell, np.nan) for cell in cells])


def _numbers(place: Path, cells: pl.Series) -> Array:
    """Numbers, NaN for empty cells."""
    numbers = cells.cast(pl.Float64, strict=False)
    wrong = cells.filter((cells != "") & ~numbers.is_finite().fill_null(False))
    if len(wrong):
        raise ValueError(
            f"The weak labels {place} must be finite numbers where they are probabilities or "
            f"values, got {wrong[0]!r}; leave the cell empty to abstain."
        )
    return numbers.to_numpy()
