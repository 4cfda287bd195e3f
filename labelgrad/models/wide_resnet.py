"""Wide residual networks as the evaluation protocol of Oliver et al. (2018) has them."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

SLOPE = 0.1  # of the leaky ReLU
MOMENTUM, EPSILON = 1e-3, 1e-3  # of batch norm; the momentum is one minus the protocol's decay


class WideResNet(nn.Module):
    """WRN-depth-width: a stem and three groups of pre-activation residual units.

    For a CPU, a stem of stride 2 halves the images at once, which takes a quarter of the time. A
    short run wants a larger `momentum`: the protocol's averages go back over a thousand steps.

    >>> network = WideResNet(28, 2, classes=10)
    >>> sum(p.numel() for p in network.parameters())
    1467610
    """

    def __init__(
        self,
        depth: int = 28,
        width: int = 2,
        *,
        classes: int = 10,
        channels: int = 3,
        stem_stride: int = 1,
        momentum: float = MOMENTUM,
    ):
        super().__init__()
        units, remainder = divmod(depth - 4, 6)
        if remainder or units < 1:
            raise ValueError(f"`depth` must be 6·n + 4 (10, 16, 22, 28 …), got {depth}.")
        sizes = [16, 16 * width, 32 * width, 64 * width]
        self.stem = _conv(channels, sizes[0], 3, stem_stride)
        self.groups = nn.Sequential(
            *(_group(sizes[i], sizes[i + 1], units, first=i == 0) for i in range(3))
        )
        self.norm = _norm(sizes[3])
        self.head = nn.Linear(sizes[3], classes)
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = momentum

    def forward(self, x: Tensor) -> Tensor:
        features = self.norm(self.groups(self.stem(x)))
        logits: Tensor = self.head(F.leaky_relu(features, SLOPE).mean((2, 3)))
        return logits


class ResidualUnit(nn.Module):
    """Two 3×3 convolutions around a shortcut, each after a norm and a leaky ReLU.

    Where the width changes, the shortcut is a 1×1 convolution. In the network's first unit the
    activation comes before the split, so the shortcut sees it too.
    """

    def __init__(self, inner: int, outer: int, stride: int, *, activate_before_split: bool):
        super().__init__()
        self.activate_before_split = activate_before_split
        self.norm1, self.conv1 = _norm(inner), _conv(inner, outer, 3, stride)
        self.norm2, self.conv2 = _norm(outer), _conv(outer, outer, 3)
        self.shortcut = _conv(inner, outer, 1, stride) if inner != outer else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        active = F.leaky_relu(self.norm1(x), SLOPE)
        inner = F.leaky_relu(self.norm2(self.conv1(active)), SLOPE)
        residual: Tensor = self.conv2(inner)
        shortcut: Tensor = self.shortcut(active if self.activate_before_split else x)
        return shortcut + residual


def _group(inner: int, outer: int, units: int, *, first: bool) -> nn.Sequential:
    head = ResidualUnit(inner, outer, 1 if first else 2, activate_before_split=first)
    rest = (ResidualUnit(outer, outer, 1, activate_before_split=False) for _ in range(units - 1))
    return nn.Sequential(head, *rest)


def _conv(inner: int, outer: int, size: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(inner, outer, size, stride, padding=size // 2, bias=False)
    nn.init.normal_(conv.weight, std=math.sqrt(2 / (size * size * outer)))
    return conv


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=EPSILON, momentum=MOMENTUM)
