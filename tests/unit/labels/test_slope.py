"""The label slope by one forward-mode pass, against the double backward it replaces."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import cosine_similarity
from torch.nn.utils import parameters_to_vector as flatten

from labelgrad import CrossEntropy, Step
from labelgrad.labels.alignment import finite_difference, forward_mode, usable_slope
from tests.conftest import WIDTH, make_step


def imputed(step, seed=1):
    torch.manual_seed(seed)
    free = torch.randn(len(step.unlabeled.x), WIDTH, dtype=torch.float64)
    return step.loss.impute(free).requires_grad_()


def slow_loss(step, outputs, labels):
    """The loss written out, for labels that are differentiated."""
    if isinstance(step.loss, CrossEntropy):
        return -(labels * F.log_softmax(outputs, -1)).sum() / len(outputs)
    return 0.5 * (outputs - labels).square().sum() / len(outputs)


def by_double_backward(step, labels, metric):
    """∂/∂y Σ metric·(g_ℓ − g_u(y))², with the graph of the graph."""
    loss = slow_loss(step, step.unlabeled_outputs, labels)
    params = list(step.params.values())
    pull = flatten(torch.autograd.grad(loss, params, create_graph=True))
    gap = step.labeled_gradient.detach() - pull
    (slope,) = torch.autograd.grad((metric * gap.square()).sum(), labels)
    return slope, metric * gap.detach()


@pytest.mark.parametrize("remember", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_forward_mode_equals_double_backward(network, loss, seed, remember):
    step = make_step(network, loss, seed=seed, remember=remember)
    metric = torch.rand_like(step.labeled_gradient)
    exact, direction = by_double_backward(step, imputed(step), metric)
    found = 2 / len(exact) * forward_mode(step, direction)
    assert (found - exact).norm() / exact.norm() < 1e-10


class Centered(nn.Module):
    """Reads a buffer that it writes: inputs less their running mean, in place or by a new one."""

    def __init__(self, replaces):
        super().__init__()
        self.replaces = replaces
        self.register_buffer("mean", torch.zeros(16, dtype=torch.float64))

    def forward(self, x):
        new = 0.5 * self.mean + 0.5 * x.flatten(1).mean(0).detach()
        if self.replaces:
            self.mean = new
        else:
            self.mean.copy_(new)
        return x.flatten(1) - self.mean


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("remember", [False, True])
def test_a_model_that_reads_buffers_it_writes_has_the_slope_of_its_pass(replaces, remember):
    step = make_step(remember=remember)
    step.model.insert(1, Centered(replaces))
    metric = torch.rand_like(step.labeled_gradient)
    exact, direction = by_double_backward(step, imputed(step), metric)
    before = {name: value.clone() for name, value in step.model.state_dict().items()}
    for _ in range(2):  # replayed as often as one likes
        found = 2 / len(exact) * forward_mode(step, direction)
        assert (found - exact).norm() / exact.norm() < 1e-10
    near = finite_difference(step, direction)
    assert cosine_similarity(near.flatten(), exact.flatten(), dim=0) > 0.99
    for name, value in step.model.state_dict().items():
        assert torch.equal(before[name], value), name


def test_finite_difference_points_the_same_way(network, loss):
    step = make_step(network, loss)
    metric = torch.rand_like(step.labeled_gradient)
    exact, direction = by_double_backward(step, imputed(step), metric)
    found = finite_difference(step, direction)
    assert cosine_similarity(found.flatten(), exact.flatten(), dim=0) > 0.99


@pytest.mark.parametrize("network", ["mlp", "conv"])
def test_finite_difference_is_good_in_single_precision_too(network):
    step = make_step(network)
    direction = torch.randn_like(step.labeled_gradient)
    exact = forward_mode(step, direction)
    single = [replace(batch, x=batch.x.float()) for batch in (step.labeled, step.unlabeled)]
    rough = Step(make_step(network).model.float(), *single)
    found = finite_difference(rough, direction.float())
    assert cosine_similarity(found.flatten().double(), exact.flatten(), dim=0) > 0.99


@pytest.mark.parametrize("method", [forward_mode, finite_difference])
def test_extra_passes_leave_no_trace(method):
    step = make_step("dropout")
    direction = torch.ones_like(step.labeled_gradient)
    _ = step.unlabeled_outputs  # the clean passes are over: these may update the statistics
    before = {name: value.clone() for name, value in step.model.state_dict().items()}
    random = torch.get_rng_state()
    method(step, direction)
    assert torch.equal(torch.get_rng_state(), random)
    for name, value in step.model.state_dict().items():
        assert torch.equal(before[name], value), name


@pytest.mark.parametrize("method", [forward_mode, finite_difference])
def test_a_gap_of_zero_has_a_slope_of_zero(method):
    step = make_step()
    slope = method(step, torch.zeros_like(step.labeled_gradient))
    assert torch.equal(slope, torch.zeros_like(slope))


def test_parameters_at_zero_have_a_finite_difference_too():
    step = make_step(loss="squared-error")
    for parameter in step.model.parameters():
        nn.init.zeros_(parameter)
    slope = finite_difference(step, torch.ones_like(step.labeled_gradient))
    assert torch.isfinite(slope).all()
    assert slope.abs().sum() > 0


class Stubborn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, outer):
        return outer


def test_a_network_without_forward_mode_is_told_what_to_do():
    step = make_step()
    step.model.append(type("Odd", (nn.Module,), {"forward": lambda _, x: Stubborn.apply(x)})())
    direction = torch.ones_like(step.labeled_gradient)
    with pytest.raises(ValueError, match="use slope='finite-difference'") as refused:
        forward_mode(step, direction)
    assert "eager" not in str(refused.value)
    assert torch.isfinite(finite_difference(step, direction)).all()


class Attention(nn.Module):
    """Each example attends to all, as PyTorch computes it or in plain operations."""

    eager = False

    def forward(self, x):
        seen = x[None, None]
        if not self.eager:
            return F.scaled_dot_product_attention(seen, seen, seen)[0, 0]
        return ((seen @ seen.mT / x.shape[1] ** 0.5).softmax(-1) @ seen)[0, 0]


def test_attention_without_a_derivative_is_told_of_eager_attention():
    step = make_step()
    step.model.append(Attention())
    direction = torch.ones_like(step.labeled_gradient)
    with pytest.raises(ValueError, match=r"attn_implementation='eager'.* or use slope='finite-d"):
        forward_mode(step, direction)
    assert usable_slope(step.model, step.unlabeled.x) == "finite-difference"
    step.model[-1].eager = True
    exact, near = forward_mode(step, direction), finite_difference(step, direction)
    assert near.numpy() == pytest.approx(exact.numpy(), rel=0.05, abs=0.05)
    assert usable_slope(step.model, step.unlabeled.x) == "forward-mode"
