"""What charts are made of: texts, elements in which they are escaped, scales, axes, lines, dots.

Colours are classes of the style sheet, so that a chart follows the page into dark mode.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

WIDTH = 380  # of every chart, in its own units; the page scales it
HUGE = 1e200  # beyond this a value has no place on a chart; neither has one that is not a number
Point = tuple[float, float]
Format = Callable[[float], str]

# Characters that would turn the reading direction around, or that no page can hold, are shown.
_TURNING = {code: f"⟨U+{code:04X}⟩" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)], "�")
_HALVES = dict.fromkeys(range(0xD800, 0xE000), "�")
_SHOWN = _TURNING | _CONTROL | _HALVES


def plain(value: Any) -> Any:
    r"""A text that can stand on a page: no hidden turn of direction, nothing that is no character.

    >>> plain("gpj\u202etac.png"), plain("a\x00b\udcff")
    ('gpj⟨U+202E⟩tac.png', 'a�b�')
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return value.translate(_SHOWN)
    return value


def number(value: float) -> str:
    """A number with three digits that count, or a dash where there is none.

    >>> number(0.012345), number(1234567), number(12.0), number(float("nan"))
    ('0.0123', '1,234,567', '12', '–')
    """
    if not math.isfinite(value):
        return "–"
    if value == 0 or 1e-4 <= abs(value) < 1e9:
        digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
        text = f"{value:,.{digits}f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")
    return f"{value:.2e}".replace("-", "−")


def percent(part: float) -> str:
    """A part of 1 as percent, to a tenth.

    >>> percent(0.0417), percent(1), percent(float("nan"))
    ('4.2%', '100.0%', '–')
    """
    return f"{100 * part:.1f}%".replace("-", "−") if math.isfinite(part) else "–"


def cut(text: str, most: int) -> str:
    """The text, shortened in its middle where it is long.

    >>> cut("short", 9), cut("a very long name", 9)
    ('short', 'a ve…name')
    """
    if len(text) <= most:
        return text
    front = most // 2
    return f"{text[:front]}…{text[len(text) - (most - front - 1) :]}"


def fitted(text: str, room: float) -> str:
    """The text, cut in its middle until it is no wider than `room` in a chart on a phone.

    >>> fitted("neighbours", 128), fitted("w" * 30, 80), fitted("森" * 30, 80)
    ('neighbours', 'www…www', '森森…森森')
    """
    text = plain(text)
    most = min(len(text), int(room))  # a letter is wider than 1
    while most > 1 and width(cut(text, most)) > room:
        most -= 1
    return cut(text, most)


def width(text: str) -> float:
    """About how wide the text is at the size it has in a chart on a phone, rather too wide.

    >>> width("lga") < width("LGA") < width("森森森")
    True
    """
    return sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 13.5
    if letter in "mMW@%…⟨⟩":
        return 12.8
    if letter in "ijlftr.,:;'| -()":
        return 5.0
    return 10.5 if letter == "w" or letter.isupper() or ord(letter) > 0x2000 else 7.6


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """One element; every text and every attribute in it is escaped.

    `class_` is written class, `text_anchor` text-anchor.

    >>> print(tag("text", "a < b", class_="tick", x=2.0))
    <text class="tick" x="2">a &lt; b</text>
    """
    pairs = [(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()]
    written = "".join(f' {key}="{escape(_attribute(value))}"' for key, value in pairs)
    inside = "".join(escape(plain(child)) for child in children)
    return Markup(f"<{name}{written}>{inside}</{name}>")


def _attribute(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else plain(value)


def chart(key: str, title: str, description: str, height: float, *marks: Markup) -> Markup:
    """A picture with a name and a description for those who do not see it."""
    return tag(
        "svg",
        tag("title", title, id=f"{key}-title"),
        tag("desc", description, id=f"{key}-description"),
        *marks,
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="img",
        aria_labelledby=f"{key}-title {key}-description",
    )


@dataclass(frozen=True)
class Scale:
    """From values to places on the page, evenly or, with `log`, by their ratios.

    >>> across = Scale(0, 10, 40, 140)
    >>> across(5), across.ticks()
    (90.0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, here = self.low, self.high, value
        if self.log:
            low, high, here = (math.log10(each) for each in (low, high, value))
        return self.start + (here - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """At most about `most` round values within the scale."""
        if self.log:
            powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            every = max(1, math.ceil(len(powers) / most))
            if len(powers) > 1:
                return [10.0**power for power in powers[::every]]
        step = _round_step((self.high - self.low) / most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, … times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))


def span(
    values: Iterable[float],
    start: float,
    end: float,
    *,
    also: Sequence[float] = (),
    log: bool = False,
) -> Scale:
    """A scale with room for all finite values, and for those in `also`.

    >>> span([3.0, 3.0], 0, 100)
    Scale(low=2.5, high=3.5, start=0, end=100, log=False)
    """
    known = [value for value in (*values, *also) if abs(value) < HUGE] or [0.0, 1.0]
    low, high = min(known), max(known)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-288):
        room = max(0.5, abs(low) / 100) if not log else 0
        low, high = (low / 2, high * 2) if log else (low - room, high + room)
    elif not log:
        room = 0.04 * (high - low)
        low, high = (
            edge if edge in also else edge + sign * room for edge, sign in ((low, -1), (high, 1))
        )
    return Scale(low, high, start, end, log)


def left_axis(scale: Scale, left: float, right: float, form: Format = number) -> Markup:
    """Horizontal lines across the chart at round values, with the values on their left."""
    return Markup("").join(
        tag("line", class_="grid", x1=left, x2=right, y1=scale(tick), y2=scale(tick))
        + tag("text", form(tick), class_="tick end", x=left - 6, y=scale(tick) + 4)
        for tick in scale.ticks(5)
    )


def bottom_axis(scale: Scale, y: float, title: str, form: Format = number, most: int = 5) -> Markup:
    """Round values below the chart, about `most`, and what they are."""
    ticks = [
        tag("text", form(tick), class_="tick middle", x=scale(tick), y=y + 15)
        for tick in scale.ticks(most)
    ]
    line = tag("line", class_="axis", x1=scale.start, x2=scale.end, y1=y, y2=y)
    name = tag("text", title, class_="name middle", x=(scale.start + scale.end) / 2, y=y + 33)
    return line + Markup("").join(ticks) + name


def line(points: Iterable[Point], class_: str) -> Markup:
    """A line through the points; it breaks where one of them is not finite."""
    path, pen = "", "M"
    for x, y in points:
        whole = math.isfinite(x) and math.isfinite(y)
        path += f"{pen}{x:.1f} {y:.1f}" if whole else ""
        pen = "L" if whole else "M"
    return tag("path", class_=f"line {class_}", d=path)


def dots(points: Iterable[Point], class_: str, radius: float = 3.0) -> Markup:
    """A dot at each point that is finite."""
    return Markup("").join(
        tag("circle", class_=f"dot {class_}", cx=round(x, 1), cy=round(y, 1), r=radius)
        for x, y in points
        if math.isfinite(x) and math.isfinite(y)
    )


def thin(count: int, most: int) -> list[int]:
    """At most `most` of the places from 0 to `count`, evenly, with the first and the last.

    >>> thin(3, 10), thin(101, 5)
    ([0, 1, 2], [0, 25, 50, 75, 100])
    """
    if count <= most:
        return list(range(count))
    return [round(place * (count - 1) / (most - 1)) for place in range(most)]
