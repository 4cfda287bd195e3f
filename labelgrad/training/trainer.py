"""One training step after another, and everything that changes in the course of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from labelgrad.distributed import Group, current_group
from labelgrad.functional import flatten, mean_of, mixed_seed
from labelgrad.labels.table import LabelTable
from labelgrad.losses import CrossEntropy, Loss
from labelgrad.objective import Objective
from labelgrad.reasons import reason_of
from labelgrad.schedules import Schedule, check_count, check_rate, describe, value_at
from labelgrad.shared_norm import has_batch_norm
from labelgrad.step import Step, Views, bare
from labelgrad.training.batches import Batches
from labelgrad.training.checkpoint import State, pack_optimizer, unpack_optimizer
from labelgrad.training.evaluation import as_outputs, evaluating

MakeOptimizer = Callable[..., torch.optim.Optimizer]
Groups = Callable[[nn.Module], Sequence[dict[str, Any]]]
PLAIN_SETTINGS = ("weight_average", "clip_norm", "accumulate", "autocast", "joint_pass", "seed")
SMALLER = "try a smaller learning rate"
ADAM: MakeOptimizer = partial(torch.optim.Adam, fused=True)


class TrainingDivergedError(RuntimeError):
    """A loss or gradient stopped being a finite number."""


@dataclass(kw_only=True, eq=False)
class TrainingSettings:
    """What a `Recipe` hands on to its `Trainer`, which says what each is."""

    learning_rate: float | Schedule = 1e-3
    loss: Loss = field(default_factory=CrossEntropy)
    views: Views | None = None
    optimizer: MakeOptimizer = ADAM
    groups: Groups | None = None
    weight_average: float | None = None
    clip_norm: float | None = None
    accumulate: int = 1
    autocast: torch.dtype | None = None
    joint_pass: bool = False
    seed: int = 0


@dataclass(eq=False)
class Trainer(TrainingSettings):
    """A model, an objective, two kinds of batches and an optimizer; a `Recipe` builds it.

    `step` moves the model once. `views` change the examples of a step at random (see
    `labelgrad.augment.views`). With a `weight_average`, such as 0.999, an exponential moving
    average of the weights is kept beside the model, and `evaluated` is that average. The random
    numbers of a step (dropout, noise) depend on the seed and the step alone, so nothing but `state`
    is needed to go on in another process, and trainings in several threads do not disturb each
    other.

    `groups` gives the optimizer's parameter groups; one with a learning rate of its own keeps it,
    and a schedule scales it. `clip_norm` bounds the length of the gradient. `accumulate` cuts every
    batch into so many parts, whose gradients are averaged: less memory for the same step.
    `autocast=torch.bfloat16` computes the model's passes in that precision. With a `joint_pass`
    batch norm sees labeled and unlabeled examples as one batch (see `Step`). The model may be
    compiled by `torch.compile`.

    Where `torchrun` started several processes, they train together: the batches are those of one
    process, and each takes its part (`labelgrad.distributed`). With `group=ALONE` this one trains
    by itself.

    >>> from labelgrad import MLP, Supervised, TensorBatches
    >>> data = TensorBatches(torch.randn(20, 4), torch.arange(20) % 2, batch_size=10)
    >>> trainer = Trainer(MLP(4, (8,), 2), Supervised(), data, learning_rate=1e-2)
    >>> losses = [trainer.step()["loss"] for _ in range(50)]
    >>> losses[-1] < losses[0]
    True
    """

    model: nn.Module
    objective: Objective
    labeled: Batches
    unlabeled: Batches | None = None
    group: Group = field(default_factory=current_group, kw_only=True)

    def __post_init__(self) -> None:
        model, objective, unlabeled = self.model, self.objective, self.unlabeled
        self.index = 0
        self._trained = [p for p in bare(model).parameters() if p.requires_grad]
        if not self._trained:
            kind = type(bare(model)).__name__
            raise ValueError(f"the model must have parameters to train, and {kind} has none.")
        self._check_settings()
        self._check_labels()
        leaves = list(objective.leaves())
        for term in leaves:
            term.join(self.group)
            term.begin(bare(model), self.loss, 0 if unlabeled is None else len(unlabeled))
        # What is remembered of a part would be kept until the last one: then there is less to gain.
        alone = bare(model) is model and self.accumulate == 1
        self._remember = alone and any(term.replays for term in leaves)
        # Two that each hand over a gradient of the unlabeled pass share it, as two LGA do.
        handed_over = sum(term.averaged and term.name != "supervised" for term in leaves)
        shared = handed_over > 1 or any(term.shares_graph for term in leaves)
        self._keep_graph = self.joint_pass or shared
        self._check_compiled()
        self._owned = any(term.owns_rows for term in leaves)
        self._averages = self.group.size > 1 and not all(term.averaged for term in leaves)
        self._term = objective.name if len(leaves) == 1 else ""
        rate = value_at(self.learning_rate, 0)
        parameters = self._trained if self.groups is None else self.groups(bare(model))
        self.built_optimizer = self.optimizer(parameters, lr=rate)
        self._shares = [_share(group["lr"], rate) for group in self.built_optimizer.param_groups]
        if not model.training:
            model.train()
        self._average: AveragedModel | None = None
        if self.weight_average is not None:
            ema = get_ema_multi_avg_fn(self.weight_average)
            self._average = AveragedModel(bare(model), multi_avg_fn=ema, use_buffers=True)
        if self.group.size > 1:
            self._check_group()

    @property
    def evaluated(self) -> nn.Module:
        """The model to evaluate and to keep: the average of its weights, where there is one."""
        return bare(self.model) if self._average is None else self._average.module

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._trained[0].device

    def step(self) -> dict[str, float]:
        """Move the model once; returns the step, the loss and `term/name` of what terms report."""
        parts = self._next().cut(self.accumulate)
        self.built_optimizer.zero_grad(set_to_none=True)
        records = []
        for part in parts:
            part.records, part.term = {}, self._term
            loss = self.objective(part)
            if self._term:
                part.records[f"{self._term}/loss"] = loss.detach()
            (loss if len(parts) == 1 else loss / len(parts)).backward()
            part.release()
            records.append({"loss": loss.detach(), **part.records})
        if self._averages:
            self._average_gradients()
        measured = self._means(records)
        self._check_finite_and_clip(measured)
        whole = parts[-1]
        whole.records, whole.term = {}, self._term
        self.objective.update(whole)
        for group, share in zip(self.built_optimizer.param_groups, self._shares, strict=True):
            group["lr"] = share * value_at(self.learning_rate, self.index)
        self.built_optimizer.step()
        for term in self.objective.leaves():
            term.follow(bare(self.model))
        if self._average is not None:
            self._average.update_parameters(bare(self.model))
        self.index += 1
        return {"step": self.index, **measured, **self._means([whole.records])}

    def _means(self, records: Sequence[dict[str, Tensor]]) -> dict[str, float]:
        """What was recorded, as means over the parts that did so and over all processes."""
        names = list({name: None for record in records for name in record})
        means = [mean_of([each[name] for each in records if name in each]) for name in names]
        if self.group.size > 1 and means:
            means = list(self.group.average(torch.stack([value.double() for value in means])))
        return {name: value.item() for name, value in zip(names, means, strict=True)}

    def _average_gradients(self) -> None:
        """Each gradient becomes the mean over all processes, in one message."""
        gradients = [p.grad for p in self._trained if p.grad is not None]
        means = self.group.average(flatten(gradients)).split([g.numel() for g in gradients])
        for gradient, mean in zip(gradients, means, strict=True):
            gradient.copy_(mean.view_as(gradient))

    def _next(self) -> Step:
        unlabeled = self.unlabeled
        return Step(
            self.model,
            self.labeled.batch(self.index).to(self.device),
            None if unlabeled is None else unlabeled.batch(self.index).to(self.device),
            loss=self.loss,
            index=self.index,
            views=self.views,
            seed=mixed_seed(self.seed, self.index),
            remember=self._remember,
            keep_graph=self._keep_graph,
            autocast=self.autocast,
            group=self.group,
            owned=len(unlabeled) if unlabeled is not None and self._owned else None,
            joint_pass=self.joint_pass,
        )

    @property
    def tables(self) -> dict[str, LabelTable]:
        """The label tables by their names in `state`; each process has its own rows of them."""
        found = self.objective.named_modules(prefix="objective")
        return {name: each for name, each in found if isinstance(each, LabelTable)}

    @property
    def state(self) -> State:
        """Everything that changes: model, optimizer, the objective's own, and the step.

        Of several processes each has its own rows of a label table, and all else as the others do.
        """
        tensors, groups = pack_optimizer(self.built_optimizer)
        for name, module in self._modules.items():
            tensors |= module.state_dict(prefix=f"{name}.")
        return State(tensors, {"step": self.index, "optimizer": groups})

    @property
    def _modules(self) -> dict[str, nn.Module]:
        """Those that change, by their names in `state`."""
        found = {"model": bare(self.model), "objective": self.objective}
        return found if self._average is None else {**found, "average": self._average}

    def load(self, state: State) -> None:
        """Become what `state` was taken of."""
        step = state.info["step"]
        if type(step) is not int or step < 0:
            raise ValueError(f"a state must be of a step from 0 on, got {step!r}.")
        for name, module in self._modules.items():
            module.load_state_dict(state.part(name))
        unpack_optimizer(self.built_optimizer, state.part("optimizer"), state.info["optimizer"])
        self.index = step

    @property
    def settings(self) -> dict[str, str]:
        """What must be the same for a checkpoint to be resumed; all of the data are read."""
        inner = bare(self.model)
        shapes = ", ".join(str(tuple(p.shape)) for p in inner.parameters())
        defaults = sorted(self.built_optimizer.defaults.items())
        plain = {name: repr(value) for name, value in defaults if name != "lr"}
        return {
            "model": f"{type(inner).__name__}: {shapes}",
            "objective": repr(self.objective),
            "loss": repr(self.loss),
            "optimizer": f"{type(self.built_optimizer).__name__}: {plain}",
            "learning_rate": describe(self.learning_rate),
            "groups": ", ".join(f"{share:g}" for share in self._shares),
            "views": repr(self.views),
            **{name: str(getattr(self, name)) for name in PLAIN_SETTINGS},
            "labeled": self.labeled.fingerprint(),
            "unlabeled": "none" if self.unlabeled is None else self.unlabeled.fingerprint(),
        }

    def _check_settings(self) -> None:
        check_rate("learning_rate", self.learning_rate)
        average = self.weight_average
        if average is not None and not 0 <= average < 1:
            raise ValueError(f"`weight_average` must be at least 0 and below 1, got {average}.")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"`clip_norm` must be more than 0, got {self.clip_norm}.")
        check_count("accumulate", self.accumulate)
        if self.autocast not in (None, torch.bfloat16):
            raise ValueError(f"`autocast` must be torch.bfloat16, got {self.autocast}.")

    def _check_labels(self) -> None:
        labels = self.labeled.labels
        if labels is None:
            raise ValueError("the `labeled` batches have no labels; use TensorBatches(x, y, …).")
        first = self.labeled.batch(0).x[:2].to(self.device)
        try:
            with evaluating(self.model):
                outputs = as_outputs(bare(self.model)(first))
        except (RuntimeError, TypeError, LookupError, AttributeError) as error:
            raise ValueError(
                f"the model must take one tensor of examples of the shape "
                f"{tuple(first.shape[1:])}, and {type(bare(self.model)).__name__} does not "
                f"({reason_of(error)}); change its first layers or the data, or wrap it in a "
                f"module that makes the dictionary that it takes of a tensor."
            ) from error
        if outputs.ndim != 2:
            shape = tuple(outputs.shape)
            raise ValueError(f"the model must give (examples, outputs), got the shape {shape}.")
        self.loss.check(labels, outputs.shape[1])

    def _check_compiled(self) -> None:
        if bare(self.model) is self.model or not self._keep_graph:
            return
        from torch._functorch import config

        if config.donated_buffer:
            raise ValueError(
                f"{self.objective!r} needs one pass for several gradients: compile the model after "
                f"torch._functorch.config.donated_buffer = False, or train it uncompiled."
            )

    def _check_group(self) -> None:
        """Refuse what the processes cannot do together, and begin from the first one's weights."""
        self.group.check_same(self.settings)
        self.group.on_rank_zero(self._check_shares)
        for value in (*bare(self.model).parameters(), *bare(self.model).buffers()):
            value.data.copy_(self.group.broadcast(value.data))

    def _check_shares(self) -> None:
        """Refuse batches and models that cannot be shared by so many."""
        size = self.group.size
        for name, batches in (("labeled", self.labeled), ("unlabeled", self.unlabeled)):
            rows = size if batches is None else batches.batch_size // self.accumulate
            if rows < size:
                raise ValueError(
                    f"{size} processes need at least {size} examples in a batch to share, and the "
                    f"{name} ones have {rows}; start fewer, or take a larger `batch_size`."
                )
        if bare(self.model) is not self.model and has_batch_norm(bare(self.model)):
            raise ValueError("several processes need a model with batch norm to be uncompiled.")

    def _check_finite_and_clip(self, measured: dict[str, float]) -> None:
        for name, value in measured.items():
            if name.endswith("/loss") and not math.isfinite(value):
                place = f"at step {self.index} in the term {name.removesuffix('/loss')!r}"
                raise TrainingDivergedError(f"the loss turned {value} {place}; {SMALLER}.")
        gradients = [p.grad for p in self._trained if p.grad is not None]
        length = torch.nn.utils.get_total_norm(gradients)
        if not torch.isfinite(length):
            place = f"at step {self.index}, though each term was"
            raise TrainingDivergedError(f"the gradient stopped being finite {place}; {SMALLER}.")
        if self.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(self._trained, self.clip_norm, length)


def _share(own: float, rate: float) -> float:
    """A group's learning rate as a part of the trainer's."""
    if own == rate:
        return 1.0
    if rate == 0:
        raise ValueError(f"a schedule that begins at 0 cannot scale it: a group's own rate, {own}.")
    return own / rate
