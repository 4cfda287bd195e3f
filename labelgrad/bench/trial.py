"""One rule for the labels on many sets: supervised, LGA at several rates, LGA by evidence.

All train the estimators' network, as slowly as the estimators of 0.1 did. Nothing is chosen: what
is reported is the model of the last step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelgrad.bench.sets import Rows, rows
from labelgrad.inputs.columns import row_scale
from labelgrad.labels.evidence import Evidence, usual_scale
from labelgrad.labels.lazy_adam import LazyAdam
from labelgrad.losses import CrossEntropy, Loss, SquaredError
from labelgrad.models.mlp import MLP
from labelgrad.objective import Objective
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.supervised import Supervised
from labelgrad.training.batches import TensorBatches
from labelgrad.training.recipe import Recipe, Run

STEPS, BATCH, HIDDEN = 5000, 50, (128, 128)  # as the estimators of 0.1 had them
LEARNING_RATE, SUPERVISED_WEIGHT = 2e-4, 0.1

RATES = (0.01, 0.03, 0.1)  # α_w of Algorithm 1
FIXED_RATE = 0.1  # what somebody who can not tune would take: LGA's own default
TIMES = (1 / 3, 1.0, 3.0)  # the evidence's usual scale


@dataclass(frozen=True)
class Method:
    """A column of the bench: supervised, lga with a rate, or evidence with a factor."""

    kind: str
    setting: float = 1.0


COMPARED = (Method("supervised"), *(Method("lga", rate) for rate in RATES), Method("evidence"))
MOVED = tuple(Method("evidence", times) for times in TIMES if times != 1)
METHODS = (*COMPARED, *MOVED)


class BenchTrial:
    """One method on one split of one set; iterate to train, then look at `history`.

    >>> trial = BenchTrial("wine", "evidence", 1.0, seed=0, steps=5)
    >>> records = list(trial)
    >>> [(line["data"], line["labels"], line["step"]) for line in trial.history]
    [('wine', 13, 5)]
    """

    def __init__(
        self,
        data: str,
        kind: str,
        setting: float,
        *,
        seed: int,
        steps: int = STEPS,
        folder: Path | None = None,
    ):
        self.steps = steps
        split = rows(data, seed, folder)
        self.about = {
            "experiment": "bench",
            "data": data,
            "method": kind,
            "setting": setting,
            "labels": int(split.given.sum()),
            "seed": seed,
        }
        self.run = _run(split, Method(kind, setting), seed, steps)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.run)

    @property
    def history(self) -> list[dict[str, Any]]:
        """One line: the model of the last step."""
        last = self.run.history[-1]
        keys = ("test_error", "test_loss", "test_ece", "imputed_accuracy", "imputed_rmse")
        measured = {key: round(last[key], 5) for key in keys if key in last}
        return [self.about | measured | {"step": last["step"], "seconds": round(last["seconds"])}]


def _run(split: Rows, method: Method, seed: int, steps: int) -> Run:
    loss: Loss = SquaredError() if split.classes is None else CrossEntropy()
    x, y, x_test, y_test = _tensors(split)
    known, width = torch.from_numpy(split.given), split.classes or 1
    given, others = known.nonzero().squeeze(1), (~known).nonzero().squeeze(1)
    recipe = Recipe(
        lambda: MLP(x.shape[1], HIDDEN, width),
        lambda: _objective(method, len(others), width, loss),
        TensorBatches(x, y, rows=given, batch_size=min(BATCH, len(given)), seed=seed),
        TensorBatches(x, rows=others, batch_size=min(BATCH, len(others)), seed=seed),
        steps=steps,
        learning_rate=LEARNING_RATE,
        loss=loss,
        seed=seed,
    )
    truth = None if method.kind == "supervised" else y[others]
    return recipe.run(examples={"test": (x_test, y_test)}, truth=truth, evaluate_every=steps)


def _objective(method: Method, unlabeled: int, width: int, loss: Loss) -> Objective:
    if method.kind == "supervised":
        return Supervised()
    rule = (
        LazyAdam(method.setting)
        if method.kind == "lga"
        else Evidence(method.setting * usual_scale(loss))
    )
    return SUPERVISED_WEIGHT * Supervised() + LGA(unlabeled, width, loss=loss, rule=rule)


def _tensors(split: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs scaled by all rows; values in standard deviations of those that are given."""
    mean, scale = row_scale(split.x)
    x, x_test = (torch.tensor((part - mean) / scale).float() for part in (split.x, split.x_test))
    y, y_test = torch.tensor(split.y), torch.tensor(split.y_test)
    if split.classes is None:
        given = y[torch.from_numpy(split.given)]
        y, y_test = (
            ((part - given.mean()) / given.std(correction=0)).float() for part in (y, y_test)
        )
    return x, y, x_test, y_test
