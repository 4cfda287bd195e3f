"""The trainings of a fit: every method on every fold and on all labels, going at one pace.

Few labels are too dear to be set aside: a fifth of 20 is 4, and 4 examples tell nothing. So they
are dealt into four folds, and each fold is predicted by a model that was trained on the other
three; together they judge a method by nearly all labels there are. The model that is kept learns
from every label. From `ENOUGH` labels on, one fold of the four tells as much as is needed.

The trainings advance in rounds, so whenever a person stops them, all have come equally far (but
for a part of one round): the comparison is fair, and the model of all labels is there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labelgrad.fitting.fine_tuning import groups
from labelgrad.fitting.plan import (
    BATCH,
    FINE_TUNED,
    OWN,
    Plan,
    learning_rate,
    loss_for,
    network,
    objective,
    outputs_for,
    seen_by_network,
    views,
)
from labelgrad.fitting.predictor import outputs_of
from labelgrad.fitting.verdict import BASELINE, HeldOut
from labelgrad.functional import mixed_seed
from labelgrad.group import Group
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import kind_named
from labelgrad.inputs.raw import raw_scale
from labelgrad.labels.table import LabelTable
from labelgrad.objective import Objective
from labelgrad.objectives.lga import LGA
from labelgrad.step import Views
from labelgrad.training.batches import Examples, TensorBatches
from labelgrad.training.recipe import Recipe, Run, side_by_side
from labelgrad.training.trainer import Trainer

FOLDS, ENOUGH = 4, 400  # folds, and as many labels that one of them is enough
ROUNDS, SHORTEST = 40, 25  # as many rounds, but none of fewer steps
SHORTEST_FINE_TUNED = 5  # where a step takes seconds
ALL = "all-labels"
Record = dict[str, Any]  # of a step: its number, the loss, and what the terms report
OnProgress = Callable[[str, int, int, float], None]  # a name, steps done and in all, the loss


@dataclass(frozen=True)
class CurvePoint:
    """How a method does after so many steps: over all folds, and in training on all labels."""

    step: int
    method: str
    training_loss: float
    gap: float | None = None  # between the labeled and the unlabeled gradient, where there is one
    cosine: float | None = None
    error: float | None = None  # on held-out labels, in the labels' own units
    loss: float | None = None


@dataclass(frozen=True, eq=False)
class Training:
    """One method on a part of the labels; `held_out` are the rows it does not see."""

    part: str
    method: str
    run: Run
    held_out: Tensor

    @property
    def step(self) -> int:
        """Steps taken."""
        return self.run.trainer.index


class CrossValidation:
    """All trainings of a plan, ready to be advanced; in a `folder` they survive being killed.

    They all draw from the one tensor of the dataset, by row. `share` says which of how many shares
    of the trainings this is, for several processes. With `only` one method is trained, on the
    folds alone: to be judged, not kept.
    """

    def __init__(
        self,
        dataset: Dataset,
        plan: Plan,
        *,
        model: nn.Module | None = None,
        folder: Path | None = None,
        device: str = "cpu",
        share: tuple[int, int] = (0, 1),
        only: str | None = None,
    ):
        if plan.network in (OWN, FINE_TUNED) and model is None:
            raise ValueError("The run has a network of its own kind; give it again as `model`.")
        self.dataset, self.plan, self.folder = dataset, plan, folder
        self.model, self.device = model, device
        self.transform = kind_named(dataset.kind).transform(dataset.preprocessing, dataset.x)
        self.seen = seen_by_network(dataset)
        self.scale = self.transform  # of what networks see
        if dataset.raw is not None:
            self.scale = raw_scale(dataset.preprocessing)
        self.labeled = dataset.labeled.nonzero().squeeze(1)
        self.unlabeled = (~dataset.labeled).nonzero().squeeze(1)
        self.y, self.mean, self.spread = in_spreads(dataset)
        shortest = SHORTEST if dataset.raw is None else SHORTEST_FINE_TUNED
        self.round = max(-(-plan.steps // ROUNDS), min(shortest, plan.steps))
        self.methods = plan.methods if only is None else (only,)
        self.trainings = [
            Training(part, method, self._run(name, method, rows), rows)
            for name, part, method, rows in share_of(dataset, plan, share)
            if only is None or (method == only and part != ALL)
        ]

    def records(self) -> Iterator[Record]:
        """Train in rounds to the end; a record of each step, with its part and method."""
        runs = {training.run: training for training in self.trainings}
        for target in range(self.round, self.plan.steps + self.round, self.round):
            for run, record in side_by_side(list(runs), target):
                yield record | {"part": runs[run].part, "method": runs[run].method}

    @property
    def group(self) -> Group:
        """The processes that train together."""
        return self.trainings[0].run.group

    @property
    def done(self) -> int:
        """Steps taken, of all trainings together."""
        return sum(training.step for training in self.trainings)

    @property
    def total(self) -> int:
        """Steps to take, of all trainings together."""
        return len(self.trainings) * self.plan.steps

    @property
    def step(self) -> int:
        """The step that every training has reached."""
        return min(training.step for training in self.trainings)

    @property
    def folds(self) -> int:
        """How many folds there are."""
        return len({t.part for t in self.trainings if t.part != ALL})

    @property
    def seconds(self) -> float:
        """What the training took, of all trainings together."""
        return sum(training.run.seconds for training in self.trainings)

    def elapsed(self, workers: int) -> float:
        """What it took by the clock, where so many processes shared the trainings."""
        shares = [0.0] * workers
        parts = list(dict.fromkeys(training.part for training in self.trainings))
        for each in self.trainings:
            place = parts.index(each.part) + self.methods.index(each.method)
            shares[place % workers] += each.run.seconds
        return max(shares)

    def trainer(self, method: str) -> Trainer:
        """The training of a method on all labels."""
        found = [t for t in self.trainings if (t.part, t.method) == (ALL, method)]
        return found[0].run.trainer

    def label_table(self, method: str) -> LabelTable | None:
        """The labels that LGA learned beside all true ones, where it is one of the terms."""
        terms = self.trainer(method).objective.leaves()
        return next((term.table for term in terms if isinstance(term, LGA)), None)

    def in_units(self, values: Tensor) -> Tensor:
        """What networks and label tables say of values, in the labels' own units."""
        return values.double() * self.spread + self.mean

    def held_out_rows(self) -> list[Tensor]:
        """The rows of each fold, in the order of the trainings."""
        first = self.methods[0]
        return [t.held_out for t in self.trainings if t.part != ALL and t.method == first]

    def held_out(self) -> HeldOut:
        """What each method says about the labels that were held out of its training."""
        folds = [t for t in self.trainings if t.part != ALL]
        rows = self.held_out_rows()
        outputs = {name: [torch.zeros(0, outputs_for(self.dataset))] for name in self.methods}
        for each in folds:
            mine = Examples(self.seen, rows=each.held_out, transform=self.scale)
            outputs[each.method].append(outputs_of(each.run.trainer.evaluated, mine))
        places = torch.cat(rows) if rows else torch.zeros(0, dtype=torch.int64)
        joined = {name: torch.cat(found) for name, found in outputs.items()}
        return HeldOut(places, self.y[places], joined, self.dataset.task, self.spread)

    def curves(self) -> list[CurvePoint]:
        """For every round and method: the held-out error, and how the gradients agreed."""
        points: list[CurvePoint] = []
        for method in self.methods:
            mine = [t for t in self.trainings if t.method == method]
            weights = [len(t.held_out) for t in mine if t.part != ALL]
            power = 1 if self.dataset.task == "classification" else 2
            for records in zip(*(t.run.history for t in mine), strict=False):
                last, error, loss = records[-1], None, None
                if weights:
                    folds = records[: len(weights)]
                    errors = [record["held_out_error"] ** power for record in folds]
                    error = np.average(errors, weights=weights) ** (1 / power) * self.spread
                    loss = np.average([r["held_out_loss"] for r in folds], weights=weights)
                point = (
                    last["step"],
                    method,
                    last["loss"],
                    last.get("lga/gap"),
                    last.get("lga/cosine"),
                )
                points.append(CurvePoint(*point, error, loss))
        return sorted(points, key=lambda point: point.step)

    def _run(self, name: str, method: str, held_out: Tensor) -> Run:
        return self.run_of(
            name,
            lambda: objective(method, self.plan, self.dataset),
            held_out,
            self.unlabeled_batches() if method != BASELINE else None,
            views=views(method, self.plan, self.dataset),
        )

    def run_of(
        self,
        name: str,
        make_objective: Callable[[], Objective],
        held_out: Tensor,
        unlabeled: TensorBatches | None,
        *,
        views: Views | None = None,
    ) -> Run:
        """A training of the plan's network by an objective, on all labels but those held out."""
        plan, rows = self.plan, self.labeled[~torch.isin(self.labeled, held_out)]
        recipe = Recipe(
            self._network(),
            make_objective,
            self._batches(self.seen, self.y, rows),
            unlabeled,
            steps=plan.steps,
            learning_rate=learning_rate(plan, self.dataset),
            loss=loss_for(self.dataset),
            views=views,
            groups=groups(plan),
            seed=plan.seed,
            device=self.device,
        )
        judged = Examples(self.seen, self.y, held_out, self.scale)
        return recipe.run(
            folder=None if self.folder is None else self.folder / name,
            examples={"held_out": judged} if len(held_out) else {},
            evaluate_every=self.round,
            checkpoint_every=self.round,
        )

    def unlabeled_batches(self, x: Tensor | None = None, size: int = BATCH) -> TensorBatches:
        """Batches of the unlabeled rows, or of other examples `x`, as they were read."""
        rows = self.unlabeled if x is None else torch.arange(len(x))
        return self._batches(self.seen if x is None else x, None, rows, size)

    def _batches(
        self, x: Tensor, y: Tensor | None, rows: Tensor, size: int = BATCH
    ) -> TensorBatches:
        return TensorBatches(
            x,
            y,
            rows=rows,
            batch_size=min(size, len(rows)),
            seed=self.plan.seed,
            transform=self.scale,
        )

    def _network(self) -> Callable[[], nn.Module]:
        """The same first weights for every training."""
        if self.model is not None:
            return partial(copy.deepcopy, self.model)
        shape = tuple(self.dataset.x.shape[1:])
        return partial(network, self.plan.network, shape, outputs_for(self.dataset))


def share_of(
    dataset: Dataset, plan: Plan, share: tuple[int, int] = (0, 1)
) -> list[tuple[str, str, str, Tensor]]:
    """Of each training in this share of so many: its name, part, method, and rows held out."""
    y, labeled = in_spreads(dataset)[0], dataset.labeled.nonzero().squeeze(1)
    folds = held_out_folds(y[labeled], seed=plan.seed)
    held_out = {f"fold-{number}": labeled[fold] for number, fold in enumerate(folds, 1)}
    mine, shares = share
    return [
        (f"{part}-{method}", part, method, rows)
        for place, (part, rows) in enumerate([*held_out.items(), (ALL, labeled[:0])])
        for other, method in enumerate(plan.methods)
        if (place + other) % shares == mine
    ]


def in_spreads(dataset: Dataset) -> tuple[Tensor, float, float]:
    """The labels as networks learn them, with the mean and the spread that values are taken by.

    Values are learned in units of their own spread; classes are as they are.
    """
    if dataset.task == "classification":
        return dataset.y, 0.0, 1.0
    known = dataset.y[dataset.labeled]
    mean, spread = float(known.mean()), float(known.std(correction=0)) or 1.0
    return ((dataset.y - mean) / spread).float(), mean, spread


def held_out_folds(y: Tensor, *, seed: int) -> list[Tensor]:
    """The places in `y` of each fold; classes, or values, are spread evenly.

    The only label of its class is never held out: every training needs one. Fewer than four
    values, or classes of one label each, leave nothing to hold out.

    >>> folds = held_out_folds(torch.tensor([0, 0, 0, 0, 1, 1, 2]), seed=0)
    >>> sorted(torch.cat(folds).tolist())
    [0, 1, 2, 3, 4, 5]
    >>> [len(fold) for fold in folds]
    [2, 2, 1, 1]
    """
    generator = torch.Generator().manual_seed(mixed_seed(seed, 3))
    if y.dtype.is_floating_point:  # from low to high, neighbours mixed
        groups = list(y.argsort(stable=True).split(FOLDS)) if len(y) >= FOLDS else []
    else:  # class after class: no two of the first labels of a class share a fold
        groups = [(y == label).nonzero().squeeze(1) for label in y.unique()]
    mixed = [group[torch.randperm(len(group), generator=generator)] for group in groups]
    if not y.dtype.is_floating_point:
        mixed = [group for group in mixed if len(group) > 1]
    dealt = torch.cat(mixed) if mixed else torch.zeros(0, dtype=torch.int64)
    folds = [dealt[place::FOLDS].sort().values for place in range(min(FOLDS, len(dealt)))]
    return folds[:1] if len(y) >= ENOUGH else folds
