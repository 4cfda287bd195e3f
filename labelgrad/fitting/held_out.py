"""What methods say about labels that they were not trained on."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from labelgrad.fitting.verdict import Numbers


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Outputs of each method for labels it was not trained on."""

    rows: Tensor
    y: Tensor
    outputs: dict[str, Tensor]


def mistakes(held_out: HeldOut, task: str, spread: float) -> tuple[dict[str, Numbers], ...]:
    """Of each method and held-out example: how wrong it is, and its loss."""
    wrong, losses = {}, {}
    for name, outputs in held_out.outputs.items():
        if task == "classification":
            wrong[name] = (outputs.argmax(-1) != held_out.y).double().numpy()
            losses[name] = F.cross_entropy(outputs.double(), held_out.y, reduction="none").numpy()
        else:
            square = (outputs[:, 0].double() - held_out.y.double()).square()
            wrong[name], losses[name] = (square * spread**2).numpy(), (square / 2).numpy()
    return wrong, losses
