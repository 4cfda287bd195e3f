"""The charts of the page, each a function from what was measured to one SVG picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from labelgrad.report.data import Curve, Estimate, Gradients, Result
from labelgrad.report.svg import (
    WIDTH,
    Format,
    Point,
    Scale,
    bottom_axis,
    chart,
    dots,
    left_axis,
    line,
    span,
    tag,
    thin,
)
from labelgrad.report.text import number, percent
from labelgrad.training.evaluation import Reliability

LEFT, RIGHT, TOP, FLOOR, HEIGHT = 52, WIDTH - 14, 14, 210, 252
ROLES = ("method", "baseline")
MOST_POINTS = 300  # of a line; more cannot be told apart


def result(found: Result, method: str, form: Format) -> Markup:
    """The two errors as dots with their intervals, on one scale."""
    rows = [(method, found.method, "method"), ("supervised only", found.baseline, "baseline")]
    ends = [edge for _, each, _ in rows for edge in (each.low, each.high, each.value)]
    near_zero = min(ends) < max(ends) / 2
    across = span(ends, 14, RIGHT, also=[0.0] if near_zero else [])
    spoken = "; ".join(f"{name}: {interval(each, form)}" for name, each, _ in rows)
    marks = [
        _interval_row(name, each, role, across, 30 + 52 * place, form)
        for place, (name, each, role) in enumerate(rows)
    ]
    axis = bottom_axis(across, 112, found.measure, axis_form(form))
    return chart("result", f"{found.measure} of both models", spoken, 152, axis, *marks)


def _interval_row(
    name: str, each: Estimate, role: str, across: Scale, y: float, form: Format
) -> Markup:
    label = tag("text", name, class_="name", x=across.start, y=y - 13)
    value = tag("text", form(each.value), class_=f"value end {role}", x=across.end, y=y - 13)
    bar = line([(across(each.low), y), (across(each.high), y)], f"interval {role}")
    return label + value + bar + dots([(across(each.value), y)], role, radius=6)


def interval(each: Estimate, form: Format) -> str:
    """The number and its interval in words.

    >>> interval(Estimate(0.1, 0.05, 0.15), percent)
    '10.0%, probably between 5.0% and 15.0%'
    """
    return f"{form(each.value)}, probably between {form(each.low)} and {form(each.high)}"


def gain(difference: Estimate, task: str) -> tuple[str, list[str]]:
    """How much better or worse the method is: in words, then the number and its interval.

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
        line(_points(each.steps, each.values, across, up), ROLES[each.baseline])
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
    across, up = Scale(0, 1, LEFT, RIGHT), Scale(0, 1, 260, TOP)
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
        300,
        left_axis(up, LEFT, RIGHT, axis_form(percent)),
        bottom_axis(across, 260, "confidence", axis_form(percent)),
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
