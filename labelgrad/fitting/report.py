"""What the report shows of a fit: its numbers put in the page's own terms, its telling examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from labelgrad.fitting.cross_validation import CurvePoint
from labelgrad.fitting.labels import Imputed, ImputedLabel, shown
from labelgrad.fitting.many_labels import column
from labelgrad.fitting.result import Summary
from labelgrad.fitting.run_files import SAID_BY
from labelgrad.fitting.suspects import Suspect
from labelgrad.fitting.verdict import BASELINE, LEVEL, Verdict, calibrated
from labelgrad.inputs.base import Dataset, Shown
from labelgrad.inputs.kinds import kind_named
from labelgrad.report.data import (
    Calibration,
    Confident,
    Curve,
    Doubted,
    Example,
    ExampleMap,
    Gradients,
    ReportData,
    Result,
    Trust,
)
from labelgrad.training.evaluation import reliability

SURE = 0.9  # what a label must claim to be counted among the sure ones


class Rows(NamedTuple):
    """Rows of the unlabeled examples, the most telling ones of each group first."""

    surest: list[int]
    least_sure: list[int]
    contested: list[int]


def report_data(
    dataset: Dataset,
    summary: Summary,
    held_out: dict[str, NDArray[Any]],
    labels: Sequence[ImputedLabel],
    imputed: Imputed,
    trust: Trust,
    suspects: Sequence[Suspect] = (),
    example_map: ExampleMap | None = None,
) -> ReportData:
    """Everything the page shows, some of the imputed labels among it."""
    verdict, plan, kind = summary.verdict, summary.plan, kind_named(dataset.kind)
    chosen = Rows([], [], [])
    if labels:
        choice = choose_numbers if dataset.task == "regression" else choose
        chosen = choice(imputed.labels, imputed.predictions)
    places = (~dataset.labeled).nonzero().squeeze(1).tolist()

    def examples(rows: Sequence[int]) -> list[Example]:
        return [_example(dataset, places[row], labels[row]) for row in rows]

    return ReportData(
        data=Path(summary.data).name or summary.data,
        kind=dataset.kind,
        task=dataset.task,
        labeled=summary.counts.labeled,
        unlabeled=summary.counts.unlabeled,
        method=plan.method,
        model=plan.network,
        steps=summary.step,
        seconds=summary.seconds,
        seed=plan.seed,
        version=summary.version,
        target=dataset.preprocessing.get("target"),
        held_out=_division(verdict.examples, summary.folds),
        classes=dataset.classes,
        class_counts=list(summary.counts.classes.values()),
        skipped=summary.skipped,
        notes=summary.notes,
        result=_result(verdict),
        confident=confident(labels),
        curves=_curves(summary.curves),
        gradients=_gradients(summary.curves),
        example_map=example_map,
        columns=kind.columns(dataset.preprocessing),
        **_on_held_out(summary, held_out, len(dataset.classes)),
        surest=examples(chosen.surest),
        least_sure=examples(chosen.least_sure),
        contested=examples(chosen.contested),
        trust=trust,
        suspects=[doubted_example(dataset, each) for each in suspects],
    )


def doubted_example(dataset: Dataset, each: Suspect) -> Doubted:
    """A suspect label as the page shows it, with its example's looks."""
    place = dataset.names.index(each.name)
    looks = _looks(dataset, place)
    example = Example(
        each.name,
        shown(each.other),
        shown(each.other),
        each.other_probability,
        picture=looks.picture,
        cells=looks.cells,
    )
    return Doubted(example, shown(each.given), each.reason)


def _division(examples: int, folds: int) -> str:
    if not examples:
        return "No label could be held out."
    judged = f"{examples} labels judge all of them"
    return f"{judged}, each held out of one of {folds} trainings." if folds > 1 else f"{judged}."


def _result(verdict: Verdict) -> Result | None:
    if not verdict.examples:
        return None
    return Result(
        "error" if verdict.task == "classification" else "root mean squared error",
        verdict.rows,
        verdict.sentence,
        f"The intervals are of {100 * LEVEL:.0f} %, over the held-out labels. What another seed "
        f"would change is not in them.",
        verdict.beside or "",
        verdict.difference,
    )


def confident(labels: Sequence[ImputedLabel], threshold: float = SURE) -> Confident | None:
    """How many imputed labels claim more than the threshold, and how many of them are right.

    >>> rows = [ImputedLabel(str(p), "a", p, "a", p, True, 0.1, 1) for p in (0.95, 0.97, 0.5)]
    >>> found = confident(rows)
    >>> found.labels, round(found.expected, 2), found.unlabeled
    (2, 1.92, 3)
    """
    found = column(labels, "label_probability")
    known = found[~np.isnan(found)]
    if not len(known):
        return None
    above = known[known > threshold]
    return Confident(threshold, len(above), float(above.sum(dtype=np.float64)), len(known))


def _curves(points: Sequence[CurvePoint]) -> list[Curve]:
    curves = []
    for measure in ("error", "loss"):
        for name in dict.fromkeys(point.method for point in points):
            mine = [
                (point.step, value)
                for point in points
                if point.method == name and (value := getattr(point, measure)) is not None
            ]
            if mine:
                steps, values = zip(*mine, strict=True)
                curves.append(Curve(name, measure, steps, values, name == BASELINE))
    return curves


def _gradients(points: Sequence[CurvePoint]) -> Gradients | None:
    found = [
        (point.step, point.gap, point.cosine)
        for point in points
        if point.gap is not None and point.cosine is not None
    ]
    return Gradients(*zip(*found, strict=True)) if found else None


def _on_held_out(
    summary: Summary, held_out: dict[str, NDArray[Any]], classes: int
) -> dict[str, Any]:
    """How the kept model did on labels it had not seen."""
    y, outputs = held_out["y"], held_out[SAID_BY + summary.verdict.judged]
    if not len(y):
        return {}
    if summary.task == "regression":
        return {"truth": y.tolist(), "predicted": outputs[:, 0].tolist()}
    logits, labels = torch.from_numpy(outputs), torch.from_numpy(y)
    confusion = np.zeros((classes, classes), dtype=int)
    np.add.at(confusion, (y, outputs.argmax(1)), 1)
    found: dict[str, Any] = {"confusion": confusion.tolist()}
    if summary.calibration is not None:
        found["calibration"] = Calibration(
            reliability(logits.double().softmax(-1), y),
            reliability(calibrated(logits, labels), y),
            summary.calibration.temperature,
        )
    return found


def _example(dataset: Dataset, place: int, row: ImputedLabel) -> Example:
    looks = _looks(dataset, place)
    return Example(
        row.name,
        shown(row.label),
        shown(row.prediction),
        row.label_probability,
        row.prediction_probability,
        picture=looks.picture,
        cells=looks.cells,
    )


def _looks(dataset: Dataset, place: int) -> Shown:
    original = None if dataset.originals is None else dataset.originals[place]
    kind = kind_named(dataset.kind)
    return kind.show(dataset.preprocessing, dataset.x[place].numpy(), original)


def choose(labels: Any, predictions: Any, *, most: int = 48) -> Rows:
    """At most `most` rows of each group, shared out evenly among the imputed classes.

    Both are probabilities, a row for each example. The surest have the highest, the least sure the
    smallest margin between the two highest; the contested are those where the model's class is
    another, the farther apart the sooner.

    >>> labels = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]]
    >>> choose(labels, [[0.8, 0.2], [0.1, 0.9], [0.2, 0.8]], most=2)
    Rows(surest=[0, 2], least_sure=[1, 2], contested=[1])
    """
    table, model = np.asarray(labels, dtype=float), np.asarray(predictions, dtype=float)
    if table.shape != model.shape or table.ndim != 2 or table.shape[1] < 2:
        raise ValueError(
            f"`labels` and `predictions` must have a row for each example and a column for each of "
            f"two or more classes, got the shapes {table.shape} and {model.shape}."
        )
    imputed, highest = table.argmax(1), np.sort(table, axis=1)
    margin = highest[:, -1] - highest[:, -2]
    apart = np.abs(table - model).sum(1)
    disputed = np.where(model.argmax(1) != imputed, apart, -np.inf)
    return Rows(
        _share(highest[:, -1], imputed, most),
        _share(-margin, imputed, most),
        _share(disputed, imputed, most),
    )


def choose_numbers(labels: Any, predictions: Any, *, most: int = 24) -> Rows:
    """The same for a regression: the surest labels are nearest to the model's, contested far.

    >>> choose_numbers([1.0, 5.0, 3.0], [1.1, 9.0, 3.0], most=2)
    Rows(surest=[2, 0], least_sure=[], contested=[1, 0])
    """
    apart = np.abs(np.asarray(labels, dtype=float) - np.asarray(predictions, dtype=float)).ravel()
    order = np.argsort(apart, kind="stable").tolist()
    return Rows(order[:most], [], order[::-1][:most])


def _share(worth: NDArray[Any], group: NDArray[Any], most: int) -> list[int]:
    """The rows worth most, none at −∞: the best of each class, then the second best, and so on."""
    order = np.argsort(-worth, kind="stable")
    order = order[np.isfinite(worth[order])]
    seen: Counter[int] = Counter()
    turns = []
    for ranked, row in enumerate(order.tolist()):
        turns.append((seen[int(group[row])], ranked, row))
        seen[int(group[row])] += 1
    chosen = sorted(turns)[:most]
    return [row for _, _, row in sorted(chosen, key=lambda turn: turn[1])]
