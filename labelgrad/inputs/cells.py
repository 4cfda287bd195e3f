"""Cells of a text file: rows with their line numbers, and the numbers and dates they hold."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

MISSING = {
    *("", "?", "-", "--", "–", "—", ".", "na", "n/a", "n.a.", "<na>", "nan", "nat", "null", "none"),
    *("\\n", "#n/a", "#value!", "#div/0!", "#ref!", "#num!", "#name?", "#null!"),
}
LONGEST_CELL = 2**30  # characters: a cell may hold a long text
CARRIAGE_RETURN = "it has a carriage return in it, outside of quotes"
SEPARATORS = ",;\t|"
MARKS = {  # what a file in another encoding than UTF-8 begins with; the longer ones first
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
MANY_TEXTS, MOST_DIFFERENT = "many texts", 2_000_000  # of a column that is not held in memory
GLANCE = 1000  # cells that tell whether many are alike
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file with the lines they begin on; all are as long as the first.

    The separator is whichever of comma, semicolon, tab and bar the first line has most of. Blank
    lines are no rows, and spaces around a cell are no part of it.
    """
    csv.field_size_limit(LONGEST_CELL)
    with path.open("rb") as file:
        lines = _lines(_utf_8(file, path.name), path.name)
        first = next(lines, "")
        reader = csv.reader(chain([first], lines), delimiter=_separator(first), strict=True)
        yield from _checked(reader, path.name)


def csv_separator(path: Path) -> str:
    r"""What stands between the cells of a CSV file.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "prices.csv")
    >>> _ = file.write_text("item;price\n1;2,50\n")
    >>> csv_separator(file)
    ';'
    """
    with path.open("rb") as file:
        return _separator(next(_lines(_utf_8(file, path.name), path.name), ""))


def _separator(first: str) -> str:
    return max(SEPARATORS, key=first.count)


def _utf_8(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines of the file; other encodings and ends of lines, by their signs, are converted."""
    begins = file.read(2**16)
    file.seek(0)
    encoding = next((MARKS[mark] for mark in MARKS if begins.startswith(mark)), None)
    if encoding is None:
        old_mac = b"\r" in begins and b"\n" not in begins
        return io.BytesIO(file.read().replace(b"\r", b"\n")) if old_mac else file
    try:
        return io.BytesIO(file.read().decode(encoding).encode())
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} must be {encoding} text, as it says, and byte {error.start + 1} is not; save "
            f"it as UTF-8."
        ) from None


def _lines(file: Iterator[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        if b"\0" in line:
            raise ValueError(
                f"{name} must be a text file, and line {number} has a zero byte in it."
            )
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise ValueError(
                f"{name} must be UTF-8 text, and line {number} is not; save it as UTF-8."
            ) from None


def _checked(reader: Iterator[list[str]], name: str) -> Iterator[tuple[int, list[str]]]:
    width, line = 0, 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            said = CARRIAGE_RETURN if "new-line" in str(error) else str(error)
            raise ValueError(
                f"{name} is broken in the row that begins on line {line}: {said}."
            ) from None
        if row is None:
            return
        width = width or len(row)
        if row and len(row) != width:
            raise ValueError(
                f"{name} is broken on line {line}: it must have {width} cells like the first row, "
                f"got {len(row)}."
            )
        if row:
            yield line, [cell.strip() for cell in row]
        line = reader.line_num + 1  # type: ignore[attr-defined]


def is_absent(cell: str) -> bool:
    """Whether the cell says that there is nothing in it.

    >>> is_absent("n.a."), is_absent("0")
    (True, False)
    """
    return cell.casefold() in MISSING


def storable(text: str) -> str:
    r"""The text with halves of characters spelled out: no file in UTF-8 can hold them.

    >>> storable("caf\u00e9"), storable("\ud800!")
    ('café', '\\ud800!')
    """
    return text.encode("utf-8", "backslashreplace").decode()


def number(cell: str) -> float:
    """The number in a cell, NaN where it is missing, ValueError where it is something else.

    >>> number("2.5"), number("n/a")
    (2.5, nan)
    """
    try:
        value = float(cell)
    except ValueError:
        if is_absent(cell):
            return math.nan
        raise
    if "_" in cell:  # a number to Python, to nobody else
        raise ValueError(cell)
    return value


def days(cell: str) -> float:
    """The days from 1970 to an ISO date or time, NaN where it is missing.

    >>> days("1970-01-02"), days("1970-01-01 12:00")
    (1.0, 0.5)
    """
    if is_absent(cell):
        return math.nan
    moment = datetime.fromisoformat(cell)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) / timedelta(days=1)


def values(cells: Sequence[str], parse: Callable[[str], float]) -> NDArray[np.float64] | None:
    """All cells parsed, or None if one of them cannot be.

    >>> values(["1", "", "3"], number), values(["1", "two"], number)
    (array([ 1., nan,  3.]), None)
    """
    try:
        if 2 * len(set(cells[:GLANCE])) > len(cells[:GLANCE]):
            return np.array([parse(cell) for cell in cells], dtype=np.float64)
        known = {cell: parse(cell) for cell in dict.fromkeys(cells)}  # few come up again and again
        return np.fromiter(map(known.__getitem__, cells), np.float64, len(cells))
    except ValueError:
        return None


class Format(Protocol):
    """How all cells of a column are written."""

    def parse(self, cell: str) -> float:
        """The cell's number or date, NaN where it is missing, ValueError where it is neither."""

    @property
    def said(self) -> str:
        """What is not as in a program's own files."""


@dataclass(frozen=True, eq=False)
class Typed:
    """The cells of a column whose type is known.

    They hold "numbers", "dates" (days since 1970; both NaN where missing), "texts" (empty where
    missing), "objects" such as lists, which are nothing to learn from, or "many texts", which are
    more different ones than are held in memory, and stand there empty. `format` is how they were
    written, if not as a program would.
    """

    holds: str
    values: NDArray[np.float64] | list[str]
    format: Format | None = None


@dataclass(frozen=True, eq=False)
class PlainNumbers:
    """The cells of a column of a file that are all plain numbers, or missing.

    Whoever needs the texts has them read again.
    """

    values: NDArray[np.float64]
    read: Callable[[], list[str]]


# Of one column; plain texts may hold anything, as in a CSV file.
Cells = list[str] | PlainNumbers | Typed


def sliced(cells: Cells, rows: slice) -> Cells:
    """Some of the cells of a column.

    >>> sliced(["1", "2", "3"], slice(1, 3))
    ['2', '3']
    """
    if isinstance(cells, PlainNumbers):
        return PlainNumbers(cells.values[rows], lambda: cells.read()[rows])
    return cells[rows] if isinstance(cells, list) else replace(cells, values=cells.values[rows])


def typed(cells: Cells) -> Typed:
    """Look into texts of an unknown type: plain numbers, or else ISO dates, or else texts.

    >>> typed(["1", "NA", "3"]), typed(["1", "NA", "three"]).holds
    (Typed(holds='numbers', values=array([ 1., nan,  3.]), format=None), 'texts')
    """
    if isinstance(cells, Typed):
        return cells
    if isinstance(cells, PlainNumbers):
        return Typed("numbers", cells.values)
    parsed = values(cells, number)
    if parsed is not None:
        return Typed("numbers", parsed)
    different = list(dict.fromkeys(cells))  # days come up again and again
    parsed = values(different, days)
    if parsed is not None:
        known = dict(zip(different, parsed.tolist(), strict=True))
        return Typed("dates", np.array([known[cell] for cell in cells]))
    return Typed("texts", cells)


def as_texts(cells: Cells) -> list[str]:
    """The cells as a CSV file would have them.

    >>> as_texts(Typed("numbers", np.array([1.0, np.nan, 2.5])))
    ['1', '', '2.5']
    """
    if isinstance(cells, PlainNumbers):
        return cells.read()
    if not isinstance(cells, Typed):
        return cells
    if isinstance(cells.values, list):
        return cells.values
    write = date_text if cells.holds == "dates" else number_text
    return ["" if math.isnan(value) else write(value) for value in cells.values.tolist()]


def number_text(value: float) -> str:
    """A number as people write it.

    >>> number_text(3.0), number_text(-0.25), number_text(1e300)
    ('3', '-0.25', '1e+300')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def date_text(value: float) -> str:
    """Days since 1970 as a date, with the time of day if there is one.

    >>> date_text(1.0), date_text(1.5)
    ('1970-01-02', '1970-01-02 12:00')
    """
    if value.is_integer():
        return str(np.datetime64(int(value), "D"))
    return str(np.datetime64(round(value * 24 * 60), "m")).replace("T", " ")
