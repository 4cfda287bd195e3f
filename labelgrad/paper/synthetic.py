"""The synthetic shells of the paper's Section 3.2: Figures 3 and 4.

What the paper leaves open was worked out from its curves (docs/synthetic.md): the test set has
25,000 points, every step takes all of the data, and the network is 50-128-128-128-5.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labelgrad.datasets.shells import CLASSES, shells
from labelgrad.functional import flatten, mixed_seed
from labelgrad.labels.lazy_adam import LazyAdam
from labelgrad.losses import CrossEntropy
from labelgrad.models.mlp import MLP
from labelgrad.objective import Objective
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.supervised import Supervised
from labelgrad.paper.curvature import alignment, top_eigenvector
from labelgrad.training.batches import TensorBatches
from labelgrad.training.evaluation import evaluate
from labelgrad.training.recipe import Recipe
from labelgrad.training.trainer import Trainer


@dataclass(frozen=True)
class Size:
    """How much of everything there is in a trial."""

    labeled: int
    unlabeled: int
    test: int
    dimension: int
    hidden: tuple[int, ...]
    steps: int
    every: int  # steps between two measurements
    curvature: int  # how many of the test points the Hessian is taken on


@dataclass(frozen=True)
class Settings:
    """What the paper's Algorithm 1 leaves to be chosen."""

    learning_rate: float = 1e-3  # α_θ
    label_rate: float = 0.015  # α_w
    gradient_decay: float = 0.9
    moment_decay: float = 0.99
    epsilon: float = 1e-2  # ε_norm
    labeled_weight: float = 0.0  # T


SIZES = {
    "paper": Size(5000, 25_000, 25_000, 50, (128, 128, 128), 600, 25, 10_000),
    "tiny": Size(100, 200, 300, 5, (16, 16, 16), 30, 10, 300),
}
METHODS: dict[str, Settings | None] = {  # found by `labelgrad tune synthetic` on other draws
    "supervised": None,
    "lga": Settings(learning_rate=8e-4, label_rate=0.017),  # nearest to the paper's curves
    "lga-best": Settings(2.2e-3, 0.0125, 0.0, 0.9, 0.5, 0.0),  # lowest test loss
}
SUPERVISED_RATE = 1e-4
ALIGNED = ("supervised", "lga")  # the alignment, a fifth of a trial's time, is for these


class SyntheticTrial:
    """One method on one draw of the data; iterate to train, then look at `history`.

    Accuracy and loss are those of the model before a step, and the alignment that of the gradient
    the step then takes, as the paper's figures have it. `settings` replace the method's own. The
    slope of the labels is by finite difference: the exact one gives the same curves more slowly.

    >>> trial = SyntheticTrial("lga", seed=0, scale="tiny")
    >>> records = list(trial)
    >>> [line["step"] for line in trial.history]
    [0, 10, 20]
    """

    def __init__(
        self,
        method: str,
        *,
        seed: int,
        scale: str = "paper",
        settings: Settings | None = None,
        with_alignment: bool = True,
        slope: str = "finite-difference",
    ):
        self.method, self.seed, self.size = method, seed, SIZES[scale]
        self.steps, self.with_alignment = self.size.steps, with_alignment
        self.trainer, self.test = _prepare(self.size, settings or METHODS[method], seed, slope)
        self.history: list[dict[str, Any]] = []
        self._sharpest: Tensor | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        started = time.perf_counter()
        for index in range(self.steps):
            line = None if index % self.size.every else self._measure(index)
            record = self.trainer.step()
            if line is not None:
                if self._sharpest is not None:
                    line["alignment"] = round(alignment(self._gradient(), self._sharpest), 5)
                self.history.append(line | {"seconds": round(time.perf_counter() - started, 1)})
            yield record

    def _measure(self, index: int) -> dict[str, Any]:
        measured = evaluate(self.trainer.model, *self.test)
        if self.with_alignment:
            self._sharpest = self._sharpest_direction()
        return {
            "experiment": "synthetic",
            "method": self.method,
            "seed": self.seed,
            "step": index,
            "accuracy": round(1 - measured["error"], 5),
            "loss": round(measured["loss"], 5),
        }

    def _sharpest_direction(self) -> Tensor:
        x, y = (part[: self.size.curvature] for part in self.test)
        params = dict(self.trainer.model.named_parameters())
        loss = CrossEntropy()(self.trainer.model(x), y)
        return top_eigenvector(loss, params, start=self._sharpest)[1]

    def _gradient(self) -> Tensor:
        return flatten(p.grad for p in self.trainer.model.parameters() if p.grad is not None)


def _prepare(
    size: Size, settings: Settings | None, seed: int, slope: str
) -> tuple[Trainer, tuple[Tensor, Tensor]]:
    """The trainer, and the test points, whose draw depends on nothing but the size and seed."""
    generator = torch.Generator().manual_seed(mixed_seed(seed, 0))
    labeled, unlabeled, test = (
        shells(count, size.dimension, generator)
        for count in (size.labeled, size.unlabeled, size.test)
    )
    supervised = Recipe(
        lambda: MLP(size.dimension, size.hidden, CLASSES),
        Supervised,
        TensorBatches(*labeled, batch_size=size.labeled, seed=seed),
        learning_rate=SUPERVISED_RATE,
        network_seed=mixed_seed(seed, 1),
    )
    if settings is None:
        return supervised.trainer(), test
    recipe = replace(
        supervised,
        objective=lambda: _objective(size, settings, slope),
        unlabeled=TensorBatches(unlabeled[0], batch_size=size.unlabeled, seed=seed),
        learning_rate=settings.learning_rate,
    )
    return recipe.trainer(), test


def _objective(size: Size, settings: Settings, slope: str) -> Objective:
    lga = LGA(
        size.unlabeled,
        CLASSES,
        rule=LazyAdam(settings.label_rate),
        gradient_decay=settings.gradient_decay,
        moment_decay=settings.moment_decay,
        epsilon=settings.epsilon,
        slope=slope,
    )
    if settings.labeled_weight == 0:
        return lga
    return settings.labeled_weight * Supervised() + lga
