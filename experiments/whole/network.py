"""A short, wide network of 3×3 convolutions that pools early: it learns fast on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PATCH = 2  # side of the patches that the stem whitens
SLOPE = 0.1  # of the leaky rectifier


class FastNet(nn.Sequential):
    """A fixed whitening stem, three groups of two convolutions, one linear layer.

    Parameters
    ----------
    stem : Tensor
        Filters of the stem, as `whitening_filters` computes them.
    classes : int
        Number of outputs.
    width : int
        Channels of the first group; the other two have four times as many.

    Examples
    --------
    >>> images = torch.rand(50, 3, 32, 32)
    >>> network = FastNet(whitening_filters(images), classes=10, width=4)
    >>> network(images).shape
    torch.Size([50, 10])

    """

    def __init__(self, stem: Tensor, classes: int, width: int):
        filters = torch.cat([stem, -stem])
        whiten = nn.Conv2d(stem.shape[1], len(filters), PATCH, bias=False)
        whiten.weight = nn.Parameter(filters, requires_grad=False)
        super().__init__(
            whiten,
            nn.LeakyReLU(SLOPE),
            *_group(len(filters), width),
            *_group(width, 4 * width),
            *_group(4 * width, 4 * width),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
            nn.Linear(4 * width, classes),
        )


def _group(inputs: int, outputs: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(outputs),
        nn.LeakyReLU(SLOPE),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.LeakyReLU(SLOPE),
    ]


def whitening_filters(images: Tensor, floor: float = 5e-4) -> Tensor:
    """Filters whose responses to the patches of these images are uncorrelated, of variance one.

    Parameters
    ----------
    images : Tensor
        Pictures of shape (count, channels, height, width).
    floor : float
        Added to the variances, so that directions without variance are not magnified.

    Returns
    -------
    Tensor
        Filters of shape (4 · channels, channels, 2, 2).

    Examples
    --------
    >>> whitening_filters(torch.rand(10, 3, 32, 32)).shape
    torch.Size([12, 3, 2, 2])

    """
    channels = images.shape[1]
    patches = images.unfold(2, PATCH, 1).unfold(3, PATCH, 1).permute(0, 2, 3, 1, 4, 5)
    rows = patches.reshape(-1, channels * PATCH**2).double()
    variances, directions = torch.linalg.eigh(rows.T @ rows / len(rows))
    filters: Tensor = (directions / torch.sqrt(variances + floor)).T.float()
    return filters.reshape(-1, channels, PATCH, PATCH)
