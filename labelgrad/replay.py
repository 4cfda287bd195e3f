"""A pass remembered, so that repeating it in forward mode takes two thirds of the time.

Where x and w move by ẋ and ẇ, a product p = w∗x moves by ṗ = w∗ẋ + ẇ∗x: a forward-mode pass
computes three products for each layer, and p itself is known from the pass it repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

PRODUCTS = {torch.conv1d, torch.conv2d, torch.conv3d, F.linear}


class Product(NamedTuple):
    """What a layer gave, and how to tell whether it still holds."""

    value: Tensor
    version: int  # counts the writes into `value`
    weight: int  # where the layer's weight lies

    def holds(self, weight: Tensor) -> bool:
        """Whether nothing was written into it since, and it is of this weight."""
        return self.value._version == self.version and weight.data_ptr() == self.weight


class Remembering(TorchFunctionMode):
    """While it is on, the products of all layers are kept, in their order.

    >>> layer = torch.nn.Linear(3, 2)
    >>> with Remembering() as memory:
    ...     outputs = layer(torch.ones(4, 3))
    >>> [product.value.shape for product in memory.products]
    [torch.Size([4, 2])]
    """

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in PRODUCTS and len(args) > 1:
            self.products.append(Product(result.detach(), result._version, args[1].data_ptr()))
        return result


class Replaying(TorchFunctionMode):
    """While it is on, in forward mode, each remembered product is taken as it was."""

    def __init__(self, products: list[Product]) -> None:
        super().__init__()
        self._products = iter(products)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        known = next(self._products, None) if func in PRODUCTS and len(args) > 1 else None
        if known is None or kwargs or not known.holds(args[1]):
            return func(*args, **(kwargs or {}))
        change = _change(func, *args)
        return known.value if change is None else forward_ad.make_dual(known.value, change)


def _change(
    func: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor | None = None, *rest: Any
) -> Tensor | None:
    """How the product changes: w∗ẋ + ẇ∗x + ḃ, or nothing where nothing moves."""
    (x, x_moves), (weight, weight_moves) = forward_ad.unpack_dual(x), forward_ad.unpack_dual(weight)
    bias_moves = None if bias is None else forward_ad.unpack_dual(bias).tangent
    change = None if x_moves is None else func(x_moves, weight, None, *rest)
    if weight_moves is None and bias_moves is not None:
        weight_moves = torch.zeros_like(weight)
    if weight_moves is None:
        return change
    own = func(x, weight_moves, bias_moves, *rest)
    return own if change is None else change + own
