"""The remembered pass: the same numbers as without it, at fewer products."""

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call

from labelgrad import LGA, MLP, Batch, Step, Supervised, TensorBatches, Trainer
from labelgrad.labels.alignment import finite_difference, forward_mode
from labelgrad.replay import Remembering, Replaying


class Pair(nn.Module):
    """Two of each layer that is remembered; `inplace` writes into the first one's product."""

    def __init__(self, inplace=False):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 6, 3, stride=2, groups=2, bias=False)
        self.norm, self.inplace = nn.BatchNorm2d(6), inplace
        self.flat, self.last = nn.Linear(54, 5), nn.Linear(5, 3)

    def forward(self, x):
        x = torch.relu_(self.first(x)) if self.inplace else self.first(x).relu()
        x = self.norm(self.second(x)).flatten(1)
        return self.last(self.flat(x).tanh())


def make(model, remember):
    torch.manual_seed(0)
    labeled = Batch(torch.randn(5, 1, 8, 8), torch.arange(5) % 3, torch.arange(5))
    unlabeled = Batch(torch.randn(6, 1, 8, 8), None, torch.arange(6))
    return Step(model, labeled, unlabeled, remember=remember)


def slopes(model, remember, method=forward_mode):
    step = make(model, remember)
    direction = torch.randn(len(step.labeled_gradient), generator=torch.Generator().manual_seed(1))
    return method(step, direction)


def seeded(**options):
    torch.manual_seed(2)
    return Pair(**options)


@pytest.mark.parametrize("inplace", [False, True])
def test_remembered_or_not_the_slopes_are_the_same(inplace):
    model = seeded(inplace=inplace)
    torch.testing.assert_close(
        slopes(model, remember=True), slopes(model, remember=False), rtol=1e-5, atol=1e-6
    )


def test_frozen_layers_move_with_those_before_them():
    model = seeded()
    model.second.requires_grad_(False)
    model.last.requires_grad_(False)
    for method in (forward_mode, finite_difference):
        torch.testing.assert_close(
            slopes(model, True, method), slopes(model, False, method), rtol=1e-5, atol=1e-6
        )


def test_known_products_are_not_computed_again(monkeypatch):
    model, x, taken = seeded(), torch.randn(6, 1, 8, 8), []
    with Remembering() as memory:
        model(x)
    duals = {name: (p.detach(), torch.ones_like(p)) for name, p in model.named_parameters()}
    make_dual = forward_ad.make_dual

    def watched(value, tangent):
        taken.append(value.data_ptr())
        return make_dual(value, tangent)

    monkeypatch.setattr("labelgrad.replay.forward_ad.make_dual", watched)
    with torch.no_grad(), forward_ad.dual_level(), Replaying(memory.products):
        functional_call(model, {name: make_dual(*pair) for name, pair in duals.items()}, (x,))
    assert taken == [product.value.data_ptr() for product in memory.products]
    assert len(taken) == 4


@pytest.mark.parametrize(("network", "worth"), [(Pair, True), (lambda: MLP(64, (8,), 3), False)])
def test_a_trainer_remembers_where_there_are_convolutions(monkeypatch, network, worth):
    x = torch.randn(6, 1, 8, 8) if worth else torch.randn(6, 64)
    labeled, began = TensorBatches(x, torch.arange(6) % 3, batch_size=3), []
    monkeypatch.setattr("labelgrad.step.Replaying", lambda p: began.append(p) or Replaying(p))
    method = Supervised() + LGA(rows=6, width=3)
    Trainer(network(), method, labeled, TensorBatches(x, batch_size=3)).step()
    assert bool(began) is worth
