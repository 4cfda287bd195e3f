"""The sharpest direction against a dense Hessian."""

import pytest
import torch
from torch.autograd.functional import hessian
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector as flatten

from experiments.paper.curvature import alignment, hessian_product, top_eigenvector
from labelgrad.functional import unflatten
from tests.conftest import make_step


def dense_hessian(step):
    def value(vector):
        params = unflatten(vector, step.params)
        return step.loss(functional_call(step.model, params, (step.labeled.x,)), step.labeled.y)

    return hessian(value, flatten(step.params.values()).detach())


@pytest.mark.parametrize("seed", range(5))
def test_products_and_top_eigenvector_are_those_of_the_dense_hessian(seed, loss):
    step = make_step("mlp", loss, seed=seed)
    dense = dense_hessian(step)
    vector = torch.randn(len(dense), dtype=torch.float64)
    product = hessian_product(step.labeled_loss, step.params)(vector)
    assert torch.allclose(product, dense @ vector, atol=1e-12)
    values, vectors = torch.linalg.eigh(dense)
    value, found = top_eigenvector(step.labeled_loss, step.params, tolerance=1e-10)
    assert value == pytest.approx(float(values[-1]), rel=1e-8)
    assert alignment(found, vectors[:, -1]) == pytest.approx(1, abs=1e-8)


def test_it_is_the_largest_value_and_not_the_largest_magnitude():
    w = torch.zeros(20, dtype=torch.float64, requires_grad=True)
    curves = torch.linspace(-5, 1, 20, dtype=torch.float64)
    value, vector = top_eigenvector((curves * w**2).sum(), {"w": w}, tolerance=1e-10)
    assert value == pytest.approx(2)
    assert float(vector.abs()[-1]) == pytest.approx(1, abs=1e-6)


def test_a_good_start_leads_to_the_same_answer():
    step = make_step("mlp")
    _, first = top_eigenvector(step.labeled_loss, step.params, tolerance=1e-10)
    value, again = top_eigenvector(step.labeled_loss, step.params, start=first, tolerance=1e-10)
    assert alignment(first, again) == pytest.approx(1, abs=1e-8)
    assert value > 0


def test_alignment_has_no_sign_and_no_length():
    a, b = torch.randn(2, 30, dtype=torch.float64)
    assert alignment(a, b) == pytest.approx(alignment(-3 * a, 0.1 * b))
    assert alignment(torch.zeros(30, dtype=torch.float64), b) == 0
