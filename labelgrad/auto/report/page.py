"""From a result to one HTML file that loads nothing."""

from __future__ import annotations

import hashlib
import math
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import polars as pl
from markupsafe import Markup, escape

from labelgrad.auto.data.dataset import Dataset
from labelgrad.auto.data.views import ExampleViews
from labelgrad.auto.evaluation import ENSEMBLE, LABELS_ONLY, STUDENT, UNLABELED, Evaluation
from labelgrad.auto.guarantee import GuaranteeTable
from labelgrad.auto.report import charts
from labelgrad.auto.report.charts import Format, cut, number, percent, plain
from labelgrad.auto.result import Result
from labelgrad.training.evaluation import reliability

HERE = Path(__file__).parent
PARTS = ("common.css", "page.css", "page.js")
MAX_EXAMPLES, MAX_COLUMNS, THUMBNAIL = 48, 6, 96
MAP_UNLABELED, MAP_LABELED = 2000, 500  # dots on the map
MOST_PAIRS = 8  # of classes that are mistaken for each other
CONFIDENT = 0.9
# What the browser may load: this style, this script, images within the file; no more.
POLICY = (
    "default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; "
    "base-uri 'none'; form-action 'none'"
)
BOARD = (  # heading, style, groups of the leaderboard
    ("Labels only", "baseline", (LABELS_ONLY,)),
    ("With unlabeled examples", "method", (UNLABELED,)),
    ("Ensemble", "together", (ENSEMBLE, STUDENT)),
)
IMPUTED = pl.col("source") == "imputed"
CERTAIN = pl.col("confidence")
APART = (pl.col("label") - pl.col("prediction")).abs()
CONTESTED = pl.when(pl.col("label") != pl.col("prediction")).then("prediction_confidence")
OTHER_CLASS = "The model predicts another class than the label: review these first."
OF_CLASSES = (  # key, title, reason and worth of examples that are worth a look
    ("contested", "Contested", OTHER_CLASS, CONTESTED),
    ("uncertain", "Least confident", "The label is least certain: worth a review.", -CERTAIN),
    ("confident", "Most confident", "The label is most certain.", CERTAIN),
)
OF_VALUES = (
    ("contested", "Contested", "The model's value is farthest from the label.", APART),
    ("agreed", "Agreed", "The model's value is nearest to the label.", -APART),
)


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
    common, own, script = ((HERE / each).read_text("utf-8") for each in PARTS)
    style = common + own
    hashes = (hashlib.sha256(text.encode()).digest() for text in (style, script))
    about, task = result.about, result.task
    form: Format = percent if task.classes else number
    is_imputed = result.labels["source"] == "imputed"
    first = views.view(is_imputed.arg_max() or 0) if is_imputed.any() else None
    groups = _groups(result, views)
    # Given labels that are probably wrong are examples of the gallery, too.
    are_issues = pl.col(result.id_name).is_in(issues[result.id_name].to_list())
    ids = result.labels.select(result.id_name).with_row_index("position").filter(are_issues)
    table = issues.join(ids, on=result.id_name, maintain_order="left").rows(named=True)
    rows = [row | {"label": row["prediction"], "confidence": None} for row in table]
    suspects = [_example(views, row.pop("position"), row) for row in rows]
    shown = {example["label"] for group in groups for example in group["examples"]}
    context = {
        "result": result,
        "about": about,
        "name": Path(about.data).name if about.data else about.kind,
        "confident": confident_sentence(result),
        "error_name": task.error_name.capitalize(),
        "form": form,
        "issues": suspects,
        "guarantees": guarantees,
        "facts": _facts(result),
        "classes": list(about.class_counts.items()),
        "most_labels": max(about.class_counts.values(), default=1) or 1,
        "groups": groups,
        "label_numbers": {n: i for i, n in enumerate(c for c in task.classes if c in shown)},
        "columns": [name for name, _ in first.cells][:MAX_COLUMNS] if first else [],
        "policy": POLICY.format(*(b64encode(each).decode() for each in hashes)),
        "style": Markup(style),
        "script": Markup(script),
        **_leaderboard(result.evaluation, form),
        **_held_out(result),
        **_map(result, dataset),
    }
    return _environment().get_template("page.html").render(context)


def confident_sentence(result: Result) -> str:
    """How many imputed labels are confident, and how many of them are expected to be right.

    No more than the held-out labels of that confidence bear out.
    """
    labels = result.labels
    confidence = labels["confidence"].filter(labels["source"] == "imputed").drop_nulls()
    if not len(confidence):
        return ""
    above = confidence.filter(confidence > CONFIDENT)
    right = float(above.sum()) * result.held_out.support(CONFIDENT)
    return (
        f"{len(above):,} of {len(confidence):,} imputed labels have confidence above "
        f"{100 * CONFIDENT:g} %; about {right:,.0f} of them are expected to be right."
    )


def _groups(result: Result, views: ExampleViews) -> list[dict[str, Any]]:
    """Contested, uncertain and confident labels, as far as there are any."""
    classes, found = result.task.classes, []
    rows = result.labels.lazy().with_row_index("position").filter(IMPUTED)  # it may be long
    first, reverse = ["worth", "position"], [False, True]
    for key, title, reason, worth in OF_CLASSES if classes else OF_VALUES:
        every = rows.select("position", "label", worth.alias("worth")).drop_nulls("worth")
        # The most of it, shared out evenly among the classes.
        parts = [every.filter(pl.col("label") == name) for name in classes] or [every]
        best = [part.top_k(MAX_EXAMPLES, by=first, reverse=reverse) for part in parts]
        ranked = [each.sort(first, descending=[True, False]).with_row_index() for each in best]
        few = pl.concat(ranked).collect().sort("index", "position").head(MAX_EXAMPLES)
        few = few.sort("worth", descending=True, maintain_order=True)
        shown = [
            _example(views, place, result.labels.row(place, named=True))
            for place in few["position"].to_list()
        ]
        if shown:
            found.append({"key": key, "title": title, "reason": reason, "examples": shown})
    return found


def _example(views: ExampleViews, place: int, row: dict[str, Any]) -> dict[str, Any]:
    """One example of the gallery, by its row of a table with the id first."""
    view = views.view(place)
    image = views.image(place, THUMBNAIL) if view.image else None
    shown = {name: row[name] for name in ("label", "prediction", "given") if name in row}
    texts: Any = {n: number(x) if isinstance(x, float) else str(x) for n, x in shown.items()}
    return {
        "id": str(next(iter(row.values()))),
        "confidence": row["confidence"],
        "prediction_confidence": row["prediction_confidence"],
        "given": "",
        **texts,
        "differs": texts["prediction"] != texts.get("given", texts["label"]),
        "image": "" if image is None else f"data:image/png;base64,{b64encode(image).decode()}",
        "cells": [cell for _, cell in view.cells[:MAX_COLUMNS]] or [view.text] * bool(view.text),
    }


def _leaderboard(evaluation: Evaluation, form: Format) -> dict[str, Any]:
    by_loss, board = evaluation.leaderboard(), []
    names = by_loss.sort("error", nulls_last=True, maintain_order=True)["model"]
    scores = [evaluation.score(name) for name in names]
    for heading, style, groups in BOARD:
        some = [score for score in scores if score.group in groups]
        if some and evaluation.examples:
            board.append((heading, style, some))
    return {"board": board, "board_chart": charts.leaderboard(board, form) if board else ""}


def _held_out(result: Result) -> dict[str, Any]:
    """Calibration and mistakes of the saved model, or of the ensemble where it was not scored."""
    context: dict[str, Any] = {"calibration": None, "confusion": None, "pairs": [], "scatter": None}
    y, task, predictions = result.held_out.y, result.task, result.held_out.predictions
    if not len(y):
        return context
    prediction = predictions.get("student", predictions["ensemble"])
    if not task.classes:
        truth, predicted = (np.array(task.display(v)) for v in (y, prediction[:, 0]))
        return context | {"scatter": charts.scatter(truth, predicted)}
    found, classes = reliability(np.exp(prediction), y), task.classes
    matrix = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(matrix, (y, prediction.argmax(1)), 1)
    wrong = matrix * ~np.eye(len(classes), dtype=bool)
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_PAIRS]
    pairs = [divmod(int(place), len(classes)) for place in order if wrong.flat[place]]
    return context | {
        "calibration": (f"ECE {percent(found.ece)}", charts.reliability(found)),
        "confusion": charts.confusion(matrix, classes) if len(classes) <= charts.MAX_MATRIX else "",
        "pairs": [
            (classes[t], classes[p], int(wrong[t, p]), wrong[t, p] / matrix[t].sum())
            for t, p in pairs
        ],
    }


def _map(result: Result, dataset: Dataset) -> dict[str, Any]:
    """Examples in the two principal components of their features."""
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(result.config.seed)
    unlabeled = dataset.unlabeled
    few = min(len(unlabeled), MAP_UNLABELED)
    unlabeled = rng.choice(unlabeled, few, replace=False, shuffle=False)
    labeled = rng.permutation(dataset.labeled)[:MAP_LABELED]
    rows = np.concatenate([unlabeled, labeled])
    features = np.asarray(dataset.X[rows], dtype=np.float32)
    if len(rows) < 3 or features.shape[1] < 2 or not np.ptp(features, axis=0).any():
        return {"map": None}
    pca = PCA(2, svd_solver="randomized", random_state=result.config.seed % 2**32)
    points = pca.fit_transform(features)
    ids, labels, confidence = result.labels[rows.tolist(), [0, 1, 2]]
    certain = confidence.cast(pl.Float64).fill_null(math.nan).to_numpy()
    given = np.arange(len(rows)) >= len(unlabeled)
    chart, legend = charts.example_map(points, ids.to_list(), labels.to_list(), certain, given)
    variance = float(pca.explained_variance_ratio_.sum())
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
    filters = (number, percent, duration, cut, broken, whole, fixed)
    environment.filters |= {each.__name__: each for each in filters}
    return environment


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
