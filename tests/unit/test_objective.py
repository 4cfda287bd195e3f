"""Objectives add and scale, and their gradients with them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from labelgrad import Objective, Step, Supervised
from labelgrad.objective import Scaled, Sum
from labelgrad.schedules import Ramp
from tests.conftest import make_step


class UnlabeledNorm(Objective):
    """A plain loss with a graph of its own, to stand beside terms that hand a gradient over."""

    def __init__(self, power=2):
        super().__init__()
        self.power = power

    def forward(self, step):
        return step.unlabeled_outputs.abs().pow(self.power).mean()


class Smoothed(Objective):
    """Differentiates through the labeled outputs, as `Supervised` does."""

    def forward(self, step):
        return F.cross_entropy(step.labeled_outputs, step.labeled.y, label_smoothing=0.1)


LEAVES = {"supervised": Supervised, "norm": UnlabeledNorm, "smoothed": Smoothed}
WEIGHTS = st.floats(-3, 3)


def gradient(objective, index=0):
    step = make_step(index=index)
    return step.gradient(objective(step)), objective(make_step(index=index)).item()


@st.composite
def expressions(draw, depth=3):
    """An objective, and the coefficient of each kind of leaf that it should come to."""
    if depth == 0 or draw(st.booleans()):
        name = draw(st.sampled_from(sorted(LEAVES)))
        return LEAVES[name](), {name: 1.0}
    if draw(st.booleans()):
        weight = draw(WEIGHTS)
        inner, parts = draw(expressions(depth - 1))
        return weight * inner, {name: weight * value for name, value in parts.items()}
    left, one = draw(expressions(depth - 1))
    right, two = draw(expressions(depth - 1))
    return left + right, {n: one.get(n, 0.0) + two.get(n, 0.0) for n in one | two}


@given(expressions())
def test_any_expression_has_the_gradient_of_its_expansion(expression):
    objective, parts = expression
    found, value = gradient(objective)
    expected = {name: gradient(LEAVES[name]()) for name in parts}
    combined = sum(weight * expected[name][0] for name, weight in parts.items())
    torch.testing.assert_close(found, combined, rtol=1e-10, atol=1e-12)
    total = sum(weight * expected[name][1] for name, weight in parts.items())
    assert math.isclose(value, total, rel_tol=1e-10, abs_tol=1e-12)


@given(WEIGHTS, WEIGHTS)
def test_handed_over_gradients_add_to_the_last_bit(a, b):
    alone, _ = gradient(Supervised())
    both, _ = gradient(a * Supervised() + b * Supervised())
    assert torch.equal(both, a * alone + b * alone)


def test_a_schedule_is_read_at_the_index_of_the_step():
    alone, _ = gradient(Supervised(), index=5)
    scheduled, _ = gradient(Ramp(10) * Supervised(), index=5)
    assert torch.equal(scheduled, 0.5 * alone)


def test_sums_flatten_so_that_every_bracketing_has_one_checkpoint_layout():
    a, b, c = Supervised(), UnlabeledNorm(), Smoothed()
    assert [type(t) for t in ((a + b) + c).terms] == [type(t) for t in (a + (b + c)).terms]
    assert len(Sum(a + b, c).terms) == 3


def test_the_labeled_gradient_is_computed_once_whoever_uses_it(monkeypatch):
    step = make_step()
    calls = []
    original = type(step).gradient
    monkeypatch.setattr(
        type(step), "gradient", lambda self, loss: calls.append(1) or original(self, loss)
    )
    (0.1 * Supervised() + 2 * Supervised())(step).backward()
    assert len(calls) == 1


def test_terms_are_recorded_by_name_with_their_weight():
    step = make_step()
    (2 * Supervised() + Supervised() + UnlabeledNorm())(step)
    assert list(step.records) == ["supervised/loss", "supervised.2/loss", "unlabelednorm/loss"]
    assert step.records["supervised/loss"] == 2 * step.records["supervised.2/loss"]


class Loss(Objective):
    """A term whose name is also that of the total."""

    def forward(self, step):
        step.report("size", step.labeled_loss)
        return step.labeled_loss


def test_terms_that_report_alike_do_not_overwrite_each_other():
    step = make_step()
    (Loss() + 3 * (Loss() + UnlabeledNorm()))(step)
    assert list(step.records) == [
        "loss/size", "loss/loss", "sum/loss/size", "sum/loss/loss", "sum/unlabelednorm/loss",
        "sum/loss",
    ]  # fmt: skip


def test_a_name_that_is_taken_is_refused():
    class Taking(Objective):
        def forward(self, step):
            step.report("loss", step.labeled_loss)
            return step.labeled_loss

    with pytest.raises(ValueError, match="let taking report another name"):
        (Supervised() + Taking())(make_step())


def test_the_same_object_twice_in_a_sum_is_refused():
    term = Supervised()
    with pytest.raises(ValueError, match="one objective is twice in"):
        term + 2 * term


@pytest.mark.parametrize("weight", [math.nan, math.inf])
def test_a_weight_must_be_finite(weight):
    with pytest.raises(ValueError, match=f"must be finite, got {weight}"):
        Scaled(weight, Supervised())


def test_only_objectives_add():
    with pytest.raises(TypeError, match="adds to another objective, not to 3"):
        Supervised() + 3


def test_an_objective_reads_as_it_is_written():
    written = 0.1 * Supervised() + Ramp(steps=10) * (Supervised() + UnlabeledNorm())
    assert repr(written) == (
        "0.1 * Supervised() + Ramp(steps=10, top=1.0) * (Supervised() + UnlabeledNorm())"
    )


def test_a_step_without_unlabeled_examples_says_so():
    step = make_step()
    with pytest.raises(ValueError, match="needs unlabeled examples"):
        UnlabeledNorm()(Step(step.model, step.labeled))
