"""One batch of each kind seen through one model, with every pass made at most once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from labelgrad.functional import default_generator, flat_gradient, random_numbers
from labelgrad.losses import CrossEntropy, Loss
from labelgrad.replay import Remembering, Replaying


@dataclass(frozen=True)
class Batch:
    """Some examples: inputs, labels where there are any, and which rows of the data they are."""

    x: Tensor
    y: Tensor | None
    rows: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device; the row numbers stay with the table that uses them."""
        return Batch(self.x.to(device), None if self.y is None else self.y.to(device), self.rows)


class Views(Protocol):
    """Two ways to change examples at random without changing what they are."""

    def weak(self, x: Tensor) -> Tensor:
        """A little, as training on labeled examples would: a flip, a small shift."""

    def strong(self, x: Tensor) -> Tensor:
        """A lot: what a model should still see through."""


class Step:
    """What an objective sees: the model, the batches, and the passes already made.

    Whoever asks first pays for a forward pass or for the labeled gradient; the next one finds it
    done. Both batches are weak views where there are `views`, and `weak_view` and `strong_view`
    draw others of the unlabeled one. With `remember`, the unlabeled pass can be replayed in forward
    mode at two thirds of the cost. Objectives report what they measure with `report`.

    >>> batch = Batch(torch.ones(4, 3), torch.zeros(4, dtype=torch.long), torch.arange(4))
    >>> step = Step(nn.Linear(3, 2), batch)
    >>> step.labeled_gradient.shape
    torch.Size([8])
    """

    def __init__(
        self,
        model: nn.Module,
        labeled: Batch,
        unlabeled: Batch | None = None,
        *,
        loss: Loss | None = None,
        index: int = 0,
        views: Views | None = None,
        remember: bool = False,
    ):
        self.model, self.index, self._views = model, index, views
        self._memory = Remembering() if remember else None
        self._clean = unlabeled
        self.labeled, self._unlabeled = labeled, unlabeled
        if views is not None:
            self.labeled = replace(labeled, x=views.weak(labeled.x))
            self._unlabeled = unlabeled and replace(unlabeled, x=views.weak(unlabeled.x))
        self.loss: Loss = CrossEntropy() if loss is None else loss
        self.params = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.metrics: dict[str, Tensor] = {}
        self.terms: dict[str, Tensor] = {}

    @property
    def unlabeled(self) -> Batch:
        """The unlabeled batch; asking for one that is not there is an error."""
        return _needed(self._unlabeled)

    def weak_view(self) -> Tensor:
        """The unlabeled inputs, slightly changed anew; unchanged where there are no views."""
        clean = _needed(self._clean).x
        return clean if self._views is None else self._views.weak(clean)

    def strong_view(self) -> Tensor:
        """The unlabeled inputs, strongly changed."""
        if self._views is None:
            raise ValueError(
                "this objective needs strongly augmented views of its examples, and there are "
                "none; give the trainer `views`."
            )
        return self._views.strong(_needed(self._clean).x)

    @cached_property
    def labeled_outputs(self) -> Tensor:
        """The model on the labeled batch."""
        outputs: Tensor = self.model(self.labeled.x)
        return outputs

    @cached_property
    def unlabeled_outputs(self) -> Tensor:
        """The model on the unlabeled batch."""
        self._draws = default_generator(self.unlabeled.x.device).get_state()
        with self._memory or nullcontext():
            outputs: Tensor = self.model(self.unlabeled.x)
        return outputs

    @cached_property
    def labeled_loss(self) -> Tensor:
        """The mean loss of the true labels."""
        if self.labeled.y is None:
            raise ValueError("the labeled batch has no labels.")
        return self.loss(self.labeled_outputs, self.labeled.y)

    @cached_property
    def labeled_gradient(self) -> Tensor:
        """g_ℓ: the gradient of the labeled loss, as one vector, computed once a step."""
        return self.gradient(self.labeled_loss)

    def gradient(self, loss: Tensor) -> Tensor:
        """The gradient of `loss` in the model's parameters, as one vector."""
        return flat_gradient(loss, self.params)

    def extra_forward(self, x: Tensor, params: Mapping[str, Tensor] | None = None) -> Tensor:
        """An extra forward pass, at other parameters if given, that leaves no trace in buffers."""
        return self._call(params or {}, x)

    def replay_unlabeled(self, params: Mapping[str, Tensor]) -> Tensor:
        """The unlabeled pass again at other parameters: same random draws, no trace left."""
        _ = self.unlabeled_outputs  # the pass to be replayed comes first
        with random_numbers(self.unlabeled.x.device, self._draws):
            return self._call(params, self.unlabeled.x)

    def remembered(self) -> AbstractContextManager[object]:
        """A context for a replay in forward mode, at the very same values: they are not redone."""
        _ = self.unlabeled_outputs
        return nullcontext() if self._memory is None else Replaying(self._memory.products)

    def report(self, name: str, value: Tensor) -> None:
        """Record a measurement of this step."""
        self.metrics[name] = value.detach()

    def _call(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        # Batch norm writes its statistics in place: the writes of an extra pass go to copies.
        values = {id(self.params[name]): value for name, value in params.items()}
        values |= {id(buffer): buffer.clone() for buffer in self.model.buffers()}
        state = {place: values[id(old)] for place, old in _places(self.model) if id(old) in values}
        outputs: Tensor = functional_call(self.model, state, (x,), tie_weights=False)
        return outputs


def _needed(batch: Batch | None) -> Batch:
    if batch is None:
        raise ValueError("this objective needs unlabeled examples, and the step has none.")
    return batch


def _places(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every place of a module that holds a parameter or buffer, tied ones included.

    `functional_call` can find tied places by itself, but then a module that is used under two names
    is not put back as it was.
    """
    for prefix, module in model.named_modules():
        for name, value in (*module.named_parameters("", False), *module.named_buffers("", False)):
            yield f"{prefix}.{name}" if prefix else name, value
