"""How the columns of a table are written: all cells of a column vote, and columns help each other.

A cell such as 1,000 or 07.08.1998 can be read in two ways. Other cells of its column settle that,
or other columns of the file, or a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from labelgrad.inputs.base import join_few
from labelgrad.inputs.cells import Cells, Format, Typed, as_texts, typed, values
from labelgrad.inputs.date_formats import ORDERS, DateFormat, date_formats, epoch_format
from labelgrad.inputs.number_formats import NumberFormat, number_formats

# A decimal point that could as well stand between thousands.
LIKE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")


@dataclass(frozen=True, eq=False)
class TypedTable:
    """The columns with their types, and what to say of those that something else decided."""

    columns: dict[str, Typed]
    notes: list[str] = field(default_factory=list)


def typed_table(
    cells: Mapping[str, Cells],
    *,
    separator: str = ",",
    dates: str | None = None,
    no_dates: Iterable[str] = (),
) -> TypedTable:
    """Find the type and the format of every column.

    `separator` is what the file has between cells, and `dates` the order of day and month where
    nothing else tells it. Columns in `no_dates`, such as the target, are not looked at for dates.

    >>> found = typed_table({"price": ["1,5", "2"], "seen": ["7 Aug 1998", "9 Aug 1998"]})
    >>> found.columns["price"].values, found.columns["seen"].values
    (array([1.5, 2. ]), array([10445., 10447.]))
    """
    if dates is not None and dates not in ORDERS:
        raise ValueError(f"`dates` must be {' or '.join(ORDERS)}, got {dates!r}.")
    columns = {name: typed(column) for name, column in cells.items()}
    texts = {n: list(dict.fromkeys(c)) for n, c in cells.items() if isinstance(c, list)}
    unknown = {n: t for n, t in texts.items() if columns[n].holds == "texts"}
    written = {name: found for name, t in unknown.items() if (found := number_formats(t))}
    notes = _settle_numbers(columns, cells, texts, written, separator)
    possible = {
        name: orders
        for name, t in unknown.items()
        if name not in written and name not in no_dates and (orders := date_formats(t))
    }
    notes += _settle_dates(columns, cells, unknown, possible, dates)
    for name, column in columns.items():
        untyped = not isinstance(cells[name], Typed) and name not in no_dates
        if untyped and column.holds == "numbers" and column.format is None:
            columns[name] = _epoch(name, column)
    return TypedTable(columns, notes)


def _settle_numbers(
    columns: dict[str, Typed],
    cells: Mapping[str, Cells],
    texts: Mapping[str, list[str]],
    written: Mapping[str, list[NumberFormat]],
    separator: str,
) -> list[str]:
    """Read the numbers in `written`, one format each; where there are two the file decides."""
    unsure, commas, points = [], [], []
    for name, found in written.items():
        if len(found) > 1:
            unsure.append(name)
        elif found[0].decimal == ",":
            commas.append(name)
        elif found[0].thousands == "," or any("." in text for text in texts[name]):
            points.append(name)
    doubtful: list[str] = []
    if unsure or commas:  # else nobody has to look at plain numbers
        untyped = [n for n in cells if not isinstance(cells[n], Typed)]
        for name in [n for n in untyped if columns[n].holds == "numbers"]:
            different = texts.get(name) or dict.fromkeys(as_texts(cells[name]))
            with_point = [text for text in different if "." in text and text != "."]
            if any(not LIKE_THOUSANDS.fullmatch(text) for text in with_point):
                points.append(name)
            elif with_point:
                doubtful.append(name)
    comma = not points and (bool(commas) or (bool(unsure) and separator == ";"))
    for name, found in written.items():
        chosen = found[0]
        if len(found) > 1:
            chosen = next(f for f in found if (f.decimal == ",") == comma)
        columns[name] = _read(cells[name], "numbers", chosen)
    if comma and commas:  # numbers such as 1.234, in a file of decimal commas
        for name in doubtful:
            columns[name] = _read(cells[name], "numbers", NumberFormat(",", "."))
    else:
        doubtful = []
    why = (
        f"as {join_few(points, most=2)} has a decimal point"
        if points
        else f"as {join_few(commas, most=2)} has a decimal comma"
        if commas
        else "as is usual in a file with semicolons"
        if comma
        else "and nothing in the file says otherwise"
    )
    mark = "decimals" if comma else "thousands"
    notes = []
    if unsure:
        notes.append(
            f"The commas of {join_few(unsure)} may be of thousands or of decimals, and are read as "
            f"{mark}, {why}; write the numbers without them if that is wrong."
        )
    if doubtful:
        notes.append(
            f"The dots of {join_few(doubtful)} are read as thousands, {why}; write the numbers "
            f"without them if that is wrong."
        )
    return notes


def _settle_dates(
    columns: dict[str, Typed],
    cells: Mapping[str, Cells],
    texts: Mapping[str, list[str]],
    possible: Mapping[str, list[DateFormat]],
    asked: str | None,
) -> list[str]:
    """Read the dates in `possible`; an order that neither cells nor file tell is asked for."""
    unsure = [name for name, found in possible.items() if len(found) > 1]
    told = {found[0].order for found in possible.values() if len(found) == 1} & set(ORDERS)
    order = asked or (told.pop() if len(told) == 1 else None)
    if unsure and order is None:
        example = next(text for text in texts[unsure[0]] if any(sign.isdigit() for sign in text))
        raise ValueError(
            f"The dates of {join_few(unsure)}, such as {example!r}, can be read with the day first "
            f"or with the month first; say which with `dates` (--dates {' or '.join(ORDERS)}), or "
            f"write them as 1998-08-07."
        )
    for name, found in possible.items():
        chosen = found[0] if len(found) == 1 else next(f for f in found if f.order == order)
        columns[name] = _read(cells[name], "dates", chosen)
    if unsure and asked is None:
        return [f"Day or month first in {join_few(unsure)}? {order}, as in the other dates."]
    return []


def _epoch(name: str, column: Typed) -> Typed:
    """The column as dates, if its numbers and its name say that it counts seconds."""
    known = np.asarray(column.values)[np.isfinite(column.values)]
    if not len(known):
        return column
    found = epoch_format(name, float(known.min()), float(known.max()))
    if found is None:
        return column
    scale = found.parse("1")  # of one second or millisecond, in days
    return Typed("dates", np.asarray(column.values) * scale, found)


def _read(cells: Cells, holds: str, form: Format) -> Typed:
    texts = as_texts(cells)
    known = {text: form.parse(text) for text in dict.fromkeys(texts)}
    parsed = values(texts, known.__getitem__)
    assert parsed is not None
    return Typed(holds, parsed, form)
