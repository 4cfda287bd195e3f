"""Shares of classes with their intervals, or the mean of values, as one picture."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from labelgrad.report.charts import NAMES, axis_form, interval
from labelgrad.report.data import Share
from labelgrad.report.svg import (
    WIDTH,
    Format,
    bottom_axis,
    chart,
    cut,
    dots,
    fitted,
    line,
    span,
    tag,
    width,
)

ROW = 30.0  # room for two intervals
MOST = 20  # classes, the commonest


def shares(found: Sequence[Share], form: Format) -> Markup:
    """A row for each class: the share with its interval, and below it that of labels alone.

    >>> from labelgrad.report.data import Estimate
    >>> from labelgrad.report.svg import percent
    >>> one = Share("cat", Estimate(0.2, 0.1, 0.3), Estimate(0.25, 0.05, 0.4))
    >>> "cat: 20.0%, probably between 10.0% and 30.0%" in shares([one], percent)
    True
    """
    rows = sorted(found, key=lambda each: -each.share.value)[:MOST]
    ends = [end for row in rows for each in (row.share, row.alone) for end in (each.low, each.high)]
    names = max(width(fitted(row.of, NAMES)) for row in rows)
    numbers = max(width(form(row.share.value)) for row in rows)
    zero = [0.0] if min(ends) < max(ends) / 2 else []
    across = span(ends, names + 14, WIDTH - numbers - 14, also=zero)
    floor = ROW * len(rows) + 8
    marks = [bottom_axis(across, floor, "", axis_form(form), most=4)]
    for place, row in enumerate(rows):
        y, own, alone = ROW * (place + 0.5), row.share, row.alone
        marks += [
            tag("text", fitted(row.of, NAMES), class_="name", x=0.0, y=y + 4),
            line([(across(own.low), y - 4), (across(own.high), y - 4)], "interval method"),
            dots([(across(own.value), y - 4)], "method", radius=4.5),
            line([(across(alone.low), y + 6), (across(alone.high), y + 6)], "baseline"),
            tag("text", form(own.value), class_="value end method", x=WIDTH, y=y + 4),
        ]
    spoken = "; ".join(f"{cut(row.of, 60)}: {interval(row.share, form)}" for row in rows)
    return chart("shares", "Shares of all rows", spoken, floor + 20, *marks)
