"""Random views of a batch: one draw for each example, in batched tensor code on its own device.

The draws come from a generator that the trainer seeds by the step, so a resumed run sees the same
views; without one they are PyTorch's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelgrad.augment.rand_augment import rand_augment
from labelgrad.functional import normal_like

Generator = torch.Generator | None


@dataclass(frozen=True)
class Noise:
    """For rows of a table: Gaussian noise, a little or a lot, in the columns' own units.

    >>> Noise(weak_size=0.0, strong_size=0.5).weak(torch.ones(1, 2))
    tensor([[1., 1.]])
    """

    weak_size: float = 0.1
    strong_size: float = 0.5

    def weak(self, x: Tensor, generator: Generator = None) -> Tensor:
        """The rows with little noise."""
        return x + self.weak_size * normal_like(x, generator)

    def strong(self, x: Tensor, generator: Generator = None) -> Tensor:
        """The rows with much noise."""
        return x + self.strong_size * normal_like(x, generator)


@dataclass(frozen=True)
class ImageViews:
    """For images with values from `low` to `high`: a flip and a small shift, or RandAugment.

    The strong view is a weak one after two changes of RandAugment and a cutout. Not every image
    may be mirrored: `mirror=False` for digits and letters. Weak views may have Gaussian `noise`.

    >>> ImageViews().strong(torch.zeros(4, 3, 32, 32)).shape
    torch.Size([4, 3, 32, 32])
    """

    low: float = -1.0
    high: float = 1.0
    mirror: bool = True
    pixels: int = 2
    noise: float = 0.0

    def weak(self, x: Tensor, generator: Generator = None) -> Tensor:
        """A flip, where mirrored images mean the same, a small shift, and noise if any."""
        flipped = flip(x, generator) if self.mirror else x
        moved = translate(flipped, self.pixels, generator)
        return moved + self.noise * normal_like(moved, generator) if self.noise else moved

    def strong(self, x: Tensor, generator: Generator = None) -> Tensor:
        """A weak view, recolored, moved and partly blanked."""
        weak = self.weak(x, generator)
        scaled = ((weak - self.low) / (self.high - self.low)).clamp(0, 1)
        changed = rand_augment(scaled, generator=generator)
        changed = cutout(changed - 0.5, generator=generator) + 0.5  # the blank is grey
        return self.low + (self.high - self.low) * changed


def flip(x: Tensor, generator: Generator = None) -> Tensor:
    """Each image left to right, or not.

    >>> torch.equal(flip(torch.ones(3, 1, 2, 2)), torch.ones(3, 1, 2, 2))
    True
    """
    kept = (torch.rand(len(x), device=x.device, generator=generator) >= 0.5).nonzero()[:, 0]
    return x.flip(-1).index_copy_(0, kept, x[kept])  # whole images: faster than a `where`


def translate(x: Tensor, pixels: int = 2, generator: Generator = None) -> Tensor:
    """Each image shifted by up to so many pixels along both axes; its edge is mirrored.

    >>> translate(torch.zeros(3, 1, 8, 8)).shape
    torch.Size([3, 1, 8, 8])
    """
    count, channels, height, width = x.shape
    down, right = torch.randint(
        -pixels, pixels + 1, (2, count, 1), device=x.device, generator=generator
    )
    rows = _mirrored(torch.arange(height, device=x.device) + down, height)
    columns = _mirrored(torch.arange(width, device=x.device) + right, width)
    places = (rows.unsqueeze(2) * width + columns.unsqueeze(1)).flatten(1)  # images, pixels
    return x.flatten(2).gather(2, places.unsqueeze(1).expand(-1, channels, -1)).view(x.shape)


def _mirrored(places: Tensor, size: int) -> Tensor:
    """Places beyond an edge, as far inside of it as they are outside."""
    return (size - 1) - ((size - 1) - places.abs()).abs()


def cutout(x: Tensor, part: float = 0.5, generator: Generator = None) -> Tensor:
    """Each image with a square of up to `part` of its side blanked, anywhere.

    >>> blank = cutout(torch.ones(100, 1, 8, 8))
    >>> bool((blank == 0).any()), bool((blank == 1).any())
    (True, True)
    """
    count, _, height, width = x.shape
    size, place = (
        torch.rand(count, numbers, device=x.device, generator=generator) for numbers in (1, 2)
    )
    sides = torch.tensor([height, width]).to(x)
    half, centre = part * size * sides / 2, place * sides
    down = (torch.arange(height, device=x.device) + 0.5 - centre[:, :1]).abs() < half[:, :1]
    right = (torch.arange(width, device=x.device) + 0.5 - centre[:, 1:]).abs() < half[:, 1:]
    inside = (down.unsqueeze(2) & right.unsqueeze(1)).unsqueeze(1)
    return x.masked_fill(inside, 0.0)
