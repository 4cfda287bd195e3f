"""Several perceptrons of one shape side by side, their passes written out.

Of a small network most of the time goes into asking, not into computing. Here the layers of all of
them are asked at once, in memory that was laid out beforehand, and nothing is recorded to be
differentiated. Only the matrix products are one call for each network: the same call whatever
stands beside it, so that a network's numbers do not depend on its company, to the last bit. (One
product of many matrices gives other bits for one network than for several.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

WORD = (
    16  # numbers, and rows: products whose operands begin at multiples of them are computed alike
)

Layers = list[tuple[Tensor, Tensor]]  # weight (to, from) and bias (to,) of each layer


class StackedMLP:
    """Forward, backward and tangent of perceptrons with ReLU, each on labeled and unlabeled rows.

    `sizes` are those of the layers, `rows` how many labeled and unlabeled rows each network sees.
    Vectors as long as all parameters, of all networks, are (networks, padded length): `params`,
    `labeled_gradient`, `unlabeled_gradient`, and the `direction` of a tangent. Rows of all networks
    lie one below the other: `inputs`, `outputs`, `output_slope`, `output_tangent`; `labeled` and
    `unlabeled` say where whose rows are.

    >>> nets = StackedMLP((2, 3, 1), rows=[(4, 5), (4, 5)], like=torch.zeros(0))
    >>> _ = nets.inputs.fill_(1.0), nets.params.fill_(1.0)
    >>> nets.forward()
    >>> nets.outputs[nets.unlabeled[1]]
    tensor([[10.],
            [10.],
            [10.],
            [10.],
            [10.]])
    """

    def __init__(self, sizes: Sequence[int], rows: Sequence[tuple[int, int]], like: Tensor):
        self.sizes, self.length = tuple(sizes), sum((a + 1) * b for a, b in pairwise(sizes))
        shape = len(rows), _padded(self.length)
        self.params, self.direction = like.new_zeros(shape), like.new_zeros(shape)
        self.labeled_gradient, self.unlabeled_gradient = (like.new_zeros(shape) for _ in range(2))
        self.labeled: list[slice] = []
        self.unlabeled: list[slice] = []
        total = 0
        for labeled, unlabeled in rows:
            self.labeled.append(slice(total, total + labeled))
            self.unlabeled.append(slice(total + labeled, total + labeled + unlabeled))
            total += _padded(labeled + unlabeled)
        # Before each layer and after the last; the first slopes and tangents are not asked for.
        self._values, self._slopes, self._tangents = (
            [like.new_zeros(total, size) for size in sizes] for _ in range(3)
        )
        self._prepare()

    @property
    def inputs(self) -> Tensor:
        """The rows that the networks see."""
        return self._values[0]

    @property
    def outputs(self) -> Tensor:
        """What `forward` made of them."""
        return self._values[-1]

    @property
    def output_slope(self) -> Tensor:
        """The slope of the losses in the outputs, from which `backward` goes."""
        return self._slopes[-1]

    @property
    def output_tangent(self) -> Tensor:
        """How the outputs of unlabeled rows answer to a move of the parameters in `direction`."""
        return self._tangents[-1]

    def layers(self, vector: Tensor) -> Layers:
        """Views of one network's vector, in the order of `MLP.parameters()`."""
        found: Layers = []
        for inputs, outputs in pairwise(self.sizes):
            size = inputs * outputs
            weight, bias, vector = vector.tensor_split((size, size + outputs))
            found.append((weight.view(outputs, inputs), bias))
        return found

    def forward(self) -> None:
        """From `inputs` and `params` to `outputs`."""
        for place, products in enumerate(self._forward, 1):
            for bias, x, weight, out in products:
                torch.addmm(bias, x, weight, out=out)
            if place < len(self._forward):
                self._values[place].relu_()

    def backward(self) -> None:
        """From `output_slope` to the gradient of the labeled rows, and of the unlabeled ones."""
        for place in reversed(range(len(self._forward))):
            for slope, turned, x, weight, bias in self._gradients[place]:
                torch.mm(turned, x, out=weight)
                torch.sum(slope, 0, out=bias)
            if place:
                for slope, weight, out in self._back[place]:
                    torch.mm(slope, weight, out=out)
                _where_active(self._slopes[place], self._values[place])

    def tangent(self) -> None:
        """From `direction` to `output_tangent`: the Jacobian of each unlabeled row's outputs."""
        for place, products in enumerate(self._tangent, 1):
            for bias, x, moved, tangent, weight, out in products:
                torch.addmm(bias, x, moved, out=out)
                if place > 1:
                    out.addmm_(tangent, weight)
            if place < len(self._tangent):
                _where_active(self._tangents[place], self._values[place])

    def _prepare(self) -> None:
        """The operands of every product: views cost as much to make as small products to do."""
        depth = len(self.sizes) - 1
        self._forward: list[list[tuple[Tensor, ...]]] = [[] for _ in range(depth)]
        self._gradients: list[list[tuple[Tensor, ...]]] = [[] for _ in range(depth)]
        self._back: list[list[tuple[Tensor, ...]]] = [[] for _ in range(depth)]
        self._tangent: list[list[tuple[Tensor, ...]]] = [[] for _ in range(depth)]
        for number, (labeled, unlabeled) in enumerate(
            zip(self.labeled, self.unlabeled, strict=True)
        ):
            both, there = slice(labeled.start, unlabeled.stop), self.layers(self.direction[number])
            for place, (weight, bias) in enumerate(self.layers(self.params[number])):
                x, y = self._values[place], self._values[place + 1]
                slope, before = self._slopes[place + 1], self._slopes[place]
                self._forward[place].append((bias, x[both], weight.t(), y[both]))
                self._back[place].append((slope[both], weight, before[both]))
                if unlabeled.start < unlabeled.stop:
                    tangents, (moved, shift) = self._tangents, there[place]
                    self._tangent[place].append(
                        (
                            shift,
                            x[unlabeled],
                            moved.t(),
                            tangents[place][unlabeled],
                            weight.t(),
                            tangents[place + 1][unlabeled],
                        )
                    )
            for rows, gradient in self._halves(number):
                for place, (weight, bias) in enumerate(self.layers(gradient)):
                    slope, x = self._slopes[place + 1][rows], self._values[place][rows]
                    self._gradients[place].append((slope, slope.t(), x, weight, bias))

    def _halves(self, number: int) -> Iterator[tuple[slice, Tensor]]:
        """The rows of one network that there are, each with the gradient that they make."""
        yield self.labeled[number], self.labeled_gradient[number]
        if self.unlabeled[number].start < self.unlabeled[number].stop:
            yield self.unlabeled[number], self.unlabeled_gradient[number]


def _where_active(slope: Tensor, value: Tensor) -> None:
    """Through ReLU, in place: nothing passes where its value is 0."""
    torch.ops.aten.threshold_backward.grad_input(slope, value, 0, grad_input=slope)


def _padded(count: int) -> int:
    return -(-count // WORD) * WORD
