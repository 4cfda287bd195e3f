"""The charts of the report: from numbers to SVG pictures of escaped elements.

Colours are classes of the style sheet, so that a chart follows the page into dark mode.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from labelgrad.auto.evaluation import Score
from labelgrad.auto.task import Array
from labelgrad.training.evaluation import Reliability

WIDTH = 380  # of every chart, in its own units; the page scales it
HUGE = 1e200  # a value beyond this has no place on a chart
LEFT, RIGHT, TOP, FLOOR, HEIGHT = 58, WIDTH - 14, 14, 260, 300
HEADING, ROW, LONGEST = 22.0, 25.0, 19  # heights on the leaderboard, letters of a name
MAX_MATRIX = 50  # classes in a confusion matrix
MAX_COUNTS = 12  # classes up to which a cell has room for its number
# Classes up to which a matrix has a style of text, the width of its letters and half their height.
LETTERS = ((MAX_COUNTS, "", 7.0, 4.0), (24, "small", 5.0, 3.0), (MAX_MATRIX, "tiny", 3.2, 1.8))
MAX_DOTS = 1500
COLOURS, STEPS = 10, 7  # of classes, and of values
FAINTEST = 0.15  # opacity of a label that is a guess
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
    text = f"{value:.2e}"
    if value == 0 or 1e-4 <= abs(value) < 1e9:
        digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
        text = f"{value:,.{digits}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


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
    written = ""
    for key, value in attributes.items():
        text = f"{value:.6g}" if isinstance(value, float) else plain(value)
        written += f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"'
    inside = "".join(escape(plain(child)) for child in children)
    return Markup(f"<{name}{written}>{inside}</{name}>")


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


def bottom_axis(scale: Scale, y: float, title: str, form: Format, most: int = 5) -> Markup:
    """Round values below the chart, about `most`, and what they are."""
    ticks = [
        tag("text", form(tick), class_="tick middle", x=scale(tick), y=y + 15)
        for tick in scale.ticks(most)
    ]
    line = tag("line", class_="axis", x1=scale.start, x2=scale.end, y1=y, y2=y)
    name = tag("text", title, class_="name middle", x=(scale.start + scale.end) / 2, y=y + 33)
    return line + Markup("").join(ticks) + name


def leaderboard(board: Sequence[tuple[str, str, Sequence[Score]]], form: Format) -> Markup:
    """Errors as dots with their intervals on one scale, in groups with a heading and a style."""
    scores = [score for _, _, group in board for score in group]
    known = [(score.name, score.error) for score in scores if score.error is not None]
    ends = [end for _, error in known for end in (error.low, error.high, error.value)]
    names = max((width(cut(score.name, LONGEST)) for score in scores), default=0.0)
    values = max((width(form(error.value)) for _, error in known), default=0.0)
    zero = [0.0] if ends and 0 <= min(ends) < max(ends) / 2 else []
    across = span(ends, names + 14, WIDTH - values - 14, also=zero)
    marks, y = [], 0.0
    for heading, style, group in board:
        marks.append(tag("text", heading, class_="tick", x=0.0, y=y + 15))
        y += HEADING
        for score in group:
            marks += _bar(score, style, across, y + ROW / 2, form)
            y += ROW
        y += 6
    title, ticks = "error on held-out labels", round_percent if form is percent else form
    axis = bottom_axis(across, y, title, ticks, most=4)
    spoken = "; ".join(
        f"{cut(name, 60)}: {form(error.value)}, {form(error.low)} to {form(error.high)}"
        for name, error in known
    )
    return chart("board", title, spoken, y + 40, axis, *marks)


def _bar(score: Score, style: str, across: Scale, y: float, form: Format) -> list[Markup]:
    error, label = score.error, tag("text", cut(score.name, LONGEST), class_="name", x=0.0, y=y + 4)
    if error is None:
        return [label, tag("text", "not scored", class_="tick end", x=WIDTH, y=y + 4)]
    low, middle, high = map(across, (error.low, error.value, error.high))
    return [
        label,
        tag("line", class_=f"line interval {style}", x1=low, x2=high, y1=y, y2=y),
        tag("circle", class_=f"dot {style}", cx=round(middle, 1), cy=round(y, 1), r=4.5),
        tag("text", form(error.value), class_=f"value end {style}", x=WIDTH, y=y + 4),
    ]


def diagonal_axes(across: Scale, up: Scale, name: str, form: Format) -> Markup:
    """Axes with lines across at round values, and the diagonal on which marks would best be."""
    lines = (
        tag("line", class_="grid", x1=LEFT, x2=RIGHT, y1=up(tick), y2=up(tick))
        + tag("text", form(tick), class_="tick end", x=LEFT - 6, y=up(tick) + 4)
        for tick in up.ticks(5)
    )
    corners = {"x1": across.start, "x2": across.end, "y1": up.start, "y2": up.end}
    axes = Markup("").join(lines) + bottom_axis(across, FLOOR, name, form)
    return axes + tag("line", class_="line diagonal", **corners)


def reliability(found: Reliability) -> Markup:
    """How often predictions of each confidence are right; on the diagonal it can be trusted."""
    across, up = Scale(0, 1, LEFT, RIGHT), Scale(0, 1, FLOOR, TOP)
    most = max((each.count for each in found.bins), default=1)
    marks = []
    for each in found.bins:
        x, y = across(each.confidence), up(each.accuracy)
        marks.append(tag("line", class_="line miss", x1=x, x2=x, y1=up(each.confidence), y2=y))
        at, radius = {"cx": round(x, 1), "cy": round(y, 1)}, 3 + 7 * math.sqrt(each.count / most)
        marks.append(tag("circle", class_="dot method soft", **at, r=radius))
    spoken = f"Expected calibration error {number(found.ece)}."
    axes = diagonal_axes(across, up, "confidence", round_percent)
    return chart("reliability", "Reliability", spoken, HEIGHT, axes, *marks)


def scatter(truth: Array, predicted: Array) -> Markup:
    """Predicted against true values: on the diagonal a prediction is right."""
    both = [*truth.tolist(), *predicted.tolist()]
    across, up = span(both, LEFT, RIGHT), span(both, FLOOR, TOP)
    some = np.linspace(0, len(truth) - 1, min(len(truth), MAX_DOTS)).astype(int)
    places = [(round(across(truth[i]), 1), round(up(predicted[i]), 1)) for i in some]
    marks = [tag("circle", class_="dot method soft", cx=x, cy=y, r=3.0) for x, y in places]
    spoken = f"{len(truth)} held-out examples."
    axes = diagonal_axes(across, up, "true value", number)
    return chart("scatter", "Predicted against true", spoken, HEIGHT, axes, *marks)


def confusion(matrix: Array, classes: Sequence[str]) -> Markup:
    """A row for each true class, a column for each prediction; darker is more of the row."""
    count = len(classes)
    _, style, letter, half = next(each for each in LETTERS if count <= each[0])
    names = [cut(name, 12) for name in classes]
    left = 32 + max(map(len, names)) * letter
    side = min(64.0, (WIDTH - left - 4) / count)
    marks = [
        tag("text", "true ↓", class_=f"name end {style}", x=left - 5, y=left - 5),
        tag("text", "predicted →", class_=f"name {style}", x=left, y=11.0),
    ]
    for place, name in enumerate(names):
        middle = (place + 0.5) * side + half
        turn = f"rotate(-90 {left + middle:.1f} {left - 5:.1f})"
        marks.append(
            tag("text", name, class_=f"tick end {style}", x=left - 5, y=left + middle)
            + tag("text", name, class_=f"tick {style}", x=left + middle, y=left - 5, transform=turn)
        )
    gap = min(1.0, side / 12)
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    for (row, column), share in np.ndenumerate(shares):
        x, y = left + column * side, left + row * side
        kind, opacity = "right" if row == column else "wrong", round(0.12 + 0.88 * share, 3)
        area = {"x": x, "y": y, "width": side - gap, "height": side - gap}
        area["fill_opacity"] = opacity if share else 0.0
        marks.append(tag("rect", class_=f"cell {kind}", **area))
        if share and side >= (WIDTH - 110) / MAX_COUNTS:
            style = "count middle strong" if share > 0.45 else "count middle"
            middle, text = x + (side - gap) / 2, number(int(matrix[row, column]))
            marks.append(tag("text", text, class_=style, x=middle, y=y + side / 2 + 4))
    spoken = f"{int(np.trace(matrix))} of {int(matrix.sum())} held-out examples are right."
    return chart("confusion", "Confusion matrix", spoken, left + count * side + 4, *marks)


def example_map(
    points: Array, ids: Sequence[str], labels: Sequence[Any], confidence: Array, given: Array
) -> tuple[Markup, list[tuple[str, str]]]:
    """A dot for each example, fainter where its label is less certain; given labels have a ring.

    Parameters
    ----------
    points
        Positions (n, 2); those later in order are drawn over the earlier ones.
    ids, labels
        Of each example.
    confidence
        In each label; NaN for given labels, and for values.
    given
        Whether the label came with the data.

    Returns
    -------
    tuple
        The map, and its legend: styles and what they stand for.
    """
    low, high = np.quantile(points, (0.01, 0.99), axis=0)
    slack = 0.5 * (high - low).max()
    low, high = np.maximum(points.min(0), low - slack), np.minimum(points.max(0), high + slack)
    unit = (WIDTH - 12) / max((high - low).max(), 1e-12)
    height = max((high - low)[1] * unit, (WIDTH - 12) / 3)
    middle = np.array([WIDTH / 2, height / 2 + 6])
    places = (np.clip(points, low, high) - (low + high) / 2) * unit * (1, -1) + middle
    styles, legend = _map_styles(labels)
    chance = 1 / max(2, len(set(labels)))
    certain = FAINTEST + (1 - FAINTEST) * np.clip((confidence - chance) / (1 - chance), 0, 1)
    opacity = np.where(np.isfinite(certain), certain, np.where(given, 1.0, 0.8))
    marks = [tag("rect", class_="frame", x=0.5, y=0.5, width=WIDTH - 1.0, height=height + 11.0)]
    for i, (x, y) in enumerate(places.tolist()):
        label = labels[i] if isinstance(labels[i], str) else number(labels[i])
        source = "labeled" if given[i] else percent(confidence[i])
        title = tag("title", f"{cut(ids[i], 80)}: {cut(label, 80)}, {source}")
        style, radius = (f"at {styles[i]} given", 3.4) if given[i] else (f"at {styles[i]}", 2.2)
        shape = {"cx": round(x, 1), "cy": round(y, 1), "r": radius}
        shape["fill_opacity"] = round(float(opacity[i]), 2)
        marks.append(tag("circle", title, class_=style, **shape))
    spoken = f"{int(given.sum())} labeled and {int((~given).sum())} unlabeled examples."
    return chart("map", "Map of the examples", spoken, height + 12, *marks), legend


def _map_styles(labels: Sequence[Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """Of each label, and the legend: the commonest classes first, or values from low to high."""
    if isinstance(labels[0], float):
        edges = np.unique(np.quantile(labels, np.linspace(0, 1, STEPS + 1)))
        steps = np.searchsorted(edges[1:-1], labels, side="right")
        ends = [f"{number(a)} to {number(b)}" for a, b in pairwise(edges.tolist())]
        return [f"step{s}" for s in steps], [(f"step{s}", text) for s, text in enumerate(ends)]
    counted = Counter(labels)
    order = sorted(counted, key=lambda name: (-counted[name], name))
    common = order if len(order) <= COLOURS else order[: COLOURS - 2]
    style = {name: f"hue{place}" for place, name in enumerate(common)}
    legend = [(style[name], name) for name in common]
    if len(common) < len(order):
        legend.append(("others", f"{len(order) - len(common)} other classes"))
    return [style.get(label, "others") for label in labels], legend
