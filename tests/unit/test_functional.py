"""Scaling to length one, where squares leave the range of the numbers."""

import pytest
import torch

from labelgrad import MLP, VAT, Batch, Step
from labelgrad.functional import unit


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-44, 1e-38, 1e-25, 1e-12, 1.0, 1e12, 1e25, 1e38])
def test_every_size_of_vector_is_scaled_to_length_one(dtype, size):
    torch.manual_seed(0)
    x = (torch.randn(5, 3, 4, 4, dtype=torch.float64).clamp(-1, 1) * size).to(dtype)
    assert unit(x).flatten(1).norm(dim=1).numpy() == pytest.approx(1, rel=1e-5)


def test_a_vector_of_zeros_stays_zero():
    assert torch.equal(unit(torch.zeros(2, 3)), torch.zeros(2, 3))


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0, 3000.0])
def test_vats_perturbation_has_length_eps_however_confident_the_model(scale):
    torch.manual_seed(0)
    model = MLP(4, (16,), 3)
    with torch.no_grad():
        model.layers[-1].weight *= scale
    batch = Batch(torch.randn(20, 4), torch.arange(20) % 3, torch.arange(20))
    step = Step(model, batch, batch)
    direction = VAT().direction(step, step.unlabeled.x, step.unlabeled_outputs.detach())
    assert direction.norm(dim=1).max() < 1 + 1e-5
