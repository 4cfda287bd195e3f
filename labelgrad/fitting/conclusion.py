"""What comes of the trainings: witnesses heard, pooled, a student taught, all judged and kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from labelgrad.fitting.cross_validation import CrossValidation, OnProgress
from labelgrad.fitting.example_map import PCA, example_map
from labelgrad.fitting.kept_pool import pack_pool
from labelgrad.fitting.labels import (
    Imputed,
    examples_with_neighbours,
    imputed_labels,
    nearest_labeled,
)
from labelgrad.fitting.many_labels import all_records, both
from labelgrad.fitting.more import save_labeled
from labelgrad.fitting.plan import seen_by_network
from labelgrad.fitting.pooling import NETWORK, Pooled, hear_witnesses
from labelgrad.fitting.predictor import Config, Predictor
from labelgrad.fitting.provenance import RANDOM
from labelgrad.fitting.report import report_data
from labelgrad.fitting.result import Counts, Result, Summary
from labelgrad.fitting.run_files import FOLD, FOLD_MEANS, SAID_BY
from labelgrad.fitting.statements import Statements, of_classes, of_values
from labelgrad.fitting.student import Student, train_student
from labelgrad.fitting.suspects import suspects
from labelgrad.fitting.trust import trust_of
from labelgrad.fitting.verdict import (
    LABELS,
    POOL,
    STUDENT,
    UNLABELED,
    Answers,
    Calibration,
    Verdict,
    calibrate,
    judge,
)
from labelgrad.inputs.base import Dataset
from labelgrad.report.data import Trust
from labelgrad.report.page import render
from labelgrad.witnesses.base import Array, Witness

MOST_SUSPECTS = 24  # on the page
NO_PROMISE = (
    "A promise or an interval for so many examples needs an audit: labelgrad audit draws some of "
    "all of them to look at."
)


class Whole(NamedTuple):
    """All examples, where a fit has learned from some of them, and which rows these are."""

    dataset: Dataset
    rows: torch.Tensor


def finalize(
    trained: CrossValidation,
    witnesses: Sequence[Witness],
    *,
    name: str,
    folder: Path | None,
    origins: Sequence[str | None],
    shares: Sequence[float] | None = None,
    keep_pool: bool = False,
    map_by: str = PCA,
    workers: int = 1,
    whole: Whole | None = None,
    on_progress: OnProgress | None = None,
) -> Result:
    """Hear the witnesses, pool them, teach the student, judge them all, and keep what came of it.

    A training that was stopped has no student: the better one of the networks is kept. With
    `keep_pool` the folder gets the pool, too, and `map_by` is how the page lays examples out.
    `origins` say how each example's label came, and `workers` how many processes trained side by
    side. Of a `whole` the examples that were not trained on get their labels from the kept model.
    """
    if trained.step == 0:
        raise KeyboardInterrupt  # stopped before every training had begun: there is no model yet
    plan, group = trained.plan, trained.group
    tell = on_progress or (lambda name, done, total, loss: None)
    order = {witness.name: place for place, witness in enumerate(witnesses)}
    table, pooled = trained.label_table(trained.methods[-1]), None
    visits = None if table is None else table.visits()  # of all processes' rows
    if group.rank == 0:  # the others wait until they are told what the student is to learn
        pooled = hear_witnesses(
            trained,
            witnesses,
            shares=shares,
            on_witness=lambda heard: tell("witnesses", order[heard], len(order), math.nan),
        )
        tell("witnesses", len(order), len(order), math.nan)
    student = None
    if trained.step >= plan.steps and len(trained.unlabeled) > 1:
        student = train_student(trained, pooled, on_step=partial(tell, STUDENT))
    result = None
    if pooled is not None:
        result = _result(
            trained,
            pooled,
            student,
            visits,
            name,
            folder,
            origins,
            keep_pool=keep_pool,
            map_by=map_by,
            workers=workers,
            whole=whole,
        )
    # The others get all but the witnesses, which may be objects of any kind.
    told = group.first(lambda: None if result is None else replace(result, pooled=None))
    found = result or told
    assert found is not None
    return found


def _result(
    trained: CrossValidation,
    pooled: Pooled,
    student: Student | None,
    visits: torch.Tensor | None,
    name: str,
    folder: Path | None,
    origins: Sequence[str | None],
    *,
    keep_pool: bool,
    map_by: str,
    workers: int,
    whole: Whole | None,
) -> Result:
    """Everybody judged, and what came of it kept in the folder."""
    dataset, plan = trained.dataset, trained.plan
    verdict = verdict_of(trained, pooled, student)
    calibration = calibration_of(trained, student)
    predictor = predictor_of(trained, pooled, student, verdict, calibration)
    packed = pack_pool(pooled, predictor.config) if keep_pool else None
    outputs = predictor(trained.seen)  # all at once, as `predict` would do it
    said_by_each = pooled.said_of_rows(trained.unlabeled.numpy())
    imputed = _imputed(trained, pooled, said_by_each, outputs, visits)
    judged = verdict.row(verdict.judged).error
    typical_error = trained.spread if judged is None else judged.value
    labels = imputed_labels(dataset, imputed, typical_error)
    summary = Summary(
        data=name,
        kind=dataset.kind,
        task=dataset.task,
        counts=Counts(**(dataset if whole is None else whole.dataset).summary),
        skipped=dataset.skipped,
        notes=[*dataset.notes, *pooled.notes, *(packed.notes if packed else [])],
        plan=plan,
        folds=trained.folds,
        step=trained.step,
        seconds=round(
            trained.elapsed(workers)
            + sum(h.seconds for h in pooled.others)
            + (student.seconds if student else 0),
            1,
        ),
        stopped=trained.step < plan.steps,
        verdict=verdict,
        calibration=calibration,
        curves=trained.curves(),
        learned_from=None if whole is None else len(trained.unlabeled),
    )
    arrays = held_out_arrays(trained, pooled, student)
    if RANDOM in origins and whole is None:  # else labels are not all the pool's, nor is the mean
        arrays |= fold_arrays(trained, pooled)
    examples = examples_with_neighbours(
        dataset, imputed, outputs, typical_error, origins=origins, seed=plan.seed
    )
    statements = _statements(trained, said_by_each, imputed, outputs)
    result = Result(predictor, summary, labels, arrays, "", folder, examples, pooled, statements)
    doubted = [each for each in suspects(result, MOST_SUSPECTS) if each.suspect]
    places = example_map(dataset, trained.transform, labels, seed=plan.seed, by=map_by)
    trust = Trust(NO_PROMISE, of_classes=bool(dataset.classes))
    if whole is None:
        trust = trust_of(result)
    shown = report_data(dataset, summary, arrays, labels, imputed, trust, doubted, places)
    result = replace(result, page=render(shown))
    if whole is not None:
        result = of_whole(result, whole)
    if folder is not None:
        save_labeled(folder, pooled.case)
        result.save(folder, packed)
    return result


def of_whole(result: Result, whole: Whole) -> Result:
    """The result of some examples as one of all of them; what witnesses said is left out."""
    dataset, rows = whole
    seen = seen_by_network(dataset)
    records = all_records(dataset, seen, result.predictor, rows, result.labels, result.examples)
    labels, examples = both(dataset.names, dataset.classes, records)
    held_out = result.held_out | {"rows": rows.numpy()[result.held_out["rows"]]}
    return replace(result, labels=labels, examples=examples, held_out=held_out, statements=None)


def verdict_of(trained: CrossValidation, pooled: Pooled, student: Student | None) -> Verdict:
    """Everybody judged by the labels that were hidden from them."""
    answers = [
        Answers(
            heard.name,
            UNLABELED if heard.sees_unlabeled and len(trained.unlabeled) else LABELS,
            pooled.outputs(heard.out_of_fold),
            pooled.pool.weights[heard.name],
        )
        for heard in pooled.heard
    ]
    answers.append(Answers(POOL, POOL, pooled.outputs(pooled.fitted.judged)))
    if student is not None:
        answers.append(Answers(STUDENT, STUDENT, student.out_of_fold))
    y = trained.y[torch.from_numpy(pooled.case.hidden)]
    verdict = partial(
        judge,
        trained.dataset.task,
        y,
        answers,
        importance=pooled.importance,
        spread=trained.spread,
        seed=trained.plan.seed,
    )
    return verdict(kept=STUDENT if student else better_network(verdict(kept=POOL), trained))


def better_network(verdict: Verdict, trained: CrossValidation) -> str:
    """The network of the smaller error, and of the smaller loss where errors are the same."""
    names = [NETWORK + method for method in reversed(trained.methods)]

    def rank(name: str) -> tuple[float, float]:
        row = verdict.row(name)
        return (0.0, 0.0) if row.error is None else (row.error.value, row.loss or 0.0)

    return min(names, key=rank)


def calibration_of(trained: CrossValidation, student: Student | None) -> Calibration | None:
    """How sure the student may be, by what students of the folds said about hidden labels."""
    if trained.dataset.task == "regression" or student is None or student.out_of_fold is None:
        return None
    if not len(student.out_of_fold):
        return None
    y = trained.y[torch.cat(trained.held_out_rows())]
    return calibrate(student.out_of_fold, y)


def predictor_of(
    trained: CrossValidation,
    pooled: Pooled,
    student: Student | None,
    verdict: Verdict,
    calibration: Calibration | None,
) -> Predictor:
    """The kept model, with all it takes to use it in another process."""
    dataset, plan, is_value = trained.dataset, trained.plan, trained.dataset.task == "regression"
    margin = None
    if verdict.examples and is_value:
        said = pooled.outputs(pooled.fitted.judged)[:, 0].numpy()
        off = np.abs(said - pooled.case.y[pooled.case.hidden]) * trained.spread
        margin = float(np.quantile(off, 0.9))
    kept = verdict.kept
    config = Config(
        dataset.kind,
        dataset.task,
        dataset.classes,
        plan.network,
        tuple(dataset.x.shape[1:]),
        trained.transform.factor,
        trained.transform.shift,
        dataset.preprocessing,
        kept,
        trained.step,
        1.0 if calibration is None else calibration.temperature,
        trained.mean,
        trained.spread,
        margin,
    )
    network = (
        student.network
        if student is not None
        else trained.trainer(kept.removeprefix(NETWORK)).evaluated
    )
    return Predictor(network.cpu().eval(), config)


def held_out_arrays(
    trained: CrossValidation, pooled: Pooled, student: Student | None
) -> dict[str, Any]:
    """The hidden labels and what everybody said about them, as networks would say it."""
    is_value, hidden = trained.dataset.task == "regression", torch.from_numpy(pooled.case.hidden)
    said = {heard.name: pooled.outputs(heard.out_of_fold) for heard in pooled.heard}
    said[POOL] = pooled.outputs(pooled.fitted.judged)
    if student is not None and student.out_of_fold is not None:
        said[STUDENT] = student.out_of_fold
    arrays = {"rows": hidden.numpy(), "y": trained.dataset.y[hidden].numpy()}
    for name, found in said.items():
        arrays[SAID_BY + name] = (trained.in_units(found) if is_value else found).numpy()
    return arrays


def fold_arrays(trained: CrossValidation, pooled: Pooled) -> dict[str, Any]:
    """Which fold hid each hidden label, and what the pool without it says of unlabeled rows.

    That is the mean of each class's probability, or of the values: what counting all rows needs
    beside the hidden labels.
    """
    rows, is_value = trained.unlabeled.numpy(), trained.dataset.task == "regression"
    numbers = [np.full(len(held), fold) for fold, held in enumerate(pooled.case.folds)]
    means = []
    for fold in range(len(pooled.case.folds)):
        said = torch.from_numpy(pooled.of_fold(fold, rows))
        means.append(trained.in_units(said[:, :1]) if is_value else said.exp())
    width = len(trained.dataset.classes) or 1
    found = [each.mean(0).numpy() for each in means] if len(rows) else []
    return {
        FOLD: np.concatenate([*numbers, np.zeros(0, dtype=int)]).astype(int),
        FOLD_MEANS: np.stack(found) if found else np.zeros((0, width)),
    }


def _statements(
    trained: CrossValidation,
    said_by_each: dict[str, Array],
    imputed: Imputed,
    outputs: torch.Tensor,
) -> Statements:
    """What each witness says of the unlabeled rows, and the labeled ones most like them."""
    near = nearest_labeled(trained.dataset, outputs).numpy()
    if trained.dataset.task == "regression":
        return of_values(said_by_each, trained.mean, trained.spread, near)
    return of_classes(said_by_each, imputed.labels.numpy(), near)


def _imputed(
    trained: CrossValidation,
    pooled: Pooled,
    said_by_each: dict[str, Array],
    outputs: torch.Tensor,
    drawn: torch.Tensor | None,
) -> Imputed:
    """The pool's labels of the unlabeled rows beside the kept model's, and how often drawn."""
    said = outputs[trained.unlabeled]
    visits: Sequence[int | None] = [None] * len(said) if drawn is None else drawn.tolist()
    found = torch.from_numpy(pooled.pool.combined(said_by_each))
    if trained.dataset.task == "regression":
        return Imputed(trained.in_units(found[:, 0]), said, visits)
    return Imputed(found.exp(), said, visits)
