"""Numbers, dates and booleans as people write them: all cells of a column vote on one format.

Everything here works on polars series of strings, and is vectorized. *Clean* cells are stripped and
null where missing, see `clean`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import polars as pl

MISSING = (
    *("", "?", "-", "--", "–", "—", ".", "na", "n/a", "n.a.", "<na>", "nan", "nat", "null", "none"),
    *("\\n", "#n/a", "#value!", "#div/0!", "#ref!", "#num!", "#name?", "#null!"),
)
CURRENCIES = (
    *"$€£¥₹₽₩₺₴₫₪฿¢₦₱₡₲₵₸₼₾₿",
    *("EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "AUD", "CAD", "NZD", "SEK", "NOK", "DKK"),
    *("PLN", "CZK", "HUF", "RON", "RUB", "UAH", "TRY", "BRL", "MXN", "ZAR", "KRW", "SGD", "HKD"),
    *("kr", "zł"),
)
PERCENT = ("%", "‰")
DECIMALS = {".": "", ",": "a decimal comma"}  # what differs from how programs write numbers
MARKS = {",": "commas", ".": "dots", "'": "apostrophes", " ": "spaces"}
THOUSANDS = {"": "", **{mark: f"{name} between thousands" for mark, name in MARKS.items()}}
PAIRS = tuple((point, mark) for mark in THOUSANDS for point in DECIMALS if point != mark)
# Typeset minus signs, spaces and apostrophes, as the keyboard has them.
TYPESET, KEYBOARD = [*"−‒–\u00a0\u2009\u202f\u2007’ʼ"], [*"---    ''"]
UNIT = "|".join(re.escape(unit) for unit in (*CURRENCIES, *PERCENT))
WRITTEN = (
    rf"^(?P<outer>{UNIT})?\s*(?P<open>\()?\s*(?P<sign>[+-]?)\s*(?P<before>{UNIT})?\s*"
    rf"(?P<inner>[+-]?)\s*(?P<body>[0-9.,][0-9.,' ]*?(?:[eE][+-]?[0-9]+)?)\s*(?P<last>-?)\s*"
    rf"(?P<after>{UNIT})?\s*(?P<close>\))?\s*(?P<end>{UNIT})?$"
)
TRUTH = dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True)
TRUTH |= dict.fromkeys(("false", "no", "off", "n", "f", "0"), False)

YEAR_FIRST, DAY_FIRST, MONTH_FIRST = "year-first", "day-first", "month-first"
MONTH_NAME = "month-name"
ORDERS = {
    YEAR_FIRST: "",
    DAY_FIRST: "the day first",
    MONTH_FIRST: "the month first",
    MONTH_NAME: "the month by its name",
}
PIVOT = "69"  # of years in two digits, as POSIX has it: 69 is 1969, 68 is 2068
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH_NUMBERS = {name: str(number) for number, name in enumerate(MONTHS, 1)}
TIME = (
    r"(?:[T ,]\s*(?:at )?(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2}(?:[.,][0-9]+)?))?\s*(?P<half>[ap]\.?m\.?)?"
    r"\s*(?P<zone>z|utc|gmt|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
NAME = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
GAP = r"[ ,/-]\s*"
YEAR, DAY = "(?P<year>[0-9]{4}|[0-9]{2})", "(?P<day>[0-9]{1,2})"
NTH, MONTH = rf"{DAY}(?:st|nd|rd|th|\.)?", "(?P<month>[0-9]{1,2})"
LAYOUTS = {  # with one of the signs . / - between the parts
    YEAR_FIRST: f"(?P<year>[0-9]{{4}})@{MONTH}@{DAY}",
    DAY_FIRST: f"{DAY}@{MONTH}@{YEAR}",
    MONTH_FIRST: f"{MONTH}@{DAY}@{YEAR}",
}
PATTERNS = {
    order: [f"(?i)^{layout}{TIME}$".replace("@", rf"{sign}\s?") for sign in ("-", r"\.", "/")]
    for order, layout in LAYOUTS.items()
} | {
    MONTH_NAME: [
        f"(?i)^{WEEKDAY}{layout}{TIME}$"
        for layout in (
            rf"{NTH}(?:{GAP})?{NAME}(?:{GAP})?{YEAR}",
            rf"{NAME}(?:{GAP})?{NTH}{GAP}{YEAR}",
            rf"(?P<year>[0-9]{{4}}){GAP}{NAME}{GAP}{NTH}",
        )
    ]
}


def clean(cells: pl.Series) -> pl.Series:
    """Strings without spaces around them, null where they say that nothing is there.

    >>> clean(pl.Series([" a", "N/A", "", None, "0"])).to_list()
    ['a', None, None, None, '0']
    """
    stripped = cells.str.strip_chars()
    return stripped.set(stripped.str.to_lowercase().is_in(MISSING), None)


def parse_cells(cells: pl.Series, form: Format | None) -> tuple[pl.Series, pl.Series]:
    """The numbers or dates in strings, and the clean strings; None is how programs write numbers.

    >>> numbers, texts = parse_cells(pl.Series(["1.5", " 2", None, "n/a", "1e3", "two"]), None)
    >>> numbers.to_list()
    [1.5, 2.0, None, None, 1000.0, None]
    >>> texts.to_list()
    ['1.5', '2', None, None, '1e3', 'two']
    """
    if form is None:
        numbers = cells.cast(pl.Float64, strict=False)
        if numbers.null_count() == cells.null_count():
            return numbers, cells
        texts = clean(cells)
        return texts.cast(pl.Float64, strict=False), texts
    texts = clean(cells)
    different = texts.drop_nulls().unique()
    parsed = form.parse(different)
    return texts.replace_strict(different, parsed, return_dtype=parsed.dtype), texts


@dataclass(frozen=True)
class NumberFormat:
    """How all numbers of a column are written.

    >>> european = NumberFormat(decimal=",", thousands=".", unit="€")
    >>> european.parse(pl.Series(["€ 1.234,50", "(12) €", "1.5", None])).to_list()
    [1234.5, -12.0, None, None]
    >>> european.description
    'a decimal comma, dots between thousands and €'
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""

    def parse(self, cells: pl.Series) -> pl.Series:
        """The numbers in clean cells, null where a cell is not in this format."""
        body, unit = pl.col("body"), pl.col("unit")
        digits = body.str.replace_all(self.thousands, "", literal=True) if self.thousands else body
        plain = digits.str.replace(self.decimal, ".", literal=True)
        value = plain.cast(pl.Float64, strict=False)
        fits = body.str.contains(digits_pattern(self.decimal, self.thousands))
        fits &= unit.is_in(["", self.unit])
        if self.unit in PERCENT:  # 0.12 beside 12 % may be the same
            fits &= (unit != "") | (value == 0)
        signed = pl.when(pl.col("negative")).then(-value).otherwise(value)
        return _split(cells).select(pl.when(fits).then(signed).alias(cells.name)).to_series()

    @property
    def description(self) -> str:
        """What differs from numbers as programs write them."""
        parts = DECIMALS[self.decimal], THOUSANDS[self.thousands], self.unit
        *others, last = [part for part in parts if part] or [""]
        return f"{', '.join(others)} and {last}" if others else last


def _split(cells: pl.Series) -> pl.DataFrame:
    """The digits (null where a cell is no number in any format), sign and unit of each cell."""
    plain = cells.str.replace_many(TYPESET, KEYBOARD).str.strip_chars()
    groups = plain.str.extract_groups(WRITTEN).struct.unnest().with_columns(pl.all().fill_null(""))
    signs = pl.concat_str("sign", "inner", "last")
    in_brackets = pl.col("open") != ""
    units = [pl.col(name) for name in ("outer", "before", "after", "end")]
    valid = (
        (in_brackets == (pl.col("close") != ""))
        & (signs.str.len_chars() + in_brackets.cast(pl.UInt32) <= 1)
        & (pl.sum_horizontal((unit != "").cast(pl.UInt32) for unit in units) <= 1)
        & (pl.col("body") != "")
    )
    return groups.select(
        pl.when(valid).then("body").alias("body"),
        (in_brackets | (signs == "-")).alias("negative"),
        pl.concat_str(units).alias("unit"),
    )


@cache
def digits_pattern(decimal: str, thousands: str) -> str:
    """What digits look like; groups of thousands do not begin with 0."""
    point, mark = re.escape(decimal), re.escape(thousands)
    whole = "[0-9]+"
    if thousands:
        indian = "|[1-9][0-9]?(?:,[0-9]{2})*,[0-9]{3}" if thousands == "," else ""
        whole = rf"(?:[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+{indian}|[0-9]+)"
    return rf"^(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def number_formats(different: pl.Series) -> list[NumberFormat]:
    """The formats in which all clean cells are numbers, the simplest of each decimal sign.

    Two are left where nothing in the cells tells thousands from decimals.

    >>> number_formats(pl.Series(["1,5", "2"]))
    [NumberFormat(decimal=',', thousands='', unit='')]
    >>> [found.decimal for found in number_formats(pl.Series(["1,000", "2,500"]))]
    ['.', ',']
    >>> number_formats(pl.Series(["1,5", "two"]))
    []
    """
    parts = _split(different)
    body, units = parts["body"], set(parts["unit"].unique()) - {""}
    if not len(parts) or body.null_count() or len(units) > 1:
        return []
    unit = next(iter(units), "")
    bare = (parts["unit"] == "") & (body.str.strip_chars("0.,") != "")
    if unit in PERCENT and bare.any():
        return []
    decimals = DECIMALS if body.str.contains("[.,]").any() else "."
    simplest: dict[str, NumberFormat] = {}
    for decimal, thousands in PAIRS:
        if decimal in decimals and body.str.contains(digits_pattern(decimal, thousands)).all():
            simplest.setdefault(decimal, NumberFormat(decimal, thousands, unit))
    return [simplest[decimal] for decimal in DECIMALS if decimal in simplest]


@dataclass(frozen=True)
class DateFormat:
    """How all dates of a column are written.

    >>> written = pl.Series(["02.01.1970", "1/2/70 12:00", "1.2"])
    >>> DateFormat("day-first").parse(written).dt.to_string().to_list()
    ['1970-01-02 00:00:00.000000', '1970-02-01 12:00:00.000000', None]
    """

    order: str = YEAR_FIRST
    short_years: bool = False

    def parse(self, cells: pl.Series) -> pl.Series:
        """Moments in UTC, null where a clean cell is not in this format."""
        return _moments(_groups(cells, self.order))

    @property
    def description(self) -> str:
        """What differs from dates as programs write them."""
        short = " and years in two digits from 1969 to 2068" if self.short_years else ""
        return ORDERS[self.order] + short


Format = NumberFormat | DateFormat


def _groups(cells: pl.Series, order: str) -> pl.DataFrame:
    """The parts of dates as strings, null where a cell has another order."""
    first, *others = PATTERNS[order]
    found = cells.str.extract_groups(first).struct.unnest()
    for pattern in others:  # a cell matches one of them at most
        if found["year"].null_count() == cells.null_count():
            break
        more = cells.str.extract_groups(pattern).struct.unnest()
        found = found.select(pl.col(name).fill_null(more[name]) for name in found.columns)
    return found


def _moments(parts: pl.DataFrame) -> pl.Series:
    """The moments of dates in parts, null where there is no such date."""
    year, zone = pl.col("year"), pl.col("zone").str.replace(":", "", literal=True)
    century = pl.when(year >= PIVOT).then(pl.lit("19")).otherwise(pl.lit("20"))
    month = pl.col("month").str.slice(0, 3).str.to_lowercase().replace(MONTH_NUMBERS)
    time = [pl.col(name).fill_null("0") for name in ("hour", "minute")]
    second = pl.col("second").str.replace(",", ".", literal=True).fill_null("0")
    has_digits = zone.str.contains("^[+-]").fill_null(False)
    written = pl.format(
        "{}-{}-{} {}:{}:{} {} {}",
        pl.when(year.str.len_chars() == 2).then(century + year).otherwise(year),
        month,
        pl.col("day"),
        *time,
        second,
        pl.when(has_digits).then(zone.str.pad_end(5, "0")).otherwise(pl.lit("+0000")),
        pl.col("half").str.slice(0, 1).fill_null(""),
    )
    day, seconds = "%Y-%m-%d", "%M:%S%.f %z"
    moment = pl.coalesce(
        written.str.to_datetime(f"{day} %H:{seconds} ", time_unit="us", strict=False),
        (written + "m").str.to_datetime(f"{day} %I:{seconds} %p", time_unit="us", strict=False),
    )
    valid = pl.when(moment.dt.year() >= 1).then(moment.dt.replace_time_zone(None))
    return parts.select(valid.alias("moment")).to_series()


def date_formats(different: pl.Series) -> list[DateFormat]:
    """The formats in which all clean cells are dates; two if day and month cannot be told apart.

    >>> [found.order for found in date_formats(pl.Series(["07.08.1998", "13.01.2000"]))]
    ['day-first']
    >>> [found.order for found in date_formats(pl.Series(["07.08.1998", "01.02.2000"]))]
    ['day-first', 'month-first']
    """
    found: list[tuple[DateFormat, pl.Series]] = []
    for order in PATTERNS:
        parts = _groups(different, order)
        moments = _moments(parts)
        if len(moments) and not moments.null_count():
            short = bool((parts["year"].str.len_chars() == 2).any())
            found.append((DateFormat(order, short), moments))
    if len(found) > 1 and (found[0][1] == found[1][1]).all():
        del found[1]  # such as 07.07.1998, whichever is first
    return [form for form, _ in found]
