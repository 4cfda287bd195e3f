"""The paper's three propositions, checked on random problems with the library's own LGA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.paper.learning_speeds import Directions, learning_speeds, simplified
from labelgrad.functional import flat_gradient, flatten, unflatten
from labelgrad.losses import SquaredError
from labelgrad.objectives.lga import LGA
from labelgrad.step import Batch, Step

STARTS = 3  # a solver may end where nothing more can be gained, short of a fixed point
STILL = 1e-9
FLAT = 1e6


def dependence_on_others(seed: int, *, size: int = 4, steps: int = 300) -> float:
    """Proposition 1: the most that c_{k,0} changes when all other directions are drawn anew.

    >>> dependence_on_others(seed=0) < 1e-9
    True
    """
    random = np.random.default_rng(seed)
    own = random.uniform(0.3, 3, size=3)
    tracks = []
    for _ in range(2):
        others = random.uniform(0.3, 3, size=(3, size - 1))
        labeled, unlabeled, pull = (tuple(map(float, row)) for row in np.c_[own, others])
        lines = learning_speeds("lga", Directions(labeled, unlabeled, pull), steps=steps, every=10)
        tracks.append([line["c"][0] for line in lines])
    return float(np.abs(np.subtract(tracks[0], tracks[1])).max())


@dataclass(frozen=True)
class FixedPoint:
    """Where LGA moves neither the model nor the labels, and what the labeled loss is like there."""

    movement: float  # ‖(Δθ, Δw)‖: zero at a fixed point
    labeled_gradient: float  # ‖∇L‖: zero at a stationary point of the supervised loss
    excess: float  # supervised loss above the least-squares minimum, for a linear model


def fixed_point(seed: int, *, hidden: int = 0, size: int = 3) -> FixedPoint:
    """Solve for a fixed point of LGA on a random regression, from a random start.

    With `hidden` units the model is a small network of tanh (Proposition 2), without it is linear,
    so that the loss is convex (Proposition 3). There are as many unlabeled rows as are needed for
    some labels to close the gap, which is what the propositions assume.

    >>> found = fixed_point(seed=0)
    >>> found.movement < 1e-9, found.labeled_gradient < 1e-6, found.excess < 1e-9
    (True, True, True)
    """
    from scipy.optimize import least_squares

    problem = Regression(seed, hidden, size)
    random = np.random.default_rng(seed)
    for _ in range(STARTS):
        start = random.normal(size=problem.size)
        solution = least_squares(
            problem.movement, start, ftol=1e-15, xtol=1e-15, gtol=1e-15, max_nfev=40
        )
        if np.linalg.norm(solution.fun) < STILL:
            break
    step, _ = problem.at(solution.x)
    return FixedPoint(
        float(np.linalg.norm(solution.fun)),
        float(step.labeled_gradient.norm()),
        float(step.labeled_loss.detach()) - problem.least_loss,
    )


def propositions(problems: int) -> list[str]:
    """The three propositions on random problems, a sentence each."""
    change = max(dependence_on_others(seed) for seed in range(problems))
    bent = [fixed_point(seed, hidden=1, size=2) for seed in range(problems)]
    still = [found.labeled_gradient for found in bent if found.movement < STILL]
    excess = max(fixed_point(seed).excess for seed in range(problems))
    return [
        f"Proposition 1: with all other directions redrawn, c changes by at most {change:.0e}.",
        f"Proposition 2: at {len(still)} fixed points of small networks the labeled gradient is at "
        f"most {max(still, default=0):.0e}.",
        f"Proposition 3: at {problems} fixed points of linear models the labeled loss is at most "
        f"{excess:.0e} above its minimum.",
    ]


class Regression:
    """A random regression, and how one step of LGA moves its model and labels."""

    def __init__(self, seed: int, hidden: int, size: int):
        generator = torch.Generator().manual_seed(seed)
        self.model = _network(size, hidden).double()
        count = sum(parameter.numel() for parameter in self.model.parameters())
        self.rows = count + 2
        x = torch.randn(2 * count, size, generator=generator, dtype=torch.float64)
        y = torch.randn(2 * count, 1, generator=generator, dtype=torch.float64)
        others = torch.randn(self.rows, size, generator=generator, dtype=torch.float64)
        self.labeled = Batch(x, y, torch.arange(len(x)))
        self.unlabeled = Batch(others, None, torch.arange(self.rows))
        self.size = count + self.rows
        best = x @ torch.linalg.lstsq(x, y).solution
        self.least_loss = float(SquaredError()(best, y))

    def at(self, point: Any) -> tuple[Step, LGA]:
        """The step that is taken, and the objective that takes it, at (θ, w)."""
        params = dict(self.model.named_parameters())
        theta, w = torch.as_tensor(point).split([self.size - self.rows, self.rows])
        with torch.no_grad():
            for name, value in unflatten(theta, params).items():
                params[name].copy_(value)
        # A large ε_norm makes the metric constant, so that far away is not mistaken for still.
        lga = simplified(self.rows, rate=2 * FLAT, epsilon=FLAT)
        lga.table.values[:, 0, 0] = w
        return Step(self.model, self.labeled, self.unlabeled, loss=SquaredError()), lga

    def movement(self, point: Any) -> Any:
        """(Δθ, Δw) of one step at rate 1."""
        step, lga = self.at(point)
        before: Tensor = lga.table.values[:, 0, 0].clone()
        pull = flat_gradient(lga(step), step.params)
        lga.update(step)
        return flatten([-pull, lga.table.values[:, 0, 0] - before]).numpy()


def _network(size: int, hidden: int) -> nn.Module:
    if not hidden:
        return nn.Linear(size, 1, bias=False)
    return nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, 1))
