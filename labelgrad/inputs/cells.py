"""Cells of a text file: rows with their line numbers, and the numbers and dates they hold."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MISSING = {"", "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"}
SEPARATORS = ",;\t|"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file with the lines they begin on; all are as long as the first.

    The separator is whichever of comma, semicolon, tab and bar the first line has most of. Blank
    lines are no rows, and spaces around a cell are no part of it.
    """
    with path.open("rb") as file:
        lines = _lines(file, path.name)
        first = next(lines, "")
        separator = max(SEPARATORS, key=first.count)
        reader = csv.reader(_chain(first, lines), delimiter=separator, strict=True)
        yield from _checked(reader, path.name)


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


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
    yield from rest


def _checked(reader: Iterator[list[str]], name: str) -> Iterator[tuple[int, list[str]]]:
    width, line = 0, 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise ValueError(
                f"{name} is broken in the row that begins on line {line}: {error}."
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


def number(cell: str) -> float:
    """The number in a cell, NaN where it is missing, ValueError where it is something else.

    >>> number("2.5"), number("n/a")
    (2.5, nan)
    """
    try:
        value = float(cell)
    except ValueError:
        if cell.casefold() in MISSING:
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
    if cell.casefold() in MISSING:
        return math.nan
    moment = datetime.fromisoformat(cell)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) / timedelta(days=1)


def values(cells: Sequence[str], parse: Callable[[str], float]) -> NDArray[np.float64] | None:
    """All cells parsed, or None if one of them cannot be.

    >>> values(["1", "", "3"], number), values(["1", "two"], number)
    (array([ 1., nan,  3.]), None)
    """
    try:
        return np.array([parse(cell) for cell in cells], dtype=np.float64)
    except ValueError:
        return None
