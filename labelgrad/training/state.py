"""What a checkpoint holds: named tensors, and a little JSON beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class State:
    """Tensors by dotted name, and values that JSON can hold.

    >>> State({"model.w": torch.zeros(1)}, {"step": 3}).part("model")
    {'w': tensor([0.])}
    """

    tensors: dict[str, Tensor]
    info: dict[str, Any] = field(default_factory=dict)

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors below a prefix, under the rest of their names."""
        start = prefix + "."
        return {k.removeprefix(start): v for k, v in self.tensors.items() if k.startswith(start)}


def pack_optimizer(
    optimizer: torch.optim.Optimizer,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimizer's state as named tensors and JSON."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for index, values in state["state"].items():
        for name, value in values.items():
            (tensors if isinstance(value, Tensor) else plain)[f"{index}.{name}"] = value
    named = {f"optimizer.{name}": value for name, value in tensors.items()}
    return named, {"groups": state["param_groups"], "plain": plain}


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], info: dict[str, Any]
) -> None:
    """Put back what `pack_optimizer` gave."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **info["plain"]}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": info["groups"]})
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                # A fused optimizer takes for granted that state and parameter lie alike in memory.
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
