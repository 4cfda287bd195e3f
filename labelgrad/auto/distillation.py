"""Distillation: one network, the student, learns the ensemble's predictions.

The student is what a run saves: weights without code. It learns from the ensemble's predictions of
unlabeled examples and, with a small weight, from the true labels. Where a table has few rows, the
ensemble also predicts rows that are mixed from two others (Buciluǎ, Caruana & Niculescu-Mizil,
"Model compression", 2006), so that the student learns the ensemble's function and not its values on
these rows.

Rows of tables are cheap to learn from, so a student is trained for each fold, too, by an ensemble
that has not seen the labels of the fold: then the held-out labels tell how good a student is. For
images that would cost as much as another network, and the ensemble's scores stand for it.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labelgrad.auto.base_models import networks
from labelgrad.auto.base_models.networks import Network, TrainedNetwork
from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.dataset import Dataset, Examples
from labelgrad.auto.evaluation import Calibration, calibrate
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.stacking import Ensemble
from labelgrad.auto.task import Array, Classification, Regression, Task
from labelgrad.functional import mixed_seed, one_thread, random_numbers
from labelgrad.methods import SUPERVISED
from labelgrad.objective import Objective
from labelgrad.objectives.distillation import Distillation
from labelgrad.objectives.supervised import Supervised
from labelgrad.schedules import Cosine, value_at
from labelgrad.training.trainer import ADAM

PART = 20_000  # examples that are predicted at once
TRUE_LABELS = 0.1  # weight of their loss
MIN_ROWS, FAST_ROWS = 5000, 1500  # that the student of a table learns from, mixed ones included
MIXED_SHARE = 0.25  # of a mixed row's columns come from the second row
STD_PRIOR = 100  # labels; fewer tell standard deviations apart less than they should
BATCH, TABLE_STEPS, FAST_STEPS, TABLE_RATE = 128, 500, 200, 4e-3  # the rate falls along a cosine


@dataclass(frozen=True, eq=False)
class Student:
    """The trained network, and the out-of-fold predictions of the folds' students."""

    network: TrainedNetwork
    out_of_fold: Array | None  # (held-out labels, columns), before the temperature
    calibration: Calibration | None
    seconds: float


def distill(
    ensemble: Ensemble,
    dataset: Dataset,
    config: FitConfig,
    *,
    folder: Path | None = None,
    events: Events = SILENT,
) -> Student:
    """Train a student of the ensemble, and on tables one for each fold.

    Parameters
    ----------
    ensemble : Ensemble
        The teacher.
    dataset : Dataset
        The examples that base models were fitted on.
    config : FitConfig
        `quality`, `network`, `steps`, `seed`, `device` and `mirror` are used.
    folder : Path, optional
        Where checkpoints are; trainings go on from them.
    events : Events
        Receives the progress.

    Returns
    -------
    Student
    """
    network = networks.network_for(SUPERVISED, dataset, config, folder=folder)
    is_fast = config.quality == "fast"
    folds, task, is_raw = ensemble.folds, dataset.task, dataset.raw is not None
    if isinstance(task, Regression) and not is_raw and network.module is None:
        task = replace(task, outputs=2)  # the ensemble's standard deviation as well
    if not is_raw and not dataset.has_encoded_features:
        steps = (FAST_STEPS if is_fast else TABLE_STEPS) if config.steps is None else config.steps
        network = replace(network, steps=steps, learning_rate=Cosine(TABLE_RATE, steps))
    wanted = FAST_ROWS if is_fast else MIN_ROWS
    examples = with_mixed_rows(dataset, ensemble, config.seed, wanted)
    taught = np.concatenate([dataset.unlabeled, np.arange(len(dataset), len(examples))])
    train = _train_on_raw if is_raw else _train_on_rows
    students = 0 if is_raw else len(folds)
    trained, began = [], time.perf_counter()
    for place, fold in enumerate([*range(students), -1]):
        events.progress("student", place, students + 1)
        y = task.unlabeled(len(examples))
        y[: len(dataset)] = folds.masked(dataset.y, fold, task)
        parts = range(0, len(taught), PART)  # without a copy of all examples
        predictions = [ensemble.predict(examples[taught[at : at + PART]], fold) for at in parts]
        found = np.concatenate([*predictions, np.zeros((0, task.columns))])
        if isinstance(task, Regression) and len(found):
            found[:, 1] = shrunk(found[:, 1], int(task.is_labeled(y).sum()))
        outputs = task.to_outputs(found) if isinstance(task, Regression) else np.exp(found)
        targets = torch.from_numpy(outputs).float()
        module = train(network, examples, y, task, taught, targets, config.seed)
        trained.append(network.trained(module, examples, task))
    events.progress("student", students + 1, students + 1)
    *by_fold, final = trained
    return _evaluated(final, by_fold, ensemble, time.perf_counter() - began)


def shrunk(std: Array, labels: int) -> Array:
    """Standard deviations, nearer to their root mean square where few labels have told them.

    >>> shrunk(np.array([1.0, 7.0]), labels=100)
    array([3.60555128, 6.08276253])
    """
    share = STD_PRIOR / (STD_PRIOR + labels)
    return np.asarray(np.sqrt((1 - share) * std**2 + share * (std**2).mean()))


def _train_on_rows(
    network: Network, examples: Examples, y: Array, task: Task, rows: Array, soft: Tensor, seed: int
) -> nn.Module:
    """Train in one go: rows of a table take seconds and need no checkpoints.

    `soft` are the ensemble's probabilities or values of `rows`.
    """
    x, scale = networks.network_inputs(examples)
    known = np.flatnonzero(task.is_labeled(y))
    labels = torch.from_numpy(y[known])
    true = F.one_hot(labels, task.outputs) if task.classes else labels[:, None]  # no std
    sources = [(rows, soft, 1.0), (known, true, TRUE_LABELS)]
    sources = [each for each in sources if len(each[0])]
    generator = torch.Generator().manual_seed(seed)
    with one_thread(), random_numbers(torch.device("cpu"), seed):
        module = network.make(examples, task).to(network.device).train()
        optimizer = ADAM(module.parameters())
        for step in range(network.steps):
            for group in optimizer.param_groups:
                group["lr"] = value_at(network.learning_rate, step)
            drawn = [
                torch.randint(len(some), (min(BATCH, len(some)),), generator=generator)
                for some, _, _ in sources
            ]
            places = [each[0][some.numpy()] for each, some in zip(sources, drawn, strict=True)]
            outputs = module(scale(x[np.concatenate(places)]).to(network.device))  # one pass
            loss = torch.zeros(())
            parts = outputs.split([len(some) for some in drawn])
            for (_, target, weight), some, part in zip(sources, drawn, parts, strict=True):
                loss = loss + weight * task.loss(part[:, : target.shape[1]], target[some].to(part))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return module


def _train_on_raw(
    network: Network, examples: Examples, y: Array, task: Task, rows: Array, soft: Tensor, seed: int
) -> nn.Module:
    """Train on images or tokens, from checkpoint to checkpoint."""
    digest = hashlib.blake2b(soft.numpy().tobytes(), digest_size=6).hexdigest()

    def objective() -> Objective:
        if not len(rows):  # every example is labeled
            return Supervised()
        return TRUE_LABELS * Supervised() + Distillation(soft, loss=task.loss)

    others, tag = rows if len(rows) else None, f"student-{digest}"
    run = network.run(examples, y, task, seed=seed, objective=objective, unlabeled=others, tag=tag)
    return run.finish().trainer.evaluated


def with_mixed_rows(dataset: Dataset, ensemble: Ensemble, seed: int, wanted: int) -> Examples:
    """All examples, and rows mixed from two others, as many as a small table lacks."""
    missing = wanted - len(dataset.unlabeled)
    is_table = dataset.raw is None and not dataset.has_encoded_features
    fits = [each for each in ensemble.cross_fits if ensemble.weights[each.name]]
    if missing <= 0 or not is_table or not all(each.predicts_new for each in fits):
        return dataset.examples
    rng = np.random.default_rng(mixed_seed(seed, 5))
    first, second = rng.integers(len(dataset), size=(2, missing))
    taken = rng.random((missing, dataset.X.shape[1])) < MIXED_SHARE
    mixed = np.where(taken, dataset.X[second], dataset.X[first])
    rows = np.concatenate([np.arange(len(dataset)), np.full(missing, -1)])
    return Examples(np.concatenate([dataset.X, mixed]), None, rows)


def _evaluated(
    final: TrainedNetwork, by_fold: list[TrainedNetwork], ensemble: Ensemble, seconds: float
) -> Student:
    """The student with its out-of-fold predictions, and the temperature or error they tell."""
    task, y, examples = ensemble.task, ensemble.held_out_y, ensemble.dataset.examples
    held_out = [examples[ensemble.folds.held_out(fold)] for fold in range(len(by_fold))]
    parts = [model.predict(part) for model, part in zip(by_fold, held_out, strict=True)]
    out_of_fold, calibration = np.concatenate(parts) if parts else None, None
    if isinstance(task, Classification):
        if out_of_fold is not None:
            calibration = calibrate(out_of_fold, y)
            final = replace(final, temperature=calibration.temperature)
    elif len(y):
        judged = ensemble.out_of_fold if out_of_fold is None else out_of_fold
        std = 1.0 if out_of_fold is None else out_of_fold[:, 1]
        final = replace(final, std=float(np.sqrt((((judged[:, 0] - y) / std) ** 2).mean())))
        if out_of_fold is not None:
            out_of_fold = out_of_fold * [1.0, final.std]
    return Student(final, out_of_fold, calibration, seconds)
