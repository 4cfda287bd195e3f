"""Label gradient alignment (Jackson & Schulman, 2019), Algorithm 1.

Every unlabeled example has a label of its own, y = f(w), and the model is trained on those:

    g_ℓ = ∇θ L(θ, x_ℓ, y_ℓ)        where the true labels pull the model
    g_u = ∇θ L(θ, x_u, f(w))       where the imputed labels pull it
    g_θ = g_u + T(i)·g_ℓ           what Adam descends in θ
    g_w = ∇w ‖EMA(g_ℓ) − g_u‖²     what Adam descends in w, in the normalized metric

This file is g_u and g_w. T(i)·g_ℓ is another term: `T * Supervised() + LGA(...)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labelgrad.functional import cosine, with_gradient
from labelgrad.labels.evidence import METRIC_POWER
from labelgrad.labels.gap import Gap
from labelgrad.labels.slope import SLOPES, forward_mode
from labelgrad.labels.table import LabelTable
from labelgrad.losses import CrossEntropy, Loss
from labelgrad.objective import Objective
from labelgrad.schedules import Schedule, describe
from labelgrad.step import Step


class LGA(Objective):
    """The loss of labels that learn to pull the model the way the true ones do.

    `rows` is how many unlabeled examples there are, `width` how many numbers a label has: the
    classes, or the targets of a regression (then with `loss=SquaredError()`). The labels learn at
    `label_rate`; `gradient_decay` and `moment_decay` smooth g_ℓ and the metric, which is close
    to Euclidean when `epsilon` is large. The slope of the labels is exact by `"forward-mode"`,
    cheaper and approximate by `"finite-difference"`. With `betas=None` the labels learn by plain
    gradient descent instead of Adam. With a `folder` the label table is a file.

    That is Algorithm 1. With `evidence`, a number such as 5, the labels learn without a rate: they
    are the evidence of their slopes, times this number, in a metric nearer to the Euclidean one
    (`labelgrad.labels.evidence`).

    A weight scales the pull on the model alone: `0 * LGA(...)` still learns its labels.

    >>> from labelgrad import Supervised
    >>> lga = LGA(rows=1397, width=4)
    >>> method = 0.1 * Supervised() + lga
    >>> lga.table.labels(torch.tensor([0]))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    def __init__(
        self,
        rows: int,
        width: int,
        *,
        loss: Loss | None = None,
        label_rate: float | Schedule = 0.1,
        gradient_decay: float = 0.9,
        moment_decay: float = 0.99,
        epsilon: float = 1e-9,
        betas: tuple[float, float] | None = (0.9, 0.999),
        evidence: float | None = None,
        slope: str = "forward-mode",
        folder: str | Path | None = None,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__()
        if slope not in SLOPES:
            raise ValueError(f"`slope` must be one of {', '.join(SLOPES)}, got {slope!r}.")
        self.loss: Loss = CrossEntropy() if loss is None else loss
        self.slope = SLOPES[slope]
        unused = ("evidence",) if evidence is None else ("label_rate", "betas")
        every: dict[str, Any] = {
            "rows": rows,
            "width": width,
            "loss": self.loss,
            "label_rate": label_rate,
            "gradient_decay": gradient_decay,
            "moment_decay": moment_decay,
            "epsilon": epsilon,
            "betas": betas,
            "evidence": evidence,
            "slope": slope,
        }
        self.settings = {name: value for name, value in every.items() if name not in unused}
        self.gap = Gap(
            gradient_decay=gradient_decay,
            moment_decay=moment_decay,
            epsilon=epsilon,
            power=0.5 if evidence is None else METRIC_POWER,
        )
        self.table = LabelTable(
            rows,
            width,
            loss=self.loss,
            rate=label_rate,
            betas=betas,
            evidence=evidence,
            folder=folder,
            dtype=dtype,
        )

    def forward(self, step: Step) -> Tensor:
        self._check_width(step.unlabeled_outputs)
        drawn = self.table.draw(step.unlabeled.rows)
        loss = self.loss(step.unlabeled_outputs, drawn.labels.to(step.unlabeled_outputs))
        pull = step.gradient(loss)
        gap, scaled = self.gap(step.labeled_gradient, pull)
        self.table.update(drawn, 2 / len(drawn.labels) * self.slope(step, scaled))
        step.report("gap", gap.norm())
        step.report("cosine", cosine(step.labeled_gradient, pull))
        return with_gradient(loss, pull, step.params)

    def begin(self, model: nn.Module, loss: Loss, rows: int) -> None:
        if loss != self.loss:
            raise ValueError(f"LGA was built with loss={self.loss}, and is to train with {loss}.")
        if rows != self.table.rows:
            raise ValueError(
                f"LGA needs one label for each unlabeled example: its table has "
                f"{self.table.rows} rows, and the data {rows}; build it with rows={rows}."
            )
        # Remembering costs some microseconds an operation: convolutions are worth it, small
        # perceptrons are not.
        self.replays = self.slope is forward_mode and any(
            isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) for module in model.modules()
        )

    def measure(self, truth: Tensor) -> dict[str, float]:
        labels = self.table.labels().to(truth.device)
        if truth.dtype.is_floating_point:
            distance = (labels - truth.reshape_as(labels)).square().mean().sqrt()
            return {"imputed_rmse": float(distance)}
        return {"imputed_accuracy": float((labels.argmax(-1) == truth).double().mean())}

    def after_checkpoint(self) -> None:
        self.table.after_checkpoint()

    def _check_width(self, outputs: Tensor) -> None:
        if outputs.shape[1:] != (self.table.width,):
            raise ValueError(
                f"LGA's labels must be as wide as the model's outputs: its table has "
                f"{self.table.width} columns, and the outputs the shape {tuple(outputs.shape)}."
            )

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={describe(value)}" for name, value in self.settings.items())
