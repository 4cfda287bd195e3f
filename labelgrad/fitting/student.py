"""The student: one network that learns what the pool says of the unlabeled rows.

It is what a run keeps: weights without code, in any format networks have. Rows of a table are cheap
to learn from, so students of the folds are trained, too, each by a pool that has not heard the
fold's labels: then the labels tell what the student is worth. Of pictures they would cost as much
as a third method; there the pool's numbers stand for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from labelgrad.fitting.cross_validation import ALL, CrossValidation
from labelgrad.fitting.plan import has_columns, loss_for, views
from labelgrad.fitting.pooling import Pooled
from labelgrad.fitting.predictor import outputs_of
from labelgrad.fitting.verdict import STUDENT
from labelgrad.objectives.distillation import Distillation
from labelgrad.objectives.supervised import Supervised
from labelgrad.training.batches import Examples
from labelgrad.training.recipe import Run, side_by_side

TRUE_LABELS = 0.1  # their weight beside the pool's


@dataclass(frozen=True, eq=False)
class Student:
    """The trained network, and its outputs for hidden labels where students of folds were asked."""

    network: nn.Module
    out_of_fold: Tensor | None  # (hidden labels, width)
    seconds: float


def train_student(
    trained: CrossValidation,
    pooled: Pooled,
    *,
    on_step: Callable[[int, int, float], None] | None = None,
) -> Student:
    """Teach the plan's network what the pool says; `on_step` gets steps done, in all, the loss."""
    folds = trained.held_out_rows() if has_columns(trained.dataset) else []
    rows = trained.unlabeled.numpy()
    runs = {
        f"fold-{number + 1}": _run(
            trained, f"fold-{number + 1}", pooled.of_fold(number, rows), held
        )
        for number, held in enumerate(folds)
    }
    runs[ALL] = _run(trained, ALL, pooled.of_rows(rows), trained.labeled[:0])
    total = len(runs) * trained.plan.steps
    moves = side_by_side(list(runs.values()), trained.plan.steps)
    for done, (_, record) in enumerate(moves, 1):
        if on_step is not None:
            on_step(done, total, record["loss"])
    seconds = sum(run.seconds for run in runs.values())
    final = runs[ALL].trainer.evaluated
    if not folds:
        return Student(final, None, seconds)
    outputs = [
        outputs_of(
            runs[f"fold-{number + 1}"].trainer.evaluated,
            Examples(trained.dataset.x, rows=held, transform=trained.transform),
        )
        for number, held in enumerate(folds)
    ]
    return Student(final, torch.cat(outputs), seconds)


def _run(trained: CrossValidation, part: str, said: np.ndarray, held_out: Tensor) -> Run:
    """A training on the pool's opinion (unlabeled rows, columns) and the true labels."""
    is_value = trained.dataset.task == "regression"
    labels = torch.from_numpy(said[:, :1] if is_value else np.exp(said)).float()
    loss = loss_for(trained.dataset)
    lesson = hashlib.sha256(labels.numpy().tobytes()).hexdigest()[:8]
    return trained.run_of(
        f"{part}-{STUDENT}-{lesson}",  # who is taught otherwise does not go on where this one is
        lambda: TRUE_LABELS * Supervised() + Distillation(labels, loss=loss),
        held_out,
        views=None
        if has_columns(trained.dataset)
        else views("supervised", trained.plan, trained.dataset),
    )
