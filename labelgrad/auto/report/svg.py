"""What charts are made of: escaped elements, scales, axes, lines, dots.

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
HUGE = 1e200  # a value beyond this has no place on a chart
Format = Callable[[float], str]

# Characters that would turn the reading direction around, or that no page can hold, are shown.
_TURNING = {code: f"⟨U+{code:04X}⟩" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)], "�")
_HALVES = dict.fromkeys(range(0xD800, 0xE000), "�")
_SHOWN = _TURNING | _CONTROL | _HALVES


def plain(value: Any) -> Any:
    r"""A text that can stand on a page: no hidden turn of direction, no control character.

    >>> plain("gpj\u202etac.png"), plain("a\x00b\udcff")
    ('gpj⟨U+202E⟩tac.png', 'a�b�')
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return value.translate(_SHOWN)
    return value


def number(value: float | None) -> str:
    """A number with three significant digits, or a dash where there is none.

    >>> number(0.012345), number(1234567), number(12.0), number(float("nan"))
    ('0.0123', '1,234,567', '12', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0 or 1e-4 <= abs(value) < 1e9:
        digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
        text = f"{value:,.{digits}f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")
    return f"{value:.2e}".replace("-", "−")


def percent(share: float | None) -> str:
    """A share as percent, to a tenth.

    >>> percent(0.0417), percent(1), percent(None)
    ('4.2%', '100.0%', '–')
    """
    if share is None or not math.isfinite(share):
        return "–"
    return f"{100 * share:.1f}%".replace("-", "−")


def round_percent(share: float) -> str:
    """A round share as percent, without a tenth."""
    return f"{number(100 * share)}%"


def cut(text: str, most: int) -> str:
    """The text, shortened in its middle where it is long.

    >>> cut("short", 9), cut("a very long name", 9)
    ('short', 'a ve…name')
    """
    if len(text) <= most:
        return text
    front = most // 2
    return f"{text[:front]}…{text[len(text) - (most - front - 1) :]}"


def width(text: str) -> float:
    """About how wide a text is in a chart on a phone, rather too wide."""
    return sum(13.5 if unicodedata.east_asian_width(letter) in "WF" else 7.9 for letter in text)


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
    """A chart with a name and a description for screen readers."""
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
    """From values to positions on the page.

    >>> across = Scale(0, 10, 40, 140)
    >>> across(5), across.ticks()
    (90.0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """At most about `most` round values within the scale."""
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def span(values: Iterable[float], start: float, end: float, also: Sequence[float] = ()) -> Scale:
    """A scale with room for all finite values, and for those in `also`.

    >>> span([3.0, 3.0], 0, 100)
    Scale(low=2.5, high=3.5, start=0, end=100)
    """
    known = [value for value in (*values, *also) if abs(value) < HUGE] or [0.0, 1.0]
    low, high = min(known), max(known)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-288):
        room = max(0.5, abs(low) / 100)
        return Scale(low - room, high + room, start, end)
    room = 0.04 * (high - low)
    low = low if low in also else low - room
    return Scale(low, high if high in also else high + room, start, end)


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


def segment(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", class_=f"line {class_}", x1=x1, y1=y1, x2=x2, y2=y2)


def dot(x: float, y: float, class_: str, radius: float = 3.0) -> Markup:
    """A dot."""
    return tag("circle", class_=f"dot {class_}", cx=round(x, 1), cy=round(y, 1), r=radius)
