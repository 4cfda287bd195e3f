"""Tensors in, tensors out: the few operations every objective leans on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor

process_wide = RLock()  # held by who uses what PyTorch has once for all threads: its own generator,
# and the level of forward mode


def flatten(tensors: Iterable[Tensor]) -> Tensor:
    """Lay tensors end to end in one vector.

    >>> flatten([torch.ones(2, 2), torch.zeros(3)])
    tensor([1., 1., 1., 1., 0., 0., 0.])
    """
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def unflatten(vector: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Cut a vector into views shaped and named as in `like`: the inverse of `flatten`.

    >>> unflatten(torch.arange(3.0), {"weight": torch.zeros(1, 2), "bias": torch.zeros(1)})
    {'weight': tensor([[0., 1.]]), 'bias': tensor([2.])}
    """
    pieces = vector.split([tensor.numel() for tensor in like.values()])
    return {
        name: piece.view_as(tensor)
        for (name, tensor), piece in zip(like.items(), pieces, strict=True)
    }


def flat_gradient(loss: Tensor, params: Mapping[str, Tensor], *, keep_graph: bool = True) -> Tensor:
    """The gradient of `loss` in all of `params`, as one vector; the graph can be kept for others.

    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> flat_gradient((w**2).sum(), {"w": w})
    tensor([2., 4.])
    """
    tensors = list(params.values())
    gradients = torch.autograd.grad(loss, tensors, retain_graph=keep_graph, allow_unused=True)
    return flatten(
        torch.zeros_like(tensor) if gradient is None else gradient
        for tensor, gradient in zip(tensors, gradients, strict=True)
    )


def with_gradient(loss: Tensor, gradient: Tensor, params: Mapping[str, Tensor]) -> Tensor:
    """The value of `loss`, with `gradient` for its derivative: work already done is not redone.

    >>> w = torch.tensor([3.0], requires_grad=True)
    >>> loss = with_gradient(torch.tensor(5.0), torch.tensor([0.5]), {"w": w})
    >>> (2 * loss).backward()
    >>> loss.item(), w.grad.item()
    (5.0, 1.0)
    """
    apply: Callable[..., Tensor] = _WithGradient.apply
    return apply(loss.detach(), gradient, *params.values())


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, gradient: Tensor, *params: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        ctx.shapes = [param.shape for param in params]
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        pieces = (outer[0] * gradient).split([shape.numel() for shape in ctx.shapes])
        return None, None, *(p.view(s) for p, s in zip(pieces, ctx.shapes, strict=True))


def mean_of(tensors: Sequence[Tensor]) -> Tensor:
    """The mean of tensors of one shape; one alone is given as it is.

    >>> mean_of([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])])
    tensor([2., 3.])
    """
    return tensors[0] if len(tensors) == 1 else torch.stack(list(tensors)).mean(0)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of the angle between two vectors; 0 where one of them vanishes.

    >>> cosine(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]))
    tensor(0.7071)
    """
    return torch.nan_to_num(a @ b / (a.norm() * b.norm()))


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) of the distributions that two sets of logits stand for, averaged over rows.

    >>> logits = torch.tensor([[0.0, 0.0]])
    >>> divergence(logits, logits), divergence(logits, logits + torch.tensor([[1.0, 0.0]]))
    (tensor(0.), tensor(0.1201))
    """
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean()


def unit(x: Tensor) -> Tensor:
    """Each example scaled to length one; one that is zero stays zero.

    >>> unit(torch.tensor([[3.0, 4.0], [3e-30, 4e-30], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    flat, tiny = x.flatten(1), torch.finfo(x.dtype).tiny
    # The squares of small numbers underflow, so the largest is brought to one first.
    flat = flat / flat.abs().amax(1, keepdim=True).clamp_min(tiny)
    length: Tensor = flat.norm(dim=1, keepdim=True)
    return (flat / length.clamp_min(tiny)).view_as(x)


def normal_like(x: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Gaussian noise of the shape of `x`, from a generator of one's own.

    >>> one, two = (torch.Generator().manual_seed(0) for _ in range(2))
    >>> torch.equal(normal_like(torch.ones(3), one), normal_like(torch.ones(3), two))
    True
    """
    return torch.empty_like(x).normal_(generator=generator)


def mixed_seed(*parts: int) -> int:
    """One seed out of several numbers, such that no two lists of numbers share a stream.

    >>> mixed_seed(1, 2) == mixed_seed(1, 2), mixed_seed(1, 2) == mixed_seed(2, 1)
    (True, False)
    """
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def random_numbers(device: torch.device, start: Tensor | int) -> Iterator[torch.Generator]:
    """Have PyTorch draw from a seed or state inside the block, and go on as before after it.

    Its generator is one for the whole process, so one thread at a time can be in such a block.

    >>> with random_numbers(torch.device("cpu"), 7):
    ...     first = torch.rand(2)
    >>> with random_numbers(torch.device("cpu"), 7):
    ...     torch.equal(first, torch.rand(2))
    True
    """
    # `torch.manual_seed` would do, but it records a stack trace for the GPUs it might meet later.
    generator = torch.default_generator
    if device.type == "cuda":
        torch.cuda.init()
        index = torch.cuda.current_device() if device.index is None else device.index
        generator = torch.cuda.default_generators[index]
    with process_wide:
        before = generator.get_state()
        generator.manual_seed(start) if isinstance(start, int) else generator.set_state(start)
        try:
            yield generator
        finally:
            generator.set_state(before)


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Use one thread where products are so small that threads would only wait for each other."""
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    with threadpool_limits(1 if wanted else None):
        torch.set_num_threads(1 if wanted else threads)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
