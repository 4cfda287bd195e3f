"""Which trainings are plain enough to be written out, and which of those can advance together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from labelgrad.labels.alignment import forward_mode
from labelgrad.labels.evidence import Evidence
from labelgrad.labels.lazy_adam import LazyAdam
from labelgrad.labels.sgd import SGD
from labelgrad.losses import CrossEntropy, SquaredError
from labelgrad.models.mlp import MLP
from labelgrad.objective import Objective, Scaled, Sum
from labelgrad.objectives.distillation import Distillation
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.supervised import Supervised
from labelgrad.schedules import Schedule
from labelgrad.training.batches import TensorBatches
from labelgrad.training.trainer import Trainer


@dataclass(frozen=True)
class Terms:
    """The weights of the one or two terms, by their names in records, and the second of them."""

    weights: dict[str, float | Schedule]
    second: LGA | Distillation | None

    @property
    def lga(self) -> LGA | None:
        """The second term where it is LGA."""
        return self.second if isinstance(self.second, LGA) else None

    @property
    def second_name(self) -> str:
        """What the second term is called in records."""
        return next(name for name in self.weights if name != "supervised")


def stacks(trainers: Sequence[Trainer]) -> list[list[int]]:
    """The places of those that can advance together; one that cannot is alone.

    The last of all is in the last stack: when it has come somewhere, all have.

    >>> from labelgrad import TensorBatches
    >>> batches = TensorBatches(torch.randn(20, 4), torch.arange(20) % 2, batch_size=10)
    >>> networks = [MLP(4, (8,), 2), nn.Linear(4, 2), MLP(4, (8,), 2)]
    >>> stacks([Trainer(network, Supervised(), batches) for network in networks])
    [[1], [0, 2]]
    """
    found: list[tuple[object, list[int]]] = []
    for place, trainer in enumerate(trainers):
        key = _stack_key(trainer)
        mine = next((places for other, places in found if key is not None and other == key), None)
        if mine is None:
            found.append((key, [place]))
        else:
            mine.append(place)
    return sorted((places for _, places in found), key=lambda places: places[-1])


def stackable(trainer: Trainer) -> bool:
    """Whether a trainer is of the plain kind, whose step is written out in `stacked`."""
    return _stack_key(trainer) is not None


def terms_of(trainer: Trainer) -> Terms:
    """The terms of a trainer that is stackable."""
    terms = _plain_terms(trainer.objective)
    assert terms is not None
    return terms


def layer_sizes(model: nn.Module) -> tuple[int, ...]:
    """The inputs of a perceptron, and the outputs of each of its layers."""
    assert isinstance(model, MLP)
    layers = [layer for layer in model.layers if isinstance(layer, nn.Linear)]
    return layers[0].in_features, *(layer.out_features for layer in layers)


def _stack_key(trainer: Trainer) -> tuple[object, ...] | None:
    """What trainers of one stack have in common; none where a trainer is not of the plain kind."""
    terms = _plain_terms(trainer.objective)
    if terms is None or not (_plain_model(trainer) and _plain_training(trainer)):
        return None
    parameter, group = trainer._trained[0], trainer.optimizer.param_groups[0]
    common = (
        trainer.index,
        layer_sizes(trainer.model),
        parameter.dtype,
        parameter.device,
        trainer.loss,
        trainer.learning_rate,
        (*group["betas"], group["eps"]),
        list(terms.weights.items()),
    )
    if terms.second is None:
        return common
    unlabeled = trainer.unlabeled
    if type(unlabeled) is not TensorBatches:
        return None
    if terms.lga is None:
        return *common, "taught"
    table, gap = terms.lga.table, terms.lga.gap
    if table.file is not None:
        return None
    if terms.lga.slope is not forward_mode or type(table.rule) not in (Evidence, LazyAdam, SGD):
        return None
    rule = {name: value for name, value in vars(table.rule).items() if not name.startswith("_")}
    averages = gap.labeled_gradient.decay, gap.fourth_moment.decay
    # A row catches up alike in one table and in many only if the same rows are drawn beside it.
    drawn = unlabeled.order, int(table.clock), table.values.dtype, table.values.device
    return *common, type(table.rule), rule, averages, gap.epsilon, gap.power, drawn


def _plain_terms(objective: Objective) -> Terms | None:
    """The terms of an objective that is the labeled loss, LGA, or the first and one other."""
    terms = list(objective.terms) if type(objective) is Sum else [objective]
    weights: dict[str, float | Schedule] = {}
    second = None
    for term in terms:
        leaf = term.term if type(term) is Scaled else term
        if type(leaf) not in (Supervised, LGA, Distillation) or leaf.name in weights:
            return None
        weights[leaf.name] = term.weight if isinstance(term, Scaled) else 1.0
        second = leaf if isinstance(leaf, LGA | Distillation) else second
    known = "supervised" in weights or isinstance(second, LGA)
    plain = known and len(weights) == 1 + ("supervised" in weights and second is not None)
    plain = plain and not _hooked(objective)
    return Terms(weights, second) if plain else None


def _plain_model(trainer: Trainer) -> bool:
    model = trainer.model
    return (
        type(model) is MLP
        and all(type(layer) is nn.Linear and layer.bias is not None for layer in model.layers)
        and not _hooked(model)
        and len(trainer._trained) == 2 * len(model.layers)
        and all(a is b for a, b in zip(trainer._trained, model.parameters(), strict=True))
        and not any(p._backward_hooks for p in trainer._trained)
        and trainer._trained[0].dtype in (torch.float32, torch.float64)
    )


def _plain_training(trainer: Trainer) -> bool:
    optimizer = trainer.optimizer
    group = optimizer.param_groups[0]
    usual = {"fused": True, "weight_decay": 0, "amsgrad": False, "maximize": False}
    return (
        type(trainer) is Trainer
        and type(optimizer) is torch.optim.Adam
        and len(optimizer.param_groups) == 1
        and all(group.get(name) == value for name, value in usual.items())
        and not any((group.get("capturable"), group.get("differentiable")))
        and not (optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)
        and len(group["params"]) == len(trainer._trained)
        and trainer.group.size == 1  # small perceptrons gain nothing from several processes
        and type(trainer.labeled) is TensorBatches
        and type(trainer.loss) in (CrossEntropy, SquaredError)
        and trainer.views is None
        and trainer.weight_average is None
        and trainer.clip_norm is None
        and trainer.accumulate == 1
        and trainer.autocast is None
    )


def _hooked(module: nn.Module) -> bool:
    return any(each._forward_hooks or each._forward_pre_hooks for each in module.modules())
