"""Columns of a table made into rows of numbers, by statistics that can be kept as JSON.

A network wants columns of one scale and rows of one length, whatever the table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.inputs.base import join_few
from labelgrad.inputs.cells import (
    MANY_TEXTS,
    MOST_DIFFERENT,
    Cells,
    PlainNumbers,
    Typed,
    as_texts,
    date_text,
    days,
    is_absent,
    number,
    sliced,
    typed,
    values,
)
from labelgrad.inputs.date_formats import DateFormat
from labelgrad.inputs.number_formats import NumberFormat
from labelgrad.inputs.spreads import spreads
from labelgrad.inputs.truth import are_truths, truth

Numbers = NDArray[np.float64]

ROW_LENGTH = 3.0  # of a typical row, once scaled
MOST_CATEGORIES = 50
FEW_TEXTS = 20
FARTHEST = 1e6  # keeps what no fitted row comes near finite in float32
MOST_DECIMALS = 6
ROWS_AT_ONCE, MAPPED_AT_ONCE = 2**12, 2**16
SIDE_BY_SIDE = 4  # columns that are copied to one array at once


@dataclass(frozen=True)
class Number:
    """A number, the median where missing; where fitted rows missed it, a second one says so.

    >>> age = Number("age", median=30.0, missing=True)
    >>> age.encode(["50", "NA"])
    array([[50.,  0.],
           [30.,  1.]])
    """

    name: str
    median: float
    missing: bool
    date: bool = False  # in days since 1970
    decimals: int | None = None  # of the fitted cells; None where there are many
    format: NumberFormat | DateFormat | None = None  # if they are not as a program writes them

    @property
    def width(self) -> int:
        """How many numbers of a row are this column's."""
        return 1 + self.missing

    def encode(self, cells: Cells, before: int = 0) -> Numbers:
        """(rows, 1), or (rows, 2) with the sign of a missing one; infinity counts as missing.

        So many rows of the table were `before` these.
        """
        numbers = self._parse(cells, before)
        absent = ~np.isfinite(numbers)
        filled = np.where(absent, self.median, numbers)
        return np.stack([filled, absent][: self.width], axis=1)

    def _parse(self, cells: Cells, before: int) -> Numbers:
        holds, parse = ("dates", days) if self.date else ("numbers", number)
        said = ""
        if self.format is not None:
            parse, said = self.format.parse, f" with {self.format.said}" * bool(self.format.said)
        if isinstance(cells, PlainNumbers) and parse is number:
            return cells.values
        known = cells.values if isinstance(cells, Typed) else None
        if isinstance(known, np.ndarray) and (typed(cells).holds == holds or np.isnan(known).all()):
            return known
        texts = as_texts(cells)
        parsed = values(texts, parse)
        if parsed is None:
            numbered = enumerate(texts, before + 1)
            row, cell = next((i, c) for i, c in numbered if values([c], parse) is None)
            raise ValueError(
                f"The column {self.name!r} must hold {holds}{said}, as it did for training, and "
                f"row {row} holds {cell!r}."
            )
        return parsed

    def show(self, numbers: Numbers, unsure: float) -> str:
        """The cell as it was written; what was stored for it may be `unsure` from the truth.

        Where that hides digits that the column has, it says so.

        >>> age = Number("age", median=30.0, missing=True, decimals=0)
        >>> age.show(np.array([51.9999, 0]), unsure=0.001), age.show(np.array([30, 1]), 0.001)
        ('52', '–')
        >>> age.show(np.array([1142673753.0, 0]), unsure=400)
        '≈1142670000'
        """
        if self.missing and numbers[1]:
            return "–"
        value = float(numbers[0])
        if self.date:
            return date_text(float(round(value)) if self.decimals == 0 else value)
        places, about = self.decimals, ""
        if places is None or 10.0**-places < unsure:
            about = "" if places is None else "≈"
            places = -math.ceil(math.log10(10 * unsure))  # all that can be relied on
        return f"{about}{round(value, places) + 0.0:.15g}"  # + 0.0: no cell says -0


@dataclass(frozen=True)
class Category:
    """One number for each text, 1 where the cell holds it; more for rare texts and for missing.

    A text never seen counts as rare; if there is no place for rare or missing, all are 0. Where the
    texts are yes and no, true and false or the like, any of these words will do.

    >>> Category("pet", ("cat", "dog"), other=False, missing=True).encode(["dog", "?", "eel"])
    array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 0., 0.]])
    >>> Category("paid", ("no", "yes"), False, False, truth=True).encode(["Yes", "FALSE"])
    array([[0., 1.],
           [1., 0.]])
    """

    name: str
    texts: tuple[str, ...]
    other: bool
    missing: bool
    truth: bool = False

    @property
    def width(self) -> int:
        """How many numbers of a row are this column's."""
        return len(self.texts) + self.other + self.missing

    def encode(self, cells: Cells, before: int = 0) -> Numbers:
        """(rows, texts and perhaps other and missing)."""
        texts = as_texts(cells)
        nowhere = self.width  # a column that is cut off again
        other = len(self.texts) if self.other else nowhere
        missing = self.width - 1 if self.missing else nowhere
        place = {text: i for i, text in enumerate(self.texts)}
        if self.truth:
            place |= {truth(text): i for i, text in enumerate(self.texts)}
            texts = [truth(text) or text for text in texts]
        for text in set(texts) - place.keys():
            place[text] = missing if is_absent(text) else other
        where = [place[text] for text in texts]
        rows = np.eye(self.width + 1)[np.array(where, dtype=np.int64)]
        return rows[:, : self.width]

    def show(self, numbers: Numbers, unsure: float) -> str:
        """The cell as it was written; rare texts are not told apart."""
        place = int(numbers.argmax())
        if numbers[place] <= unsure or (self.missing and place == self.width - 1):
            return "–"
        return self.texts[place] if place < len(self.texts) else "…"


Column = Number | Category


@dataclass(frozen=True, eq=False)
class Encoder:
    """Columns, and what each of the numbers they make of a row is scaled by.

    >>> age = Number("age", median=4.0, missing=False, decimals=0)
    >>> pet = Category("pet", ("cat", "dog"), other=False, missing=False)
    >>> encoder = Encoder((age, pet), np.array([5.0, 0, 0]), np.array([2.0, 1, 1]))
    >>> rows = encoder.rows([["7", "3"], ["dog", "cat"]])
    >>> rows
    tensor([[ 1.,  0.,  1.],
            [-1.,  1.,  0.]])
    >>> encoder.show(rows[0].numpy())
    ['7', 'dog']
    """

    columns: tuple[Column, ...]
    mean: Numbers  # (numbers of a row,)
    scale: Numbers

    @classmethod
    def fit(cls, columns: Sequence[Column], mean: Numbers, spread: Numbers) -> Encoder:
        """The encoder for columns of which the numbers, in their order, have these statistics.

        Texts and the signs of missing numbers stay 0 or 1 but for the length of the rows: what is
        rare should not be magnified.
        """
        width = sum(column.width for column in columns)
        means, scales, statistics = [], [], iter(zip(mean, spread, strict=True))
        for column in columns:
            first = [next(statistics)] if isinstance(column, Number) else []
            for mean_of, spread_of in [*first, *[(0.0, 1.0)] * (column.width - len(first))]:
                means.append(mean_of)
                scales.append(spread_of)
        return cls(tuple(columns), np.array(means), to_length(np.array(scales), width))

    @classmethod
    def of(cls, preprocessing: dict[str, Any], most: int | None = None) -> Encoder:
        """The encoder that `described` has put into JSON; to show rows, its first columns do."""
        columns = tuple(from_json(column) for column in preprocessing["columns"][:most])
        return cls(columns, np.array(preprocessing["mean"]), np.array(preprocessing["scale"]))

    def described(self) -> dict[str, Any]:
        """The encoder as plain values."""
        columns = [to_json(column) for column in self.columns]
        return {"columns": columns, "mean": self.mean.tolist(), "scale": self.scale.tolist()}

    def rows(self, cells: Iterable[Cells], before: int = 0) -> Tensor:
        """What a network sees of the cells, those of one column after another."""
        filled: Tensor | None = None
        some: list[tuple[slice, Numbers]] = []  # of columns, their places and numbers
        start = 0
        for place, (column, mine) in enumerate(zip(self.columns, cells, strict=True), 1):
            numbers = column.encode(mine, before)
            if filled is None:
                filled = torch.empty(len(numbers), len(self.mean))
            some.append((slice(start, start + column.width), numbers))
            start += column.width
            if len(some) == SIDE_BY_SIDE or place == len(self.columns):
                self._fill(filled.numpy(), some)
                some = []
        return torch.zeros(0, 0) if filled is None else filled

    def rows_into(self, filled: NDArray[np.float32], cells: Sequence[Cells]) -> None:
        """Put the same where there is room for it, such as a mapped file, some rows at a time."""
        for first in range(0, len(filled), MAPPED_AT_ONCE):
            rows = slice(first, first + MAPPED_AT_ONCE)
            filled[rows] = self.rows([sliced(mine, rows) for mine in cells], first).numpy()

    def _fill(self, filled: NDArray[np.float32], some: Sequence[tuple[slice, Numbers]]) -> None:
        """Put the numbers of some columns, scaled, to their places; of some rows at a time.

        Then the rows are still at hand for the next column.
        """
        for first in range(0, len(filled), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            for part, numbers in some:
                with np.errstate(over="ignore"):  # infinity is clipped
                    scaled = numbers[rows] - self.mean[part]
                    scaled /= self.scale[part]
                filled[rows, part] = np.clip(scaled, -FARTHEST, FARTHEST, out=scaled)

    def show(self, row: NDArray[Any]) -> list[str]:
        """The cells of a row as they were written.

        A row has 24 bits: what is far from the mean is less exact, and the last digits are left
        out where they would be noise.
        """
        shown, start = [], 0
        usual = 1 / to_length(np.ones(1), len(self.mean))[0]  # the size of a number in a row
        for column in self.columns:
            part = slice(start, start + column.width)
            mine = row[part].astype(np.float64)
            unsure = 2.0**-23 * max(abs(mine[0]), usual) * self.scale[start]
            restored = mine * self.scale[part] + self.mean[part]
            shown.append(column.show(restored, max(float(unsure), 1e-300)))
            start += column.width
        return shown


def fit_column(name: str, cells: Cells, *, counts_are_data: bool = False) -> Column | str:
    """What the column holds, or why it is left out.

    A column that counts the rows is left out: files have them, and data frames do not need them.

    >>> fit_column("pet", ["cat", "dog", "cat"])
    Category(name='pet', texts=('cat', 'dog'), other=False, missing=False, truth=False)
    >>> fit_column("id", ["a7", "b2", "c9"])
    'every text is different'
    """
    known = typed(cells)
    if known.holds == "objects":
        return "lists, bytes or other objects"
    if known.holds == MANY_TEXTS:
        return f"more than {MOST_DIFFERENT:,} different texts"
    if isinstance(known.values, list):
        return _fit_category(name, known.values)
    numbers = known.values[np.isfinite(known.values)]
    missing = len(numbers) < len(known.values)
    if not len(numbers):
        return "empty"
    if not missing and numbers.min() == numbers.max():
        return "always the same"
    counts = len(numbers) > 2 and numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())
    if counts and not missing and not counts_are_data:
        return "the row's number"
    with np.errstate(over="ignore", invalid="ignore"):
        std = numbers.std()
    if not np.isfinite(std) or (std == 0 and numbers.min() != numbers.max()):
        return "numbers too large or too small to standardize"
    found = fit_number(name, known.values, date=known.holds == "dates")
    form = known.format
    return replace(found, format=form) if isinstance(form, NumberFormat | DateFormat) else found


def fit_number(name: str, numbers: Numbers, *, date: bool = False) -> Number:
    """A column of numbers as it is, whatever they are; infinity counts as missing.

    >>> fit_number("age", np.array([2.5, np.nan, 4.0, 4.0]))
    Number(name='age', median=4.0, missing=True, date=False, decimals=1, format=None)
    """
    known = numbers[np.isfinite(numbers)]
    with np.errstate(over="ignore"):
        median = float(np.median(known)) if len(known) else 0.0
        if not np.isfinite(median):  # the mean of two that are very large
            median = float(known[0])
        places = (p for p in range(MOST_DECIMALS + 1) if _has_decimals(known, p))
        return Number(name, median, len(known) < len(numbers), date, next(places, None))


def _has_decimals(numbers: Numbers, places: int) -> bool:
    few = numbers[:1000]  # mostly they show that there are more
    return bool((few.round(places) == few).all() and (numbers.round(places) == numbers).all())


def _fit_category(name: str, texts: Sequence[str]) -> Category | str:
    counts = Counter(texts)
    for absent in [text for text in counts if is_absent(text)]:
        del counts[absent]
    total = counts.total()
    missing = total < len(texts)
    if are_truths(counts):
        spelled = {truth(text): text for text in sorted(counts, key=counts.__getitem__)}
        return Category(name, tuple(sorted(spelled.values())), False, missing, truth=True)
    if not total:
        return "empty"
    if len(counts) == 1 and not missing:
        return "always the same"
    if len(counts) == total > 1:
        return "every text is different"
    if len(counts) > FEW_TEXTS and 2 * len(counts) > total:
        return "most texts are different"
    kept = sorted(counts, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES]
    return Category(name, tuple(sorted(kept)), other=len(kept) < len(counts), missing=missing)


def to_json(column: Column) -> dict[str, Any]:
    """The column as a dictionary of plain values."""
    if isinstance(column, Number):
        return {"kind": "number"} | asdict(column)
    return {"kind": "category"} | asdict(column) | {"texts": list(column.texts)}


def from_json(described: dict[str, Any]) -> Column:
    """The column that `to_json` described.

    >>> age = Number("age", median=30.0, missing=True)
    >>> from_json(to_json(age)) == age
    True
    """
    settings = {name: value for name, value in described.items() if name != "kind"}
    if described["kind"] == "number":
        written = settings.get("format")
        if written is not None:
            kind = DateFormat if "order" in written else NumberFormat
            settings |= {"format": kind(**written)}
        return Number(**settings)
    return Category(**settings | {"texts": tuple(settings["texts"])})


def column_notes(fitted: dict[str, Column | str]) -> list[str]:
    """Sentences about the columns: left out and why, formats, dates, missing ones, rare texts."""
    kept = [column for column in fitted.values() if not isinstance(column, str)]
    numbers = [column for column in kept if isinstance(column, Number)]
    formats = dict.fromkeys(c.format for c in numbers if c.format is not None and c.format.said)
    reasons = sorted({reason for reason in fitted.values() if isinstance(reason, str)})
    said = (
        {
            f"Left out ({reason})": [name for name, found in fitted.items() if found == reason]
            for reason in reasons
        }
        | {
            f"{'Dates' if isinstance(form, DateFormat) else 'Numbers'} with {form.said}": [
                c.name for c in numbers if c.format == form
            ]
            for form in formats
        }
        | {
            "Yes or no, in whatever words": [
                c.name for c in kept if isinstance(c, Category) and c.truth
            ],
            "Dates, read as days since 1970": [c.name for c in numbers if c.date],
            "Missing numbers become the column's median, with a sign that says so": [
                c.name for c in numbers if c.missing
            ],
            "Missing texts are a category of their own": [
                c.name for c in kept if isinstance(c, Category) and c.missing
            ],
            f"Texts beyond the {MOST_CATEGORIES} commonest share a category": [
                c.name for c in kept if isinstance(c, Category) and c.other
            ],
        }
    )
    return [f"{sentence}: {join_few(names)}." for sentence, names in said.items() if names]


def row_scale(x: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """For each column what to subtract, and what to divide by.

    Columns are standardized by `spreads`. Then rows are brought to a common length, however many
    columns there are: a network learns the faster the longer its inputs, and must not outrun its
    labels.

    >>> mean, scale = row_scale(np.array([[0.0, 10.0], [2.0, 50.0]]))
    >>> mean, ((np.array([[2.0, 50.0]]) - mean) / scale).round(2)
    (array([ 1., 30.]), array([[2.12, 2.12]]))
    """
    mean, spread = spreads(x)
    return mean, to_length(spread, x.shape[1])


def to_length(spread: Numbers, width: int) -> Numbers:
    """What to divide by, so that a row of `width` numbers with these spreads has the length.

    >>> to_length(np.array([1.0, 6.0]), 9)
    array([1., 6.])
    """
    with np.errstate(over="ignore"):
        scale = spread * math.sqrt(width) / ROW_LENGTH
    return np.minimum(scale, np.finfo(np.float64).max)


def unit_columns(x: Tensor) -> Numbers:
    """Rows as a network sees them, with their columns at unit variance again, for other methods.

    >>> unit_columns(torch.tensor([[-1.5, 1.5], [1.5, -1.5]])).round(2)
    array([[-0.71,  0.71],
           [ 0.71, -0.71]])
    """
    numbers: Numbers = x.double().numpy()
    return numbers * to_length(np.ones(1), x.shape[1])
