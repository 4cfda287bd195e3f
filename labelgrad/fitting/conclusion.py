"""After the training: which model to keep, how sure it may be, and what it was all about."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import labelgrad
from labelgrad.fitting.calibration import Calibration, calibrate
from labelgrad.fitting.contest import Contest
from labelgrad.fitting.curves import curves
from labelgrad.fitting.held_out import HeldOut, mistakes
from labelgrad.fitting.labels import imputed, label_rows
from labelgrad.fitting.neighbours import example_rows
from labelgrad.fitting.page import report_data, worth_a_look
from labelgrad.fitting.predictor import FORMAT, Config, Predictor
from labelgrad.fitting.result import Result
from labelgrad.fitting.verdict import Verdict, judge
from labelgrad.inputs.kinds import kind_named
from labelgrad.report.page import render


def conclude(contest: Contest, *, name: str, folder: Path | None) -> Result:
    """Judge by the held-out labels, calibrate, label what has no label, and keep it all."""
    if contest.step == 0:
        raise KeyboardInterrupt  # stopped before every training had begun: there is no model yet
    source, plan, held_out = contest.source, contest.plan, contest.held_out()
    wrong, losses = mistakes(held_out, source.task, contest.spread)
    verdict = judge(plan.method, source.task, wrong, losses, seed=plan.seed)
    calibration = None
    if source.task == "classification" and verdict.examples:
        calibration = calibrate(held_out.outputs[verdict.kept], held_out.y)
    config = _config(contest, verdict, calibration, np.sqrt(wrong[verdict.kept]))
    model = contest.of(verdict.kept).evaluated.cpu()
    model.eval()
    predictor = Predictor(model, config)
    near = verdict.errors[verdict.kept].value if verdict.examples else contest.spread
    facts = _facts(contest, verdict, calibration, name)
    found, arrays = imputed(contest, predictor), _arrays(contest, held_out)
    labels = label_rows(contest, found, config.key, near)
    chosen = worth_a_look(source, found.labels, found.said)
    page = render(report_data(source, facts, arrays, labels, chosen))
    examples = example_rows(contest, found, config.key, near)
    result = Result(predictor, facts, labels, arrays, page, folder, examples)
    if folder is not None:
        result.save(folder)
    return result


def _config(
    contest: Contest, verdict: Verdict, calibration: Calibration | None, distances: Any
) -> Config:
    source = contest.source
    scale = kind_named(source.kind).transform(source.preprocessing, source.x)
    values = source.task == "regression" and verdict.examples > 0
    return Config(
        source.kind,
        source.task,
        source.classes,
        contest.plan.network,
        tuple(source.x.shape[1:]),
        scale.factor,
        scale.shift,
        source.preprocessing,
        verdict.kept,
        contest.step,
        1.0 if calibration is None else calibration.temperature,
        contest.mean,
        contest.spread,
        float(np.quantile(distances, 0.9)) if values else None,
    )


def _facts(
    contest: Contest, verdict: Verdict, calibration: Calibration | None, name: str
) -> dict[str, Any]:
    source, plan = contest.source, contest.plan
    judged = asdict(verdict) | {"sentence": verdict.sentence}
    judged["errors"] = {k: [e.value, e.low, e.high] for k, e in verdict.errors.items()}
    return {
        "format": FORMAT,
        "labelgrad": labelgrad.__version__,
        "data": name,
        "kind": source.kind,
        "task": source.task,
        "counts": source.summary,
        "skipped": [list(pair) for pair in source.skipped],
        "notes": source.notes,
        "plan": asdict(plan),
        "folds": len(contest.trainings) // len(plan.contenders) - 1,
        "step": contest.step,
        "seconds": round(contest.seconds, 1),
        "stopped": contest.step < plan.steps,
        "verdict": judged,
        "calibration": None if calibration is None else asdict(calibration),
        "curves": curves(contest),
    }


def _arrays(contest: Contest, held_out: HeldOut) -> dict[str, Any]:
    """The held-out rows, their labels, and each method's outputs, in the labels' own units."""
    values = contest.source.task == "regression"
    outputs = {
        name: (found * contest.spread + contest.mean if values else found).numpy()
        for name, found in held_out.outputs.items()
    }
    y = contest.source.y[held_out.rows].numpy()
    return {"rows": held_out.rows.numpy(), "y": y, **outputs}
