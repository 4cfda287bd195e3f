"""The sharpest direction of a loss, and how far a gradient lies along it.

The paper calls the cosine of an update with the principal eigenvector of the Hessian of the test
loss its alignment. The Hessian is never formed: an eigensolver asks for its products with vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelgrad.functional import cosine, flatten

BASIS = 5  # vectors the eigensolver keeps: the top eigenvalue stands well apart from the others


def hessian_product(loss: Tensor, params: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """The map v ↦ ∇²loss·v, for the price of two gradients a vector.

    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> hessian_product((w**3).sum(), {"w": w})(torch.tensor([1.0, 1.0]))
    tensor([ 6., 12.])
    """
    tensors = list(params.values())
    gradients = torch.autograd.grad(loss, tensors, create_graph=True)
    gradient = flatten(gradients)

    def product(vector: Tensor) -> Tensor:
        return flatten(torch.autograd.grad(gradient, tensors, vector, retain_graph=True))

    return product


def top_eigenvector(
    loss: Tensor,
    params: Mapping[str, Tensor],
    *,
    start: Tensor | None = None,
    tolerance: float = 1e-3,
) -> tuple[float, Tensor]:
    """The largest eigenvalue of the Hessian of `loss`, and its eigenvector.

    A `start` near the answer, such as the eigenvector some steps ago, saves products.

    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> value, vector = top_eigenvector((w**3).sum(), {"w": w})
    >>> round(value, 3), vector.abs().round(decimals=3)
    (12.0, tensor([0., 1.]))
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    product = hessian_product(loss, params)

    def multiply(vector: Any) -> Any:
        return product(torch.as_tensor(vector.reshape(-1)).to(loss)).cpu().numpy()

    size = sum(tensor.numel() for tensor in params.values())
    dtype = np.dtype(str(loss.dtype).removeprefix("torch."))
    first = np.ones(size, dtype) if start is None else start.cpu().numpy()
    operator = LinearOperator((size, size), matvec=multiply, dtype=dtype)
    basis = min(BASIS, size)
    values, vectors = eigsh(operator, k=1, which="LA", v0=first, ncv=basis, tol=tolerance)
    return float(values[0]), torch.as_tensor(vectors[:, 0]).to(loss)


def alignment(gradient: Tensor, eigenvector: Tensor) -> float:
    """How much of a gradient lies along the sharpest direction: |cos|, the paper's Equation 10.

    >>> alignment(torch.tensor([0.0, -2.0]), torch.tensor([0.0, 1.0]))
    1.0
    """
    return float(cosine(gradient, eigenvector).abs())
