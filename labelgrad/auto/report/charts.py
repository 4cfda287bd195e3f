"""The charts of the report, each a function from numbers to one SVG picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from labelgrad.auto.report.svg import (
    WIDTH,
    Format,
    Scale,
    bottom_axis,
    chart,
    cut,
    dot,
    left_axis,
    number,
    percent,
    round_percent,
    segment,
    span,
    tag,
    width,
)
from labelgrad.auto.task import Array
from labelgrad.training.evaluation import Reliability

LEFT, RIGHT, TOP, FLOOR, HEIGHT = 58, WIDTH - 14, 14, 260, 300
HEADING, ROW, LONGEST = 22.0, 25.0, 19  # heights on the leaderboard, letters of a name
MAX_MATRIX = 50  # classes in a confusion matrix
MAX_COUNTS = 12  # classes up to which a cell has room for its number
MAX_DOTS = 1500
COLOURS, STEPS = 10, 7  # of classes, and of values
FAINTEST = 0.15  # opacity of a label that is a guess


class Bar(NamedTuple):
    """An estimate with its interval."""

    name: str
    value: float | None
    low: float
    high: float
    style: str


def intervals(
    key: str, title: str, groups: Sequence[tuple[str, Sequence[Bar]]], form: Format
) -> Markup:
    """Estimates as dots with their intervals on one scale, in groups with headings."""
    bars = [bar for _, group in groups for bar in group]
    known = [bar for bar in bars if bar.value is not None]
    ends = [end for bar in known for end in (bar.low, bar.high, bar.value or 0.0)]
    names = max((width(cut(bar.name, LONGEST)) for bar in bars), default=0.0)
    values = max((width(form(bar.value or 0.0)) for bar in known), default=0.0)
    zero = [0.0] if ends and 0 <= min(ends) < max(ends) / 2 else []
    across = span(ends, names + 14, WIDTH - values - 14, also=zero)
    marks, y = [], 0.0
    for heading, group in groups:
        if heading:
            marks.append(tag("text", heading, class_="tick", x=0.0, y=y + 15))
            y += HEADING
        for bar in group:
            marks.append(_bar(bar, across, y + ROW / 2, form))
            y += ROW
        y += 6
    ticks = round_percent if form is percent else form
    axis = bottom_axis(across, y, title, ticks, most=4)
    spoken = "; ".join(
        f"{cut(bar.name, 60)}: {form(bar.value or 0.0)}, {form(bar.low)} to {form(bar.high)}"
        for bar in known
    )
    return chart(key, title, spoken, y + 40, axis, *marks)


def _bar(bar: Bar, across: Scale, y: float, form: Format) -> Markup:
    label = tag("text", cut(bar.name, LONGEST), class_="name", x=0.0, y=y + 4)
    if bar.value is None:
        return label + tag("text", "not scored", class_="tick end", x=WIDTH, y=y + 4)
    value = tag("text", form(bar.value), class_=f"value end {bar.style}", x=WIDTH, y=y + 4)
    line = segment(across(bar.low), y, across(bar.high), y, f"interval {bar.style}")
    return label + line + dot(across(bar.value), y, bar.style, 4.5) + value


def reliability(found: Reliability, key: str, title: str) -> Markup:
    """How often predictions of each confidence are right; on the diagonal it can be trusted."""
    across, up = Scale(0, 1, LEFT, RIGHT), Scale(0, 1, FLOOR, TOP)
    most = max((each.count for each in found.bins), default=1)
    marks = []
    for each in found.bins:
        x, y = across(each.confidence), up(each.accuracy)
        marks.append(segment(x, up(each.confidence), x, y, "miss"))
        marks.append(dot(x, y, "method soft", 3 + 7 * math.sqrt(each.count / most)))
    return chart(
        key,
        title,
        f"Expected calibration error {number(found.ece)}.",
        HEIGHT,
        left_axis(up, LEFT, RIGHT, round_percent),
        bottom_axis(across, FLOOR, "confidence", round_percent),
        segment(across(0), up(0), across(1), up(1), "diagonal"),
        *marks,
    )


def scatter(truth: Array, predicted: Array) -> Markup:
    """Predicted against true values: on the diagonal a prediction is right."""
    both = [*truth.tolist(), *predicted.tolist()]
    across, up = span(both, LEFT, RIGHT), span(both, FLOOR, TOP)
    some = np.linspace(0, len(truth) - 1, min(len(truth), MAX_DOTS)).astype(int)
    return chart(
        "scatter",
        "Predicted against true",
        f"{len(truth)} held-out examples.",
        HEIGHT,
        left_axis(up, LEFT, RIGHT),
        bottom_axis(across, FLOOR, "true value"),
        segment(across(across.low), up(up.low), across(across.high), up(up.high), "diagonal"),
        *(dot(across(truth[i]), up(predicted[i]), "method soft") for i in some),
    )


def confusion(matrix: Array, classes: Sequence[str]) -> Markup:
    """A row for each true class, a column for each prediction; darker is more of the row."""
    count = len(classes)
    style, letter, half = (
        ("", 7.0, 4.0)
        if count <= MAX_COUNTS
        else (("small", 5.0, 3.0) if count <= 24 else ("tiny", 3.2, 1.8))
    )
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
    for row in range(count):
        for column in range(count):
            corner = left + column * side, left + row * side
            marks.append(_cell(corner, side, matrix[row], column, right=row == column))
    spoken = f"{int(np.trace(matrix))} of {int(matrix.sum())} held-out examples are right."
    return chart("confusion", "Confusion matrix", spoken, left + count * side + 4, *marks)


def _cell(
    corner: tuple[float, float], side: float, counts: Array, column: int, *, right: bool
) -> Markup:
    (x, y), count = corner, int(counts[column])
    share, gap = count / max(1, int(counts.sum())), min(1.0, side / 12)
    box = tag(
        "rect",
        class_="cell right" if right else "cell wrong",
        x=x,
        y=y,
        width=side - gap,
        height=side - gap,
        fill_opacity=round(0.12 + 0.88 * share, 3) if count else 0.0,
    )
    if not count or side < (WIDTH - 110) / MAX_COUNTS:
        return box
    strong = " strong" if share > 0.45 else ""
    middle = x + (side - gap) / 2
    text = tag("text", number(count), class_=f"count middle{strong}", x=middle, y=y + side / 2 + 4)
    return box + text


class MapPoints(NamedTuple):
    """Examples in two dimensions; those later in order are drawn over the earlier ones."""

    points: Array  # (n, 2)
    ids: Sequence[str]
    labels: Sequence[Any]
    confidence: Array  # NaN for given labels, and for values
    given: Array  # whether the label came with the data
    variance: float  # the share of the features' variance that the two directions carry


def map_legend(found: MapPoints) -> list[tuple[str, str]]:
    """Styles and what they stand for: the most common classes first, or values from low to high."""
    if isinstance(found.labels[0], float):
        ends = [f"{number(a)} to {number(b)}" for a, b in pairwise(_value_edges(found))]
        return [(f"step{place}", text) for place, text in enumerate(ends)]
    order = _common_classes(found)
    others = len(set(found.labels)) - len(order)
    legend = [(f"hue{place}", name) for place, name in enumerate(order)]
    return [*legend, ("others", f"{others} other classes")] if others else legend


def example_map(found: MapPoints) -> Markup:
    """A dot for each example, fainter where its label is less certain; given labels have a ring."""
    low, high = np.quantile(found.points, (0.01, 0.99), axis=0)
    slack = 0.5 * (high - low).max()
    low = np.maximum(found.points.min(0), low - slack)
    high = np.minimum(found.points.max(0), high + slack)
    unit = (WIDTH - 12) / max((high - low).max(), 1e-12)
    height = max((high - low)[1] * unit, (WIDTH - 12) / 3)
    middle = np.array([WIDTH / 2, height / 2 + 6])
    places = (np.clip(found.points, low, high) - (low + high) / 2) * unit * (1, -1) + middle
    styles = _map_styles(found)
    chance = 1 / max(2, len(set(found.labels)))
    marks = [tag("rect", class_="frame", x=0.5, y=0.5, width=WIDTH - 1.0, height=height + 11.0)]
    for i in range(len(places)):
        certain = (found.confidence[i] - chance) / (1 - chance)
        opacity = 1.0 if found.given[i] else 0.8
        if math.isfinite(certain):
            opacity = FAINTEST + (1 - FAINTEST) * min(max(certain, 0.0), 1.0)
        label = found.labels[i] if isinstance(found.labels[i], str) else number(found.labels[i])
        source = "labeled" if found.given[i] else percent(found.confidence[i])
        marks.append(
            tag(
                "circle",
                tag("title", f"{cut(found.ids[i], 80)}: {cut(label, 80)}, {source}"),
                class_=f"at {styles[i]} given" if found.given[i] else f"at {styles[i]}",
                cx=round(float(places[i, 0]), 1),
                cy=round(float(places[i, 1]), 1),
                r=3.4 if found.given[i] else 2.2,
                fill_opacity=round(opacity, 2),
            )
        )
    spoken = f"{int(found.given.sum())} labeled and {int((~found.given).sum())} unlabeled examples."
    return chart("map", "Map of the examples", spoken, height + 12, *marks)


def _map_styles(found: MapPoints) -> list[str]:
    if isinstance(found.labels[0], float):
        steps = np.searchsorted(_value_edges(found)[1:-1], found.labels, side="right")
        return [f"step{step}" for step in steps]
    order = {name: f"hue{place}" for place, name in enumerate(_common_classes(found))}
    return [order.get(label, "others") for label in found.labels]


def _common_classes(found: MapPoints) -> list[str]:
    counted = Counter(found.labels)
    order = sorted(counted, key=lambda name: (-counted[name], name))
    return order if len(order) <= COLOURS else order[: COLOURS - 2]


def _value_edges(found: MapPoints) -> list[float]:
    edges: list[float] = np.unique(np.quantile(found.labels, np.linspace(0, 1, STEPS + 1))).tolist()
    return edges
