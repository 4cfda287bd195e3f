"""Label gradient alignment (Jackson & Schulman, 2019), Algorithm 1.

Every unlabeled example has a label of its own, y = f(w), and the model is trained on those:

    g_ℓ = ∇θ L(θ, x_ℓ, y_ℓ)        where the true labels pull the model
    g_u = ∇θ L(θ, x_u, f(w))       where the imputed labels pull it
    g_θ = g_u + T(i)·g_ℓ           what Adam descends in θ
    g_w = ∇w ‖EMA(g_ℓ) − g_u‖²     what Adam descends in w, in the normalized metric

This file is g_u (`forward`) and g_w (`update`). T(i)·g_ℓ is another term:
`T * Supervised() + LGA(...)`, with i counted from 0. What the paper leaves open is decided so: both
averages are bias-corrected and include the current value (`labels.alignment`), and batches are
drawn without replacement, each row once an epoch (`training.batches`).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labelgrad.distributed import Group
from labelgrad.functional import cosine, mean_of, with_gradient
from labelgrad.labels.alignment import SLOPES, Gap, forward_mode
from labelgrad.labels.rules import Evidence, LazyAdam, Rule, label_schedule
from labelgrad.labels.table import Drawn, LabelTable
from labelgrad.losses import CrossEntropy, Loss
from labelgrad.methods import Problem, SearchRange, register
from labelgrad.objective import Certainty, Labeled, Objective
from labelgrad.schedules import Ramp
from labelgrad.step import Step


class Pulled(NamedTuple):
    """What a batch's imputed labels were, and where they pull the model: g_u."""

    drawn: Drawn
    gradient: Tensor


class LGA(Objective):
    """The loss of labels that learn to pull the model the way the true ones do.

    `rows` is how many unlabeled examples there are, `width` how many numbers a label has: the
    classes, or the targets of a regression (then with `loss=SquaredError()`). How the labels move
    is their `rule`: `LazyAdam(0.1)` is the paper's Algorithm 1 at that rate, `SGD(1e-3)` its
    simplified form, `Evidence()` needs no rate (`labelgrad.labels.rules`).

    `gradient_decay` and `moment_decay` smooth g_ℓ and the metric, which is close to Euclidean when
    `epsilon` is large, and Euclidean when `power` is 0; without a `power` it is the rule's: ½, the
    paper's, or ¼ for evidence. The slope of the labels is exact by `"forward-mode"`, cheaper and
    approximate by `"finite-difference"`. With a `folder` the label table is
    memory-mapped from a file there (see `LabelTable`).

    A weight scales the pull on the model alone: `0 * LGA(...)` still learns its labels.

    >>> from labelgrad import Supervised
    >>> lga = LGA(rows=1397, width=4)
    >>> method = 0.1 * Supervised() + lga
    >>> lga.table.labels(torch.tensor([0]))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    shares_graph = False
    averaged = True
    owns_rows = True

    def __init__(  # noqa: PLR0913 - settings
        self,
        rows: int,
        width: int,
        *,
        rule: Rule | None = None,
        loss: Loss | None = None,
        gradient_decay: float = 0.9,
        moment_decay: float = 0.99,
        epsilon: float = 1e-9,
        power: float | None = None,
        slope: str = "forward-mode",
        folder: str | Path | None = None,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__()
        if slope not in SLOPES:
            raise ValueError(f"`slope` must be one of {', '.join(SLOPES)}, got {slope!r}.")
        self.loss: Loss = CrossEntropy() if loss is None else loss
        self.slope = SLOPES[slope]
        self.table = LabelTable(rows, width, loss=self.loss, rule=rule, folder=folder, dtype=dtype)
        power = self.table.rule.metric_power if power is None else power
        self.gap = Gap(
            gradient_decay=gradient_decay, moment_decay=moment_decay, epsilon=epsilon, power=power
        )
        self._slope_name = slope

    def forward(self, step: Step) -> Tensor:
        outputs, width = step.unlabeled_outputs, self.table.width
        if outputs.shape[1:] != (width,):
            raise ValueError(f"LGA(width={width}) needs so many outputs, got {outputs.shape}.")
        drawn = self.table.draw(step.unlabeled.rows)
        loss = step.weighed(self.loss(outputs, drawn.labels.to(outputs)))
        pull = step.gradient(loss)
        _ = step.labeled_gradient  # the update needs it, when the graphs are gone
        step.saved[self] = Pulled(drawn, pull)
        return with_gradient(loss, pull, step.params)

    def update(self, step: Step) -> None:
        parts, pulled = step.parts, [part.saved[self] for part in step.parts]
        labeled = mean_of([part.labeled_gradient for part in parts])
        pull = mean_of([each.gradient for each in pulled])
        gap, scaled = self.gap(labeled, pull)
        # Labels of other processes' rows are moved there.
        slopes = torch.cat([self.slope(part, scaled)[: len(part.own_rows)] for part in parts])
        drawn = pulled[0].drawn
        if len(slopes) != len(drawn.labels):  # of other parts, or of a row that only stood in
            drawn = self.table.draw(torch.cat([part.own_rows for part in parts]))
        count = sum(len(part.whole_unlabeled.x) for part in parts)
        self.table.update(drawn, 2 / count * slopes)
        step.report("gap", gap.norm())
        step.report("cosine", cosine(labeled, pull))

    def each(self, step: Step) -> Labeled:
        labels = step.saved[self].drawn.labels.to(step.unlabeled_outputs)
        losses = F.cross_entropy(step.unlabeled_outputs, labels, reduction="none")
        return Labeled(labels, losses)

    def join(self, group: Group) -> None:
        self.table.join(group)

    def begin(self, model: nn.Module, loss: Loss, rows: int) -> None:
        if loss != self.loss:
            raise ValueError(f"LGA was built with loss={self.loss}, and is to train with {loss}.")
        if rows != (own := self.table.rows):
            raise ValueError(f"LGA has {own} rows for {rows} examples; build it with rows={rows}.")
        # Remembering costs some microseconds an operation: convolutions are worth it, small
        # perceptrons are not.
        self.replays = self.slope is forward_mode and any(
            isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) for module in model.modules()
        )

    def measure(self, truth: Tensor) -> dict[str, float]:
        is_value, group = truth.dtype.is_floating_point, self.table.group
        total = torch.zeros((), dtype=torch.float64)
        for rows, labels in self.table.parts(own=True):
            labels, true = labels.cpu(), truth[rows].cpu()
            if is_value:
                total += (labels - true.reshape_as(labels)).double().square().mean(1).sum()
            else:
                total += (labels.argmax(-1) == true).sum()
        mean = float(group.size * group.average(total)) / self.table.rows
        return {"imputed_rmse": mean**0.5} if is_value else {"imputed_accuracy": mean}

    def extra_repr(self) -> str:
        table, gap = self.table, self.gap
        return (
            f"rows={table.rows}, width={table.width}, rule={table.rule!r}, loss={self.loss!r}, "
            f"gradient_decay={gap.labeled_gradient.decay}, moment_decay={gap.fourth_moment.decay}, "
            f"epsilon={gap.epsilon}, power={gap.power}, slope={self._slope_name!r}"
        )


# A term's passes: 3 for the gradient, 2 for the slope by forward mode, 2 for a second gradient.
T = 0.1  # the weight of the true labels, beside labels that hand over what those say
AS_FOUND = SearchRange(1.0, 1.0, 1.0)  # the weight of the true labels in a search: it stays
BY_SPEED = {"speed": SearchRange(0.4, 0.1, 1.0), "supervised.weight": AS_FOUND}
BY_SCALE = {"scale": SearchRange(5.0, 1.5, 15.0), "supervised.weight": AS_FOUND}
LINEAR = {"scale": SearchRange(1.0, 0.5, 2.0)}


@register("lga", "Jackson & Schulman, 2019", 5, supervised_weight=T, values=True, search=BY_SPEED)
def lga(problem: Problem, speed: float = 1.0) -> Objective:
    """`speed` is how fast the labels learn, in units of `label_schedule`."""
    size = problem.rows, problem.width
    rate = label_schedule(*size, problem.batch_size, problem.steps)
    rule = LazyAdam(Ramp(rate.steps, speed * rate.top))
    return LGA(*size, loss=problem.loss, rule=rule, slope=problem.slope)


@register(
    "lga-certain",
    "LGA with labels that count by their certainty: ours",
    7,
    supervised_weight=T,
    search=BY_SPEED,
)
def lga_certain(problem: Problem, speed: float = 1.0) -> Objective:
    """LGA whose labels pull the model where they know something, each by its certainty."""
    return Certainty() * lga(problem, speed)


@register(
    "lga-evidence", "LGA without a rate: ours", 5, supervised_weight=T, values=True, search=BY_SCALE
)
def lga_evidence(
    problem: Problem, scale: float | None = None, power: float | None = None
) -> Objective:
    """Labels without a rate; `scale` is how much their evidence weighs, `power` is the metric's."""
    rule, slope = Evidence(scale), problem.slope
    return LGA(problem.rows, problem.width, loss=problem.loss, rule=rule, power=power, slope=slope)


@register(
    "lga-linear", "LGA for linear heads on features: ours", 5, supervised_weight=0.0, search=LINEAR
)
def lga_linear(problem: Problem, scale: float = 1.0, power: float = 0.0) -> Objective:
    """Evidence in the Euclidean metric; the true labels speak through the gap alone (T = 0)."""
    return lga_evidence(problem, scale, power)
