"""From a result to one HTML file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import polars as pl
from markupsafe import Markup, escape

from labelgrad.auto.data.dataset import Dataset
from labelgrad.auto.data.views import ExampleViews
from labelgrad.auto.evaluation import (
    ENSEMBLE,
    LABELS_ONLY,
    STUDENT,
    UNLABELED,
    Evaluation,
    Score,
)
from labelgrad.auto.guarantee import GuaranteeTable
from labelgrad.auto.report import charts
from labelgrad.auto.report.svg import Format, cut, number, percent, plain
from labelgrad.auto.result import Result
from labelgrad.auto.task import Array
from labelgrad.training.evaluation import reliability

HERE = Path(__file__).parent
MAX_EXAMPLES, MAX_COLUMNS, THUMBNAIL = 48, 6, 96
MAP_UNLABELED, MAP_LABELED = 2000, 500  # dots on the map
CONFIDENT = 0.9
GROUPS = (  # heading, style, groups of the leaderboard
    ("Labels only", "baseline", (LABELS_ONLY,)),
    ("With unlabeled examples", "method", (UNLABELED,)),
    ("Ensemble", "together", (ENSEMBLE, STUDENT)),
)


@dataclass(frozen=True)
class Shown:
    """One example of the gallery."""

    id: str
    label: str
    confidence: float | None
    prediction: str
    prediction_confidence: float | None
    given: str = ""
    image: str = ""  # as a data URI
    cells: Sequence[str] = ()

    @property
    def differs(self) -> bool:
        """Whether the model predicts another class than the label."""
        return self.prediction != (self.given or self.label)


@dataclass(frozen=True)
class Group:
    """Examples that are worth a look for one reason."""

    key: str
    title: str
    reason: str
    examples: Sequence[Shown]


def render(
    result: Result,
    dataset: Dataset,
    views: ExampleViews,
    issues: pl.DataFrame,
    guarantees: GuaranteeTable,
) -> str:
    """The report as HTML; whatever came from the data is escaped.

    Parameters
    ----------
    result : what was fitted.
    dataset : the examples that it was fitted on.
    views : how the examples look.
    issues : the label issues to show (`labelgrad.auto.label_issues`).
    guarantees : what can be guaranteed (`labelgrad.auto.guarantee`).

    Returns
    -------
    str
        One page that needs no other file.
    """
    style = "".join((HERE / name).read_text("utf-8") for name in ("common.css", "page.css"))
    script = (HERE / "page.js").read_text("utf-8")
    about, task = result.about, result.task
    form: Format = percent if task.classes else number
    gallery = Gallery(result, views)
    groups = gallery.groups()
    shown_labels = {example.label for group in groups for example in group.examples}
    context = {
        "result": result,
        "name": Path(about.data).name if about.data else about.kind,
        "labeled": about.labeled,
        "unlabeled": about.unlabeled,
        "seconds": about.seconds,
        "confident": confident_sentence(result.labels),
        "examples": result.evaluation.examples,
        "error_name": task.error_name.capitalize(),
        "form": form,
        "issues": gallery.issues(issues),
        "guarantees": guarantees,
        "facts": _facts(result),
        "classes": list(about.class_counts.items()),
        "most_labels": max(about.class_counts.values(), default=1) or 1,
        "notes": about.notes,
        "skipped": about.skipped,
        "groups": groups,
        "label_numbers": {n: i for i, n in enumerate(c for c in task.classes if c in shown_labels)},
        "columns": gallery.columns,
        "id_name": result.predictor.preprocessor.id_name,
        "version": about.version,
        "policy": _policy(style, script),
        "style": Markup(style),
        "script": Markup(script),
        **_leaderboard(result.evaluation, form),
        **_held_out(result),
        **_map(result, dataset),
    }
    return _environment().get_template("page.html").render(context)


def confident_sentence(labels: pl.DataFrame, threshold: float = CONFIDENT) -> str:
    """How many imputed labels are confident, and how many of them are expected to be right.

    >>> labels = pl.DataFrame({"source": ["imputed"] * 3, "confidence": [0.95, 0.97, 0.5]})
    >>> print(confident_sentence(labels))
    2 of 3 imputed labels have confidence above 90 %; about 2 of them are expected to be right.
    """
    confidence = labels["confidence"].filter(labels["source"] == "imputed").drop_nulls()
    if not len(confidence):
        return ""
    above = confidence.filter(confidence > threshold)
    return (
        f"{len(above):,} of {len(confidence):,} imputed labels have confidence above "
        f"{100 * threshold:g} %; about {above.sum():,.0f} of them are expected to be right."
    )


class Gallery:
    """Picks examples that are worth a look, and says how they look."""

    def __init__(self, result: Result, views: ExampleViews):
        self.views, self.result = views, result
        self.id_name = result.predictor.preprocessor.id_name
        self.is_imputed: pl.Series = result.labels["source"] == "imputed"
        rows = result.labels.lazy().with_row_index("position")
        self.imputed = rows.filter(pl.col("source") == "imputed")  # lazy, as it may be long
        first = views.view(self.is_imputed.arg_max() or 0) if self.is_imputed.any() else None
        self.columns = [name for name, _ in first.cells][:MAX_COLUMNS] if first else []

    def groups(self) -> list[Group]:
        """Contested, uncertain and confident labels, as far as there are any."""
        if not self.is_imputed.any():
            return []
        if not self.result.task.classes:
            apart = (pl.col("label") - pl.col("prediction")).abs()
            far, near = self._most(apart, by_class=False), self._most(-apart, by_class=False)
            return [
                Group(
                    "contested", "Contested", "The model's value is farthest from the label.", far
                ),
                Group("agreed", "Agreed", "The model's value is nearest to the label.", near),
            ]
        contested = pl.when(pl.col("label") != pl.col("prediction")).then("prediction_confidence")
        found = [
            Group(
                "contested",
                "Contested",
                "The model predicts another class than the label: review these first.",
                self._most(contested),
            ),
            Group(
                "uncertain",
                "Least confident",
                "The label is least certain: worth a review.",
                self._most(-pl.col("confidence")),
            ),
            Group(
                "confident",
                "Most confident",
                "The label is most certain.",
                self._most(pl.col("confidence")),
            ),
        ]
        return [group for group in found if group.examples]

    def _most(self, worth: pl.Expr, *, by_class: bool = True) -> list[Shown]:
        """The examples with the most of something, shared out evenly among the classes."""
        worths = self.imputed.select("position", "label", worth.alias("worth"))
        few = worths.drop_nulls("worth").collect()
        rank = pl.col("worth").rank("ordinal", descending=True)
        few = few.with_columns((rank.over("label") if by_class else rank).alias("rank"))
        few = few.sort("rank", "position").head(MAX_EXAMPLES).sort("worth", descending=True)
        rows = self.imputed.filter(pl.col("position").is_in(few["position"].to_list())).collect()
        table = few.select("position").join(rows, on="position", maintain_order="left")
        return [self._shown(row) for row in table.rows(named=True)]

    def issues(self, issues: pl.DataFrame) -> list[Shown]:
        """Given labels that are probably wrong."""
        ids = self.result.labels.with_row_index("position").select("position", self.id_name)
        table = issues.join(ids, on=self.id_name, maintain_order="left")
        return [self._shown(row) for row in table.rows(named=True)]

    def _shown(self, row: dict[str, Any]) -> Shown:
        position = int(row["position"])
        view = self.views.view(position)
        image = self.views.image(position, THUMBNAIL) if view.image else None
        uri = "" if image is None else f"data:image/png;base64,{base64.b64encode(image).decode()}"
        cells = [cell for _, cell in view.cells[:MAX_COLUMNS]] or [view.text] * bool(view.text)
        label = row["label"] if "label" in row else row["prediction"]
        return Shown(
            str(row[self.id_name]),
            _text(label),
            row.get("confidence"),
            _text(row["prediction"]),
            row.get("prediction_confidence"),
            _text(row["given"]) if row.get("given") is not None else "",
            uri,
            cells,
        )


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _leaderboard(evaluation: Evaluation, form: Format) -> dict[str, Any]:
    def rank(score: Score) -> tuple[float, float]:
        error = math.inf if score.error is None else score.error.value
        return error, math.inf if score.loss is None else score.loss

    board = []
    for heading, style, groups in GROUPS:
        scores = [score for score in evaluation.scores if score.group in groups]
        if scores:
            board.append((heading, style, sorted(scores, key=rank)))
    bars = [(heading, [_bar(score, style) for score in scores]) for heading, style, scores in board]
    chart = charts.intervals("board", "error on held-out labels", bars, form) if board else ""
    shown = board if evaluation.examples else []
    return {"board": shown, "board_chart": chart, "kept": evaluation.kept}


def _bar(score: Score, style: str) -> charts.Bar:
    error = score.error
    if error is None:
        return charts.Bar(score.name, None, 0.0, 0.0, style)
    return charts.Bar(score.name, error.value, error.low, error.high, style)


def _held_out(result: Result) -> dict[str, Any]:
    """Calibration and mistakes of the kept model, or of the ensemble where it was not scored."""
    context: dict[str, Any] = {"calibration": [], "confusion": None, "pairs": [], "scatter": None}
    held_out, task = result.held_out, result.task
    prediction = held_out.predictions.get("student", held_out.predictions.get("ensemble"))
    if prediction is None or not len(held_out.y):
        return context
    if not task.classes:
        truth, predicted = (np.array(task.display(v)) for v in (held_out.y, prediction[:, 0]))
        return context | {"scatter": charts.scatter(truth, predicted)}
    found = reliability(np.exp(prediction), held_out.y)
    caption = f"ECE {percent(found.ece)}"
    context["calibration"] = [(caption, charts.reliability(found, "reliability", "Reliability"))]
    matrix = np.zeros((len(task.classes), len(task.classes)), dtype=int)
    np.add.at(matrix, (held_out.y, prediction.argmax(1)), 1)
    small = len(task.classes) <= charts.MAX_MATRIX
    context["confusion"] = charts.confusion(matrix, task.classes) if small else ""
    return context | {"pairs": _worst_pairs(matrix, task.classes)}


def _worst_pairs(matrix: Array, classes: Sequence[str], most: int = 8) -> list[tuple[Any, ...]]:
    wrong = matrix * ~np.eye(len(classes), dtype=bool)
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [divmod(int(place), len(classes)) for place in order if wrong.flat[place]]
    return [
        (classes[t], classes[p], int(wrong[t, p]), wrong[t, p] / matrix[t].sum()) for t, p in pairs
    ]


def _map(result: Result, dataset: Dataset) -> dict[str, Any]:
    """Examples in the two principal components of their features."""
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(result.config.seed)
    unlabeled = rng.permutation(dataset.unlabeled)[:MAP_UNLABELED]
    labeled = rng.permutation(dataset.labeled)[:MAP_LABELED]
    rows = np.concatenate([unlabeled, labeled])
    features = np.asarray(dataset.X[np.sort(rows)], dtype=np.float32)[np.argsort(np.argsort(rows))]
    if len(rows) < 3 or features.shape[1] < 2 or not np.ptp(features, axis=0).any():
        return {"map": None}
    pca = PCA(2, svd_solver="randomized", random_state=result.config.seed % 2**32)
    points = pca.fit_transform(features)
    table = result.labels[rows.tolist()]
    confidence = table["confidence"].cast(pl.Float64).fill_null(math.nan).to_numpy()
    labels = table["label"].to_list()
    given = np.arange(len(rows)) >= len(unlabeled)
    variance = float(pca.explained_variance_ratio_.sum())
    ids = [str(one) for one in table.to_series(0)]
    found = charts.MapPoints(points, ids, labels, confidence, given, variance)
    chart, legend = charts.example_map(found), charts.map_legend(found)
    return {"map": chart, "map_legend": legend, "map_variance": variance}


def _facts(result: Result) -> list[tuple[str, str]]:
    about = result.about
    facts = [
        ("Data", about.data or about.kind),
        ("Kind", f"{about.kind}, {about.task}"),
        ("Target", result.config.target or ""),
        ("Labeled", f"{about.labeled:,}"),
        ("Unlabeled", f"{about.unlabeled:,}"),
        ("Skipped", f"{len(about.skipped):,}" if about.skipped else ""),
        ("Network", result.predictor.model.architecture),
        ("Seed", str(result.config.seed)),
        ("Version", f"labelgrad {about.version}"),
    ]
    return [(term, text) for term, text in facts if text]


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
    return environment


def _policy(style: str, script: str) -> str:
    """What the browser may load: this style, this script, images within the file; no more."""

    def digest(text: str) -> str:
        return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

    return (
        f"default-src 'none'; img-src data:; style-src '{digest(style)}'; "
        f"script-src '{digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def whole(share: float) -> str:
    """A probability in whole percent; only what is certain is 100%, only what cannot be 0%.

    >>> whole(0.876), whole(0.9999), whole(1.0), whole(0.001)
    ('88%', '>99%', '100%', '<1%')
    """
    if 0.995 <= share < 1:
        return ">99%"
    return "<1%" if 0 < share < 0.005 else f"{100 * share:.0f}%" if math.isfinite(share) else "–"


def fixed(value: float | None, digits: int) -> str:
    """A number with a fixed count of digits after its point; a dash where there is none.

    >>> fixed(0.27, 3), fixed(None, 3), fixed(123456.7, 3)
    ('0.270', '–', '123,457')
    """
    if value is None or not abs(value) < 1000:
        return number(value)
    return f"{value:.{digits}f}".replace("-", "−")


def duration(seconds: float) -> str:
    """A time as a clock would show it.

    >>> duration(4.26), duration(75), duration(7384)
    ('4.3 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def broken(name: str) -> Markup:
    """A file name that may be broken into lines after its folders.

    >>> print(broken("new/<b>.png"))
    new/<wbr>&lt;b&gt;.png
    """
    return Markup("/<wbr>").join(escape(part) for part in plain(name).split("/"))
