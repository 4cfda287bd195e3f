"""Columns of a table: what each one holds, and the features it becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from labelgrad.auto.data import formats as written
from labelgrad.auto.data.formats import TRUTH, DateFormat, Format, NumberFormat, clean, parse_cells
from labelgrad.auto.task import Array

MAX_CATEGORIES = 50
FEW_TEXTS = 20
ROUNDING = 1e-6  # of a range, in 32 bits
LIMIT = 1e6  # of a standardized number, far beyond those of the data that were fitted
WORDS_OF_TEXT = 3  # on average; names and codes have fewer
LETTERS_OF_TEXT = 12  # where words are not separated by spaces
ID_NAME = "(?i:^|[^a-z])(?i:id|key|index|idx|no|nr|number|uuid|guid)$|[a-z]I[dD]$"
# Why a column is no feature, if it may be an id.
ROW_NUMBER, ALL_DIFFER = "the number of the row", "all texts differ"
ID = "an id by its name, and all numbers differ"
HEAD = 500  # cells that mostly show what a column does not hold
NUMBERS, DATES, TEXTS, OBJECTS = "numbers", "dates", "texts", "objects"
# A decimal point that might as well separate thousands.
LIKE_THOUSANDS = r"^\s*[+-]?[1-9][0-9]{0,2}\.[0-9]{3}\s*$"


def join_few(names: Iterable[object], most: int = 5) -> str:
    """The first few names, and how many more there are.

    >>> join_few(["a", "b"]), join_few(range(9), most=2)
    ("'a', 'b'", '0, 1 and 7 more')
    """
    listed = list(names)
    reprs = [repr(name) for name in listed[:most]]
    shown = ", ".join(text if len(text) <= 200 else f"{text[:200]}…" for text in reprs)
    return shown if len(listed) <= most else f"{shown} and {len(listed) - most} more"


def as_text(cells: pl.Series) -> pl.Series:
    """A column of any type as strings, whole numbers without a decimal point.

    >>> as_text(pl.Series([1.0, 2.5, None])).to_list(), as_text(pl.Series([True])).to_list()
    (['1', '2.5', None], ['True'])
    """
    if cells.dtype == pl.String:
        return cells
    if cells.dtype == pl.Boolean:
        return cells.cast(pl.String).str.to_titlecase()
    if cells.dtype.is_float():
        cells = cells.fill_nan(None)
        is_whole = (cells == cells.round()) & (cells.abs() < 2**53)
        whole = cells.cast(pl.Int64, strict=False).cast(pl.String)
        return whole.zip_with(is_whole.fill_null(False), cells.cast(pl.String))
    return cells.cast(pl.String)


def holds_of(dtype: pl.DataType) -> str:
    """What a column of this type holds."""
    if dtype.is_numeric() or dtype == pl.Null:
        return NUMBERS
    if dtype in (pl.Date, pl.Datetime):
        return DATES
    return TEXTS if dtype in (pl.String, pl.Boolean, pl.Categorical, pl.Enum) else OBJECTS


def floats(cells: pl.Series) -> Array:
    """Numbers or dates as float64, NaN where missing; dates in days since 1970."""
    if holds_of(cells.dtype) == DATES:
        cells = cells.dt.epoch("us") / 86400e6
    return cells.cast(pl.Float64).to_numpy()


@dataclass(frozen=True)
class Number:
    """A standardized number; the median where missing, and then an indicator beside it.

    >>> age = Number("age", median=30.0, missing=True, mean=30.0, scale=10.0)
    >>> age.encode(age.parse(pl.Series(["50", "NA"])))
    array([[2., 0.],
           [0., 1.]], dtype=float32)
    """

    kind: str = field(default="number", init=False, repr=False)
    name: str
    median: float = 0.0
    missing: bool = False
    mean: float = 0.0
    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    format: Format | None = None  # of strings; None is how programs write numbers

    @property
    def width(self) -> int:
        """How many columns of X are this column's."""
        return 1 + self.missing

    def parse(self, cells: pl.Series, first_row: int = 1) -> Array:
        """Numbers (n,), NaN where missing; a cell of another format raises a ValueError."""
        what = DATES if isinstance(self.format, DateFormat) else NUMBERS
        if holds_of(cells.dtype) == what:
            return floats(cells)
        numbers, texts = parse_cells(as_text(cells), self.format)
        wrong = numbers.is_null() & texts.is_not_null()
        if wrong.any():
            row = int(wrong.arg_true()[0])
            description = self.format.description if self.format else ""
            form = f"{what} with {description}" if description else what
            raise ValueError(
                f"The column {self.name!r} must hold {form}, as in the training data, and row "
                f"{first_row + row} holds {texts[row]!r}."
            )
        return floats(numbers)

    def encode(self, values: Array) -> Array:
        """Features (n, width) of parsed cells; infinity counts as missing."""
        known = np.isfinite(values)
        with np.errstate(over="ignore"):  # infinity is clipped
            scaled = (np.where(known, values, self.median) - self.mean) / self.scale
        clipped = np.clip(scaled, -LIMIT, LIMIT)
        columns = [clipped, ~known] if self.missing else [clipped]
        return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class Category:
    """A one-hot encoding; rare texts share a column, and missing ones have a column.

    A text that was not there in training counts as rare. Where the texts are words for yes and no,
    any such word will do.

    >>> pet = Category("pet", ("cat", "dog"), other=False, missing=True)
    >>> pet.encode(pet.parse(pl.Series(["dog", "?", "eel"])))
    array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    >>> paid = Category("paid", ("no", "yes"), other=False, missing=False, boolean=True)
    >>> paid.encode(paid.parse(pl.Series(["Yes", "FALSE"])))
    array([[0., 1.],
           [1., 0.]], dtype=float32)
    """

    kind: str = field(default="category", init=False, repr=False)
    name: str
    texts: tuple[str, ...]
    other: bool
    missing: bool
    boolean: bool = False

    @property
    def width(self) -> int:
        """How many columns of X are this column's."""
        return len(self.texts) + self.other + self.missing

    def parse(self, cells: pl.Series, first_row: int = 1) -> Array:
        """The column (n,) that is 1 for each cell; `width` where none is."""
        del first_row
        texts = as_text(cells)
        different = texts.unique()
        codes = {self._meaning(text): code for code, text in enumerate(self.texts)}
        codes[None] = self.width - self.missing
        rare = len(self.texts) if self.other else self.width
        found = [codes.get(self._meaning(text), rare) for text in clean(different)]
        return texts.replace_strict(different, found, return_dtype=pl.Int32).to_numpy()

    def encode(self, values: Array) -> Array:
        """Features (n, width) of parsed cells."""
        return np.eye(self.width + 1, self.width, dtype=np.float32)[values]

    def _meaning(self, text: str | None) -> str | bool | None:
        return TRUTH.get(text.lower(), text) if self.boolean and text else text


@dataclass(frozen=True)
class Encoded:
    """Texts, as an encoder's features."""

    kind: str = field(default="encoded", init=False, repr=False)
    name: str
    state: dict[str, Any] = field(repr=False)  # what the encoder needs to encode alike

    @property
    def width(self) -> int:
        """How many columns of X are this column's."""
        return sum(len(each["mean"]) for each in (self.state, self.state.get("plain")) if each)

    def encode(self, values: Array) -> Array:
        """The features (n, width) that the encoder gave."""
        return values


Column = Number | Category | Encoded


def columns_from_dicts(saved: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Columns out of their kinds and their fields, as JSON holds them.

    >>> age = Number("age", median=30.0, missing=True, format=NumberFormat(","))
    >>> columns_from_dicts([{"kind": "number", **vars(age), "format": {"decimal": ","}}]) == (age,)
    True
    """
    columns: list[Column] = []
    for values in map(dict, saved):
        kind = {"encoded": Encoded, "category": Category, "number": Number}[values.pop("kind")]
        if "texts" in values:
            values["texts"] = tuple(values["texts"])
        if form := values.get("format"):
            values["format"] = DateFormat(**form) if "order" in form else NumberFormat(**form)
        columns.append(kind(**values))
    return tuple(columns)


CellsOf = Callable[[str], pl.Series]


@dataclass
class Guess:
    """What a column seems to hold, and the formats in which all of its cells can be read."""

    name: str
    holds: str
    formats: Sequence[Format | None] = (None,)  # None is how programs write numbers
    is_string: bool = False
    numbers: pl.Series | None = None  # in strings that programs wrote
    counts_up: bool = False  # whole numbers, each larger than the one before


def guess(
    name: str, dtype: pl.DataType, cells_of: CellsOf, *, dates: bool = True, keep: bool = False
) -> Guess:
    """Look at a column: plain numbers, or numbers or dates in formats, or texts.

    >>> ages = pl.DataFrame({"age": ["1", "NA", "3"], "pet": ["cat", "dog", ""]})
    >>> [guess(name, ages[name].dtype, ages.get_column).holds for name in ages.columns]
    ['numbers', 'texts']
    """
    if dtype != pl.String:
        holds = holds_of(dtype)
        return Guess(name, holds, [DateFormat() if holds == DATES else None])
    numbers, texts = parse_cells(cells_of(name), None)
    if numbers.null_count() == texts.null_count():
        return Guess(name, NUMBERS, is_string=True, numbers=numbers if keep else None)
    different = texts.drop_nulls().unique(maintain_order=True)
    head = different.head(HEAD)
    if written.number_formats(head) and (found := written.number_formats(different)):
        return Guess(name, NUMBERS, found, is_string=True)
    if dates and written.date_formats(head) and (orders := written.date_formats(different)):
        return Guess(name, DATES, orders, is_string=True)
    return Guess(name, TEXTS, is_string=True)


def settle_numbers(guesses: Mapping[str, Guess], cells_of: CellsOf, separator: str) -> list[str]:
    """Leave each column of numbers one format, by what the others show; returns notes."""
    strings = [each for each in guesses.values() if each.holds == NUMBERS and each.is_string]
    shown: dict[str, list[str]] = {"unsure": [], ",": [], ".": [], "like thousands": []}
    for each in strings:
        shown.setdefault(_decimal_sign(each, cells_of), []).append(each.name)
    unsure, commas, points, dots = list(shown.values())[:4]
    comma = not points and (bool(commas) or separator == ";")
    for name in unsure:  # with a point, or with a comma
        guesses[name].formats = [guesses[name].formats[comma]]
    dots = dots if comma and commas else []
    for name in dots:
        guesses[name].formats = [NumberFormat(",", ".")]
    why = "as is usual with semicolons" if comma else "and nothing in the file says otherwise"
    if shows := points or commas:
        why = f"as {join_few(shows, most=2)} has a decimal {'point' if points else 'comma'}"
    signs, thousands = "decimal signs", "marks between thousands"
    read = {"commas": (unsure, signs if comma else thousands), "dots": (dots, thousands)}
    return [
        f"The {marks} of {join_few(names)} are read as {meaning}, {why}; write the numbers without "
        f"them if that is wrong."
        for marks, (names, meaning) in read.items()
        if names
    ]


def _decimal_sign(each: Guess, cells_of: CellsOf) -> str:
    """What a column of numbers in strings shows of the decimal sign in its file."""
    if len(each.formats) > 1:
        return "unsure"
    form = each.formats[0]
    if isinstance(form, NumberFormat) and "," in (form.decimal, form.thousands):
        return form.decimal
    cells = clean(cells_of(each.name))
    pointed = cells.filter(cells.str.contains(".", literal=True))
    if not len(pointed):
        return ""
    is_plain = form is None and pointed.str.contains(LIKE_THOUSANDS).all()
    return "like thousands" if is_plain else "."


def settle_dates(guesses: Mapping[str, Guess], cells_of: CellsOf, given: str | None) -> list[str]:
    """Leave each column of dates one format, by what the others show; returns notes."""
    orders = {
        each.name: [form.order for form in each.formats if isinstance(form, DateFormat)]
        for each in guesses.values()
    }
    unsure = [name for name, some in orders.items() if len(some) > 1]
    if not unsure:
        return []
    shown = {some[0] for some in orders.values() if len(some) == 1}
    shown &= {written.DAY_FIRST, written.MONTH_FIRST}
    order = given or (shown.pop() if len(shown) == 1 else None)
    if order is None:
        example = clean(cells_of(unsure[0])).drop_nulls()[0]
        raise ValueError(
            f"The dates of {join_few(unsure)}, such as {example!r}, can be read with the day first "
            f"or with the month first; say which with `dates` (--dates {written.DAY_FIRST} or "
            f"{written.MONTH_FIRST}), or write them as 1998-08-07."
        )
    for name in unsure:
        guesses[name].formats = [guesses[name].formats[orders[name].index(order)]]
    return [] if given else [f"Dates of {join_few(unsure)} are read {order}, like the other dates."]


def fit_column(found: Guess, cells: pl.Series, *, is_file: bool = True) -> Column | str:
    """A fitted column, or the reason why it is left out; files often have a row number.

    >>> fit_column(Guess("pet", TEXTS), pl.Series(["cat", "dog", "cat"]))
    Category(name='pet', texts=('cat', 'dog'), other=False, missing=False, boolean=False)
    >>> fit_column(Guess("id", TEXTS), pl.Series(["a7", "b2", "c9"]))
    'all texts differ'
    """
    if found.holds == OBJECTS:
        return "lists, bytes or other objects"
    if found.holds == TEXTS:
        return _fit_category(found.name, text_counts(cells))
    values = Number(found.name, format=found.formats[0]).parse(cells)
    number = fit_number(found.name, values, found.formats[0])
    if not np.isfinite(values).any():
        return "empty"
    if number.low == number.high and not number.missing:
        return "constant"
    if is_file and len(values) > 2 and values[0] in (0, 1) and (np.diff(values) == 1).all():
        return ROW_NUMBER
    parts = values[:HEAD], values  # the first ones mostly show that not all are whole numbers
    is_whole = all((part == np.floor(part)).all() for part in parts)
    if found.holds == NUMBERS and len(values) >= FEW_TEXTS and is_whole:
        found.counts_up = bool((np.diff(values) > 0).all())
        if re.search(ID_NAME, found.name) and len(np.unique(values)) == len(values):
            return ID
    return number


def fit_number(name: str, values: Array, form: Format | None = None) -> Number:
    """Standardize numbers by all that are finite; the others count as missing.

    >>> age = fit_number("age", np.array([2.0, np.nan, 4.0, 6.0]))
    >>> age.median, age.missing, age.mean, age.scale
    (4.0, True, 4.0, 1.632993161855452)
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return Number(name, missing=True, format=form)
    low, high = float(known.min()), float(known.max())
    unit = 1.0
    if not 1e-100 < max(-low, high) < 1e100:  # squares are beyond 64 bits
        unit = max(-low, high) or 1.0
        known = known / unit
    x = pl.col("x")
    found = pl.DataFrame({"x": known}).select(a=x.mean(), b=x.std(ddof=0), c=x.median())
    mean, scale, median = (unit * value for value in found.row(0))
    if low == high:
        mean, scale = low, 1.0
    return Number(name, median, len(known) < len(values), mean, scale, low, high, form)


def share_scale(columns: Mapping[str, Column]) -> dict[str, Column]:
    """One scale for numbers of one kind, such as pixels: those with ranges of one width.

    Where half of the columns have the widest range, a pixel that is seldom lit is not magnified;
    nor is it after the mean of each column was subtracted.
    """
    numbers = [c for c in columns.values() if isinstance(c, Number)]
    numbers = [c for c in numbers if not isinstance(c.format, DateFormat)]
    if not numbers:
        return dict(columns)
    ranges = np.array([c.high - c.low for c in numbers])
    alike = int((ranges > (1 - ROUNDING) * ranges.max()).sum())
    scales = np.array([c.scale if c.low < c.high else 0.0 for c in numbers])
    with np.errstate(over="ignore"):
        shared = float(np.sqrt(np.square(scales).mean()))
    if alike < max(2, len(numbers) / 2) or not 0 < shared < np.inf:
        return dict(columns)
    return {**columns, **{c.name: replace(c, scale=shared) for c in numbers}}


def text_counts(cells: pl.Series) -> pl.DataFrame:
    """How often each clean text occurs, and null for the missing ones; in no order."""
    counts = as_text(cells).alias("text").value_counts(name="count")
    counts = counts.with_columns(clean(counts["text"]))
    return counts.group_by("text").agg(pl.col("count").sum())


def _fit_category(name: str, counts: pl.DataFrame) -> Category | str:
    known = counts.drop_nulls().sort("count", "text", descending=[True, False])
    missing = len(known) < len(counts)
    total, different = int(known["count"].sum()), len(known)
    if not total:
        return "empty"
    commonest = known["text"].head(MAX_CATEGORIES).to_list()
    spelled = {TRUTH.get(text.lower()): text for text in reversed(commonest)}
    if different <= MAX_CATEGORIES and spelled.keys() == {True, False}:
        return Category(name, tuple(sorted(spelled.values())), False, missing, boolean=True)
    if different == 1 and not missing:
        return "constant"
    if different == total > 1:
        return ALL_DIFFER
    if different > FEW_TEXTS and 2 * different > total:
        return "most texts differ"
    return Category(name, tuple(sorted(commonest)), different > MAX_CATEGORIES, missing)


def is_prose(counts: pl.DataFrame) -> bool:
    """Whether texts are there to be read, and are not names, codes or categories.

    >>> is_prose(text_counts(pl.Series(["the soup was cold", "we came back", "no complaints"])))
    True
    >>> is_prose(text_counts(pl.Series(["very good", "very bad"] * 20)))
    False
    """
    known = counts.drop_nulls()
    total, texts = known["count"].sum(), known["text"]
    repeated = len(texts) <= FEW_TEXTS or (2 * len(texts) <= total and len(texts) <= MAX_CATEGORIES)
    if total < 2 or (len(texts) < total and repeated):
        return False
    words = texts.str.count_matches(r"\S+").sum() / len(texts)
    letters = texts.str.len_chars().sum() / len(texts)
    unspaced = texts.str.head(100).str.count_matches("[\u0e00-\U0010ffff]").sum() / len(texts)
    is_unspaced = letters >= LETTERS_OF_TEXT and unspaced >= LETTERS_OF_TEXT / 2
    return bool(words >= WORDS_OF_TEXT or is_unspaced)


def id_notes(
    guesses: Mapping[str, Guess], fitted: Mapping[str, Column | str], given: str | None
) -> list[str]:
    """Sentences about columns that look like ids, whatever rows of a table are left."""
    ids = [name for name, why in fitted.items() if why in (ROW_NUMBER, ALL_DIFFER, ID)]
    counting = [each.name for each in guesses.values() if each.counts_up and each.name not in ids]
    notes = []
    if ids and given is None:
        notes.append(f"To name rows by {ids[0]!r} and not by their number, use --id {ids[0]}.")
    if counting:
        notes.append(
            f"A feature, although it counts up from row to row as an id does: "
            f"{join_few(counting)}; if it is an id, use --id or --ignore."
        )
    return notes


def column_notes(fitted: Mapping[str, Column | str]) -> list[str]:
    """Sentences about the columns: which are left out and why, and how the others are read."""
    numbers = [column for column in fitted.values() if isinstance(column, Number)]
    categories = [column for column in fitted.values() if isinstance(column, Category)]
    groups: dict[str, list[str]] = {}
    for reason in sorted({column for column in fitted.values() if isinstance(column, str)}):
        groups[f"Left out ({reason})"] = [name for name, why in fitted.items() if why == reason]
    dates = [column for column in numbers if isinstance(column.format, DateFormat)]
    for column in numbers:
        if column.format is not None and column.format.description:
            what = "Dates" if column in dates else "Numbers"
            groups.setdefault(f"{what} with {column.format.description}", []).append(column.name)
    groups |= {
        "Booleans": [c.name for c in categories if c.boolean],
        "Dates, in days since 1970": [c.name for c in dates],
        "Missing numbers are replaced by the median, with an indicator": [
            c.name for c in numbers if c.missing
        ],
        "Missing texts are a category": [c.name for c in categories if c.missing],
        f"Texts other than the {MAX_CATEGORIES} most frequent share a category": [
            c.name for c in categories if c.other
        ],
    }
    return [f"{sentence}: {join_few(names)}." for sentence, names in groups.items() if names]
