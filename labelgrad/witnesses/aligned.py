"""A witness that is LGA in the setting its paper reasons in: a linear head on features.

The head starts at zero and learns from imputed labels alone, whose gradient is aligned with that of
the true ones in the Euclidean metric (`training.linear_heads`). LGA and supervised training come to
rest at the same place; LGA's merit is in which directions are learned first, so when to stop is
everything. One run gives a whole path, and the step is the one at which labels that were hidden
from it were most likely, together with how sure it may be.

The bias is the weight of a constant, half as long as a row. Where one class is rare and there are
as many labels of it, the bias has far to go: else half of all rows would be taken for it. So where
a logistic regression finds other shares among the unlabeled rows than among the labels, and its
own doubt does not explain them, the constant is larger.

A version of the labels is judged by parts of its own labels, each hidden in turn, so the labels
that are hidden from a version have no say in its step. Most of these paths are shared: the one
with two folds hidden judges both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labelgrad.inputs.mapped import fits_memory
from labelgrad.training.linear_heads import BATCH, LinearHeads
from labelgrad.witnesses.base import (
    AT_ONCE,
    Array,
    Opinion,
    even_parts,
    in_parts,
    known_rows,
    normalized,
    not_too_sure,
)
from labelgrad.witnesses.shares import estimated_shares, label_shares

RATE = 0.06  # of learning, for all columns together: a head of many columns moves faster
CONSTANT, UNEVEN = 0.5, 1.5  # that the bias is the weight of, in lengths of a row
NEARLY_EVEN, MOST_SHARED = 2, 20  # labels between classes, and classes, for shares to be asked for
BEYOND_DOUBT = 1.5  # times the regression's doubt is how far shares must lie from the labels'
VISITS = 25  # of an unlabeled row
STEPS = 600, 3000  # at least and at most
MOST_UNLABELED = 6000  # rows that are learned from: what they do not show, more will not
POINTS, KEPT = 40, 2**26  # of the path, and the most numbers they may be
PARTS = 4  # that labels are dealt into, where nobody has hidden any
WIDEST = 2000  # classes times versions; above, the last step is taken as it is
SURENESS = np.geomspace(0.05, 3.0, 40)  # what outputs are multiplied by
DOUBT = (
    2.0  # labels' worth of labels of every class alike: so few that are right may be so by chance
)
PULL = 1.0  # labels' worth of a preference for the end of the path, for a factor of e away from it

Hidden = frozenset[int]  # rows


@dataclass(frozen=True)
class Aligned:
    """A linear head by LGA, its step and its sureness by labels that were hidden from it.

    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(60) % 2
    >>> x = rng.normal(size=(60, 5)) + 4 * truth[:, None]
    >>> labels = np.where(np.arange(60) < 8, truth, -1)
    >>> (opinion,) = Aligned().hear(x, [labels], 2, seed=0)
    >>> int((opinion.of_rows(np.arange(60)).argmax(1) == truth).sum())
    60
    """

    name: str = "lga-linear"
    sees_unlabeled: bool = True

    def hear(self, x: Array, labels: Sequence[Array], classes: int, seed: int) -> Sequence[Opinion]:
        """One opinion for each version of the labels; all paths are walked at once."""
        if not classes:
            raise ValueError("it is for classes")
        y = np.max(np.stack(labels), axis=0)  # -1 is no label
        known = known_rows(y)
        unlabeled = np.flatnonzero(y < 0)
        if not len(unlabeled):
            raise ValueError("it needs unlabeled rows")
        if len(unlabeled) > MOST_UNLABELED:
            rng = np.random.default_rng(seed)
            unlabeled = np.sort(rng.permutation(unlabeled)[:MOST_UNLABELED])
        mean, spread = x.mean(0), spread_of(x) or 1.0
        # From here on there are no other rows than those that are learned from.
        used = np.union1d(known, unlabeled)
        y, labels = y[used], [version[used] for version in labels]
        known, unlabeled = np.searchsorted(used, known), np.searchsorted(used, unlabeled)
        hidden = [frozenset(known[version[known] < 0].tolist()) for version in labels]
        judges = [judging(mine, parts_of(y, hidden)) for mine in hidden]
        if classes * len({*hidden, *(path for each in judges for path, _ in each)}) > WIDEST:
            judges = [[] for _ in hidden]
        paths = list(dict.fromkeys([*hidden, *(path for each in judges for path, _ in each)]))
        rows = torch.from_numpy((x[used] - mean) / spread).float()
        walked = walk(rows, y, unlabeled, paths, classes, seed)
        found = []
        for mine, judged_by in zip(hidden, judges, strict=True):
            point, sureness = walked.chosen(y, judged_by)
            weight, bias = walked.head(mine, point)
            weight = sureness * weight / spread
            found.append(LinearOpinion(x, weight, sureness * bias - mean @ weight))
        return found


def spread_of(x: Array) -> float:
    """The standard deviation of all numbers; of many, without a copy of them.

    >>> spread_of(np.array([[1.0], [3.0]]))
    1.0
    """
    if fits_memory(x.nbytes):
        return float(x.std())
    parts = [x[start : start + AT_ONCE] for start in range(0, len(x), AT_ONCE)]
    mean = sum(float(part.sum()) for part in parts) / x.size
    return math.sqrt(sum(float(np.square(part - mean).sum()) for part in parts) / x.size)


@dataclass(frozen=True, eq=False)
class LinearOpinion:
    """What a linear head says."""

    x: Array
    weight: Array  # (columns, classes)
    bias: Array  # (classes,)

    def of_rows(self, rows: Array) -> Array:
        """About rows of the examples it was asked about."""
        return in_parts(self.of_new, self.x, rows)

    def of_new(self, x: Array) -> Array:
        """About other examples."""
        return not_too_sure(normalized(x @ self.weight + self.bias))


@dataclass(frozen=True, eq=False)
class Walked:
    """Paths by what is hidden on each: their heads at some points, and what these say of labels."""

    places: dict[Hidden, int]
    rows: dict[int, int]  # where each labeled row is in `said`
    heads: list[tuple[Tensor, Tensor]]  # of each point: (columns, paths, classes), (paths, classes)
    said: Array  # (points, labeled rows, paths, classes) outputs

    def chosen(self, y: Array, judged_by: Sequence[tuple[Hidden, Array]]) -> tuple[int, float]:
        """The point of the lowest loss of hidden labels, and how sure it may be.

        There is a pull to the end of the path: few labels choose by chance.
        """
        if not judged_by:
            return len(self.heads) - 1, 1.0
        outputs = np.concatenate(
            [
                self.said[:, [self.rows[row] for row in rows], self.places[path]]
                for path, rows in judged_by
            ],
            axis=1,
        )
        labels = y[np.concatenate([rows for _, rows in judged_by])]
        losses = np.empty((len(SURENESS), len(self.heads)))
        for place, sureness in enumerate(SURENESS):
            logs = normalized(sureness * outputs)  # (points, labels, classes)
            right = logs[:, np.arange(len(labels)), labels].mean(1)
            losses[place] = -right - DOUBT / len(labels) * logs.mean((1, 2))
        points = np.arange(len(self.heads)) + 1
        away = PULL / len(labels) * np.log(points / len(points)) ** 2
        sureness, point = np.unravel_index((losses + away).argmin(), losses.shape)
        return int(point), float(SURENESS[sureness])

    def head(self, path: Hidden, point: int) -> tuple[Array, Array]:
        """The weight (columns, classes) and the bias of a path at a point."""
        weight, bias = self.heads[point]
        place = self.places[path]
        return weight[:, place].double().numpy(), bias[place].double().numpy()


def walk(
    x: Tensor, y: Array, unlabeled: Array, paths: Sequence[Hidden], classes: int, seed: int
) -> Walked:
    """All paths to their ends; on each some labels are hidden."""
    known = known_rows(y)
    labels = torch.from_numpy(y).repeat(len(paths), 1)
    for version, hidden in zip(labels, paths, strict=True):
        version[list(hidden)] = -1
    far = torch.from_numpy(uneven(x.numpy(), labels.numpy(), unlabeled, classes))
    heads = LinearHeads(
        x,
        labels,
        classes,
        unlabeled=torch.from_numpy(unlabeled),
        constant=torch.where(far, UNEVEN, CONSTANT) * x.shape[1] ** 0.5,
        learning_rate=RATE / x.shape[1],
        seed=seed,
    )
    steps = path_steps(len(unlabeled))
    points = max(2, min(POINTS, KEPT // heads.weight.numel()))
    every, labeled = max(1, steps // points), x[torch.from_numpy(known)]
    found, said = [], []
    while heads.index < steps:
        heads.step()
        if heads.index % every == 0:
            size = len(paths), classes
            bias = heads.constant * heads.bias
            found.append((heads.weight.unflatten(1, size).clone(), bias.view(size)))
            said.append(heads.outputs(labeled).double().numpy())
    rows = {row: place for place, row in enumerate(known.tolist())}
    return Walked({path: n for n, path in enumerate(paths)}, rows, found, np.stack(said))


def uneven(x: Array, labels: Array, unlabeled: Array, classes: int) -> Array:
    """In which versions there are as many labels of each class, but by far not as many rows.

    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(size=(90, 3)), 5 + rng.normal(size=(10, 3))])
    >>> y = np.full(100, -1)
    >>> y[:4], y[-4:] = 0, 1
    >>> uneven(x, y[None], np.flatnonzero(y < 0), 2)
    array([ True])
    """
    from sklearn.linear_model import LogisticRegression

    found = np.zeros(len(labels), dtype=bool)
    if classes > MOST_SHARED:
        return found
    known = np.flatnonzero((labels >= 0).any(0))
    basis = np.linalg.qr(x[known].T)[0]  # the regression's weights are in the span of its rows
    asked, rows = x[unlabeled] @ basis, x[known] @ basis
    for place, mine in enumerate(labels[:, known]):
        counts = np.bincount(mine[mine >= 0], minlength=classes)
        if counts.min() == 0 or counts.max() - counts.min() > NEARLY_EVEN:
            continue  # labels that were drawn at random have the shares
        model = LogisticRegression(max_iter=300).fit(rows[mine >= 0], mine[mine >= 0])
        said = not_too_sure(model.predict_log_proba(asked))
        shares = label_shares(mine[mine >= 0], classes)
        apart = abs(estimated_shares(said, shares, pull=0) - shares).sum() / 2
        found[place] = apart > BEYOND_DOUBT * (1 - np.exp(said.max(1))).mean()
    return found


def path_steps(unlabeled: int) -> int:
    """How long a path is: so many visits of each row, within bounds.

    >>> path_steps(1900), path_steps(100), path_steps(6000)
    (950, 600, 3000)
    """
    fewest, most = STEPS
    return min(max(fewest, VISITS * unlabeled // BATCH), most)


def parts_of(y: Array, hidden: Sequence[Hidden]) -> list[Hidden]:
    """The parts of the labels that judge: what versions hide, and where that is too few, of others.

    The only label of its class is in no part of ours.

    >>> y = np.array([0, 0, 0, 1, 1, 1, 2, -1])
    >>> parts = parts_of(y, [frozenset({0, 3}), frozenset()])
    >>> [sorted(part) for part in parts]
    [[0, 3], [1, 5], [2], [4]]
    """
    parts = [part for part in dict.fromkeys(hidden) if part]
    lacking = PARTS - len(parts)
    if lacking < 2:
        return parts
    free = [row for row in known_rows(y).tolist() if not any(row in part for part in parts)]
    several = np.array([row for row in free if (y[free] == y[row]).sum() > 1], dtype=int)
    dealt = even_parts(y[several], lacking)
    return parts + [frozenset(several[dealt == n].tolist()) for n in range(lacking) if n in dealt]


def judging(hidden: Hidden, parts: Sequence[Hidden]) -> list[tuple[Hidden, Array]]:
    """Which paths judge a version by which rows: those that hide one part more."""
    return [(hidden | part, np.array(sorted(part))) for part in parts if not part & hidden]
