"""A training put together: network, batches, objective and optimizer, in one place for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from labelgrad.functional import random_numbers
from labelgrad.losses import CrossEntropy, Loss
from labelgrad.objective import Objective
from labelgrad.schedules import Schedule
from labelgrad.step import Views
from labelgrad.training.batches import Batches
from labelgrad.training.evaluation import Metric
from labelgrad.training.run import EvaluatedOn, OnRecord, Run
from labelgrad.training.trainer import ADAM, Groups, MakeOptimizer, Trainer


@dataclass(frozen=True, eq=False)
class Recipe:
    """All that a training is made of; `run` starts it.

    `fit`, the estimators, the demo, the bench and the paper's experiments all build one of these,
    and nothing else puts a training together. `network` and `objective` are functions that make new
    ones, or objects, which are then trained as they are. A network that is made gets its first
    weights from `network_seed`, or from `seed` where there is none. The rest is as in `Trainer`.

    >>> from labelgrad import LGA, MLP, Supervised, TensorBatches
    >>> x, y = torch.randn(60, 4), torch.arange(60) % 2
    >>> labeled = TensorBatches(x, y, rows=torch.arange(20), batch_size=10)
    >>> unlabeled = TensorBatches(x, rows=torch.arange(20, 60), batch_size=10)
    >>> recipe = Recipe(
    ...     lambda: MLP(4, (8,), 2),
    ...     lambda: 0.1 * Supervised() + LGA(rows=40, width=2),
    ...     labeled,
    ...     unlabeled,
    ...     steps=20,
    ... )
    >>> recipe.run().finish().trainer.index
    20
    """

    network: nn.Module | Callable[[], nn.Module]
    objective: Objective | Callable[[], Objective]
    labeled: Batches
    unlabeled: Batches | None = None
    steps: int = field(default=1000, kw_only=True)
    learning_rate: float | Schedule = field(default=1e-3, kw_only=True)
    loss: Loss = field(default_factory=CrossEntropy, kw_only=True)
    views: Views | None = field(default=None, kw_only=True)
    optimizer: MakeOptimizer = field(default=ADAM, kw_only=True)
    groups: Groups | None = field(default=None, kw_only=True)
    weight_average: float | None = field(default=None, kw_only=True)
    clip_norm: float | None = field(default=None, kw_only=True)
    accumulate: int = field(default=1, kw_only=True)
    autocast: torch.dtype | None = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    network_seed: int | None = field(default=None, kw_only=True)
    device: str | torch.device = field(default="cpu", kw_only=True)

    def trainer(self) -> Trainer:
        """The training at its first step, to be moved step by step."""
        seed = self.seed if self.network_seed is None else self.network_seed
        objective = self.objective
        with random_numbers(torch.device("cpu"), seed):
            given = self.network
            network = given if isinstance(given, nn.Module) else given()
        return Trainer(
            network.to(self.device),
            objective if isinstance(objective, Objective) else objective(),
            self.labeled,
            self.unlabeled,
            learning_rate=self.learning_rate,
            optimizer=self.optimizer,
            groups=self.groups,
            loss=self.loss,
            views=self.views,
            weight_average=self.weight_average,
            clip_norm=self.clip_norm,
            accumulate=self.accumulate,
            autocast=self.autocast,
            seed=self.seed,
        )

    def run(
        self,
        *,
        folder: str | Path | None = None,
        examples: Mapping[str, EvaluatedOn] | None = None,
        truth: Tensor | None = None,
        evaluate_every: int = 100,
        checkpoint_every: int = 1000,
        best_by: str = "error",
        metrics: Mapping[str, Metric] | None = None,
        on_record: OnRecord | None = None,
    ) -> Run:
        """The training as a run, which evaluates, keeps the best and survives being killed."""
        return Run(
            self.trainer(),
            steps=self.steps,
            folder=folder,
            examples=examples,
            truth=truth,
            evaluate_every=evaluate_every,
            checkpoint_every=checkpoint_every,
            best_by=best_by,
            metrics=metrics,
            on_record=on_record,
        )
