"""What the report shows of a fit: its numbers put in the page's own terms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgrad.fitting.calibration import calibrated
from labelgrad.fitting.cross_validation import CurvePoint
from labelgrad.fitting.labels import Imputed, ImputedLabel, shown
from labelgrad.fitting.result import Summary
from labelgrad.fitting.verdict import BASELINE, LEVEL, Verdict
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import kind_named
from labelgrad.report.choose import Rows, choose, choose_numbers
from labelgrad.report.data import (
    Calibration,
    Curve,
    Example,
    Gradients,
    ReportData,
    Result,
)
from labelgrad.training.evaluation import reliability


def report_data(
    dataset: Dataset,
    summary: Summary,
    held_out: dict[str, NDArray[Any]],
    labels: Sequence[ImputedLabel],
    imputed: Imputed,
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
        curves=_curves(summary.curves),
        gradients=_gradients(summary.curves),
        columns=kind.columns(dataset.preprocessing),
        **_on_held_out(summary, held_out, len(dataset.classes)),
        surest=examples(chosen.surest),
        least_sure=examples(chosen.least_sure),
        contested=examples(chosen.contested),
    )


def _division(examples: int, folds: int) -> str:
    if not examples:
        return "No label could be held out."
    judged = f"{examples} labels judge both methods"
    return f"{judged}, each held out of one of {folds} trainings." if folds > 1 else f"{judged}."


def _result(verdict: Verdict) -> Result | None:
    if verdict.difference is None:
        return None
    return Result(
        "error" if verdict.task == "classification" else "root mean squared error",
        verdict.errors[verdict.method],
        verdict.errors[BASELINE],
        verdict.sentence,
        verdict.kept,
        f"The intervals are of {100 * LEVEL:.0f} %, over the held-out labels. What another seed "
        f"would change is not in them.",
        verdict.difference,
    )


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
    y, outputs = held_out["y"], held_out[summary.verdict.kept]
    if not len(y):
        return {}
    if summary.calibration is None:
        return {"truth": y.tolist(), "predicted": outputs[:, 0].tolist()}
    logits, labels = torch.from_numpy(outputs), torch.from_numpy(y)
    confusion = np.zeros((classes, classes), dtype=int)
    np.add.at(confusion, (y, outputs.argmax(1)), 1)
    calibration = Calibration(
        reliability(logits.double().softmax(-1), y),
        reliability(calibrated(logits, labels), y),
        summary.calibration.temperature,
    )
    return {"confusion": confusion.tolist(), "calibration": calibration}


def _example(dataset: Dataset, place: int, row: ImputedLabel) -> Example:
    kind = kind_named(dataset.kind)
    looks = kind.show(dataset.preprocessing, dataset.x[place].numpy())
    return Example(
        row.name,
        shown(row.label),
        shown(row.prediction),
        row.label_probability,
        row.prediction_probability,
        picture=looks.picture,
        cells=looks.cells,
    )
