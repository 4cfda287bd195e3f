"""Random views: independent draws for each example, seeded, and the same as one by one."""

import pytest
import torch
from torch.nn import functional as F

from labelgrad.augment.rand_augment import COLOURS, MOVES, rand_augment
from labelgrad.augment.views import ImageViews, Noise, cutout, flip, translate

PICTURES = torch.arange(64 * 3 * 8 * 8).view(64, 3, 8, 8).float()


def test_one_seed_one_view():
    for view in (flip, translate, cutout, Noise().strong):
        torch.manual_seed(1)
        first = view(PICTURES)
        torch.manual_seed(1)
        assert torch.equal(first, view(PICTURES))
        assert not torch.equal(first, view(PICTURES))
        assert first.shape == PICTURES.shape


def test_each_picture_is_flipped_or_not():
    flipped = flip(PICTURES)
    kept = [torch.equal(a, b) for a, b in zip(flipped, PICTURES, strict=True)]
    mirrored = [torch.equal(a, b.flip(-1)) for a, b in zip(flipped, PICTURES, strict=True)]
    assert all(a != b for a, b in zip(kept, mirrored, strict=True))
    assert 15 < sum(kept) < 49


def test_each_picture_is_one_of_the_25_shifts_of_its_own():
    shifted = translate(PICTURES, pixels=2)
    found = set()
    for before, after in zip(PICTURES, shifted, strict=True):
        padded = F.pad(before, (2, 2, 2, 2), mode="reflect")
        places = [
            (down, right)
            for down in range(5)
            for right in range(5)
            if torch.equal(padded[:, down : down + 8, right : right + 8], after)
        ]
        assert len(places) == 1
        found.add(places[0])
    assert len(found) > 12  # of 25, in 64 independent draws


def test_a_cut_is_a_rectangle_in_all_channels_and_of_limited_size():
    cut = cutout(torch.ones(200, 3, 8, 8), part=0.5) == 0
    assert torch.equal(cut[:, 0], cut[:, 1])
    down, right = cut[:, 0].any(2), cut[:, 0].any(1)
    assert torch.equal(cut[:, 0], down.unsqueeze(2) & right.unsqueeze(1))
    assert down.sum(1).max() <= 5
    assert len({tuple(row.tolist()) for row in down}) > 10


def test_noise_has_the_size_asked_for():
    torch.manual_seed(0)
    x = torch.zeros(1000, 20)
    assert abs(float(Noise(weak_size=0.1).weak(x).std()) - 0.1) < 0.005
    assert abs(float(Noise(strong_size=0.5).strong(x).std()) - 0.5) < 0.02


@pytest.mark.parametrize("name", COLOURS)
def test_a_batch_is_recoloured_as_its_images_one_by_one(name):
    torch.manual_seed(0)
    x, strength = torch.rand(6, 3, 8, 8), torch.rand(6, 1, 1, 1)
    together = COLOURS[name](x, strength)
    pairs = zip(x.split(1), strength.split(1), strict=True)
    assert torch.allclose(together, torch.cat([COLOURS[name](*pair) for pair in pairs]))
    assert together.shape == x.shape


def test_what_the_colours_do():
    half = torch.full((1, 1, 1, 1), 0.5)  # a blend of 1: nothing changes
    x = torch.rand(1, 3, 8, 8)
    for name in ("brightness", "contrast", "colour", "sharpness"):
        assert torch.allclose(COLOURS[name](x, half), x, atol=1e-6)
    assert COLOURS["brightness"](x, torch.zeros(1, 1, 1, 1)).max() <= 0.05
    spread = COLOURS["autocontrast"](0.2 + 0.3 * x, half)
    assert (float(spread.min()), float(spread.max())) == (0.0, 1.0)
    assert len(COLOURS["posterize"](x, torch.zeros(1, 1, 1, 1)).unique()) <= 16
    channel, even = (x[0, 0] * 255).long(), COLOURS["equalize"](x, half)[0, 0]
    below = torch.stack([(channel <= level).float().mean() for level in channel.flatten()])
    assert torch.allclose(even.flatten(), below)


@pytest.mark.parametrize("name", MOVES)
def test_no_move_is_no_change_and_two_ways_undo_each_other(name):
    build = MOVES[name]
    assert torch.allclose(build(torch.zeros(2)), torch.eye(3).expand(2, 3, 3))
    there, back = build(torch.tensor([0.7])), build(torch.tensor([-0.7]))
    assert torch.allclose(there @ back, torch.eye(3).expand(1, 3, 3), atol=1e-6)


def test_images_of_one_batch_get_draws_of_their_own():
    torch.manual_seed(0)
    same = torch.rand(1, 3, 16, 16).expand(64, 3, 16, 16)
    views = rand_augment(same)
    assert len({tuple(view.flatten()[:40].tolist()) for view in views}) > 55
    strong = ImageViews(0.0, 1.0).strong(same)
    assert (strong >= 0).all()
    assert (strong <= 1).all()


def test_grey_images_of_one_channel_work_too():
    assert ImageViews(mirror=False).strong(torch.zeros(3, 1, 28, 28)).shape == (3, 1, 28, 28)
