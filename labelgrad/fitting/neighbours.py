"""What the neighbours of an example say: those most like it, by the labels they have.

Rows of a table are alike by their columns. Pictures are alike by what the model says of them:
two pictures of one thing are seldom near each other pixel by pixel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelgrad.fitting.contest import Contest
from labelgrad.fitting.labels import Imputed, Row
from labelgrad.functional import mixed_seed

NEIGHBOURS = 10
MOST = 20_000  # examples to look for them among: all labeled ones, and others at random


def example_rows(contest: Contest, found: Imputed, key: str, near: float) -> list[Row]:
    """One row for every example: its given label, or what speaks against the imputed one.

    `neighbours` is the commonest class of its neighbours and `apart` the share of them that have
    another label; of values it is their mean, and how many times `near` it is away. `margin` is
    between the two likeliest classes, the smaller one of the label's and the model's.
    """
    source, labels = contest.source, _labels(contest, found)
    around = labels[nearest(_points(contest, found), contest.unlabeled, _others(contest))]
    if source.task == "regression":
        said: list[Any] = around.mean(1).tolist()
        apart = (labels[contest.unlabeled] - around.mean(1)).abs() / max(near, 1e-12)
        margin: list[Any] = [None] * len(said)
    else:
        said = [source.classes[index] for index in around.mode(1).values.tolist()]
        apart = (around != labels[contest.unlabeled, None]).double().mean(1)
        margin = torch.minimum(_margin(found.labels), _margin(found.said)).tolist()
    given = [_given(contest, row) for row in range(len(source.names))]
    names = ("neighbours", "apart", "margin")
    rows = [dict.fromkeys((key, "given", *names)) | {"given": label} for label in given]
    columns = zip(contest.unlabeled.tolist(), said, apart.tolist(), margin, strict=True)
    for row, *values in columns:
        rows[row] |= dict(zip(names, values, strict=True))
    return [row | {key: name} for row, name in zip(rows, source.names, strict=True)]


def nearest(points: Tensor, rows: Tensor, others: Tensor) -> Tensor:
    """For each of `rows` the few of `others` whose points are nearest, itself left out.

    >>> line = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
    >>> nearest(line, torch.tensor([1, 3]), torch.arange(4))[:, 0]
    tensor([0, 2])
    """
    from sklearn.neighbors import NearestNeighbors

    many = min(NEIGHBOURS + 1, len(others))
    if not len(rows):
        return torch.zeros(0, many - 1, dtype=torch.int64)
    search = NearestNeighbors(n_neighbors=many).fit(points[others].numpy())
    places = search.kneighbors(points[rows].numpy(), return_distance=False)
    found = others[torch.from_numpy(places)]
    itself_last = (found == rows[:, None]).byte().argsort(stable=True, dim=1)
    return found.gather(1, itself_last)[:, : many - 1]


def _labels(contest: Contest, found: Imputed) -> Tensor:
    """The label of every example, given or imputed."""
    labels = contest.source.y.clone()
    imputed = found.labels if labels.dtype.is_floating_point else found.labels.argmax(-1)
    labels[contest.unlabeled] = imputed.to(labels)
    return labels


def _points(contest: Contest, found: Imputed) -> Tensor:
    return contest.x if contest.x.ndim == 2 else found.everywhere.reshape(len(contest.x), -1)


def _others(contest: Contest) -> Tensor:
    generator = torch.Generator().manual_seed(mixed_seed(contest.plan.seed, 4))
    mixed = contest.unlabeled[torch.randperm(len(contest.unlabeled), generator=generator)]
    return torch.cat([contest.labeled, mixed])[: max(MOST, len(contest.labeled))].sort().values


def _margin(probabilities: Tensor) -> Tensor:
    first, second = probabilities.topk(2).values.unbind(-1)
    return first - second


def _given(contest: Contest, row: int) -> Any:
    source = contest.source
    if not source.labeled[row]:
        return None
    label = source.y[row].item()
    return label if source.task == "regression" else source.classes[int(label)]
