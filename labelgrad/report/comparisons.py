"""Predictions laid beside the truth: a heat map for classes, clouds of dots for numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from labelgrad.report.svg import (
    WIDTH,
    Point,
    bottom_axis,
    chart,
    dots,
    left_axis,
    line,
    span,
    tag,
    thin,
)
from labelgrad.report.text import cut, number

MOST_CLASSES = 50  # in a heat map
MOST_COUNTS = 12  # classes up to which a cell has room for its number
MOST_DOTS = 1500
LEFT, RIGHT, TOP, FLOOR = 58, WIDTH - 14, 14, 260


class Pair(NamedTuple):
    """How often one class was taken for another."""

    truth: str
    predicted: str
    times: int
    part: float  # of all examples of the true class


def worst_pairs(
    matrix: Sequence[Sequence[int]], classes: Sequence[str], most: int = 8
) -> list[Pair]:
    """The classes most often taken for another, worst first.

    >>> worst_pairs([[8, 2], [0, 5]], ["cat", "dog"])
    [Pair(truth='cat', predicted='dog', times=2, part=0.2)]
    """
    pairs = [
        Pair(truth, predicted, count, count / sum(row))
        for truth, row in zip(classes, matrix, strict=True)
        for predicted, count in zip(classes, row, strict=True)
        if count and truth != predicted
    ]
    return sorted(pairs, key=lambda pair: (-pair.times, -pair.part))[:most]


class Size(NamedTuple):
    """How large names in a heat map are: their style, a letter's width, half its height."""

    style: str
    letter: float
    half: float


def confusion(matrix: Sequence[Sequence[int]], classes: Sequence[str]) -> Markup:
    """A row for each true class, a column for each prediction; darker is more of the row."""
    names, size = [cut(name, 12) for name in classes], _size(len(classes))
    longest = max(len(name) for name in names)
    left = 32 + longest * size.letter
    side = min(64.0, (WIDTH - left - 4) / len(names))
    turned = longest * size.letter > side - 2
    top = left if turned else 32.0
    marks = [
        tag("text", "true ↓", class_=f"name end {size.style}", x=left - 5, y=top - 5),
        tag("text", "predicted →", class_=f"name {size.style}", x=left, y=11.0),
    ]
    for place, name in enumerate(names):
        middle = (place + 0.5) * side
        marks.append(_beside(name, left - 5, top + middle + size.half, size))
        marks.append(_above(name, left + middle, top - 5, size, turned=turned))
    for row, counts in enumerate(matrix):
        for column, found in enumerate(counts):
            corner = (left + column * side, top + row * side)
            marks.append(_cell(corner, side, found, sum(counts), row == column))
    right, total = sum(row[place] for place, row in enumerate(matrix)), sum(map(sum, matrix))
    spoken = f"{right} of {total} held-out examples are on the diagonal, predicted as they are."
    return chart("confusion", "Confusion matrix", spoken, top + len(names) * side + 4, *marks)


def _size(count: int) -> Size:
    if count <= MOST_COUNTS:
        return Size("", 7.0, 4.0)
    return Size("small", 5.0, 3.0) if count <= 24 else Size("tiny", 3.2, 1.8)


def _beside(name: str, x: float, y: float, size: Size) -> Markup:
    return tag("text", name, class_=f"tick end {size.style}", x=x, y=y)


def _above(name: str, x: float, y: float, size: Size, *, turned: bool) -> Markup:
    if not turned:
        return tag("text", name, class_=f"tick middle {size.style}", x=x, y=y)
    place = x + size.half
    turn = f"rotate(-90 {place:.1f} {y:.1f})"
    return tag("text", name, class_=f"tick {size.style}", x=place, y=y, transform=turn)


def _cell(corner: Point, side: float, count: int, total: int, right: bool) -> Markup:
    x, y = corner
    part = count / total if total else 0.0
    gap = min(1.0, side / 12)
    box = tag(
        "rect",
        class_="cell right" if right else "cell wrong",
        x=x,
        y=y,
        width=side - gap,
        height=side - gap,
        fill_opacity=round(0.12 + 0.88 * part, 3) if count else 0.0,
    )
    if not count or side < (WIDTH - 110) / MOST_COUNTS:
        return box
    strong = " strong" if part > 0.45 else ""
    middle, base = x + (side - gap) / 2, y + side / 2 + 4
    return box + tag("text", number(count), class_=f"count middle{strong}", x=middle, y=base)


def against_truth(truth: Sequence[float], predicted: Sequence[float]) -> Markup:
    """Predicted against true: on the diagonal a prediction is right."""
    both = [*truth, *predicted]
    across, up = span(both, LEFT, RIGHT), span(both, FLOOR, TOP)
    ends = (across.low, across.high)
    places = thin(len(truth), MOST_DOTS)
    return chart(
        "against-truth",
        "Predicted against true",
        f"{len(truth)} held-out examples; the diagonal is where a prediction is right.",
        300,
        left_axis(up, LEFT, RIGHT),
        bottom_axis(across, FLOOR, "true"),
        line([(across(end), up(end)) for end in ends], "diagonal"),
        dots([(across(truth[i]), up(predicted[i])) for i in places], "method soft"),
    )


def residuals(truth: Sequence[float], predicted: Sequence[float]) -> Markup:
    """True minus predicted over predicted: a pattern is something the model has not learned."""
    left_over = [real - guess for real, guess in zip(truth, predicted, strict=True)]
    across, up = span(predicted, LEFT, RIGHT), span(left_over, FLOOR, TOP, also=[0.0])
    zero = up(0.0)
    places = thin(len(truth), MOST_DOTS)
    return chart(
        "residuals",
        "Residuals",
        f"True minus predicted of {len(truth)} held-out examples, from "
        f"{number(min(left_over, default=0))} to {number(max(left_over, default=0))}.",
        300,
        left_axis(up, LEFT, RIGHT),
        bottom_axis(across, FLOOR, "predicted"),
        line([(LEFT, zero), (RIGHT, zero)], "diagonal"),
        dots([(across(predicted[i]), up(left_over[i])) for i in places], "method soft"),
    )
