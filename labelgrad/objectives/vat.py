"""Virtual adversarial training (Miyato et al., 2018).

The prediction should not change under the small change of the input that changes it most:

    r = argmax KL(p(x) ‖ p(x + r))  with  ‖r‖ = ε        found by a step of power iteration
    loss = KL(p(x) ‖ p(x + r))
"""

from __future__ import annotations

import torch
from torch import Tensor

from labelgrad.functional import divergence, unit
from labelgrad.methods import Problem, SearchRange, register
from labelgrad.objective import Objective
from labelgrad.step import Step


class VAT(Objective):
    """How far the prediction moves in the worst direction, at distance `eps`.

    `xi` is how far the power iteration feels around, `power_iterations` how often. Without an `xi`
    it is 3·√precision: 1e-3 in single precision, 0.27 under bfloat16. The protocol's 1e-6 is lost
    in rounding when single-precision inputs are of order one.

    >>> VAT(eps=6.0)
    VAT(eps=6.0, xi=None, power_iterations=1)
    """

    shares_graph = False

    def __init__(self, eps: float = 6.0, *, xi: float | None = None, power_iterations: int = 1):
        super().__init__()
        if not (eps > 0 and (xi is None or xi > 0) and power_iterations >= 1):
            given = f"{eps}, {xi}, {power_iterations}"
            raise ValueError(f"VAT needs positive `eps`, `xi` and `power_iterations`, got {given}.")
        self.eps, self.xi, self.power_iterations = eps, xi, power_iterations

    def forward(self, step: Step) -> Tensor:
        x, clean = step.unlabeled.x, step.unlabeled_outputs.detach()
        return divergence(clean, step.extra_forward(x + self.eps * self.direction(step, x, clean)))

    def direction(self, step: Step, x: Tensor, clean: Tensor) -> Tensor:
        """For each example, the unit change of the input that changes the prediction most."""
        direction = unit(step.noise())
        xi = 3 * step.precision**0.5 if self.xi is None else self.xi
        for _ in range(self.power_iterations):
            nudge = (xi * direction).requires_grad_()
            # Batch norm lets other processes' examples speak: each counts by its share.
            apart = step.weighed(divergence(clean, step.extra_forward(x + nudge)))
            (slope,) = torch.autograd.grad(apart, nudge)
            direction = unit(slope)
        return direction

    def extra_repr(self) -> str:
        return f"eps={self.eps}, xi={self.xi}, power_iterations={self.power_iterations}"


SEARCH = {"eps": SearchRange(2.0, 0.5, 8.0)}


@register("vat", "Miyato et al., 2018", 6, perturbs=True, search=SEARCH)
def vat(problem: Problem, weight: float = 0.3, eps: float = 6.0) -> Objective:
    """VAT with the protocol's weight, which rises."""
    return problem.rise(weight) * VAT(eps=eps)
