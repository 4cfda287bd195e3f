"""Linear regression with uncorrelated features, the paper's Section 3.1 and Figure 1.

There the model is θ_k = Σ_i (c_{k,i} / λ_i)·e_i e_iᵀXᵀy/n after k steps, and c_{k,i} says how much
of direction i has been learned. Plain gradient descent has c = 1 − (1 − αλ)^k; for LGA there is no
such formula, so the library's own LGA is run on matrices that have the eigenvalues asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labelgrad.labels.sgd import SGD
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


class LearningSpeeds:
    """How fast each direction is learned; iterate to train, then look at `history`.

    >>> speeds = LearningSpeeds("gradient descent", Directions((1.0,), (1.0,), (0.5,)), steps=100)
    >>> records = list(speeds)
    >>> round(speeds.history[-1]["c"][0], 6) == round(1 - (1 - 1e-3) ** 100, 6)
    True
    """

    def __init__(
        self,
        method: str,
        directions: Directions = FIGURE_1,
        *,
        steps: int = 13_500,
        every: int = 100,
        seed: int = 0,
    ):
        self.method, self.directions, self.seed = method, directions, seed
        self.steps, self.every = steps, every
        self.trainer, self._examples = _prepare(method, directions, seed)
        self.history: list[dict[str, Any]] = [self._line()]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for index in range(1, self.steps + 1):
            record = self.trainer.step()
            if index % self.every == 0 or index == self.steps:
                self.history.append(self._line())
            yield record

    @property
    def coefficients(self) -> Tensor:
        """c: what part of the way to the labeled data's minimum each direction has come."""
        theta = next(self.trainer.model.parameters()).detach()[0]
        labeled, pull = self.directions.labeled, self.directions.pull
        return theta * torch.tensor(labeled) / torch.tensor(pull, dtype=torch.float64)

    def _line(self) -> dict[str, Any]:
        measured = evaluate(self.trainer.model, *self._examples, loss=SquaredError())
        return {
            "experiment": "learning-speeds",
            "method": self.method,
            "seed": self.seed,
            "step": self.trainer.index,
            "accuracy": None,  # a regression has none
            "loss": measured["loss"],
            "c": self.coefficients.tolist(),
        }


def early_stopping(eigenvalue: float, step: int, rate: float = RATE) -> float:
    """The coefficient c after `step` steps of gradient descent, in closed form.

    >>> early_stopping(1.0, 0), round(early_stopping(1.0, 10_000), 4)
    (0.0, 1.0)
    """
    return float(1 - (1 - rate * eigenvalue) ** step)


def _prepare(
    method: str, directions: Directions, seed: int
) -> tuple[Trainer, tuple[Tensor, Tensor]]:
    """The trainer, and the labeled examples."""
    generator = torch.Generator().manual_seed(seed)
    x = directions.inputs(directions.labeled, generator)
    others = directions.inputs(directions.unlabeled, generator)
    y = directions.labels(x)
    recipe = Recipe(
        lambda: _zero(nn.Linear(len(x), 1, bias=False, dtype=torch.float64)),
        lambda: simplified(len(others)) if method == "lga" else Supervised(),
        TensorBatches(x, y, batch_size=len(x)),
        TensorBatches(others, batch_size=len(others)),
        learning_rate=RATE,
        optimizer=torch.optim.SGD,
        loss=SquaredError(),
    )
    return recipe.trainer(), (x, y)


def _zero(model: nn.Linear) -> nn.Linear:
    nn.init.zeros_(model.weight)
    return model


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
