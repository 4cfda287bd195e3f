"""The loss of given soft labels, by slow computations."""

import pytest
import torch

from labelgrad import Batch, CrossEntropy, SquaredError, Step
from labelgrad.objectives.distillation import Distillation


def step_on(rows, *, width=3):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, width).double()
    x = torch.randn(10, 4).double()
    labeled = Batch(x[:2], torch.zeros(2, dtype=torch.long), torch.arange(2))
    return Step(model, labeled, Batch(x[rows], None, torch.tensor(rows))), model(x).detach()


def test_the_loss_is_the_mean_cross_entropy_under_the_rows_own_labels():
    rows = [7, 2, 5]
    step, outputs = step_on(rows)
    labels = torch.rand(10, 3).softmax(1)
    slow = 0.0
    for row in rows:
        logs = outputs[row].log_softmax(0)
        slow -= sum(float(labels[row, c]) * float(logs[c]) for c in range(3)) / len(rows)
    assert Distillation(labels)(step).item() == pytest.approx(slow, rel=1e-6)


def test_the_loss_of_values_is_half_the_squared_distance():
    rows = [1, 9]
    step, outputs = step_on(rows, width=1)
    labels = torch.randn(10, 1)
    slow = sum(0.5 * float(outputs[row, 0] - labels[row, 0]) ** 2 for row in rows) / 2
    found = Distillation(labels, loss=SquaredError())(step)
    assert found.item() == pytest.approx(slow, rel=1e-6)


def test_labels_stay_as_they_are_and_get_no_gradient():
    step, _ = step_on([0, 1, 2])
    labels = torch.full((10, 3), 1 / 3)
    term = Distillation(labels)
    term(step).backward()
    assert not term.labels.requires_grad
    assert torch.equal(term.labels, torch.full((10, 3), 1 / 3))
    assert "labels" not in term.state_dict()


def test_labels_of_another_number_or_shape_are_refused():
    with pytest.raises(ValueError, match=r"labels \(rows, width\), got \(10,\)"):
        Distillation(torch.zeros(10))
    with pytest.raises(ValueError, match="a label for each of 12 examples, got 10"):
        Distillation(torch.zeros(10, 3)).begin(torch.nn.Linear(4, 3), CrossEntropy(), 12)
