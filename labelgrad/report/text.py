"""Numbers and names as a person reads them."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup, escape

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


def whole(part: float) -> str:
    """A probability in whole percent; only what is certain is 100%, only what cannot be 0%.

    >>> whole(0.876), whole(0.9999), whole(1.0), whole(0.001)
    ('88%', '>99%', '100%', '<1%')
    """
    if 0.995 <= part < 1:
        return ">99%"
    return "<1%" if 0 < part < 0.005 else f"{100 * part:.0f}%" if math.isfinite(part) else "–"


def duration(seconds: float) -> str:
    """A time as a clock would say it.

    >>> duration(4.26), duration(75), duration(7384)
    ('4.3 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def cut(text: str, most: int) -> str:
    """The text, shortened in its middle where it is long.

    >>> cut("short", 9), cut("a very long name", 9)
    ('short', 'a ve…name')
    """
    if len(text) <= most:
        return text
    front = most // 2
    return f"{text[:front]}…{text[len(text) - (most - front - 1) :]}"


def broken(name: str) -> Markup:
    """A name of a file that may be broken into lines after its folders.

    >>> print(broken("new/<b>.png"))
    new/<wbr>&lt;b&gt;.png
    """
    return Markup("/<wbr>").join(escape(part) for part in plain(name).split("/"))
