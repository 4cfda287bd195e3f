"""Digits with few labels: supervised beside LGA, on the same network and the same budget.

Both get the pixels as the estimators scale them, and LGA's labels learn by evidence, as they do
there. There is no validation part: of 50 labels none can be spared. Nothing is chosen either, so
what is reported is the model of the last step. The labels still get better after the estimators'
5,000 steps: 7,000 are what fits in three minutes.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from labelgrad.datasets.digits import Split, digits
from labelgrad.inputs.columns import row_scale
from labelgrad.methods import Problem
from labelgrad.methods import method as classes_method
from labelgrad.models.mlp import MLP
from labelgrad.training.batches import TensorBatches
from labelgrad.training.recipe import Recipe, Run

METHODS = ("supervised", "lga-evidence")
LEARNING_RATE, BATCH = 2e-4, 50


def digits_run(
    method: str,
    *,
    seed: int = 0,
    labels: int = 50,
    steps: int = 7000,
    folder: str | Path | None = None,
) -> Run:
    """The run of one method on one split, ready to be iterated.

    >>> run = digits_run("lga-evidence", steps=5).finish()
    >>> run.history[-1]["step"]
    5
    """
    split = scaled(digits(labels=labels, seed=seed))
    rows = len(split.unlabeled[0])
    recipe = Recipe(
        lambda: MLP(64, (128, 128), 10),
        lambda: classes_method(method, Problem(rows, 10, BATCH, steps)),
        TensorBatches(*split.labeled, batch_size=min(BATCH, labels), seed=seed),
        TensorBatches(split.unlabeled[0], batch_size=BATCH, seed=seed),
        steps=steps,
        learning_rate=LEARNING_RATE,
        seed=seed,
    )
    return recipe.run(
        folder=folder,
        examples={"test": split.test},
        truth=split.unlabeled[1],
        evaluate_every=100,
        checkpoint_every=500,
    )


def scaled(split: Split) -> Split:
    """The pixels centred, and rows of one length, by the rows that are there to learn from.

    >>> split = scaled(digits(labels=50, seed=0))
    >>> round(float(split.unlabeled[0].norm(dim=1).mean()))
    3
    """
    rows = torch.cat([split.labeled[0], split.unlabeled[0]])
    mean, scale = (torch.from_numpy(column) for column in row_scale(rows.numpy()))

    def part(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return ((x - mean) / scale).float(), y

    return Split(part(*split.labeled), part(*split.unlabeled), part(*split.test))
