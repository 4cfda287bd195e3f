"""The synthetic shells, by the paper's definition."""

import torch

from experiments.datasets.shells import shells


def draw(count=20_000, dimension=50, seed=0):
    return shells(count, dimension, torch.Generator().manual_seed(seed))


def test_the_distance_says_the_class_and_leaves_the_middle_of_each_empty():
    x, y = draw()
    distance = x.double().norm(dim=1)
    within = distance - y
    assert ((within >= -1e-5) & (within <= 1 + 1e-5)).all()
    middle = (within > 0.25 + 1e-5) & (within < 0.75 - 1e-5)
    assert not middle.any()
    assert (within[y == 0] > 0.7).all()
    assert (within[y == 4] < 0.3).all()


def test_each_class_is_as_likely_and_each_inner_shell_has_half_of_its_class():
    x, y = draw()
    assert (y.bincount() / len(y) - 0.2).abs().max() < 0.015
    for kind in (1, 2, 3):
        within = x[y == kind].norm(dim=1) - kind
        assert abs(float((within > 0.5).double().mean()) - 0.5) < 0.03


def test_directions_have_no_preference():
    x, _ = draw()
    direction = x / x.norm(dim=1, keepdim=True)
    assert direction.mean(0).abs().max() < 0.01
    assert (direction.var(0) - 1 / 50).abs().max() < 0.002


def test_one_seed_one_set():
    assert torch.equal(draw(100, seed=3)[0], draw(100, seed=3)[0])
    assert not torch.equal(draw(100, seed=3)[0], draw(100, seed=4)[0])
