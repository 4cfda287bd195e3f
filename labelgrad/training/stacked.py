"""Trainings of small perceptrons that advance together: one step of all for the price of a few.

A `Trainer` takes any model and any objective, and of a step of a small perceptron most is the price
of that. For the plainest trainings, a perceptron (`MLP`) by Adam on the true labels, alone or with
LGA or a teacher's labels, the step is written out here for any number of them at once. The numbers
are those of the trainer but for rounding, and a training's own numbers do not depend on which
others stand beside it, to the last bit: a run may go on in another company, or alone.

While a `Stack` stands, the tensors of its trainers (weights, moments, averages, label tables) are
parts of its own. So whoever looks at a trainer between two steps, to evaluate it or to keep a
checkpoint, sees it as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.adam import adam

from labelgrad.labels.alignment import Gap, to_power_
from labelgrad.labels.table import LabelTable
from labelgrad.losses import CrossEntropy
from labelgrad.models.stacked_mlp import StackedMLP
from labelgrad.objectives.distillation import Distillation
from labelgrad.schedules import value_at
from labelgrad.training.batches import TensorBatches
from labelgrad.training.stackable import layer_sizes, stackable, terms_of
from labelgrad.training.trainer import Trainer

Record = dict[str, float]
LARGEST = 1e18  # a gradient whose square a number in single precision still holds
AHEAD, HELD = 64, 2**20  # steps whose batches are drawn at once, and the most numbers they may be


class Measured(NamedTuple):
    """The loss of a training's labeled and unlabeled rows, and products of their gradients."""

    labeled: float
    labeled_square: float
    unlabeled: float = 0.0
    unlabeled_square: float = 0.0
    product: float = 0.0

    def finite(self, weights: Mapping[str, float]) -> bool:
        """Whether the weighted terms are, and their gradients are far from too long."""
        total = sum(self._values(weights).values())
        squares = dict.fromkeys(weights, self.unlabeled_square)
        squares["supervised"] = self.labeled_square
        length = sum(abs(weight) * math.sqrt(squares[name]) for name, weight in weights.items())
        return math.isfinite(total) and length < LARGEST

    def record(self, step: int, weights: Mapping[str, float], gap: float | None) -> Record:
        """What `Trainer.step` would say."""
        values = self._values(weights)
        said: Record = {"step": step, "loss": sum(values.values())}
        said |= {f"{name}/loss": value for name, value in values.items()}
        if gap is not None:
            lengths = math.sqrt(self.labeled_square) * math.sqrt(self.unlabeled_square)
            said |= {"lga/gap": gap, "lga/cosine": self.product / lengths if lengths else 0.0}
        return said

    def _values(self, weights: Mapping[str, float]) -> Record:
        parts = dict.fromkeys(weights, self.unlabeled) | {"supervised": self.labeled}
        return {name: weight * parts[name] for name, weight in weights.items()}


def advance(trainers: Sequence[Trainer], steps: int) -> Iterator[list[Record]]:
    """Move all trainers by so many steps, one record of each trainer for every step.

    They must be of one stack (see `labelgrad.training.stackable`). A single trainer may be of any
    kind: where there is no faster way, it goes its own.

    >>> from labelgrad import MLP, Supervised, TensorBatches
    >>> batches = TensorBatches(torch.randn(20, 4), torch.arange(20) % 2, batch_size=10)
    >>> trainers = [Trainer(MLP(4, (8,), 2), Supervised(), batches) for _ in range(3)]
    >>> [[record["step"] for record in records] for records in advance(trainers, 2)]
    [[1, 1, 1], [2, 2, 2]]
    """
    end = trainers[0].index + steps
    together = all(stackable(trainer) for trainer in trainers)
    while trainers[0].index < end:
        if together:
            with Stack(trainers) as stack:
                while stack.index < end and (records := stack.step(end)) is not None:
                    yield records
        if trainers[0].index < end:  # what is not finite is told by the trainer that it happens to
            yield [trainer.step() for trainer in trainers]


class Stack:
    """Trainers of one kind at the same step, whose tensors are parts of one while it stands."""

    def __init__(self, trainers: Sequence[Trainer]):
        self.trainers, first = trainers, trainers[0]
        self.index, self.loss = first.index, first.loss
        self.terms = [terms_of(trainer) for trainer in trainers]
        self.weights, self.lgas = self.terms[0].weights, [t.lga for t in self.terms if t.lga]
        self.teachers = [t.second for t in self.terms if isinstance(t.second, Distillation)]
        self.has_unlabeled = bool(self.lgas or self.teachers)
        like = first._trained[0].detach()
        self.rows = [
            (t.labeled.batch_size, _drawn_from(t).batch_size if self.has_unlabeled else 0)
            for t in trainers
        ]
        self.nets = StackedMLP(layer_sizes(first.model), self.rows, like)
        self._lent: list[tuple[MutableMapping[str, Any], str, Tensor]] = []
        self._take_model_and_moments()
        self.gaps = Gaps(self) if self.lgas else None
        self.tables = Tables(self) if self.lgas else None
        self.taught = Taught(self) if self.teachers else None
        self._lay_out()

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        """Give every trainer memory of its own again."""
        for trainer in self.trainers:
            for parameter in trainer._trained:
                if _shares(parameter, self.nets.params):
                    parameter.data = parameter.data.clone()
        for home, name, view in self._lent:
            if home[name] is view:
                home[name] = view.clone()

    def lend(self, home: MutableMapping[str, Any], name: str, view: Tensor) -> None:
        """Put a part of the stack, filled with what is there, in a trainer's tensor's place."""
        if home[name].numel():
            view.copy_(home[name])
        home[name] = view
        self._lent.append((home, name, view))

    @torch.no_grad()
    def step(self, end: int) -> list[Record] | None:
        """One step of all, of those before `end`; none, and nothing moves, where it diverges."""
        nets, tables = self.nets, self.tables
        rows = self._fill(end)
        labels = tables or self.taught
        if labels is not None:
            self._targets.index_copy_(0, self._unlabeled, labels.draw(rows).to(self._targets))
        nets.forward()
        losses = self._losses_and_slope()
        nets.backward()
        measured = self._measure(losses)
        weights = {name: value_at(weight, self.index) for name, weight in self.weights.items()}
        if not all(each.finite(weights) for each in measured):
            return None
        gaps = [None] * len(measured) if self.gaps is None else self.gaps.update(nets)
        if tables is not None:
            nets.tangent()
            tables.update(self._slopes().index_select(0, self._unlabeled))
        self._move(weights)
        return [
            each.record(self.index, weights, gap) for each, gap in zip(measured, gaps, strict=True)
        ]

    def _losses_and_slope(self) -> Tensor:
        """The loss of each row; the slope of each training's means goes to `nets.output_slope`."""
        outputs, targets = self.nets.outputs, self._targets
        if isinstance(self.loss, CrossEntropy):
            # PyTorch's own softmax takes ten times as long for rows of few numbers.
            odds = outputs - outputs.amax(-1, keepdim=True)
            chances = odds.exp()
            total = chances.sum(-1, keepdim=True)
            losses = (targets * odds.sub_(total.log())).sum(-1).neg_()
            self._chances = chances.div_(total)
            slope = self._chances * targets.sum(-1, keepdim=True) - targets
        else:
            slope = outputs - targets
            losses = slope.square().sum(-1).mul_(0.5)
        torch.mul(slope, self._parts, out=self.nets.output_slope)
        return losses

    def _slopes(self) -> Tensor:
        """The slope of the gap in the labels: 2/n times how the read-out answers to the gap."""
        tangent = self.nets.output_tangent
        if isinstance(self.loss, CrossEntropy):
            tangent = tangent - (self._chances * tangent).sum(-1, keepdim=True)
        return 2 * self._parts * tangent

    def _measure(self, losses: Tensor) -> list[Measured]:
        """What each training's losses and gradients are, in numbers."""
        nets, found = self.nets, []
        for number, gradient in enumerate(nets.labeled_gradient):
            found += [losses[nets.labeled[number]].mean(), torch.dot(gradient, gradient)]
            if self.has_unlabeled:
                pull = nets.unlabeled_gradient[number]
                found += [losses[nets.unlabeled[number]].mean(), torch.dot(pull, pull)]
                found += [torch.dot(gradient, pull)]
        numbers = torch.stack(found).view(len(self.trainers), -1).tolist()
        return [Measured(*each) for each in numbers]

    def _move(self, weights: Mapping[str, float]) -> None:
        """One step of Adam down the weighted sum of the gradients."""
        nets, gradient = self.nets, self._gradient
        torch.mul(nets.labeled_gradient, weights.get("supervised", 0.0), out=gradient)
        if self.has_unlabeled:
            pull, weight = nets.unlabeled_gradient, weights[self.terms[0].second_name]
            gradient.add_(pull if weight == 1 else weight * pull)
        rate = value_at(self.trainers[0].learning_rate, self.index)
        group = self.trainers[0].optimizer.param_groups[0]
        adam(
            [nets.params],
            [gradient],
            [self._mean],
            [self._square],
            [],
            [self._clock],
            fused=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=rate,
            weight_decay=0.0,
            eps=group["eps"],
            maximize=False,
        )
        self._clocks.add_(1)
        self.index += 1
        for trainer in self.trainers:
            trainer.index = self.index
            trainer.optimizer.param_groups[0]["lr"] = rate

    def _take_model_and_moments(self) -> None:
        nets = self.nets
        self._mean, self._square, self._gradient = (torch.zeros_like(nets.params) for _ in range(3))
        count = len(self.trainers[0]._trained)
        self._clocks = torch.zeros(len(self.trainers), count, device=nets.params.device)
        for number, trainer in enumerate(self.trainers):
            views = [
                [part for layer in nets.layers(vectors[number]) for part in layer]
                for vectors in (nets.params, self._mean, self._square)
            ]
            for place, (parameter, weight, mean, square) in enumerate(
                zip(trainer._trained, *views, strict=True)
            ):
                weight.copy_(parameter.detach())
                parameter.data = weight
                state = trainer.optimizer.state[parameter]
                names = {"step": self._clocks[number, place], "exp_avg": mean, "exp_avg_sq": square}
                for name, view in names.items():
                    state.setdefault(name, view)
                    self.lend(state, name, view)
        self._clock = self._clocks[0, 0].clone()

    def _lay_out(self) -> None:
        """Where whose rows are, the part of each in its mean, and room for the labels."""
        nets, device = self.nets, self.nets.params.device
        self._targets = torch.zeros_like(nets.outputs)
        self._parts = nets.outputs.new_zeros(len(nets.outputs), 1)
        for rows in (*nets.labeled, *nets.unlabeled):
            self._parts[rows] = 1 / max(1, rows.stop - rows.start)
        self._labeled, self._unlabeled = (
            torch.cat([torch.arange(rows.start, rows.stop, device=device) for rows in parts])
            for parts in (nets.labeled, nets.unlabeled)
        )
        ahead = max(1, min(AHEAD, HELD // nets.inputs.numel()))
        self._drawn, self._x = range(0), nets.inputs.new_zeros(ahead, *nets.inputs.shape)

    def _fill(self, end: int) -> Tensor:
        """Put the batch of this step in its place; gives the rows of the unlabeled ones."""
        if self.index not in self._drawn:
            self._drawn = range(self.index, min(self.index + len(self._x), end))
            self._draw(self._drawn)
        place = self.index - self._drawn.start
        self.nets.inputs.copy_(self._x[place])
        self._targets.index_copy_(0, self._labeled, self._y[place])
        return self._u[place]

    def _draw(self, steps: range) -> None:
        """The batches of several steps."""
        nets, labels, unlabeled = self.nets, [], [torch.zeros(len(steps), 0, dtype=torch.long)]
        orders = {_drawn_from(t).order for t in self.trainers} if self.has_unlabeled else set()
        orders |= {_labels_from(t).order for t in self.trainers}
        places = {o: torch.stack([o.places(step) for step in steps]) for o in orders}
        for number, trainer in enumerate(self.trainers):
            batches = _labels_from(trainer)
            x, y = _examples(batches, places[batches.order])
            self._x[: len(steps), nets.labeled[number]] = x.to(self._x)
            labels.append(_as_targets(y, nets.outputs))
            if self.has_unlabeled:
                batches = _drawn_from(trainer)
                x, _ = _examples(batches, places[batches.order])
                self._x[: len(steps), nets.unlabeled[number]] = x.to(self._x)
                unlabeled.append(places[batches.order])
        self._y, self._u = torch.cat(labels, 1), torch.cat(unlabeled, 1)


class Gaps:
    """LGA's averages of all trainings of a stack, and what they make of new gradients."""

    def __init__(self, stack: Stack):
        self.gap: Gap = stack.lgas[0].gap
        vectors, count = stack.nets.params, len(stack.trainers)
        self._labeled, self._moment = torch.zeros_like(vectors), torch.zeros_like(vectors)
        self._gap, self._scale = torch.empty_like(vectors), torch.empty_like(vectors)
        self._weights = torch.zeros(2, count, dtype=torch.float64, device=vectors.device)
        self._one = torch.ones_like(self._weights[0])
        for number, lga in enumerate(stack.lgas):
            averages = (lga.gap.labeled_gradient, lga.gap.fourth_moment)
            totals = (self._labeled, self._moment)
            for average, total, weight in zip(averages, totals, self._weights, strict=True):
                stack.lend(average._buffers, "total", total[number, : stack.nets.length])
                stack.lend(average._buffers, "weight", weight[number])

    def update(self, nets: StackedMLP) -> list[float]:
        """Take new gradients in, and say how long each gap is.

        `nets.direction` becomes the gap in the metric.
        """
        smoothed, moment = self.gap.labeled_gradient.decay, self.gap.fourth_moment.decay
        self._labeled.lerp_(nets.labeled_gradient, 1 - smoothed)
        self._weights[0].lerp_(self._one, 1 - smoothed)
        self._weights[1].lerp_(self._one, 1 - moment)
        first, fourth = self._weights.to(self._labeled.dtype).unsqueeze(2)  # each (trainings, 1)
        gap = torch.div(self._labeled, first, out=self._gap).sub_(nets.unlabeled_gradient)
        self._moment.lerp_(torch.square(gap, out=self._scale).square_(), 1 - moment)
        scale = to_power_(torch.div(self._moment, fourth, out=self._scale), self.gap.power)
        torch.div(gap, scale.add_(self.gap.epsilon), out=nets.direction)
        return torch.stack([torch.dot(each, each) for each in gap]).sqrt_().tolist()


class Taught:
    """The labels that teachers gave, those of each training below the other."""

    def __init__(self, stack: Stack):
        labels = [teacher.labels for teacher in stack.teachers]
        counts = [unlabeled for _, unlabeled in stack.rows]
        self._starts = _starts([len(part) for part in labels], counts)
        self._labels = labels[0] if len(labels) == 1 else torch.cat(labels)

    def draw(self, rows: Tensor) -> Tensor:
        """The labels of rows, those of each training counted from 0."""
        return self._labels[rows + self._starts]


class Tables:
    """The label tables of all trainings of a stack, one below the other."""

    def __init__(self, stack: Stack):
        tables = [lga.table for lga in stack.lgas]
        first, rows = tables[0], [table.rows for table in tables]
        starts = [sum(rows[:number]) for number in range(len(rows))]
        self._starts = _starts(rows, [unlabeled for _, unlabeled in stack.rows])
        self._clocks = torch.zeros(len(tables), dtype=torch.long, device=first.clock.device)
        self._table = first
        if len(tables) > 1:
            self._table = LabelTable(
                sum(rows), first.width, loss=first.loss, rule=first.rule, dtype=first.values.dtype
            ).to(first.values.device)
            self._table.clock.copy_(first.clock)
            for number, table in enumerate(tables):
                mine = slice(starts[number], starts[number] + rows[number])
                stack.lend(table._buffers, "values", self._table.values[mine])
                stack.lend(table._buffers, "counts", self._table.counts[mine])
                stack.lend(table._buffers, "clock", self._clocks[number])

    def draw(self, rows: Tensor) -> Tensor:
        """The labels of rows, those of each training counted from 0."""
        self._drawn = self._table.draw(rows + self._starts)
        return self._drawn.labels

    def update(self, slope: Tensor) -> None:
        """Move what was drawn."""
        self._table.update(self._drawn, slope)
        self._clocks.add_(1)


def _starts(rows: Sequence[int], counts: Sequence[int]) -> Tensor:
    """For each drawn row, where the rows of its training begin."""
    starts = [sum(rows[:number]) for number in range(len(rows))]
    return torch.tensor(starts).repeat_interleave(torch.tensor(counts))


def _labels_from(trainer: Trainer) -> TensorBatches:
    assert isinstance(trainer.labeled, TensorBatches)
    return trainer.labeled


def _drawn_from(trainer: Trainer) -> TensorBatches:
    assert isinstance(trainer.unlabeled, TensorBatches)
    return trainer.unlabeled


def _examples(batches: TensorBatches, places: Tensor) -> tuple[Tensor, Tensor | None]:
    """Examples and labels of several steps, each (steps, batch, …)."""
    x = batches.examples.take(places.flatten()).unflatten(0, places.shape)
    y = batches.examples.labels_at(places.flatten())
    return x, None if y is None else y.unflatten(0, places.shape)


def _as_targets(labels: Tensor | None, like: Tensor) -> Tensor:
    """Classes, distributions or values of several steps as (steps, batch, width)."""
    assert labels is not None
    width = like.shape[1]
    if not labels.dtype.is_floating_point and labels.ndim == 2:
        return torch.eye(width, dtype=like.dtype, device=like.device)[labels.long().to(like.device)]
    return labels.to(like).reshape(*labels.shape[:2], width)


def _shares(part: Tensor, whole: Tensor) -> bool:
    return part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
