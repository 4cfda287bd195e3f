"""Linear heads by LGA in the Euclidean metric, one for each version of the labels, all at once.

Of a linear head both gradients are sums of rows, g_ℓ = X_ℓᵀ R_ℓ and g_u = X_uᵀ R_u with
R = (p − y)/n, and a row's read-out answers to the gap v by x·v. Where the true labels speak through
the gap alone (T = 0) and the metric is Euclidean, neither g_ℓ nor v is needed, only products of
rows:

    X_u v = X_u X_ℓᵀ EMA(R_ℓ) − X_u X_uᵀ R_u

So what is left of a step are three matrix products, in which the versions of the labels stand side
by side: they draw the same rows, and differ in which labels they know. The numbers are those of
`Recipe(MLP(columns, (), classes), LGA(..., rule=Evidence(1.0), power=0), ...)` with weights that
begin at zero, but for rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from labelgrad.labels.evidence import Evidence
from labelgrad.losses import CrossEntropy
from labelgrad.training.batches import Shuffle
from labelgrad.training.trainer import ADAM

LEARNING_RATE, BATCH = 3e-4, 50
SCALE = 1.0  # of the evidence
GRADIENT_DECAY = 0.9


class LinearHeads:
    """Linear heads that advance together, one for each version of the labels.

    `x` is (rows, columns) of about unit spread; `labels` is (versions, rows), -1 where a version
    knows none. Rows that have a label in some version are drawn as labeled ones, and count in those
    versions that know it; `unlabeled` says which rows have imputed labels. The bias is the weight
    of a `constant`, one for all or one for each version: the larger it is, the faster the bias.

    >>> x = torch.tensor([[-1.0], [1.0], [-0.9], [0.8]])
    >>> labels = torch.tensor([[0, 1, -1, -1], [1, 0, -1, -1]])
    >>> heads = LinearHeads(x, labels, classes=2, unlabeled=torch.tensor([2, 3]))
    >>> for _ in range(20):
    ...     heads.step()
    >>> heads.outputs(x).argmax(-1)
    tensor([[0, 1],
            [1, 0],
            [0, 1],
            [1, 0]])
    """

    def __init__(
        self,
        x: Tensor,
        labels: Tensor,
        classes: int,
        *,
        unlabeled: Tensor,
        constant: Tensor | float = 1.0,
        learning_rate: float = LEARNING_RATE,
        scale: float = SCALE,
        batch_size: int = BATCH,
        seed: int = 0,
    ):
        known = (labels >= 0).any(0).nonzero().squeeze(1)
        if not len(known) or not len(unlabeled):
            raise ValueError(
                f"linear heads by LGA need labeled and unlabeled rows, got {len(known)} and "
                f"{len(unlabeled)}."
            )
        self.versions, self.classes, self.index = len(labels), classes, 0
        self.labeled, self.unlabeled, self.loss = x[known], x[unlabeled], CrossEntropy()
        width = self.versions * classes
        self.weight, self.bias = x.new_zeros(x.shape[1], width), x.new_zeros(width)
        self.constant = (torch.ones(self.versions) * constant).to(x).repeat_interleave(classes)
        self.weight.grad, self.bias.grad = (
            torch.zeros_like(self.weight),
            torch.zeros_like(self.bias),
        )
        self.optimizer = ADAM([self.weight, self.bias], lr=learning_rate)
        mine = labels[:, known].t()  # (labeled, versions)
        self._knows = (mine >= 0).to(x.dtype).unsqueeze(2)
        self._truth = F.one_hot(mine.clamp_min(0), classes).to(x.dtype) * self._knows
        self._near = self.unlabeled @ self.labeled.t()
        self._pull, self._pull_weight = x.new_zeros(len(known), width), 0.0  # EMA(R_ℓ)
        self.rule = Evidence(scale)
        self.values = x.new_zeros(len(unlabeled), self.versions, 3, classes)  # as in a `LabelTable`
        self._orders = (
            Shuffle(len(known), min(batch_size, len(known)), seed, 1),
            Shuffle(len(unlabeled), min(batch_size, len(unlabeled)), seed, 0),
        )

    @torch.no_grad()
    def step(self) -> None:
        """Move all heads, and the labels of the rows that are drawn, once."""
        seen, drawn = (order.places(self.index) for order in self._orders)
        x = self.unlabeled[drawn]
        chances = self.outputs(torch.cat([self.labeled[seen], x])).softmax(-1)
        true, imputed = chances[: len(seen)], chances[len(seen) :]  # each (rows, versions, classes)
        labels = self.loss.impute(self.values[drawn, :, 0])
        residual = ((imputed - labels) / len(drawn)).flatten(1)
        slope = self._answers(seen, drawn, x, true, residual)
        slope = slope - (imputed * slope).sum(-1, keepdim=True)
        self._weigh(drawn, self.loss.pull_back(2 / len(drawn) * slope, labels))
        torch.mm(x.t(), residual, out=self.weight.grad)
        torch.mul(self.constant, residual.sum(0), out=self.bias.grad)
        self.optimizer.step()
        self.index += 1

    def outputs(self, x: Tensor) -> Tensor:
        """What the heads make of rows: (rows, versions, classes)."""
        return self._by_version(torch.addmm(self.constant * self.bias, x, self.weight))

    def _answers(
        self, seen: Tensor, drawn: Tensor, x: Tensor, chances: Tensor, residual: Tensor
    ) -> Tensor:
        """How the outputs of drawn rows answer to a move by the gap: (rows, versions, classes)."""
        knows = self._knows[seen]
        pulls = (chances * knows - self._truth[seen]) / knows.sum(0).clamp_min(1)
        self._pull.mul_(GRADIENT_DECAY).index_add_(
            0, seen, pulls.flatten(1), alpha=1 - GRADIENT_DECAY
        )
        self._pull_weight += (1 - GRADIENT_DECAY) * (1 - self._pull_weight)
        part = 1 / self._pull_weight
        labeled = self._near[drawn] @ self._pull
        answers = torch.addmm(labeled, x @ x.t(), residual, beta=part, alpha=-1)
        answers += self.constant.square() * (part * self._pull.sum(0) - residual.sum(0))
        return self._by_version(answers)

    def _by_version(self, columns: Tensor) -> Tensor:
        return columns.view(len(columns), self.versions, self.classes)

    def _weigh(self, drawn: Tensor, slope: Tensor) -> None:
        """One slope more for each drawn row of each version; a row drawn twice gets their sum."""
        rows, place = drawn.unique(return_inverse=True)
        summed = slope.new_zeros(len(rows), *slope.shape[1:]).index_add_(0, place, slope)
        values = self.values[rows]
        self.rule.step(values.flatten(0, 1), summed.flatten(0, 1), self.index + 1, self.loss)
        self.values[rows] = values
