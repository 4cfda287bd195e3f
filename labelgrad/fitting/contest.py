"""The trainings of a fit: every method on every fold and on all labels, going at one pace.

They advance in rounds, so whenever a person stops them, all have come equally far (but for a part
of one round): the comparison is fair, and the model of all labels is there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from labelgrad.fitting.folds import held_out_folds
from labelgrad.fitting.held_out import HeldOut
from labelgrad.fitting.networks import Scale, network
from labelgrad.fitting.plan import BATCH, OWN, Plan, objective, views, width
from labelgrad.fitting.verdict import BASELINE
from labelgrad.functional import mixed_seed
from labelgrad.inputs.dataset import Dataset
from labelgrad.losses import CrossEntropy, Loss, SquaredError
from labelgrad.schedules import Drop
from labelgrad.training.batches import Examples, TensorBatches
from labelgrad.training.evaluation import predict
from labelgrad.training.recipe import Recipe
from labelgrad.training.run import Run
from labelgrad.training.trainer import Trainer

ROUNDS, SHORTEST = 40, 25  # as many rounds, but none of fewer steps
ALL = "all-labels"
Watch = Callable[[int, int, float], None]  # steps done, steps in all, the last loss


@dataclass(frozen=True, eq=False)
class Training:
    """One method on a part of the labels; `held_out` are the rows it does not see."""

    part: str
    method: str
    run: Run
    held_out: Tensor


class Contest:
    """All trainings of a plan, ready to be advanced; in a `folder` they survive being killed.

    `share` says which of how many shares of the trainings this is, for several processes. With
    `only` one method is trained, on the folds alone: to be judged, not kept.
    """

    def __init__(
        self,
        source: Dataset,
        plan: Plan,
        *,
        model: nn.Module | None = None,
        folder: Path | None = None,
        device: str = "cpu",
        share: tuple[int, int] = (0, 1),
        only: str | None = None,
    ):
        self.source, self.plan, self.folder = source, plan, folder
        self.x = Scale.of(source)(source.x)
        self.mean, self.spread = _target_scale(source)
        self.y = source.y if source.task == "classification" else self._standardized()
        self.loss: Loss = CrossEntropy() if source.task == "classification" else SquaredError()
        self.labeled = source.labeled.nonzero().squeeze(1)
        self.unlabeled = (~source.labeled).nonzero().squeeze(1)
        self.round = max(-(-plan.steps // ROUNDS), min(SHORTEST, plan.steps))
        self._model, self._device, self._share = model, torch.device(device), share
        self._only = only
        self.methods = plan.contenders if only is None else (only,)
        self.trainings = list(self._trainings())

    def advance(self, watch: Watch, stopped: Callable[[], bool]) -> None:
        """Train in rounds to the end, or until somebody asks to stop."""
        for loss in self.losses():
            watch(self.done, len(self.trainings) * self.plan.steps, loss)
            if stopped():
                return

    def losses(self) -> Iterator[float]:
        """Do it all, step by step, and give the loss of each."""
        for target in range(self.round, self.plan.steps + self.round, self.round):
            for training in self.trainings:
                yield from _steps(training.run, min(target, self.plan.steps))

    @property
    def done(self) -> int:
        """Steps taken, of all trainings together."""
        return sum(training.run.trainer.index for training in self.trainings)

    @property
    def step(self) -> int:
        """The step that every training has reached."""
        return min(training.run.trainer.index for training in self.trainings)

    @property
    def seconds(self) -> float:
        """What the training took."""
        return sum(training.run.seconds for training in self.trainings)

    def of(self, method: str, part: str = ALL) -> Trainer:
        """The trainer of a method on a part of the labels."""
        return next(t for t in self.trainings if (t.method, t.part) == (method, part)).run.trainer

    def held_out(self) -> HeldOut:
        """What each method says about the labels that were held out of its training."""
        folds = [t for t in self.trainings if t.part != ALL]
        firsts = [t.held_out for t in folds if t.method == self.methods[0]]
        rows = torch.cat(firsts) if firsts else torch.zeros(0, dtype=torch.int64)
        empty = torch.zeros(0, width(self.source))
        outputs = {
            name: torch.cat([empty] + [self._outputs(t) for t in folds if t.method == name])
            for name in self.methods
        }
        return HeldOut(rows, self.y[rows], outputs)

    def _trainings(self) -> Iterator[Training]:
        folds = held_out_folds(self.y[self.labeled], seed=self.plan.seed)
        held_out = {f"fold-{i}": self.labeled[fold] for i, fold in enumerate(folds, 1)}
        if self._only is None:
            held_out[ALL] = self.labeled[:0]
        mine, shares = self._share
        for place, (part, rows) in enumerate(held_out.items()):
            for other, method in enumerate(self.methods):
                if (place + other) % shares == mine:
                    yield Training(part, method, self._run(part, method, rows), rows)

    def _run(self, part: str, method: str, held_out: Tensor) -> Run:
        plan, mine = self.plan, self.labeled[~torch.isin(self.labeled, held_out)]
        labeled = self._stream(mine, self.y)
        others = None if method == BASELINE else self._stream(self.unlabeled, None)
        recipe = Recipe(
            self._network,
            lambda: objective(method, plan, self.source, len(self.unlabeled)),
            labeled,
            others,
            steps=plan.steps,
            learning_rate=Drop(plan.learning_rate, at=0.8 * plan.steps),
            loss=self.loss,
            views=views(plan, self.source),
            seed=plan.seed,
            device=self._device,
        )
        examples = {"held_out": Examples(self.x, self.y, held_out)} if len(held_out) else {}
        return recipe.run(
            folder=None if self.folder is None else self.folder / f"{part}-{method}",
            examples=examples,
            evaluate_every=self.round,
            checkpoint_every=self.round,
        )

    def _stream(self, rows: Tensor, y: Tensor | None) -> TensorBatches:
        size = min(BATCH, len(rows))
        return TensorBatches(self.x, y, rows=rows, batch_size=size, seed=self.plan.seed)

    def _network(self) -> nn.Module:
        """The same first weights for every training."""
        if self.plan.network == OWN:
            return copy.deepcopy(_given(self._model)).to(self._device)
        shape, outputs = self.x.shape[1:], width(self.source)
        seed = mixed_seed(self.plan.seed, 2)
        return network(self.plan.network, shape, outputs, seed=seed).to(self._device)

    def _outputs(self, training: Training) -> Tensor:
        return predict(training.run.trainer.evaluated, self.x[training.held_out])

    def _standardized(self) -> Tensor:
        return ((self.source.y - self.mean) / self.spread).float()


def _steps(run: Run, target: int) -> Iterator[float]:
    if run.trainer.index >= target:
        return
    for record in run:
        yield record["loss"]
        if run.trainer.index >= target:
            return


def _target_scale(source: Dataset) -> tuple[float, float]:
    """Mean and spread of all labels; values are learned in these units."""
    if source.task == "classification":
        return 0.0, 1.0
    known = source.y[source.labeled]
    return float(known.mean()), float(known.std(correction=0))


def _given(model: nn.Module | None) -> nn.Module:
    if model is None:
        raise ValueError("The run has a network of its own kind; give it again as `model`.")
    return model
