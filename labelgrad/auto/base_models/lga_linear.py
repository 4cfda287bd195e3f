"""LGA in the setting that its paper analyses: a linear head on fixed features.

The head starts at zero and learns from imputed labels alone, whose gradient is aligned with that of
the true labels in the Euclidean metric. LGA and supervised training converge to the same point;
what differs is which directions are learned first, so early stopping decides. One run gives a whole
path. The step and the scale of the logits are those of the lowest loss in an inner
cross-validation.

The bias is the weight of a constant input, half as long as an example. Where a rare class has as
many labels as the others, the bias has far to go; then the constant is larger.

The paths of the inner folds advance together. For a linear head both gradients are sums over
examples, g_ℓ = X_ℓᵀ R_ℓ and g_u = X_uᵀ R_u with R = (p − y)/n, and the outputs of an example answer
to the gap v by x·v. With the Euclidean metric only products of examples are needed:

    X_u v = X_u X_ℓᵀ EMA(R_ℓ) − X_u X_uᵀ R_u
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from labelgrad.auto.base_models.base import FittedModel, in_parts
from labelgrad.auto.class_prior import estimate_class_prior, label_prior
from labelgrad.auto.data.dataset import Examples
from labelgrad.auto.task import Array, Classification, Task, clip_confidence, log_normalize
from labelgrad.labels.rules import Evidence
from labelgrad.losses import CrossEntropy
from labelgrad.sklearn import inner_folds
from labelgrad.training.batches import Shuffle
from labelgrad.training.trainer import ADAM

LEARNING_RATE = 0.06  # divided by the columns: a head of many columns moves faster
BATCH, GRADIENT_DECAY, EVIDENCE_SCALE = 50, 0.9, 1.0
CONSTANT, LARGE_CONSTANT = 0.5, 1.5  # in lengths of an example
NEARLY_EQUAL, MAX_CLASSES_FOR_PRIOR = 2, 20  # labels apart; classes
PRIOR_MARGIN = 1.5  # times the regression's doubt; by more the prior must differ to count
VISITS, MIN_STEPS, MAX_STEPS = 25, 600, 3000  # of an unlabeled example; of a path
MAX_UNLABELED = 6000  # examples to learn from
POINTS, MAX_SAVED = 40, 2**26  # of a path; numbers that they may take
MAX_OUTPUTS = 2000  # classes times paths; above, the last step is taken
LOGIT_SCALES = np.geomspace(0.05, 3.0, 40)
DOUBT = 2.0  # labels of uniform classes, added to the loss
END_PREFERENCE = 1.0  # labels; strength of the preference for late steps


@dataclass(frozen=True)
class LGALinear:
    """A linear head by LGA, with early stopping by an inner cross-validation.

    >>> rng, truth = np.random.default_rng(0), np.arange(60) % 2
    >>> X = (rng.normal(size=(60, 5)) + 4 * truth[:, None]).astype(np.float32)
    >>> y, task = np.where(np.arange(60) < 8, truth, -1), Classification(("a", "b"))
    >>> fitted = LGALinear().fit(Examples(X), y, task=task, seed=0)
    >>> int((fitted.predict(Examples(X)).argmax(1) == truth).sum())
    60
    """

    name: str = "lga-linear"
    uses_unlabeled: bool = True

    def fit(self, examples: Examples, y: Array, *, task: Task, seed: int) -> FittedModel:
        """Follow the paths of all inner folds, and choose a step."""
        if not isinstance(task, Classification):
            raise ValueError(f"it does not support {task.name}")
        labeled, unlabeled = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
        if not len(unlabeled):
            raise ValueError("it needs unlabeled examples")
        if len(unlabeled) > MAX_UNLABELED:
            chosen = np.random.default_rng(seed).permutation(unlabeled)[:MAX_UNLABELED]
            unlabeled = np.sort(chosen)
        rows = np.concatenate([labeled, unlabeled])
        X = np.asarray(examples.X[rows], dtype=np.float64)
        mean, std = X.mean(0), float(X.std()) or 1.0
        scaled = torch.from_numpy((X - mean) / std).float()
        folds = [np.sort(fold) for fold in inner_folds(y[labeled])]
        if task.columns * (len(folds) + 1) > MAX_OUTPUTS:
            folds = []
        heads, outputs = follow_paths(scaled, y[labeled], folds, task.columns, seed)
        point, logit_scale = best_point(outputs, y[labeled], folds)
        weight, bias = (each.double().numpy() for each in heads[point])
        weight = logit_scale * weight / std
        return LinearHead(weight, logit_scale * bias - mean @ weight, task)


@dataclass(frozen=True, eq=False)
class LinearHead:
    """A linear function of the features, as logits."""

    weight: Array  # (columns, classes)
    bias: Array  # (classes,)
    task: Task

    @in_parts
    def predict(self, examples: Examples) -> Array:
        """Clipped log-probabilities."""
        return self.task.from_outputs(examples.X.astype(np.float64) @ self.weight + self.bias)


def follow_paths(
    X: Tensor, y: Array, folds: list[Array], classes: int, seed: int
) -> tuple[list[tuple[Tensor, Tensor]], Array]:
    """All paths to their ends; the first `len(y)` rows of `X` are labeled.

    The last path sees all labels, and each of the others all but those of a fold. Returned are the
    weight and the bias of the last path at some points, and the outputs of all paths there for the
    labeled examples, (points, labeled, paths, classes).
    """
    labels = torch.from_numpy(y).repeat(len(folds) + 1, 1)  # (paths, labeled)
    for path, fold in enumerate(folds):
        labels[path, torch.from_numpy(fold)] = -1
    far = torch.from_numpy(has_rare_class(X.numpy(), labels.numpy(), classes))
    constant = torch.where(far, LARGE_CONSTANT, CONSTANT) * X.shape[1] ** 0.5
    heads = LinearHeads(X, labels, classes, constant=constant, seed=seed)
    steps = min(max(MIN_STEPS, VISITS * (len(X) - len(y)) // BATCH), MAX_STEPS)
    every = max(1, steps // max(2, min(POINTS, MAX_SAVED // heads.weight.numel())))
    found, outputs = [], []
    for step in range(1, steps + 1):
        heads.step()
        if step % every == 0:
            bias = heads.constant * heads.bias
            found.append((heads.weight[:, -classes:].clone(), bias[-classes:]))
            outputs.append(heads.outputs(X[: len(y)]).double().numpy())
    return found, np.stack(outputs)


def best_point(outputs: Array, y: Array, folds: list[Array]) -> tuple[int, float]:
    """The point and the logit scale of the lowest penalized loss of held-out labels."""
    points = np.arange(len(outputs)) + 1
    if not folds:
        return len(points) - 1, 1.0
    held_out = [outputs[:, fold, path] for path, fold in enumerate(folds)]
    logits, labels = np.concatenate(held_out, axis=1), y[np.concatenate(folds)]
    losses = np.empty((len(LOGIT_SCALES), len(points)))
    for place, scale in enumerate(LOGIT_SCALES):
        logs = log_normalize(scale * logits)  # (points, labels, classes)
        right = logs[:, np.arange(len(labels)), labels].mean(1)
        losses[place] = -right - DOUBT / len(labels) * logs.mean((1, 2))
    early = END_PREFERENCE / len(labels) * np.log(points / len(points)) ** 2
    scale_at, point = np.unravel_index((losses + early).argmin(), losses.shape)
    return int(point), float(LOGIT_SCALES[scale_at])


def has_rare_class(X: Array, labels: Array, classes: int) -> Array:
    """For each path: whether classes with equally many labels have unequal frequencies.

    A logistic regression estimates the class prior of the unlabeled examples; its own doubt must
    not explain the difference.

    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(4, 3)), 5 + rng.normal(size=(4, 3)),
    ...     rng.normal(size=(86, 3)), 5 + rng.normal(size=(6, 3))])
    >>> has_rare_class(X, np.array([[0, 0, 0, 0, 1, 1, 1, 1]]), 2)
    array([ True])
    """
    from sklearn.linear_model import LogisticRegression

    found = np.zeros(len(labels), dtype=bool)
    if classes > MAX_CLASSES_FOR_PRIOR:
        return found
    count = labels.shape[1]
    basis = np.linalg.qr(X[:count].T)[0]  # the weights of the regression lie in this span
    labeled, unlabeled = X[:count] @ basis, X[count:] @ basis
    for path, y in enumerate(labels):
        counts = np.bincount(y[y >= 0], minlength=classes)
        if counts.min() == 0 or counts.max() - counts.min() > NEARLY_EQUAL:
            continue
        model = LogisticRegression(max_iter=300).fit(labeled[y >= 0], y[y >= 0])
        logs = clip_confidence(model.predict_log_proba(unlabeled))
        prior = label_prior(y[y >= 0], classes)
        apart = abs(estimate_class_prior(logs, prior) - prior).sum() / 2
        found[path] = apart > PRIOR_MARGIN * (1 - np.exp(logs.max(1))).mean()
    return found


class LinearHeads:
    """Linear heads by LGA that advance together, one for each row of `labels`.

    `X` has the labeled examples first; `labels` is (heads, labeled), -1 where a head does not see
    a label. The bias of each head is the weight of its `constant`.

    >>> X = torch.tensor([[-1.0], [1.0], [-0.9], [0.8]])
    >>> heads = LinearHeads(X, torch.tensor([[0, 1], [1, 0]]), 2, constant=torch.ones(2))
    >>> for _ in range(20):
    ...     heads.step()
    >>> heads.outputs(X).argmax(-1)
    tensor([[0, 1],
            [1, 0],
            [0, 1],
            [1, 0]])
    """

    def __init__(self, X: Tensor, labels: Tensor, classes: int, *, constant: Tensor, seed: int = 0):
        self.paths, count = labels.shape
        self.classes, self.index, self.loss = classes, 0, CrossEntropy()
        self.labeled, self.unlabeled = X[:count], X[count:]
        width = self.paths * classes
        self.weight, self.bias = X.new_zeros(X.shape[1], width), X.new_zeros(width)
        self.constant = constant.to(X).repeat_interleave(classes)
        self.weight.grad, self.bias.grad = map(torch.zeros_like, (self.weight, self.bias))
        self.optimizer = ADAM([self.weight, self.bias], lr=LEARNING_RATE / X.shape[1])
        self._sees = (labels.t() >= 0).to(X.dtype).unsqueeze(2)  # (labeled, paths, 1)
        self._truth = F.one_hot(labels.t().clamp_min(0), classes).to(X.dtype) * self._sees
        self._products = self.unlabeled @ self.labeled.t()
        self._average, self._average_weight = X.new_zeros(count, width), 0.0  # EMA(R_ℓ)
        self.rule = Evidence(EVIDENCE_SCALE)
        self.values = X.new_zeros(len(self.unlabeled), self.paths, 3, classes)
        order = partial(Shuffle, seed=seed)
        self._labeled_order = order(count, min(BATCH, count), kind=1)
        unlabeled = len(self.unlabeled)
        self._unlabeled_order = order(unlabeled, min(BATCH, unlabeled), kind=0)

    @torch.no_grad()
    def step(self) -> None:
        """Move all heads, and the labels of the examples in the batch, once."""
        seen = self._labeled_order.places(self.index)
        drawn = self._unlabeled_order.places(self.index)
        self.index += 1
        x = self.unlabeled[drawn]
        probabilities = self.outputs(torch.cat([self.labeled[seen], x])).softmax(-1)
        true, imputed = probabilities[: len(seen)], probabilities[len(seen) :]
        labels = self.loss.impute(self.values[drawn, :, 0])
        residual = ((imputed - labels) / len(drawn)).flatten(1)
        # How the outputs of drawn examples answer to a move along the gap of the gradients.
        sees, decay = self._sees[seen], GRADIENT_DECAY
        errors = (true * sees - self._truth[seen]) / sees.sum(0).clamp_min(1)
        self._average.mul_(decay).index_add_(0, seen, errors.flatten(1), alpha=1 - decay)
        self._average_weight += (1 - decay) * (1 - self._average_weight)
        unbiased = 1 / self._average_weight
        slope = torch.addmm(
            self._products[drawn] @ self._average, x @ x.t(), residual, beta=unbiased, alpha=-1
        )
        slope += self.constant.square() * (unbiased * self._average.sum(0) - residual.sum(0))
        slope = slope.view_as(imputed)
        slope = slope - (imputed * slope).sum(-1, keepdim=True)
        self._update_labels(drawn, self.loss.pull_back(2 / len(drawn) * slope, labels))
        torch.mm(x.t(), residual, out=self.weight.grad)
        torch.mul(self.constant, residual.sum(0), out=self.bias.grad)
        self.optimizer.step()

    def outputs(self, x: Tensor) -> Tensor:
        """Logits (examples, paths, classes)."""
        columns = torch.addmm(self.constant * self.bias, x, self.weight)
        return columns.view(len(x), self.paths, self.classes)

    def _update_labels(self, drawn: Tensor, slope: Tensor) -> None:
        """Add a slope to the evidence of each drawn example; one drawn twice gets the sum."""
        rows, place = drawn.unique(return_inverse=True)
        summed = slope.new_zeros(len(rows), *slope.shape[1:]).index_add_(0, place, slope)
        values = self.values[rows]
        self.rule.step(values.flatten(0, 1), summed.flatten(0, 1), self.index, self.loss)
        self.values[rows] = values
