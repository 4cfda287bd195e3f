"""Networks by name, so that a few words in a file are enough to build one again."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import torch
from torch import nn

from labelgrad.models.mlp import MLP
from labelgrad.models.wide_resnet import WideResNet

HIDDEN = (128, 128)
MOMENTUM = 0.05  # of batch norm: the averages go back over twenty steps
LARGE = 24  # pixels; a stem of stride 2 halves such pictures at once
NAMES = "mlp, mlp-WIDTH-WIDTH…, or wrn-DEPTH-WIDTH such as wrn-10-1 and wrn-16-2"


def network(name: str, shape: Sequence[int], outputs: int) -> nn.Module:
    """The network of a name for examples of a shape; its first weights are drawn by PyTorch.

    >>> network("wrn-10-1", (1, 8, 8), 10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    >>> network("mlp-32", (5,), 1)(torch.zeros(2, 5)).shape
    torch.Size([2, 1])
    """
    sizes = [int(size) for size in re.findall(r"-(\d{1,4})(?=-|$)", name)]
    if re.fullmatch(r"mlp(-\d{1,4})*", name):
        plain = MLP(math.prod(shape), sizes or HIDDEN, outputs)
        return plain if len(shape) == 1 else nn.Sequential(nn.Flatten(), plain)
    if not re.fullmatch(r"wrn-\d{1,4}-\d{1,4}", name) or sizes[1] < 1:
        raise ValueError(f"`model` must be {NAMES}, got {name!r}.")
    if len(shape) != 3:
        raise ValueError(f"{name} is for pictures, and the data are a table; use `model` mlp.")
    depth, width = sizes
    model = WideResNet(
        depth,
        width,
        classes=outputs,
        channels=shape[0],
        stem_stride=2 if min(shape[1:]) >= LARGE else 1,
        momentum=MOMENTUM,
    )
    # Faster on a CPU and on a GPU; PyTorch's own annotations lack this form of the call.
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
