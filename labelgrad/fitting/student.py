"""The student: one network that learns what the pool says of the unlabeled rows.

It is what a run keeps: weights without code, in any format networks have. Where a table has few
rows, the pool is also asked about rows that are made of two others (Buciluǎ, Caruana &
Niculescu-Mizil, "Model compression", 2006), so that the student learns what the pool says, not
these rows by heart.

Rows of a table are cheap to learn from, so students of the folds are trained, too, each by a pool
that has not heard the fold's labels: then the labels tell what the student is worth. Of pictures
they would cost as much as a third method; there the pool's numbers stand for it.
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
from labelgrad.functional import mixed_seed
from labelgrad.objectives.distillation import Distillation
from labelgrad.objectives.supervised import Supervised
from labelgrad.training.batches import Examples
from labelgrad.training.recipe import Run, side_by_side
from labelgrad.witnesses.opinions import speaks_of_rows

TRUE_LABELS = 0.1  # their weight beside the pool's
LESSONS = 10_000  # rows that a student of a table learns from, at least
TAKEN = 0.25  # of a mixed row's columns are the other row's
AT_ONCE = 100  # lessons in a batch


@dataclass(frozen=True, eq=False)
class Student:
    """The trained network, and its outputs for hidden labels where students of folds were asked."""

    network: nn.Module
    out_of_fold: Tensor | None  # (hidden labels, width)
    seconds: float


def train_student(
    trained: CrossValidation,
    pooled: Pooled | None,
    *,
    on_step: Callable[[int, int, float], None] | None = None,
) -> Student:
    """Teach the plan's network what the pool says; `on_step` gets steps done, in all, the loss.

    Of several processes the first has the pool, and tells the others.
    """
    folds = trained.held_out_rows() if has_columns(trained.dataset) else []
    rows = trained.unlabeled.numpy()

    def lessons() -> tuple[Tensor, list[np.ndarray]]:
        assert pooled is not None
        mixed, said = mixed_rows(trained, pooled), []
        nothing = np.zeros((0, len(trained.dataset.classes) or 2))
        for number in range(len(folds)):
            more = pooled.of_fold_new(number, mixed) if len(mixed) else nothing
            said.append(np.concatenate([pooled.of_fold(number, rows), more]))
        more = pooled.of_new(mixed) if len(mixed) else nothing
        return mixed, [*said, np.concatenate([pooled.of_rows(rows), more])]

    mixed, (*of_folds, of_all) = trained.group.first(lessons)
    x = torch.cat([trained.dataset.x[trained.unlabeled], mixed]) if len(mixed) else None
    runs = {
        f"fold-{number}": _run(trained, f"fold-{number}", said, held, x)
        for number, (said, held) in enumerate(zip(of_folds, folds, strict=True), 1)
    }
    runs[ALL] = _run(trained, ALL, of_all, trained.labeled[:0], x)
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
            Examples(trained.seen, rows=held, transform=trained.scale),
        )
        for number, held in enumerate(folds)
    ]
    return Student(final, torch.cat(outputs), seconds)


def mixed_rows(trained: CrossValidation, pooled: Pooled) -> Tensor:
    """Rows made of two others, to ask the pool about, as many as a small table lacks."""
    x = trained.dataset.x
    missing = LESSONS - len(trained.unlabeled)
    # A file of opinions knows the rows it names, and no others.
    told = any(speaks_of_rows(t.opinion) and pooled.pool.weights[t.name] for t in pooled.heard)
    if not has_columns(trained.dataset) or trained.dataset.frozen_features or missing <= 0 or told:
        return x[:0]
    rng = np.random.default_rng(mixed_seed(trained.plan.seed, 5))
    one, other = torch.from_numpy(rng.integers(len(x), size=(2, missing)))
    taken = torch.from_numpy(rng.random((missing, x.shape[1])) < TAKEN)
    return torch.where(taken, x[other], x[one])


def _run(
    trained: CrossValidation, part: str, said: np.ndarray, held_out: Tensor, x: Tensor | None
) -> Run:
    """A training on the pool's opinion of `x`, or of the unlabeled rows, and the true labels."""
    is_value = trained.dataset.task == "regression"
    labels = torch.from_numpy(said[:, :1] if is_value else np.exp(said)).float()
    loss = loss_for(trained.dataset)
    lesson = hashlib.sha256(labels.numpy().tobytes()).hexdigest()[:8]
    return trained.run_of(
        f"{part}-{STUDENT}-{lesson}",  # who is taught otherwise does not go on where this one is
        lambda: TRUE_LABELS * Supervised() + Distillation(labels, loss=loss),
        held_out,
        trained.unlabeled_batches() if x is None else trained.unlabeled_batches(x, AT_ONCE),
        views=None
        if has_columns(trained.dataset)
        else views("supervised", trained.plan, trained.dataset),
    )
