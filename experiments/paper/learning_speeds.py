"""Linear regression with uncorrelated features, the paper's Section 3.1 and Figure 1.

There the model is θ_k = Σ_i (c_{k,i} / λ_i)·e_i e_iᵀXᵀy/n after k steps, and c_{k,i} says how much
of direction i has been learned. Plain gradient descent has c = 1 − (1 − αλ)^k; for LGA there is no
such formula, so the library's own LGA is run on matrices that have the eigenvalues asked for.

The time scale of LGA's curves depends on n_u, which the paper does not give: a label's slope has
the factor 1/n_u, so twice the examples are half of α_w. Here there are as many as directions, 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.common import Line, table
from experiments.figures import OURS, THEIRS, canvas, save
from labelgrad.labels.rules import SGD
from labelgrad.losses import SquaredError
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.supervised import Supervised
from labelgrad.training.batches import TensorBatches
from labelgrad.training.evaluation import evaluate
from labelgrad.training.recipe import Recipe
from labelgrad.training.trainer import Trainer

RATE = EPSILON = 1e-3  # α_θ = α_w = ε_norm in the paper's figure
METHODS = ("lga", "gradient descent")


@dataclass(frozen=True)
class Directions:
    """The eigenvalues of XᵀX/n for the labeled and the unlabeled data, and Xᵀy/n, by direction."""

    labeled: tuple[float, ...]
    unlabeled: tuple[float, ...]
    pull: tuple[float, ...]

    def inputs(self, eigenvalues: Sequence[float], generator: torch.Generator) -> Tensor:
        """A matrix X, as many rows as columns, with diagonal XᵀX/n of the given eigenvalues."""
        size = len(eigenvalues)
        random = torch.randn(size, size, generator=generator, dtype=torch.float64)
        columns: Tensor = torch.linalg.qr(random).Q
        return columns * torch.tensor(eigenvalues, dtype=torch.float64).mul(size).sqrt()

    def labels(self, x: Tensor) -> Tensor:
        """Labels y with Xᵀy/n = pull."""
        best = torch.tensor(self.pull, dtype=torch.float64) / torch.tensor(self.labeled)
        return x @ best


FIGURE_1 = Directions(  # the first four differ in the labeled data, the last five in the unlabeled
    labeled=(2.0, 4.0, 8.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    unlabeled=(1.0, 1.0, 1.0, 1.0, 0.25, 0.5, 2.0, 4.0),
    pull=(1.0,) * 8,
)
BY_LABELED, BY_UNLABELED = (3, 0, 1, 2), (4, 5, 3, 6, 7)
SHOWN = 12_000  # steps; the slowest direction takes the rest to come within 1e-3 of 1


def learning_speeds(
    method: str,
    directions: Directions = FIGURE_1,
    *,
    steps: int = 13_500,
    every: int = 100,
) -> list[Line]:
    """How fast each direction is learned: a line every so many steps.

    >>> one = Directions((1.0,), (1.0,), (0.5,))
    >>> line = learning_speeds("gradient descent", one, steps=100)[-1]
    >>> round(line["c"][0], 6) == round(1 - (1 - 1e-3) ** 100, 6)
    True
    """
    trainer, examples = _prepare(method, directions)
    labeled, pull = (
        torch.tensor(x, dtype=torch.float64) for x in (directions.labeled, directions.pull)
    )
    lines = []
    for index in range(steps + 1):
        if index % every == 0 or index == steps:
            loss = evaluate(trainer.model, *examples, loss=SquaredError())["loss"]
            # What part of the way to the labeled data's minimum each direction has come.
            c = next(trainer.model.parameters()).detach()[0] * labeled / pull
            line: Line = {"experiment": "learning-speeds", "method": method, "seed": 0}
            line |= {"step": index, "accuracy": None, "loss": loss, "c": c.tolist()}
            lines.append(line)
        if index < steps:
            trainer.step()
    return lines


def early_stopping(eigenvalue: float, step: int, rate: float = RATE) -> float:
    """The coefficient c after `step` steps of gradient descent, in closed form.

    >>> early_stopping(1.0, 0), round(early_stopping(1.0, 10_000), 4)
    (0.0, 1.0)
    """
    return float(1 - (1 - rate * eigenvalue) ** step)


def _prepare(method: str, directions: Directions) -> tuple[Trainer, tuple[Tensor, Tensor]]:
    """The trainer, and the labeled examples."""
    generator = torch.Generator().manual_seed(0)
    x = directions.inputs(directions.labeled, generator)
    others = directions.inputs(directions.unlabeled, generator)
    y = directions.labels(x)
    model = nn.Linear(len(x), 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    recipe = Recipe(
        model,
        lambda: simplified(len(others)) if method == "lga" else Supervised(),
        TensorBatches(x, y, batch_size=len(x)),
        TensorBatches(others, batch_size=len(others)),
        learning_rate=RATE,
        optimizer=torch.optim.SGD,
        loss=SquaredError(),
    )
    return recipe.trainer(), (x, y)


def simplified(rows: int, *, rate: float = RATE, epsilon: float = EPSILON) -> LGA:
    """LGA as Section 3.1 has it: gradient descent on the labels, and no averages.

    The section halves the squared gap, and Algorithm 1 does not: hence half the rate.
    """
    return LGA(
        rows,
        1,
        loss=SquaredError(),
        rule=SGD(rate / 2),
        gradient_decay=0,
        moment_decay=0,
        epsilon=epsilon,
        dtype=torch.float64,
    )


def speeds_table(lines: Sequence[Line]) -> str:
    """When each direction is half learned, and how far from 1 it ends."""
    rows = []
    shown = (("lga", BY_LABELED), ("lga", BY_UNLABELED), ("gradient descent", BY_LABELED))
    for method, chosen in shown:
        mine = [line for line in lines if line["method"] == method]
        for index in chosen:
            half = next((str(line["step"]) for line in mine if line["c"][index] > 0.5), "–")
            values = (f"{x[index]:g}" for x in (FIGURE_1.labeled, FIGURE_1.unlabeled))
            rows.append([method, *values, half, f"{abs(mine[-1]['c'][index] - 1):.1e}"])
    return table(["", "λˡ", "λᵘ", "c > ½ at step", "last |c − 1|"], rows)


def draw_learning_speeds(lines: Sequence[Line], out: Path) -> None:
    """LGA by λ of the labeled data, LGA by λ of the unlabeled data, gradient descent."""
    lga, plain = ([line for line in lines if line["method"] == name] for name in METHODS)
    figure, panels = canvas(1, 3, (14, 4.2))
    one = "the other λ is 1"
    _curves(panels[0], lga, BY_LABELED, FIGURE_1.labeled, f"LGA, by λˡ ({one})")
    _curves(panels[1], lga, BY_UNLABELED, FIGURE_1.unlabeled, f"LGA, by λᵘ ({one})")
    _curves(panels[2], plain, BY_LABELED, FIGURE_1.labeled, "gradient descent, by λˡ")
    for index in BY_LABELED:
        steps = [line["step"] for line in plain]
        exact = [early_stopping(FIGURE_1.labeled[index], step) for step in steps]
        label = "closed form" if index == BY_LABELED[0] else None
        panels[2].plot(steps, exact, "k:", linewidth=1, label=label)
    for panel in panels:
        panel.set(xlabel="step k", ylabel="c", xlim=(0, SHOWN), ylim=(0, 1.05))
        panel.legend(frameon=False, loc="lower right")
    save(figure, out / "learning-speeds")


def _curves(
    panel: Any, lines: list[Line], chosen: Sequence[int], eigenvalues: Sequence[float], title: str
) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("slow to fast", [THEIRS, "#8e6bb0", OURS])
    for rank, index in enumerate(chosen):
        color = colors(rank / (len(chosen) - 1))
        heights = [line["c"][index] for line in lines]
        label = f"λ = {eigenvalues[index]:g}"
        panel.plot([line["step"] for line in lines], heights, color=color, label=label)
    panel.set_title(title)
