"""The synthetic shells of the paper's Section 3.2: Figures 3 and 4.

What the paper leaves open was worked out from its curves (docs/synthetic.md): the test set has
25,000 points, every step takes all of the data, and the network is 50-128-128-128-5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from experiments.common import Line
from experiments.datasets.shells import CLASSES, shells
from experiments.paper.curvature import alignment, top_eigenvector
from labelgrad.functional import flatten, mixed_seed
from labelgrad.labels.rules import LazyAdam
from labelgrad.losses import CrossEntropy
from labelgrad.models.mlp import MLP
from labelgrad.objective import Objective
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.supervised import Supervised
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
METHODS: dict[str, Settings | None] = {  # found by `tune synthetic` on other draws
    "supervised": None,
    "lga": Settings(learning_rate=8e-4, label_rate=0.017),  # nearest to the paper's curves
    "lga-best": Settings(2.2e-3, 0.0125, 0.0, 0.9, 0.5, 0.0),  # lowest test loss
}
SUPERVISED_RATE = 1e-4
ALIGNED = ("supervised", "lga")  # the alignment, a fifth of a trial's time, is for these


def synthetic_trial(
    method: str,
    *,
    seed: int,
    scale: str = "paper",
    settings: Settings | None = None,
    give_up: Callable[[list[Line]], bool] = lambda lines: False,
) -> list[Line]:
    """Train one method on one draw of the data; gives a line for every measurement.

    Accuracy and loss are those of the model before a step, and the alignment that of the gradient
    of the step, as in the paper's figures. `settings` replace the method's own. A training that
    `give_up` calls hopeless after a measurement ends there.

    >>> [line["step"] for line in synthetic_trial("lga", seed=0, scale="tiny")]
    [0, 10, 20]
    """
    size, started = SIZES[scale], time.perf_counter()
    trainer, test = training(size, settings or METHODS[method], seed)
    with_alignment = settings is None and method in ALIGNED
    sharpest, lines = None, list[Line]()
    for step in range(size.steps):
        if step % size.every:
            trainer.step()
            continue
        measured = evaluate(trainer.model, *test)
        if with_alignment:
            sharpest = _sharpest(trainer, test, size, start=sharpest)
        trainer.step()
        line: Line = {"experiment": "synthetic", "method": method, "seed": seed, "step": step}
        line["accuracy"] = round(1 - measured["error"], 5)
        line["loss"] = round(measured["loss"], 5)
        if sharpest is not None:
            gradient = flatten(p.grad for p in trainer.model.parameters() if p.grad is not None)
            line["alignment"] = round(alignment(gradient, sharpest), 5)
        lines.append(line | {"seconds": round(time.perf_counter() - started, 1)})
        if give_up(lines):
            break
    return lines


def _sharpest(
    trainer: Trainer, test: tuple[Tensor, Tensor], size: Size, start: Tensor | None
) -> Tensor:
    """The sharpest direction of the loss on some of the test points."""
    x, y = (part[: size.curvature] for part in test)
    loss = CrossEntropy()(trainer.model(x), y)
    return top_eigenvector(loss, dict(trainer.model.named_parameters()), start=start)[1]


def training(
    size: Size, settings: Settings | None, seed: int
) -> tuple[Trainer, tuple[Tensor, Tensor]]:
    """The trainer, and the test points, whose draw depends on the size and the seed alone."""
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
        objective=lambda: _objective(size, settings),
        unlabeled=TensorBatches(unlabeled[0], batch_size=size.unlabeled, seed=seed),
        learning_rate=settings.learning_rate,
    )
    return recipe.trainer(), test


def _objective(size: Size, settings: Settings) -> Objective:
    lga = LGA(
        size.unlabeled,
        CLASSES,
        rule=LazyAdam(settings.label_rate),
        gradient_decay=settings.gradient_decay,
        moment_decay=settings.moment_decay,
        epsilon=settings.epsilon,
        slope="finite-difference",  # the exact one gives the same curves more slowly
    )
    if settings.labeled_weight == 0:
        return lga
    return settings.labeled_weight * Supervised() + lga
