"""The charts of the page, each a function from what was measured to one SVG picture.

First results and curves, then predictions laid beside the truth: a heat map for classes, clouds of
dots for numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from labelgrad.report.data import ROLES, Curve, Estimate, Gradients, Judged, Result
from labelgrad.report.svg import (
    WIDTH,
    Format,
    Point,
    Scale,
    bottom_axis,
    chart,
    cut,
    dots,
    fitted,
    left_axis,
    line,
    number,
    percent,
    span,
    tag,
    thin,
    width,
)
from labelgrad.training.evaluation import Reliability

LEFT, RIGHT, TOP, FLOOR, HEIGHT = 52, WIDTH - 14, 14, 210, 252
SQUARE_LEFT, SQUARE_FLOOR, SQUARE_HEIGHT = 58, 260, 300  # where both axes are of one kind
HEADING, ROW = 22.0, 25.0  # heights in the chart of a result
NAMES = 152.0  # the widest name there
CURVE_STYLES = ("method", "baseline")
MOST_POINTS = 300  # of a line; more cannot be told apart
MOST_CLASSES = 50  # in a heat map
MOST_COUNTS = 12  # classes up to which a cell has room for its number
MOST_DOTS = 1500


class RoleGroup(NamedTuple):
    """Rows that saw the same, and their style."""

    title: str
    style: str
    rows: list[Judged]


def grouped(rows: Sequence[Judged]) -> list[RoleGroup]:
    """The rows by what they saw, the best of each group first; the pool stands before the student.

    >>> rows = [Judged("pool", "pool", None, None), Judged("forest", "labels", None, None)]
    >>> [(group.title, len(group.rows)) for group in grouped(rows)]
    [('Labels alone', 1), ('Together', 1)]
    """
    ordered = sorted(rows, key=_rank)
    groups = [
        RoleGroup("Labels alone", "baseline", _in_roles(ordered, "labels")),
        RoleGroup("With unlabeled examples", "method", _in_roles(ordered, "unlabeled")),
        RoleGroup("Together", "together", _in_roles(ordered, "pool", "student")),
    ]
    return [group for group in groups if group.rows]


def _rank(row: Judged) -> tuple[int, float, float]:
    """By role, then by error, then by loss; what was not measured is last."""
    measured = (row.error.value if row.error else None, row.loss)
    error, loss = (math.inf if each is None or math.isnan(each) else each for each in measured)
    return ROLES.index(row.role), error, loss


def _in_roles(rows: Sequence[Judged], *roles: str) -> list[Judged]:
    return [row for row in rows if row.role in roles]


def headlines(found: Result) -> list[tuple[str, str, Estimate]]:
    """Style, name and error of the two rows that are compared: the pool, the best by labels alone.

    Where nothing was pooled, the best row that saw unlabeled examples stands in the pool's place.
    """
    judged = [
        (group.style, row.name, row.error)
        for group in grouped(found.rows)
        for row in group.rows
        if row.error
    ]
    for style in ("together", "method"):
        if first := [row for row in judged if row[0] == style][:1]:
            break
    return first + [row for row in judged if row[:2] == ("baseline", found.beside)][:1]


def result(found: Result, form: Format) -> Markup:
    """Each error as a dot with its interval, all on one scale; the pool's is marked across all."""
    groups, across = grouped(found.rows), _error_scale(found.rows, form)
    marks, floor = [], 0.0
    for group in groups:
        marks.append(_role_group(group, across, floor, form))
        floor += HEADING + ROW * len(group.rows) + 6
    pooled = [row.error.value for row in found.rows if row.role == "pool" and row.error]
    guide = [line([(across(value), 8), (across(value), floor)], "diagonal") for value in pooled]
    rows = [row for group in groups for row in group.rows]
    spoken = "; ".join(
        f"{cut(row.name, 60)}: {interval(row.error, form) if row.error else 'not judged'}"
        for row in rows
    )
    title = f"{found.measure} of each, on labels hidden from it"
    axis = _error_axis(across, floor, found.measure, axis_form(form))
    return chart("result", title, spoken, floor + 40, axis, *guide, *marks)


def _error_scale(rows: Sequence[Judged], form: Format) -> Scale:
    """From the names on the left to the numbers on the right."""
    errors = [row.error for row in rows if row.error]
    ends = [edge for each in errors for edge in (each.low, each.high, each.value)]
    zero = [0.0] if ends and min(ends) < max(ends) / 2 else []
    names = max((width(fitted(row.name, NAMES)) for row in rows), default=0.0)
    numbers = max((width(form(each.value)) for each in errors), default=0.0)
    return span(ends, names + 14, WIDTH - numbers - 14, also=zero)


def _error_axis(across: Scale, y: float, measure: str, form: Format) -> Markup:
    """Fewer ticks where the numbers are long."""
    room = (across.end - across.start) / (width(form(across.high)) + 8)
    return bottom_axis(across, y, measure, form, most=max(1, min(4, int(room))))


def _role_group(group: RoleGroup, across: Scale, top: float, form: Format) -> Markup:
    """A heading and its rows; pool and student stand on a band."""
    marks = tag("text", group.title, class_="tick", x=0.0, y=top + 15)
    if group.style == "together":
        size = {"width": WIDTH + 12.0, "height": len(group.rows) * ROW, "rx": 4}
        marks += tag("rect", class_="band", x=-6.0, y=top + HEADING, **size)
    for place, row in enumerate(group.rows):
        middle = top + HEADING + (place + 0.5) * ROW
        marks += _judged_row(row, group.style, across, middle, form)
    return marks


def _judged_row(row: Judged, style: str, across: Scale, y: float, form: Format) -> Markup:
    large = style == "together"
    strong = "value" if large else "name"
    label = tag("text", fitted(row.name, NAMES), class_=strong, x=0.0, y=y + 4)
    if row.error is None:
        return label + tag("text", "not judged", class_="tick end", x=WIDTH, y=y + 4)
    each = row.error
    bar = line([(across(each.low), y), (across(each.high), y)], f"interval {style}")
    dot = dots([(across(each.value), y)], style, radius=6 if large else 4.5)
    value = tag("text", form(each.value), class_=f"value end {style}", x=WIDTH, y=y + 4)
    return label + bar + dot + value


def interval(each: Estimate, form: Format) -> str:
    """The number and its interval in words.

    >>> interval(Estimate(0.1, 0.05, 0.15), percent)
    '10.0%, probably between 5.0% and 15.0%'
    """
    return f"{form(each.value)}, probably between {form(each.low)} and {form(each.high)}"


def gain(difference: Estimate, task: str) -> tuple[str, list[str]]:
    """How much better or worse the pool is: in words, then the number and its interval.

    >>> gain(Estimate(-0.02, -0.05, 0.01), "classification")
    ('points worse', ['2.0', '−1.0', '5.0'])
    """
    values = [difference.value, difference.low, difference.high]
    word = "better"
    if difference.value < 0:
        word, values = "worse", [-difference.value, -difference.high, -difference.low]
    if task == "regression":
        return f"{word} by", [number(each) for each in values]
    return f"points {word}", [percent(each).rstrip("%") for each in values]


def axis_form(form: Format) -> Format:
    """Ticks are round values: a percentage there needs no tenth."""
    return (lambda value: f"{number(100 * value)}%") if form is percent else form


def learning(curves: Sequence[Curve], form: Format) -> Markup:
    """One measure of all runs over their steps; the baseline is dashed."""
    measure = curves[0].measure
    across = span([step for each in curves for step in each.steps], LEFT, RIGHT, also=[0.0])
    up = span([value for each in curves for value in each.values], FLOOR, TOP, also=[0.0])
    lines = [
        line(_points(each.steps, each.values, across, up), CURVE_STYLES[each.baseline])
        for each in sorted(curves, key=lambda each: not each.baseline)
    ]
    ends = [f"{each.name} ends at {form(each.values[-1])}" for each in curves if len(each.values)]
    return chart(
        f"learning-{measure.replace(' ', '-')}",
        f"{measure} over the steps",
        f"{'; '.join(ends)}.",
        HEIGHT,
        left_axis(up, LEFT, RIGHT, axis_form(form)),
        bottom_axis(across, FLOOR, "step"),
        *lines,
    )


def _points(steps: Sequence[int], values: Sequence[float], across: Scale, up: Scale) -> list[Point]:
    return [(across(steps[place]), up(values[place])) for place in thin(len(steps), MOST_POINTS)]


def calibration(found: Reliability, key: str, title: str) -> Markup:
    """How often predictions of each confidence are right; on the diagonal they can be believed."""
    across, up = Scale(0, 1, LEFT, RIGHT), Scale(0, 1, SQUARE_FLOOR, TOP)
    most = max((each.count for each in found.bins), default=1)
    marks = []
    for each in found.bins:
        x, y = across(each.confidence), up(each.accuracy)
        marks.append(line([(x, up(each.confidence)), (x, y)], "miss"))
        marks.append(dots([(x, y)], "method soft", 3 + 7 * math.sqrt(each.count / most)))
    spoken = "; ".join(
        f"{each.count} at {percent(each.confidence)} are right in {percent(each.accuracy)}"
        for each in found.bins
    )
    return chart(
        key,
        title,
        f"Expected calibration error {number(found.ece)}. Predictions by confidence: {spoken}.",
        SQUARE_HEIGHT,
        left_axis(up, LEFT, RIGHT, axis_form(percent)),
        bottom_axis(across, SQUARE_FLOOR, "confidence", axis_form(percent)),
        line([(across(0), up(0)), (across(1), up(1))], "diagonal"),
        *marks,
    )


def gradient_gap(found: Gradients) -> Markup:
    """‖g_ℓ − g_u‖ over the steps, by ratios where it spans many."""
    known = [value for value in found.gap if math.isfinite(value)]
    log = bool(known) and min(known) > 0 and max(known) > 30 * min(known)
    up = span(found.gap, FLOOR, TOP, also=[] if log else [0.0], log=log)
    return _over_steps("gap", "Gap between the gradients", found.steps, found.gap, up)


def gradient_cosine(found: Gradients) -> Markup:
    """The cosine of the two gradients over the steps."""
    up = span(found.cosine, FLOOR, TOP, also=[0.0, 1.0])
    return _over_steps("cosine", "Cosine of the gradients", found.steps, found.cosine, up)


def _over_steps(
    key: str, title: str, steps: Sequence[int], values: Sequence[float], up: Scale
) -> Markup:
    across = span(steps, LEFT, RIGHT, also=[0.0])
    spoken = (
        f"From {number(values[0])} to {number(values[-1])}." if len(values) else "Not measured."
    )
    return chart(
        key,
        title,
        spoken,
        HEIGHT,
        left_axis(up, LEFT, RIGHT),
        bottom_axis(across, FLOOR, "step"),
        line(_points(steps, values, across, up), "method"),
    )


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
    across, up = span(both, SQUARE_LEFT, RIGHT), span(both, SQUARE_FLOOR, TOP)
    ends = (across.low, across.high)
    places = thin(len(truth), MOST_DOTS)
    return chart(
        "against-truth",
        "Predicted against true",
        f"{len(truth)} held-out examples; the diagonal is where a prediction is right.",
        SQUARE_HEIGHT,
        left_axis(up, SQUARE_LEFT, RIGHT),
        bottom_axis(across, SQUARE_FLOOR, "true"),
        line([(across(end), up(end)) for end in ends], "diagonal"),
        dots([(across(truth[i]), up(predicted[i])) for i in places], "method soft"),
    )


def residuals(truth: Sequence[float], predicted: Sequence[float]) -> Markup:
    """True minus predicted over predicted: a pattern is something the model has not learned."""
    left_over = [real - guess for real, guess in zip(truth, predicted, strict=True)]
    across, up = span(predicted, SQUARE_LEFT, RIGHT), span(left_over, SQUARE_FLOOR, TOP, also=[0.0])
    zero = up(0.0)
    places = thin(len(truth), MOST_DOTS)
    return chart(
        "residuals",
        "Residuals",
        f"True minus predicted of {len(truth)} held-out examples, from "
        f"{number(min(left_over, default=0))} to {number(max(left_over, default=0))}.",
        SQUARE_HEIGHT,
        left_axis(up, SQUARE_LEFT, RIGHT),
        bottom_axis(across, SQUARE_FLOOR, "predicted"),
        line([(SQUARE_LEFT, zero), (RIGHT, zero)], "diagonal"),
        dots([(across(predicted[i]), up(left_over[i])) for i in places], "method soft"),
    )
