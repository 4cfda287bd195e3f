"""Random views: independent draws for each example, seeded, and the same as one by one."""

import torch
from torch.nn import functional as F

from labelgrad.data.views import Noise, cutout, flip, translate

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
