"""From fitted models to a `Result`: labels for all examples, and what else a run saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labelgrad.auto import labels as table
from labelgrad.auto.base_models.networks import BATCH
from labelgrad.auto.class_prior import probability_known
from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.dataset import Dataset
from labelgrad.auto.distillation import Student
from labelgrad.auto.ensemble_io import pack_ensemble
from labelgrad.auto.evaluation import ENSEMBLE, STUDENT, Evaluation
from labelgrad.auto.labels import Summary, in_parts, summarize
from labelgrad.auto.predictor import Predictor, interval_margin
from labelgrad.auto.result import About, HeldOut, Result, UnlabeledPredictions
from labelgrad.auto.stacking import Ensemble
from labelgrad.auto.store import allocate
from labelgrad.auto.task import Array, Classification, Regression, log_normalize

MAX_UNLABELED, MIN_UNLABELED = 300_000, 20_000
STEPS = 2000  # of a training whose steps are not given
COPIED_AT_ONCE = 2**10  # examples


@dataclass(frozen=True, eq=False)
class Subsample:
    """The examples that models are fitted on: all, or all labeled and some unlabeled ones."""

    whole: Dataset
    dataset: Dataset
    rows: Array  # positions in `whole`
    notes: tuple[str, ...] = ()  # a sentence if unlabeled examples were left out


def subsample(dataset: Dataset, config: FitConfig) -> Subsample:
    """All examples; above 300,000 unlabeled ones, as many as the steps visit, drawn at random."""
    unlabeled = dataset.unlabeled
    if len(unlabeled) <= MAX_UNLABELED:
        return Subsample(dataset, dataset, np.arange(len(dataset)))
    count = min(MAX_UNLABELED, max(MIN_UNLABELED, (config.steps or STEPS) * BATCH))
    drawn = np.random.default_rng([config.seed, 6]).choice(unlabeled, count, replace=False)
    rows = np.sort(np.concatenate([dataset.labeled, drawn]))
    some = replace(
        dataset,
        X=_taken(dataset.X, rows, config.cache),
        y=dataset.y[rows],
        ids=[dataset.ids[row] for row in rows.tolist()],
        raw=None if dataset.raw is None else _taken(dataset.raw, rows, config.cache),
        groups=None if dataset.groups is None else dataset.groups[rows],
    )
    note = (
        f"There are more than {MAX_UNLABELED:,} unlabeled examples: models are fitted on "
        f"{count:,} of them, drawn at random, and the saved model labels the others."
    )
    return Subsample(dataset, some, rows, (note,))


def _taken(array: Array, rows: Array, cache: str | None) -> Array:
    copied: Array = allocate((len(rows), *array.shape[1:]), str(array.dtype), cache)
    for start in range(0, len(rows), COPIED_AT_ONCE):
        some = slice(start, start + COPIED_AT_ONCE)
        copied[some] = array[rows[some]]
    return copied


@dataclass(frozen=True, eq=False)
class Fitted:
    """What the stages of a fit have found."""

    raw: Dataset  # as it was read
    sample: Subsample  # of the data set with annotations
    ensemble: Ensemble
    student: Student
    evaluation: Evaluation
    config: FitConfig
    data: Any  # what `fit` was given
    annotated: Mapping[str, str]  # how each annotated example got its label, by id
    notes: Sequence[str] = ()
    seconds: float = 0.0


def assemble(fitted: Fitted) -> Result:
    """The result of a fit, without its report."""
    sample, config, task = fitted.sample, fitted.config, fitted.ensemble.task
    whole, student, network = sample.whole, fitted.student, fitted.student.network
    width = max(task.columns, whole.X.shape[1])
    parts = [
        summarize(task, network.predict(whole.examples[rows]))
        for rows in in_parts(whole.unlabeled, width)
    ]
    prediction = Summary(*map(np.concatenate, zip(*parts, strict=True)))
    models, label, score, unknown = _predictions(fitted, prediction)
    judged, margin = student.out_of_fold, None
    if isinstance(task, Regression):
        if judged is None:  # the network has one standard deviation for all examples
            judged = task.from_outputs(fitted.ensemble.out_of_fold[:, :1], network.std)
        margin = interval_margin(judged, fitted.ensemble.held_out_y, task)
    error = fitted.evaluation.score(STUDENT).error or fitted.evaluation.score(ENSEMBLE).error
    files, notes = pack_ensemble(fitted.ensemble) if config.keep_ensemble else ({}, [])
    if isinstance(task, Classification) and (unknown > 0.5).any():
        notes = [
            *notes,
            f"{int((unknown > 0.5).sum()):,} of {len(unknown):,} unlabeled examples look like no "
            f"labeled class (unknown_probability), so that their labels have a low confidence: "
            f"label some of them, with a new class if they have one.",
        ]
    return Result(
        labels=table.label_table(
            whole,
            table.label_sources(fitted.raw, whole, config.label_sampling, fitted.annotated),
            label,
            prediction,
            nearest=(models.rows, models.nearest, score, unknown),
            typical_error=1.0 if error is None else error.value,
        ),
        evaluation=fitted.evaluation,
        predictor=Predictor(network, whole.preprocessor, margin),
        held_out=_held_out(fitted),
        base_model_predictions=models,
        about=_about(fitted, [*fitted.notes, *notes]),
        config=config,
        ensemble=fitted.ensemble,
        ensemble_files=files,
    )


def _predictions(
    fitted: Fitted, prediction: Summary
) -> tuple[UnlabeledPredictions, Summary, Array, Array]:
    """Each base model's and the ensemble's predictions of unlabeled examples.

    Examples that no base model was fitted on get the student's prediction as their label. With
    them come out-of-distribution scores, and probabilities that an example is of no labeled class,
    by which the confidence in its label is lowered.
    """
    sample, ensemble, task = fitted.sample, fitted.ensemble, fitted.ensemble.task
    some = sample.dataset
    rows, examples = some.unlabeled, some.examples
    by_model: dict[str, list[Array]] = {each.name: [] for each in ensemble.cross_fits}
    stacked = []
    for part in in_parts(rows, max(some.X.shape[1], task.columns * len(by_model))):
        predictions = ensemble.base_predictions(examples[part])
        for name, one in predictions.items():
            brief = summarize(task, one)
            by_model[name].append(np.stack([brief.point, brief.confidence], 1).astype(np.float32))
        stacked.append(summarize(task, ensemble.combine(predictions)))
    places = np.searchsorted(sample.whole.unlabeled, sample.rows[rows])
    label = Summary(*(each.copy() for each in prediction))
    for mine, others in zip(zip(*stacked, strict=True), label, strict=True):
        others[places] = np.concatenate(mine)
    points = some.X
    if some.raw is not None and not some.has_encoded_features:  # pixels tell little of likeness
        points = fitted.student.network.predict(examples)
    nearest, distance, own = table.nearest_labeled(points, some.labeled, rows)
    known = np.ones(len(rows))
    if isinstance(task, Classification) and len(rows) and len(own) > 1:
        shares = np.bincount(label.point[places], minlength=task.columns) / len(rows)
        importance = np.maximum(shares, 1e-3) / ensemble.prior  # labels may be drawn by class
        known = probability_known(own, distance, importance[some.y[some.labeled]])
        label.confidence[places] *= known.astype(np.float32)
    score = distance / (np.median(own) or 1.0)
    found = {name: np.concatenate(parts) for name, parts in by_model.items()}
    models = UnlabeledPredictions(sample.rows[rows], sample.rows[nearest], found)
    return models, label, score, 1 - known


def _held_out(fitted: Fitted) -> HeldOut:
    ensemble, student, task = fitted.ensemble, fitted.student, fitted.ensemble.task
    folds, some = ensemble.folds, fitted.sample.dataset
    predictions = {each.name: each.out_of_fold for each in ensemble.cross_fits}
    predictions["ensemble"] = ensemble.out_of_fold
    if student.out_of_fold is not None:
        own = student.out_of_fold
        is_classes = isinstance(task, Classification)
        predictions["student"] = (
            log_normalize(own / student.network.temperature) if is_classes else own
        )
    means = np.zeros((len(folds), task.columns))
    if fitted.config.label_sampling == "random" and len(some.unlabeled):
        for fold in range(len(folds)):
            found = ensemble.predict(some.examples[some.unlabeled], fold)
            means[fold] = (np.exp(found) if isinstance(task, Classification) else found).mean(0)
    y = ensemble.held_out_y
    return HeldOut(fitted.sample.rows[folds.rows], y, folds.of, means, predictions)


def _about(fitted: Fitted, notes: Sequence[str]) -> About:
    whole, data = fitted.sample.whole, fitted.data
    labels = whole.y[whole.is_labeled]
    classes = whole.task.classes
    counts = np.bincount(labels, minlength=len(classes)).tolist() if classes else []
    learned_from = len(fitted.sample.dataset.unlabeled)
    return About(
        kind=whole.preprocessor.kind,
        task=whole.task.name,
        data=str(Path(data).resolve()) if isinstance(data, str | Path) else None,
        labeled=len(labels),
        unlabeled=len(whole) - len(labels),
        class_counts=dict(zip(classes, counts, strict=True)),
        learned_from=learned_from if fitted.sample.notes else None,
        skipped=tuple((str(name), str(reason)) for name, reason in whole.skipped),
        notes=tuple(notes),
        seconds=round(fitted.seconds, 3),
    )
