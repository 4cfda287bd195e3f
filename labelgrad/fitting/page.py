"""What the report shows of a fit: its numbers put in the page's own terms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgrad.fitting.calibration import calibrated
from labelgrad.fitting.labels import Row
from labelgrad.fitting.verdict import BASELINE, LEVEL
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import kind_named
from labelgrad.report.choose import Rows, choose, choose_numbers
from labelgrad.report.data import (
    Calibration,
    Curve,
    Estimate,
    Example,
    Gradients,
    ReportData,
    Result,
    reliability,
)

Facts = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def report_data(
    source: Dataset, facts: Facts, held_out: Arrays, labels: list[Row], chosen: Rows
) -> ReportData:
    """Everything the page shows; `labels` are of the unlabeled examples, `chosen` some of them."""
    classes, plan = source.classes, facts["plan"]
    unlabeled = (~source.labeled).nonzero().squeeze(1).tolist()
    shown = {row for group in chosen for row in group}
    examples = {row: _example(source, unlabeled[row], labels[row]) for row in shown}
    return ReportData(
        data=Path(facts["data"]).name or facts["data"],
        kind=source.kind,
        task=source.task,
        labeled=facts["counts"]["labeled"],
        unlabeled=facts["counts"]["unlabeled"],
        method=plan["method"],
        model=plan["network"],
        steps=facts["step"],
        seconds=facts["seconds"],
        seed=plan["seed"],
        version=facts["labelgrad"],
        target=source.preprocessing.get("target"),
        held_out=_division(facts),
        classes=classes,
        class_counts=list(facts["counts"]["classes"].values()) if classes else (),
        skipped=[(name, reason) for name, reason in facts["skipped"]],
        notes=facts["notes"],
        result=_result(facts["verdict"]),
        curves=_curves(facts["curves"]),
        gradients=_gradients(facts["curves"]),
        columns=kind_named(source.kind).columns(source.preprocessing),
        **_held_out(facts, held_out, len(classes)),
        surest=[examples[row] for row in chosen.surest],
        least_sure=[examples[row] for row in chosen.least_sure],
        contested=[examples[row] for row in chosen.contested],
    )


def worth_a_look(source: Dataset, labels: Any, said: Any) -> Rows:
    """Which of the unlabeled examples the page shows, by the table's labels and the model's."""
    if not len(said):
        return Rows([], [], [])
    return choose_numbers(labels, said) if source.task == "regression" else choose(labels, said)


def _division(facts: Facts) -> str:
    if not facts["verdict"]["examples"]:
        return "No label could be held out."
    folds = facts["folds"]
    judged = f"{facts['verdict']['examples']} labels judge both methods"
    return f"{judged}, each held out of one of {folds} trainings." if folds > 1 else f"{judged}."


def _result(judged: Facts) -> Result | None:
    if judged["difference"] is None:
        return None
    measure = "error" if judged["task"] == "classification" else "root mean squared error"
    return Result(
        measure,
        Estimate(*judged["errors"][judged["method"]]),
        Estimate(*judged["errors"][BASELINE]),
        judged["sentence"],
        judged["kept"],
        f"The intervals are of {100 * LEVEL:.0f} %, over the held-out labels. What another seed "
        f"would change is not in them.",
        Estimate(**judged["difference"]),
    )


def _curves(lines: Sequence[Facts]) -> list[Curve]:
    curves = []
    for measure in ("error", "loss"):
        for name in dict.fromkeys(line["method"] for line in lines):
            mine = [line for line in lines if line["method"] == name and measure in line]
            steps, values = [line["step"] for line in mine], [line[measure] for line in mine]
            curves += [Curve(name, measure, steps, values, name == BASELINE)] if mine else []
    return curves


def _gradients(lines: Sequence[Facts]) -> Gradients | None:
    mine = [line for line in lines if "gap" in line]
    if not mine:
        return None
    steps, gap, cosine = ([line[name] for line in mine] for name in ("step", "gap", "cosine"))
    return Gradients(steps, gap, cosine)


def _held_out(facts: Facts, held_out: Arrays, classes: int) -> Facts:
    """How the kept model did on labels it had not seen."""
    y, outputs = held_out["y"], held_out[facts["verdict"]["kept"]]
    if not len(y):
        return {}
    if not classes:
        return {"truth": y.tolist(), "predicted": outputs[:, 0].tolist()}
    logits, labels = torch.from_numpy(outputs), torch.from_numpy(y)
    confusion = np.zeros((classes, classes), dtype=int)
    np.add.at(confusion, (y, outputs.argmax(1)), 1)
    calibration = Calibration(
        reliability(logits.double().softmax(-1), y),
        reliability(calibrated(logits, labels), y),
        facts["calibration"]["temperature"],
    )
    return {"confusion": confusion.tolist(), "calibration": calibration}


def _example(source: Dataset, place: int, row: Row) -> Example:
    shown = kind_named(source.kind).show(source.preprocessing, source.x[place].numpy())
    return Example(
        source.names[place],
        _text(row["label"]),
        _text(row["prediction"]),
        row["label_probability"],
        row["prediction_probability"],
        picture=shown.picture,
        cells=shown.cells,
    )


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
