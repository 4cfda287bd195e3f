"""Error, loss and calibration against slow, obvious computations."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from labelgrad import MLP, SquaredError, evaluate
from labelgrad.training.evaluation import evaluating, predict, reliability
from tests.conftest import ConvNet


def slow_ece(probabilities, labels, bins):
    total = 0.0
    for b in range(bins):
        inside = [
            (p.max().item(), int(p.argmax() == y))
            for p, y in zip(probabilities, labels, strict=True)
            if b / bins < p.max() <= (b + 1) / bins
        ]
        if inside:
            confidence = sum(c for c, _ in inside) / len(inside)
            accuracy = sum(a for _, a in inside) / len(inside)
            total += len(inside) / len(labels) * abs(confidence - accuracy)
    return total


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(2, 6), st.integers(1, 20))
def test_calibration_error_is_its_definition(seed, rows, classes, bins):
    generator = torch.Generator().manual_seed(seed)
    probabilities = (3 * torch.randn(rows, classes, generator=generator).double()).softmax(-1)
    labels = torch.randint(classes, (rows,), generator=generator)
    found = reliability(probabilities, labels, bins=bins).ece
    assert found == pytest.approx(slow_ece(probabilities, labels, bins), abs=1e-9)


def test_a_sure_and_right_model_has_no_error_at_all():
    model = nn.Linear(2, 2, bias=False)
    model.weight.data = 100 * torch.eye(2)
    measured = evaluate(model, torch.eye(2), torch.tensor([0, 1]))
    assert measured == {"error": 0.0, "loss": 0.0, "ece": 0.0}


def test_a_regression_has_a_distance_and_no_calibration():
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight), nn.init.constant_(model.bias, 2.0)
    measured = evaluate(
        model, torch.zeros(4, 1), torch.tensor([0.0, 2.0, 2.0, 4.0]), loss=SquaredError()
    )
    assert measured == {"error": pytest.approx(2**0.5), "loss": pytest.approx(1.0)}


def test_pieces_give_what_the_whole_gives():
    model, x = MLP(3, (5,), 2), torch.randn(23, 3)
    torch.testing.assert_close(predict(model, x, batch_size=4), predict(model, x))


def test_evaluation_leaves_every_module_as_it_was():
    model = ConvNet(dropout=0.5)
    model.norm.eval()
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert model.dropout.training
    assert model.training
    assert not model.norm.training
