"""Columns of a table made into numbers, by statistics that can be kept as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgrad.inputs.cells import MISSING, days, number, values
from labelgrad.inputs.dataset import join_few

Numbers = NDArray[np.float64]
Rows = NDArray[np.float32]  # (rows, one or more numbers for a column)

MOST_CATEGORIES = 50
FEW_TEXTS = 20
FARTHEST = 1e6  # standard deviations; keeps what no fitted row comes near finite in float32


@dataclass(frozen=True)
class Number:
    """Standardized, the median where missing; where fitted rows missed it, a second number says so.

    >>> age = Number("age", median=30.0, mean=40.0, std=10.0, missing=True)
    >>> age.rows(np.array([50.0, np.nan]))
    array([[ 1.,  0.],
           [-1.,  1.]], dtype=float32)
    """

    name: str
    median: float
    mean: float
    std: float
    missing: bool
    date: bool = False

    def parse(self, cells: Sequence[str]) -> Numbers:
        """The cells as numbers, or as days since 1970."""
        parsed = values(cells, days if self.date else number)
        if parsed is None:
            row, cell = self._first_wrong(cells)
            held = "dates" if self.date else "numbers"
            raise ValueError(
                f"The column {self.name!r} must hold {held}, as it did for training, and row {row} "
                f"holds {cell!r}."
            )
        return parsed

    def _first_wrong(self, cells: Sequence[str]) -> tuple[int, str]:
        parse = days if self.date else number
        return next((i, c) for i, c in enumerate(cells, 1) if values([c], parse) is None)

    def rows(self, numbers: Numbers) -> Rows:
        """(rows, 1), or (rows, 2) with the sign of a missing one."""
        absent = ~np.isfinite(numbers)
        filled = np.where(absent, self.median, numbers)
        with np.errstate(over="ignore"):  # infinity is clipped
            scaled = np.clip((filled - self.mean) / self.std, -FARTHEST, FARTHEST)
        return np.stack([scaled, absent][: 1 + self.missing], axis=1).astype(np.float32)

    def encode(self, cells: Sequence[str]) -> Rows:
        """The cells of a new table as rows."""
        return self.rows(self.parse(cells))

    @property
    def width(self) -> int:
        """How many numbers of a row are this column's."""
        return 1 + self.missing

    def show(self, row: Rows) -> str:
        """A cell as a person would read it, out of a row's numbers for this column.

        >>> age = Number("age", median=30.0, mean=40.0, std=10.0, missing=True)
        >>> [age.show(row) for row in age.encode(["52", ""])]
        ['52', '–']
        """
        if self.missing and row[1]:
            return "–"
        value = float(row[0]) * self.std + self.mean
        if self.date:
            return str(np.datetime64(0, "D") + round(value))
        return f"{value:.4g}"


@dataclass(frozen=True)
class Category:
    """One number for each text, 1 where the cell holds it; more for rare texts and for missing.

    A text never seen counts as rare; if there is no place for rare or missing, all are 0.

    >>> Category("pet", ("cat", "dog"), other=False, missing=True).encode(["dog", "?", "eel"])
    array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    """

    name: str
    texts: tuple[str, ...]
    other: bool
    missing: bool

    def encode(self, cells: Sequence[str]) -> Rows:
        """(rows, texts and perhaps other and missing)."""
        place = {text: i for i, text in enumerate(self.texts)}
        nowhere = self.width  # a column that is cut off again
        other = len(place) if self.other else nowhere
        missing = self.width - 1 if self.missing else nowhere
        where = [missing if _absent(cell) else place.get(cell, other) for cell in cells]
        rows = np.zeros((len(cells), self.width + 1), dtype=np.float32)
        rows[np.arange(len(cells)), where] = 1
        return rows[:, : self.width]

    @property
    def width(self) -> int:
        """How many numbers of a row are this column's."""
        return len(self.texts) + self.other + self.missing

    def show(self, row: Rows) -> str:
        """A cell as a person would read it; rare texts are not told apart."""
        place = int(row.argmax())
        if not row[place] or (self.missing and place == self.width - 1):
            return "–"
        return self.texts[place] if place < len(self.texts) else "…"


Column = Number | Category


def fit_column(name: str, cells: Sequence[str]) -> Column | str:
    """What the column holds, or why it is left out.

    >>> fit_column("pet", ["cat", "dog", "cat"])
    Category(name='pet', texts=('cat', 'dog'), other=False, missing=False)
    >>> fit_column("id", ["a7", "b2", "c9"])
    'every text is different'
    """
    if all(_absent(cell) for cell in cells):
        return "empty"
    for parse in (number, days):
        parsed = values(cells, parse)
        if parsed is not None:
            return fit_number(name, parsed, date=parse is days)
    return _fit_category(name, cells)


def fit_number(name: str, numbers: Numbers, *, date: bool = False) -> Number | str:
    """The statistics of a column, or why it is left out; infinity counts as missing."""
    known = numbers[np.isfinite(numbers)]
    missing = len(known) < len(numbers)
    if not len(known):
        return "empty"
    if known.min() == known.max() and not missing:
        return "always the same"
    if not missing and _counts_rows(known):
        return "the row's number"
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = float(known.mean()), float(known.std())
    if known.min() == known.max():
        std = 1.0  # only the sign of a missing one varies
    if not (np.isfinite(mean) and np.isfinite(std)) or std == 0:
        return "numbers too large or too small to standardize"
    return Number(name, float(np.median(known)), mean, std, missing, date)


def _counts_rows(numbers: Numbers) -> bool:
    return len(numbers) > 2 and numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())


def _fit_category(name: str, cells: Sequence[str]) -> Category | str:
    counts = Counter(cell for cell in cells if not _absent(cell))
    total = counts.total()
    missing = total < len(cells)
    if len(counts) == 1 and not missing:
        return "always the same"
    if len(counts) == total > 1:
        return "every text is different"
    if len(counts) > FEW_TEXTS and 2 * len(counts) > total:
        return "most texts are different"
    kept = sorted(counts, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES]
    return Category(name, tuple(sorted(kept)), other=len(kept) < len(counts), missing=missing)


def _absent(cell: str) -> bool:
    return cell.casefold() in MISSING


def to_json(column: Column) -> dict[str, Any]:
    """The column as a dictionary of plain values."""
    kind = "number" if isinstance(column, Number) else "category"
    return {"kind": kind} | asdict(column)


def from_json(described: dict[str, Any]) -> Column:
    """The column that `to_json` described.

    >>> age = Number("age", median=30.0, mean=40.0, std=10.0, missing=True)
    >>> from_json(to_json(age)) == age
    True
    """
    settings = {name: value for name, value in described.items() if name != "kind"}
    if described["kind"] == "number":
        return Number(**settings)
    return Category(**settings | {"texts": tuple(settings["texts"])})


def column_notes(fitted: dict[str, Column | str]) -> list[str]:
    """Sentences about the columns: left out and why, dates, missing values, rare texts."""
    kept = [column for column in fitted.values() if not isinstance(column, str)]
    reasons = sorted({reason for reason in fitted.values() if isinstance(reason, str)})
    notes = [
        f"Left out ({reason}): {join_few(name for name in fitted if fitted[name] == reason)}."
        for reason in reasons
    ]
    dates = [c.name for c in kept if isinstance(c, Number) and c.date]
    numbers = [c.name for c in kept if isinstance(c, Number) and c.missing]
    texts = [c.name for c in kept if isinstance(c, Category) and c.missing]
    rare = [c.name for c in kept if isinstance(c, Category) and c.other]
    notes += _note("Dates, read as days since 1970", dates)
    notes += _note("Missing numbers become the column's median, with a sign that says so", numbers)
    notes += _note("Missing texts are a category of their own", texts)
    return notes + _note(f"Texts beyond the {MOST_CATEGORIES} commonest share a category", rare)


def _note(sentence: str, names: Iterable[str]) -> list[str]:
    listed = list(names)
    return [f"{sentence}: {join_few(listed)}."] if listed else []
