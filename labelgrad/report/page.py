"""From `ReportData` to one HTML file that needs nothing else, and to the disk in one piece."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup
from numpy import shape

from labelgrad.report import charts, comparisons
from labelgrad.report.data import Curve, Example, ReportData
from labelgrad.report.svg import Format
from labelgrad.report.text import broken, cut, duration, number, percent, plain, whole
from labelgrad.report.thumbnail import TINY, thumbnail

HERE = Path(__file__).parent
MOST_SKIPPED = 200  # shown by name


class Group(NamedTuple):
    """Examples that are worth a look for one reason."""

    key: str
    title: str
    reason: str
    examples: Sequence[Example]


def render(data: ReportData) -> str:
    """The page as text; what came from the person's data is escaped wherever it stands.

    >>> page = render(ReportData(
    ...     data="<b>pets</b>.csv", kind="table", task="classification", labeled=30, unlabeled=500,
    ...     method="lga", model="MLP", steps=1000, seconds=12.5, seed=0, version="0.1.0",
    ... ))
    >>> "<b>pets</b>" in page, "&lt;b&gt;pets&lt;/b&gt;.csv" in page
    (False, True)
    """
    style, script = ((HERE / f"page.{ending}").read_text("utf-8") for ending in ("css", "js"))
    form = percent if data.task == "classification" else number
    return (
        _environment()
        .get_template("page.html")
        .render(
            data=data,
            policy=_policy(style, script),
            style=Markup(style),
            script=Markup(script),
            form=form,
            learning=_learning(data),
            pairs=_pairs(data),
            groups=_groups(data),
            labels=_labels(data),
            most_skipped=MOST_SKIPPED,
            most_labels=max(data.class_counts, default=0),
        )
    )


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent, "duration": duration}
    environment.filters |= {"cut": cut, "broken": broken, "whole": whole}
    environment.globals |= {"charts": charts, "comparisons": comparisons, "thumbnail": thumbnail}
    environment.tests["tiny"] = lambda picture: max(shape(picture)) < TINY
    return environment


def _policy(style: str, script: str) -> str:
    """What the browser may load: this style, this script, pictures within the file; no more."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _learning(data: ReportData) -> list[tuple[str, list[Curve], Format]]:
    """The curves of each measure, and how its numbers are written."""
    order = {each.measure: place for place, each in reversed(list(enumerate(data.curves)))}
    sorted_curves = sorted(data.curves, key=lambda each: order[each.measure])
    return [
        (measure, list(curves), measure_form(data.task, measure))
        for measure, curves in groupby(sorted_curves, key=lambda each: each.measure)
    ]


def measure_form(task: str, measure: str) -> Format:
    """Errors of a classification are parts of 1; all else is a number."""
    return percent if task == "classification" and measure.endswith("error") else number


def _pairs(data: ReportData) -> list[comparisons.Pair]:
    if data.confusion is None:
        return []
    most = 8 if len(data.classes) <= comparisons.MOST_CLASSES else 40
    return comparisons.worst_pairs(data.confusion, data.classes, most)


def _groups(data: ReportData) -> list[Group]:
    every = [
        Group(
            "contested",
            "Most contested",
            "Where the imputed label and the model disagree: look at these first.",
            data.contested,
        ),
        Group(
            "least-sure",
            "Least sure",
            "Where the imputed label hardly decides: worth a look.",
            data.least_sure,
        ),
        Group("surest", "Surest", "Where the imputed label leaves least doubt.", data.surest),
    ]
    return [group for group in every if group.examples]


def _labels(data: ReportData) -> dict[str, int]:
    """A number for each class in the gallery, for the script: names never get there."""
    if data.task == "regression":
        return {}
    shown = {example.label for group in _groups(data) for example in group.examples}
    order = [name for name in data.classes if name in shown]
    return {name: place for place, name in enumerate([*order, *sorted(shown - set(order))])}
