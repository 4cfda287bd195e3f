"""One training step after another, and everything that changes in the course of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from labelgrad.functional import random_numbers
from labelgrad.losses import CrossEntropy, Loss
from labelgrad.objective import Objective
from labelgrad.schedules import Schedule, check_rate, describe, value_at
from labelgrad.step import Batch, Step, Views
from labelgrad.training.batches import TensorBatches, mixed_seed
from labelgrad.training.errors import TrainingDivergedError
from labelgrad.training.evaluation import evaluating
from labelgrad.training.state import State, pack_optimizer, unpack_optimizer

MakeOptimizer = Callable[..., torch.optim.Optimizer]
ADAM: MakeOptimizer = partial(torch.optim.Adam, fused=True)


class Trainer:
    """A model, an objective, two streams of examples and an optimizer.

    `step` moves the model once. `views` change the examples of a step at random (see
    `labelgrad.augment.views`). With a `weight_average`, such as 0.999, an exponential moving
    average of the weights is kept beside the model, and `evaluated` is that average. The random
    numbers of a step (dropout, noise) depend on the seed and the step alone, so nothing but `state`
    is needed to go on in another process.

    >>> from labelgrad import MLP, TensorBatches, Supervised
    >>> data = TensorBatches(torch.randn(20, 4), torch.arange(20) % 2, batch_size=10)
    >>> trainer = Trainer(MLP(4, (8,), 2), Supervised(), data, learning_rate=1e-2)
    >>> losses = [trainer.step()["loss"] for _ in range(50)]
    >>> losses[-1] < losses[0]
    True
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        labeled: TensorBatches,
        unlabeled: TensorBatches | None = None,
        *,
        learning_rate: float | Schedule = 1e-3,
        optimizer: MakeOptimizer = ADAM,
        loss: Loss | None = None,
        views: Views | None = None,
        weight_average: float | None = None,
        seed: int = 0,
    ):
        check_rate("learning_rate", learning_rate)
        self.weight_average = _check_average(weight_average)
        self.model, self.objective = model, objective
        self.labeled, self.unlabeled = labeled, unlabeled
        self.learning_rate, self.seed, self.index, self.views = learning_rate, seed, 0, views
        self.loss: Loss = CrossEntropy() if loss is None else loss
        self._check_labels()
        for term in objective.leaves():
            term.begin(model, self.loss, 0 if unlabeled is None else len(unlabeled))
        self._remember = any(term.replays for term in objective.leaves())
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = optimizer(trained, lr=value_at(learning_rate, 0))
        if not model.training:
            model.train()
        self._average = None if weight_average is None else _averaged(model, weight_average)

    @property
    def evaluated(self) -> nn.Module:
        """The model to evaluate and to keep: the average of its weights, where there is one."""
        return self.model if self._average is None else self._average.module

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def step(self) -> dict[str, float]:
        """Move the model once, and say what happened."""
        seed = mixed_seed(self.seed, self.index)
        with random_numbers(torch.device("cpu"), seed), random_numbers(self.device, seed):
            batches = tuple(self._batches())
            step = Step(
                self.model,
                *batches,
                loss=self.loss,
                index=self.index,
                views=self.views,
                remember=self._remember,
            )
            loss = self.objective(step)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
        terms = step.terms or {self.objective.name: loss.detach()}
        self._check_finite(terms)
        for group in self.optimizer.param_groups:
            group["lr"] = value_at(self.learning_rate, self.index)
        self.optimizer.step()
        for term in self.objective.leaves():
            term.after_update(self.model)
        if self._average is not None:
            self._average.update_parameters(self.model)
        self.index += 1
        return {
            "step": self.index,
            "loss": loss.item(),
            **_numbers(terms),
            **_numbers(step.metrics),
        }

    @property
    def state(self) -> State:
        """Everything that changes: model, optimizer, the objective's own, and the step."""
        tensors = {
            **{f"model.{name}": value for name, value in self.model.state_dict().items()},
            **{f"objective.{name}": value for name, value in self.objective.state_dict().items()},
        }
        if self._average is not None:
            tensors |= {f"average.{k}": value for k, value in self._average.state_dict().items()}
        optimizer, groups = pack_optimizer(self.optimizer)
        return State({**tensors, **optimizer}, {"step": self.index, "optimizer": groups})

    def load(self, state: State) -> None:
        """Become what `state` was taken of."""
        self.model.load_state_dict(state.part("model"))
        self.objective.load_state_dict(state.part("objective"))
        if self._average is not None:
            self._average.load_state_dict(state.part("average"))
        unpack_optimizer(self.optimizer, state.part("optimizer"), state.info["optimizer"])
        self.index = state.info["step"]

    @property
    def settings(self) -> dict[str, str]:
        """What must be the same for a checkpoint to be taken up."""
        shapes = ", ".join(str(tuple(p.shape)) for p in self.model.parameters())
        return {
            "model": f"{type(self.model).__name__}: {shapes}",
            "objective": repr(self.objective),
            "loss": repr(self.loss),
            "optimizer": f"{type(self.optimizer).__name__}: {_plain(self.optimizer.defaults)}",
            "learning_rate": describe(self.learning_rate),
            "views": repr(self.views),
            "weight_average": str(self.weight_average),
            "seed": str(self.seed),
            "labeled": _describe_stream(self.labeled),
            "unlabeled": _describe_stream(self.unlabeled),
        }

    def _batches(self) -> Iterator[Batch]:
        for stream in (self.labeled, self.unlabeled):
            if stream is not None:
                yield stream.batch(self.index).to(self.device)

    def _check_labels(self) -> None:
        if self.labeled.y is None:
            raise ValueError(
                "the `labeled` stream has no labels; build it as TensorBatches(x, y, …)."
            )
        first = self.labeled.x[:2].to(self.device)
        try:
            with evaluating(self.model):
                outputs = self.model(first)
        except RuntimeError as error:
            raise ValueError(
                f"the model must take examples of the shape {tuple(first.shape[1:])}, and it does "
                f"not ({str(error).splitlines()[0]}); change its first layers, or the data."
            ) from error
        if outputs.ndim != 2:
            raise ValueError(
                f"the model must give one row of outputs for each example, got the shape "
                f"{tuple(outputs.shape)} for {min(2, len(self.labeled))} examples."
            )
        self.loss.check(self.labeled.y, outputs.shape[1])

    def _check_finite(self, terms: dict[str, Tensor]) -> None:
        for name, value in terms.items():
            if not torch.isfinite(value):
                raise TrainingDivergedError(
                    f"the loss turned {float(value)} at step {self.index} in the term {name!r}; "
                    f"try a smaller learning rate."
                )
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if not torch.isfinite(torch.nn.utils.get_total_norm(gradients)):
            raise TrainingDivergedError(
                f"the gradient stopped being finite at step {self.index}, though each of the "
                f"terms {', '.join(terms)} was; try a smaller learning rate."
            )


def _check_average(decay: float | None) -> float | None:
    if decay is not None and not 0 <= decay < 1:
        raise ValueError(f"`weight_average` must be at least 0 and below 1, got {decay}.")
    return decay


def _averaged(model: nn.Module, decay: float) -> AveragedModel:
    rule = get_ema_multi_avg_fn(decay)
    return AveragedModel(model, multi_avg_fn=rule, use_buffers=True)


def _numbers(values: dict[str, Tensor]) -> dict[str, float]:
    return {name: value.item() for name, value in values.items()}


def _plain(settings: dict[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in sorted(settings.items()) if name != "lr"}


def _describe_stream(stream: TensorBatches | None) -> str:
    if stream is None:
        return "none"
    digest = hashlib.blake2b(digest_size=8)
    for tensor in _present(stream.x, stream.y):
        sample = tensor.reshape(-1)[:: max(1, tensor.numel() // 65536)]
        digest.update(sample.cpu().contiguous().numpy().tobytes())
    shape = tuple(stream.x.shape)
    return f"{shape} in batches of {stream.batch_size}, seed {stream.seed}, {digest.hexdigest()}"


def _present(*tensors: Tensor | None) -> Iterable[Tensor]:
    return (tensor for tensor in tensors if tensor is not None)
