"""From `ReportData` to one HTML file that needs nothing else, and to the disk in one piece."""

from __future__ import annotations

import base64
import hashlib
import io
import math
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup, escape

from labelgrad.report import charts
from labelgrad.report.data import Curve, Example, ReportData, Trust
from labelgrad.report.example_map import map_beyond, map_chart, map_keys
from labelgrad.report.shares import shares
from labelgrad.report.svg import Format, cut, number, percent, plain

HERE = Path(__file__).parent
MOST_SKIPPED = 200  # shown by name
LARGEST = 96  # pixels of a side of a picture, of which a page may hold hundreds
BEGIN, END = "<!--promises-->", "<!--/promises-->"  # names from the data cannot look like these
LONG_CELL = 120  # letters, from which a cell is shown in part and whole where one points at it
TINY = 48  # below this, pixels are shown as squares


class Group(NamedTuple):
    """Examples that are worth a look for one reason."""

    key: str
    title: str
    reason: str
    examples: Sequence[Example]


class JudgedColumns(NamedTuple):
    """Which columns the table of the result has, beside name and error."""

    loss: bool
    calibration: bool
    heaviest: float  # the largest weight in the pool; without one there is no such column

    @property
    def in_all(self) -> int:
        return 2 + self.loss + self.calibration + bool(self.heaviest)


def render(data: ReportData) -> str:
    """The page as text; what came from the person's data is escaped wherever it stands.

    >>> page = render(ReportData(
    ...     data="<b>pets</b>.csv", kind="table", task="classification", labeled=30, unlabeled=500,
    ...     method="lga", model="MLP", steps=1000, seconds=12.5, seed=0, version="0.1.0",
    ... ))
    >>> "<b>pets</b>" in page, "&lt;b&gt;pets&lt;/b&gt;.csv" in page
    (False, True)
    """
    files = ("family.css", "page.css", "page.js")
    family, own, script = ((HERE / name).read_text("utf-8") for name in files)
    style = family + own
    form = percent if data.task == "classification" else number
    return (
        _environment()
        .get_template("page.html")
        .render(
            data=data,
            promises=Markup(promises_section(data.trust, data.task)),
            policy=_policy(style, script),
            style=Markup(style),
            script=Markup(script),
            form=form,
            columns=_judged_columns(data),
            learning=_learning(data),
            pairs=_pairs(data),
            groups=_groups(data),
            labels=_labels(data),
            most_skipped=MOST_SKIPPED,
            long_cell=LONG_CELL,
            most_labels=max(data.class_counts, default=0),
        )
    )


def promises_section(trust: Trust | None, task: str) -> str:
    """The part of the page about what can be promised; nothing where there is nothing to say."""
    form = percent if task == "classification" else number
    return _environment().get_template("promises.html").render(trust=trust, form=form)


def with_promises(page: str, trust: Trust, task: str) -> str:
    r"""A page with that part anew, such as after an audit; a page without it stays as it is.

    >>> with_promises("<!--promises-->old<!--/promises-->", Trust("New."), "regression")[:38]
    '<!--promises--><section id="promises">'
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        return page
    return before + begin + promises_section(trust, task) + end + after


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
    environment.filters |= {"cut": cut, "broken": broken, "whole": whole, "fixed": fixed}
    environment.globals |= {"charts": charts, "thumbnail": thumbnail, "shares": shares}
    environment.globals |= {"map_chart": map_chart, "map_keys": map_keys, "map_beyond": map_beyond}
    environment.tests["tiny"] = lambda picture: max(np.shape(picture)) < TINY
    return environment


def _policy(style: str, script: str) -> str:
    """What the browser may load: this style, this script, pictures within the file; no more."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _judged_columns(data: ReportData) -> JudgedColumns:
    rows = data.result.rows if data.result else ()
    return JudgedColumns(
        loss=any(row.loss is not None for row in rows),
        calibration=data.task == "classification"
        and any(row.calibration is not None for row in rows),
        heaviest=max((row.weight or 0.0 for row in rows), default=0.0),
    )


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


def _pairs(data: ReportData) -> list[charts.Pair]:
    if data.confusion is None:
        return []
    most = 8 if len(data.classes) <= charts.MOST_CLASSES else 40
    return charts.worst_pairs(data.confusion, data.classes, most)


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


def whole(part: float) -> str:
    """A probability in whole percent; only what is certain is 100%, only what cannot be 0%.

    >>> whole(0.876), whole(0.9999), whole(1.0), whole(0.001)
    ('88%', '>99%', '100%', '<1%')
    """
    if 0.995 <= part < 1:
        return ">99%"
    return "<1%" if 0 < part < 0.005 else f"{100 * part:.0f}%" if math.isfinite(part) else "–"


def fixed(value: float | None, digits: int) -> str:
    """A number with so many digits after its point, for a column; a dash where there is none.

    >>> fixed(0.27, 3), fixed(None, 3), fixed(123456.7, 3)
    ('0.270', '–', '123,457')
    """
    if value is None or not abs(value) < 1000:
        return number(math.nan if value is None else value)
    return f"{value:.{digits}f}".replace("-", "−")


def duration(seconds: float) -> str:
    """A time as a clock would say it.

    >>> duration(4.26), duration(75), duration(7384)
    ('4.3 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def broken(name: str) -> Markup:
    """A name of a file that may be broken into lines after its folders.

    >>> print(broken("new/<b>.png"))
    new/<wbr>&lt;b&gt;.png
    """
    return Markup("/<wbr>").join(escape(part) for part in plain(name).split("/"))


def thumbnail(picture: Any) -> str:
    """The picture as a PNG data URI, no side larger than 96 pixels.

    >>> thumbnail(np.zeros((8, 8), dtype=np.uint8))[:22]
    'data:image/png;base64,'
    """
    from PIL import Image

    image = Image.fromarray(_pixels(picture))
    image.thumbnail((LARGEST, LARGEST))
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _pixels(picture: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Pixels with their colours last, or without colours."""
    pixels = np.asarray(picture)
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3):
        pixels = np.moveaxis(pixels, 0, -1)
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    fits = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[-1] == 3)
    if pixels.dtype != np.uint8 or not fits or not pixels.size:
        raise ValueError(
            f"A picture must have 8-bit pixels, grey or in three colours, got {pixels.dtype} "
            f"numbers of the shape {pixels.shape}."
        )
    return np.ascontiguousarray(pixels)
