"""The networks are what the evaluation protocol says they are."""

import math

import pytest
import torch
from torch import nn

from labelgrad import MLP, WideResNet


@pytest.fixture(scope="module")
def wrn():
    torch.manual_seed(0)
    return WideResNet(28, 2, classes=10)


def test_widths_and_strides_of_the_groups(wrn):
    x = wrn.stem(torch.zeros(1, 3, 32, 32))
    shapes = [x.shape[1:]]
    for group in wrn.groups:
        x = group(x)
        shapes.append(x.shape[1:])
    assert shapes == [(16, 32, 32), (32, 32, 32), (64, 16, 16), (128, 8, 8)]
    assert [len(group) for group in wrn.groups] == [4, 4, 4]


@pytest.mark.parametrize(("depth", "width"), [(28, 2), (10, 1), (16, 1)])
def test_only_the_first_unit_activates_before_its_split(depth, width):
    groups = WideResNet(depth, width).groups
    flags = [unit.activate_before_split for group in groups for unit in group]
    assert flags == [True] + [False] * (len(flags) - 1)


def test_shortcuts_are_convolutions_only_where_the_width_changes(wrn):
    kinds = [isinstance(unit.shortcut, nn.Conv2d) for group in wrn.groups for unit in group]
    assert kinds == [True, False, False, False] * 3


def test_initial_standard_deviations(wrn):
    for module in wrn.modules():
        if isinstance(module, nn.Conv2d):
            size, out = module.kernel_size[0], module.out_channels
            assert module.bias is None
            expected = math.sqrt(2 / (size * size * out))
            assert module.weight.std().item() == pytest.approx(expected, rel=0.15)
    assert wrn.head.weight.std().item() == pytest.approx(math.sqrt(2 / (128 + 10)), rel=0.15)
    assert not wrn.head.bias.any()


def test_batch_norm_follows_slowly(wrn):
    norms = [module for module in wrn.modules() if isinstance(module, nn.BatchNorm2d)]
    assert len(norms) == 25
    assert {(norm.momentum, norm.eps) for norm in norms} == {(1e-3, 1e-3)}


def test_smaller_relatives_and_grey_pictures():
    assert WideResNet(10, 1, classes=7, channels=1)(torch.zeros(2, 1, 28, 28)).shape == (2, 7)


@pytest.mark.parametrize("depth", [9, 4, 12])
def test_a_depth_that_does_not_exist_is_named(depth):
    with pytest.raises(ValueError, match=f"must be 6·n \\+ 4 .* got {depth}"):
        WideResNet(depth, 1)


def test_mlp_starts_glorot_uniform_with_zero_biases():
    torch.manual_seed(0)
    model = MLP(50, (128, 128), 5)
    bound = math.sqrt(6 / (50 + 128))
    assert model.layers[0].weight.abs().max() <= bound
    assert model.layers[0].weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert not any(layer.bias.any() for layer in model.layers)


def test_an_empty_layer_is_named():
    with pytest.raises(ValueError, match="at least one unit"):
        MLP(3, (0,), 2)


def test_a_large_batch_passes_an_mlp_in_pieces_and_gives_the_same():
    torch.manual_seed(0)
    model = MLP(5, (8, 8), 3).double()
    x = torch.randn(2500, 5, dtype=torch.float64)
    one_by_one = torch.cat([model(row) for row in x.split(1)])
    assert torch.allclose(model(x), one_by_one, atol=1e-14)
    assert model(torch.zeros(5).double()).shape == (3,)
