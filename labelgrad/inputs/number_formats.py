"""Numbers as people write them: decimal commas, thousands, currencies, percent, parentheses."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache

from labelgrad.inputs.cells import is_absent

CURRENCIES = (
    *"$€£¥₹₽₩₺₴₫₪฿¢₦₱₡₲₵₸₼₾₿",
    *("EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "AUD", "CAD", "NZD", "SEK", "NOK", "DKK"),
    *("PLN", "CZK", "HUF", "RON", "RUB", "UAH", "TRY", "BRL", "MXN", "ZAR", "KRW", "SGD", "HKD"),
    *("kr", "zł"),
)
SHARES = ("%", "‰")
DECIMALS = {".": "a decimal point", ",": "a decimal comma"}
THOUSANDS = {
    "": "",
    ",": "commas between thousands",
    ".": "dots between thousands",
    "'": "apostrophes between thousands",
    " ": "spaces between thousands",
}
PAIRS = tuple((point, mark) for mark in THOUSANDS for point in DECIMALS if point != mark)
# Typeset minus signs, spaces and apostrophes, as the keyboard has them.
PLAIN = str.maketrans("−‒–\u00a0\u2009\u202f\u2007’ʼ", "---    ''")
UNIT = "|".join(re.escape(unit) for unit in (*CURRENCIES, *SHARES))
WRITTEN = re.compile(
    rf"(?P<outer>{UNIT})?\s*(?P<open>\()?\s*(?P<sign>[+-]?)\s*(?P<before>{UNIT})?\s*(?P<inner>[+-]?)\s*"
    rf"(?P<body>[0-9.,][0-9.,' ]*?(?:[eE][+-]?[0-9]+)?)\s*(?P<last>-?)\s*(?P<after>{UNIT})?\s*"
    rf"(?P<close>\))?\s*(?P<end>{UNIT})?"
)


@dataclass(frozen=True)
class NumberFormat:
    """How all numbers of a column are written.

    >>> european = NumberFormat(decimal=",", thousands=".", unit="€")
    >>> european.parse("€ 1.234,50"), european.parse("(12) €"), european.parse("n.a.")
    (1234.5, -12.0, nan)
    >>> european.said
    'a decimal comma, dots between thousands and €'
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        known = self.unit in ("", *CURRENCIES, *SHARES)
        if not known or (self.decimal, self.thousands) not in PAIRS:
            raise ValueError(f"there is no format of numbers such as {asdict(self)}")

    def parse(self, cell: str) -> float:
        """The number in a cell, NaN where it is missing, ValueError where it is something else."""
        if is_absent(cell):
            return math.nan
        parts = split(cell)
        if parts is None or not _fits(self.decimal, self.thousands).fullmatch(parts.body):
            raise ValueError(cell)
        if parts.unit not in ("", self.unit):
            raise ValueError(cell)
        digits = parts.body.replace(self.thousands, "") if self.thousands else parts.body
        value = float(digits.replace(self.decimal, "."))
        if self.unit in SHARES and not parts.unit and value:
            raise ValueError(cell)  # 0.12 beside 12 % may be the same
        return -value if parts.negative else value

    @property
    def said(self) -> str:
        """What is not as in a program's numbers."""
        found = [DECIMALS[self.decimal]] if self.decimal != "." else []
        found += [THOUSANDS[self.thousands]] if self.thousands else []
        found += [self.unit] if self.unit else []
        return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


@dataclass(frozen=True)
class Parts:
    """A number taken apart: its digits and separators, its sign and its unit."""

    body: str
    negative: bool
    unit: str


def split(cell: str) -> Parts | None:
    """The parts of a cell that may be a number in some format.

    >>> split("-$1,000"), split("seven")
    (Parts(body='1,000', negative=True, unit='$'), None)
    """
    found = WRITTEN.fullmatch(cell.translate(PLAIN).strip())
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    signs = [sign for sign in (found["sign"], found["inner"], found["last"]) if sign]
    units = [u for u in map(found.__getitem__, ("outer", "before", "after", "end")) if u]
    if len(signs) + bool(found["open"]) > 1 or len(units) > 1:
        return None
    return Parts(found["body"], bool(found["open"]) or signs == ["-"], "".join(units))


@cache
def _fits(decimal: str, thousands: str) -> re.Pattern[str]:
    """What digits look like; groups of thousands do not begin with 0, which no table writes."""
    point, mark = re.escape(decimal), re.escape(thousands)
    whole = "[0-9]+"
    if thousands:
        indian = "|[1-9][0-9]?(?:,[0-9]{2})*,[0-9]{3}" if thousands == "," else ""
        whole = rf"(?:[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+{indian}|[0-9]+)"
    return re.compile(rf"(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?")


def number_formats(cells: Iterable[str]) -> list[NumberFormat]:
    """The formats in which all cells are numbers, the simplest first; of each decimal sign one.

    Two are left where nothing in the cells tells thousands from decimals.

    >>> number_formats(["1,5", "2"])
    [NumberFormat(decimal=',', thousands='', unit='')]
    >>> [found.decimal for found in number_formats(["1,000", "2,500"])]
    ['.', ',']
    >>> number_formats(["1,5", "two"])
    []
    """
    possible, units, bodies = set(PAIRS), set(), []
    bare = False
    for cell in cells:
        if is_absent(cell):
            continue
        parts = split(cell)
        if parts is None:
            return []
        possible = {pair for pair in possible if _fits(*pair).fullmatch(parts.body)}
        units |= {parts.unit} - {""}
        bare = bare or (not parts.unit and parts.body.strip("0.,") != "")
        if not possible or len(units) > 1 or (bare and units & set(SHARES)):
            return []
        bodies.append(parts.body)
    unit = next(iter(units), "")
    simplest = {}
    for decimal in DECIMALS:
        marks = [mark for mark in THOUSANDS if (decimal, mark) in possible]
        if marks:
            simplest[decimal] = NumberFormat(decimal, marks[0], unit)
    if not any(mark in body for body in bodies for mark in ".,"):
        simplest.pop(",", None)  # there is no decimal sign to tell apart
    return list(simplest.values())
