"""Dates as people write them: day or month first, with the month's name, as seconds since 1970."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from labelgrad.inputs.cells import EPOCH, days, is_absent

ISO, YEAR_FIRST, DAY_FIRST, MONTH_FIRST = "ISO", "year-first", "day-first", "month-first"
NAMED, SECONDS, MILLISECONDS = "with the month's name", "seconds", "milliseconds"
ORDERS = (DAY_FIRST, MONTH_FIRST)  # those that a person may have to say
WRITTEN_ORDERS = (ISO, YEAR_FIRST, DAY_FIRST, MONTH_FIRST, NAMED)
SAID = {
    YEAR_FIRST: "the year first",
    DAY_FIRST: "the day first",
    MONTH_FIRST: "the month first",
    NAMED: "the month by its name",
    SECONDS: "seconds since 1970",
    MILLISECONDS: "milliseconds since 1970",
}
PIVOT = 69  # of years in two digits, as POSIX reads them: 69 is 1969, 68 is 2068
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NAME = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
DAY, YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?", r"(?P<year>\d{4}|\d{2})"
TIME = (
    r"(?:[T ,]\s*(?:at )?(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?"
    r"\s*(?P<half>[ap]\.?m\.?)?\s*(?P<zone>z|utc|gmt|[+-]\d{2}:?\d{2})?)?"
)
WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
GAP = r"[ ,/-]\s*"
NUMERIC = re.compile(
    rf"(\d{{1,4}})([./-])\s?(\d{{1,2}})\2\s?(\d{{4}}|\d{{1,2}}){TIME}", re.I | re.A
)
WITH_NAME = tuple(
    re.compile(WEEKDAY + order + TIME, re.I | re.A)
    for order in (
        rf"{DAY}(?:{GAP})?{NAME}(?:{GAP})?{YEAR}",
        rf"{NAME}(?:{GAP})?{DAY}{GAP}{YEAR}",
        rf"(?P<year>\d{{4}}){GAP}{NAME}{GAP}{DAY}",
    )
)
EPOCHS = {SECONDS: (1e8, 4.2e9), MILLISECONDS: (1e11, 4.2e12)}  # from 1973 to 2103
TIMELY = re.compile(  # a column's name that speaks of a moment
    r"(?:^|[^a-z])(?:ts|at|created|updated)$|(?:time|stamp|date|epoch)(?:[^a-z]|$)", re.I
)


@dataclass(frozen=True)
class DateFormat:
    """How all dates of a column are written; they are read as days since 1970.

    >>> DateFormat("day-first").parse("02.01.1970"), DateFormat("month-first").parse("1/2/1970")
    (1.0, 1.0)
    >>> DateFormat("with the month's name").parse("Jan 02 1970 12:00")
    1.5
    >>> DateFormat("seconds").parse("86400")
    1.0
    """

    order: str = ISO
    short_years: bool = False

    def __post_init__(self) -> None:
        if self.order not in (ISO, *SAID):
            raise ValueError(f"there is no format of dates such as {self.order!r}")

    def parse(self, cell: str) -> float:
        """Days since 1970, NaN where the date is missing, ValueError where it is none."""
        if is_absent(cell):
            return math.nan
        if self.order == ISO:
            return days(cell)
        if self.order in EPOCHS:
            seconds = float(cell) / (1 if self.order == SECONDS else 1000)
            if not math.isfinite(seconds):
                raise ValueError(cell)
            return seconds / (24 * 60 * 60)
        if self.order == NAMED:
            return _named(cell)
        return _numeric(cell, self.order)

    @property
    def said(self) -> str:
        """What is not as in an ISO date."""
        short = " and years in two digits from 1969 to 2068" if self.short_years else ""
        return SAID.get(self.order, "") + short


def date_formats(cells: Iterable[str]) -> list[DateFormat]:
    """The formats in which all cells are dates; two where day and month cannot be told apart.

    >>> [found.order for found in date_formats(["07.08.1998", "13.01.2000"])]
    ['day-first']
    >>> [found.order for found in date_formats(["07.08.1998", "01.02.2000"])]
    ['day-first', 'month-first']
    """
    known = [cell for cell in cells if not is_absent(cell)]
    if not known or not all(any(sign.isdigit() for sign in cell) for cell in known):
        return []
    short = any(_short_year(cell) for cell in known)
    found = []
    for order in WRITTEN_ORDERS:
        form = DateFormat(order, short and order != ISO)
        if _reads(form, known):
            found.append(form)
            if order in (ISO, YEAR_FIRST):
                break
    if len(found) > 1 and all(found[0].parse(c) == found[1].parse(c) for c in known):
        return found[:1]  # such as 07.07.1998, whichever is first
    return found


def epoch_format(name: str, low: float, high: float) -> DateFormat | None:
    """Seconds or milliseconds since 1970, if both the numbers and the column's name say so.

    >>> epoch_format("created_at", 1.6e9, 1.7e9)
    DateFormat(order='seconds', short_years=False)
    >>> epoch_format("phone", 1.6e9, 1.7e9)
    """
    if not TIMELY.search(name):
        return None
    for order, (least, most) in EPOCHS.items():
        if least <= low <= high <= most:
            return DateFormat(order)
    return None


def _reads(form: DateFormat, cells: list[str]) -> bool:
    try:
        for cell in cells:
            form.parse(cell)
    except ValueError:
        return False
    return True


def _numeric(cell: str, order: str) -> float:
    found = NUMERIC.fullmatch(cell)
    if found is None:
        raise ValueError(cell)
    first, second, third = found[1], found[3], found[4]
    if order == YEAR_FIRST:
        year, month, day = first, second, third
    else:
        year = third
        day, month = (first, second) if order == DAY_FIRST else (second, first)
    if len(day) > 2 or len(month) > 2 or (order == YEAR_FIRST and len(year) != 4):
        raise ValueError(cell)
    return _days(found, year, int(month), int(day), cell)


def _named(cell: str) -> float:
    for written in WITH_NAME:
        found = written.fullmatch(cell)
        if found is not None:
            month = MONTHS.index(found["name"][:3].lower()) + 1
            return _days(found, found["year"], month, int(found["day"]), cell)
    raise ValueError(cell)


def _short_year(cell: str) -> bool:
    numeric = NUMERIC.fullmatch(cell)
    if numeric is not None:
        return len(numeric[1]) < 4 and len(numeric[4]) < 4
    return any(len(f["year"]) == 2 for w in WITH_NAME if (f := w.fullmatch(cell)) is not None)


def _days(found: re.Match[str], year: str, month: int, day: int, cell: str) -> float:
    if len(year) not in (2, 4):
        raise ValueError(cell)
    full = int(year) if len(year) == 4 else int(year) + (1900 if int(year) >= PIVOT else 2000)
    moment = datetime(full, month, day, tzinfo=_zone(found["zone"]))
    hour = int(found["hour"] or 0)
    half = (found["half"] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            raise ValueError(cell)
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    second = float((found["second"] or "0").replace(",", "."))
    if hour > 23 or int(found["minute"] or 0) > 59 or second >= 61:
        raise ValueError(cell)
    since = timedelta(hours=hour, minutes=int(found["minute"] or 0), seconds=second)
    return (moment - EPOCH + since) / timedelta(days=1)


def _zone(written: str | None) -> timezone:
    if not written or written[0] not in "+-":
        return UTC
    hours, minutes = int(written[1:3]), int(written[-2:])
    ahead = timedelta(hours=hours, minutes=minutes)
    if ahead >= timedelta(days=1):
        raise ValueError(written)
    return timezone(-ahead if written[0] == "-" else ahead)
