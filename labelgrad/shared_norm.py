"""Batch norm over the batch of all processes, so that several normalize as one would.

PyTorch's own `SyncBatchNorm` needs a GPU and has no forward mode, which LGA's slope needs. Here
every process gathers the mean and the spread of all parts, which can be differentiated in both
modes, and normalizes by what they come to. The model is not touched: while `SharedNorm` is on,
`F.batch_norm` is this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from labelgrad.distributed import Group


class SharedNorm(TorchFunctionMode):
    """While it is on, batch norm in training sees the examples of all processes.

    The last `leave_out` examples, which stand in for a part that is empty, do not count.

    >>> from labelgrad.distributed import ALONE
    >>> layer, x = nn.BatchNorm1d(2), torch.randn(5, 2)
    >>> with SharedNorm(ALONE):
    ...     shared = layer(x)
    >>> torch.allclose(shared, nn.BatchNorm1d(2)(x), atol=1e-6)
    True
    """

    def __init__(self, group: Group, *, leave_out: int = 0):
        super().__init__()
        self._group, self._leave_out = group, leave_out

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.batch_norm and kwargs.get("training"):
            return self._batch_norm(*args, **kwargs)
        return func(*args, **kwargs)

    def _batch_norm(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_variance: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        momentum: float,
        eps: float,
        **_: Any,
    ) -> Tensor:
        full = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        mean, variance, count = self._statistics(full)
        if running_mean is not None and running_variance is not None:
            with torch.no_grad():
                unbiased = _plain(variance) * (count / max(1.0, count - 1))
                running_mean.lerp_(_plain(mean).to(running_mean), momentum)
                running_variance.lerp_(unbiased.to(running_variance), momentum)
        shape = 1, -1, *[1] * (x.ndim - 2)  # of a number for each channel
        scale = (variance + eps).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = -mean * scale if bias is None else bias - mean * scale
        # One operation on all of x: what it costs is to go through memory.
        return torch.addcmul(shift.view(shape), full, scale.view(shape)).to(x.dtype)

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor, float]:
        """Mean and variance of each channel, and of how many numbers each is one."""
        others = [dim for dim in range(x.ndim) if dim != 1]
        counted = len(x) - self._leave_out
        own = x.new_full((x.shape[1],), counted * x[0, 0].numel())
        variance, mean = torch.var_mean(x[: counted or 1], others, correction=0)
        parts = self._group.gather(torch.stack([own, mean, variance]))  # (processes, 3, channels)
        counts, means, variances = parts.unbind(1)
        counts = _plain(counts.detach())
        share = counts / counts.sum(0)
        mean = (share * means).sum(0)
        variance = (share * (variances + (means - mean).square())).sum(0)
        return mean, variance, float(counts.sum(0)[0])


def has_batch_norm(model: nn.Module) -> bool:
    """Whether a model has a layer that sees the batch as a whole.

    >>> has_batch_norm(nn.Linear(2, 2)), has_batch_norm(nn.Sequential(nn.BatchNorm1d(2)))
    (False, True)
    """
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())


def _plain(value: Tensor) -> Tensor:
    """A number without its tangent."""
    return forward_ad.unpack_dual(value).primal if forward_ad._current_level >= 0 else value
