"""Scaling to length one, where squares leave the range of the numbers."""

import pytest
import torch

from labelgrad import MLP, VAT, Batch, Step


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
