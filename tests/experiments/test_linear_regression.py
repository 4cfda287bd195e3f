"""Section 3.1 of the paper: learning speeds, and Propositions 1 to 3 on random problems."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.functional import jacobian
from torch.func import functional_call

from experiments.paper.learning_speeds import (
    EPSILON,
    RATE,
    Directions,
    early_stopping,
    learning_speeds,
)
from experiments.paper.propositions import (
    STILL,
    Regression,
    dependence_on_others,
    fixed_point,
)

SEEDS = st.integers(0, 10_000)


def scalar_lga(labeled, unlabeled, pull, rows, steps):
    """One direction of LGA by hand: θ, and u = e·Xᵀy_u/n_u, which is all of the labels it sees."""
    theta = u = 0.0
    for _ in range(steps):
        gap = labeled * theta - pull - (unlabeled * theta - u)
        theta, u = (
            theta - RATE * (unlabeled * theta - u),
            u - RATE * unlabeled / rows * gap / (EPSILON + gap**2),
        )
    return labeled * theta / pull


def random_directions(seed, size=3):
    random = np.random.default_rng(seed)
    return Directions(*(tuple(map(float, random.uniform(0.3, 3, size))) for _ in range(3)))


def final_c(method, directions, steps):
    return learning_speeds(method, directions, steps=steps, every=steps)[-1]["c"]


@given(SEEDS)
def test_the_gram_matrices_are_diagonal_and_the_pull_is_as_asked(seed):
    directions = random_directions(seed)
    x = directions.inputs(directions.labeled, torch.Generator().manual_seed(seed))
    gram = x.T @ x / len(x)
    assert torch.allclose(gram, torch.diag(torch.tensor(directions.labeled).double()), atol=1e-12)
    pull = x.T @ directions.labels(x) / len(x)
    assert torch.allclose(pull, torch.tensor(directions.pull).double(), atol=1e-6)


@given(SEEDS)
@settings(max_examples=4)
def test_gradient_descent_is_its_closed_form(seed):
    directions = random_directions(seed)
    expected = [early_stopping(eigenvalue, 60) for eigenvalue in directions.labeled]
    assert final_c("gradient descent", directions, 60) == pytest.approx(expected, abs=1e-6)


@given(SEEDS)
@settings(max_examples=3)
def test_lga_on_matrices_is_the_recurrence_of_each_direction_alone(seed):
    directions = random_directions(seed)
    ours = final_c("lga", directions, 60)
    sides = zip(directions.labeled, directions.unlabeled, directions.pull, strict=True)
    expected = [scalar_lga(*side, rows=3, steps=60) for side in sides]
    assert ours == pytest.approx(expected, rel=1e-5)


@given(SEEDS)
@settings(max_examples=3)
def test_proposition_1_a_direction_does_not_depend_on_the_others(seed):
    assert dependence_on_others(seed, steps=60) < 1e-12


def settled(problem, point):
    """The same model with its own predictions for labels, so that it is pulled nowhere."""
    step, _ = problem.at(point)
    return np.concatenate([point[: -problem.rows], step.unlabeled_outputs.detach()[:, 0]])


def weakest_pull(problem, point):
    """The least that a unit of gap can move the labels: the last singular value of (2/n)·J·D."""
    step, lga = problem.at(point)
    names, values = zip(*step.params.items(), strict=True)

    def outputs(*params):
        changed = dict(zip(names, params, strict=True))
        return functional_call(step.model, changed, (step.unlabeled.x,))[:, 0]

    parts = jacobian(outputs, values)
    full = torch.cat([part.reshape(problem.rows, -1) for part in parts], 1)
    metric = lga.table.rule.rate / lga.gap.epsilon  # a large ε_norm: the same in every direction
    return 2 / problem.rows * metric * torch.linalg.svdvals(full)[-1]


@given(SEEDS, st.floats(0, 1))
def test_proposition_2_where_lga_is_still_the_supervised_gradient_vanishes(seed, noise):
    # Said for every point, not for fixed points alone: LGA's two movements bound the supervised
    # gradient, ‖g_ℓ‖ ≤ ‖g_u‖ + ‖g_ℓ − g_u‖ ≤ ‖Δθ‖ + ‖Δw‖ / σ, so it is 0 where both are 0.
    problem = Regression(seed, hidden=2, size=2)
    random = np.random.default_rng(seed)
    point = settled(problem, random.normal(size=problem.size))
    point[-problem.rows :] += noise * random.normal(size=problem.rows)
    moved = problem.movement(point)
    model, labels = np.split(moved, [problem.size - problem.rows])
    step, _ = problem.at(point)
    least = float(weakest_pull(problem, point))
    bound = np.linalg.norm(model) + np.linalg.norm(labels) / least
    assert float(step.labeled_gradient.norm()) <= bound * (1 + 1e-5)
    if noise == 0:
        assert np.linalg.norm(model) < 1e-12


def test_proposition_2_at_fixed_points_a_solver_finds():
    found = [fixed_point(seed, hidden=1, size=2) for seed in (0, 3)]
    assert any(point.movement < STILL for point in found)
    for point in found:
        assert point.movement >= STILL or point.labeled_gradient < 1e-6


@given(SEEDS)
def test_the_supervised_minimum_is_a_fixed_point(seed):
    problem = Regression(seed, hidden=0, size=3)
    best = torch.linalg.lstsq(problem.labeled.x, problem.labeled.y).solution[:, 0].numpy()
    point = settled(problem, np.concatenate([best, np.zeros(problem.rows)]))
    assert np.linalg.norm(problem.movement(point)) < 1e-12


@given(SEEDS)
@settings(max_examples=8)
def test_proposition_3_a_fixed_point_of_a_convex_loss_is_its_minimum(seed):
    found = fixed_point(seed)
    assert found.movement < STILL
    assert found.labeled_gradient < 1e-6
    assert abs(found.excess) < 1e-9
