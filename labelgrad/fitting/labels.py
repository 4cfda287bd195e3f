"""A label for every unlabeled example, and what its neighbours say about it.

The label is what the pool of all witnesses says, and the prediction is the kept model's.
Neighbours are the examples most like it. Rows of a table are alike by their columns, pictures by
what the model says of them: two pictures of one thing are seldom near each other pixel by pixel.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from labelgrad.files import csv_bytes
from labelgrad.functional import mixed_seed
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import kind_named

NEIGHBOURS = 10
MOST = 20_000  # examples to look for them among: all labeled ones, and others at random
Label = str | float  # a class, or a value


@dataclass(frozen=True)
class ImputedLabel:
    """A row of `labels.csv`: the label of an unlabeled example beside the model's prediction.

    Values have no probabilities and no entropy, and only labels that were learned have `visits`.
    """

    name: str  # the file, or the row
    label: Label
    label_probability: float | None
    prediction: Label
    prediction_probability: float | None
    agree: bool
    entropy: float | None
    visits: int | None


@dataclass(frozen=True)
class Example:
    """A row of `examples.csv`: the label an example was given, or what speaks against its own.

    `origin` says how a given label came (`provenance`). `neighbours` is the commonest class of its
    neighbours and `apart` the share of them that have another label; of values it is their mean,
    and how many typical errors it is away. `margin` is between the two likeliest classes, the
    smaller one of the label's and the model's.
    """

    name: str
    given: Label | None
    neighbours: Label | None = None
    apart: float | None = None
    margin: float | None = None
    origin: str | None = None


@dataclass(frozen=True, eq=False)
class Imputed:
    """For each unlabeled example, in their order: its label, and what the model says.

    Both are probabilities (n, classes), or values (n,).
    """

    labels: Tensor
    predictions: Tensor
    visits: Sequence[int | None]


def imputed_labels(dataset: Dataset, found: Imputed, typical_error: float) -> list[ImputedLabel]:
    """One row for each unlabeled example; values agree that are as near as a typical error."""
    names = [dataset.names[row] for row in (~dataset.labeled).nonzero().squeeze(1).tolist()]
    if dataset.task == "regression":
        values, said = found.labels, found.predictions
        agree = ((values - said).abs() <= typical_error).tolist()
        return [
            ImputedLabel(name, value, None, prediction, None, same, None, count)
            for name, value, prediction, same, count in zip(
                names, values.tolist(), said.tolist(), agree, found.visits, strict=True
            )
        ]
    label_sure, label = found.labels.max(-1)
    sure, prediction = found.predictions.max(-1)
    entropy = torch.special.entr(found.labels).sum(-1)
    columns = (label, label_sure, prediction, sure, label == prediction, entropy)
    rows = zip(names, *(column.tolist() for column in columns), found.visits, strict=True)
    classes = dataset.classes
    return [
        ImputedLabel(name, classes[a], p, classes[b], q, same, h, count)
        for name, a, p, b, q, same, h, count in rows
    ]


def examples_with_neighbours(
    dataset: Dataset,
    found: Imputed,
    outputs: Tensor,
    typical_error: float,
    *,
    origins: Sequence[str | None],
    seed: int,
) -> list[Example]:
    """One row for every example; `outputs` are what the model says of all of them."""
    unlabeled = (~dataset.labeled).nonzero().squeeze(1)
    labels, is_value = dataset.y.clone(), dataset.task == "regression"
    labels[unlabeled] = (found.labels if is_value else found.labels.argmax(-1)).to(labels)
    generator = torch.Generator().manual_seed(mixed_seed(seed, 4))
    mixed = unlabeled[torch.randperm(len(unlabeled), generator=generator)]
    labeled = dataset.labeled.nonzero().squeeze(1)
    others = torch.cat([labeled, mixed])[: max(MOST, len(labeled))].sort().values
    points = kind_named(dataset.kind).near(dataset.x, outputs)
    around = labels[nearest(points, unlabeled, others)]  # (unlabeled, neighbours)
    said: Sequence[Label]
    margin: Sequence[float | None]
    if is_value:
        said = around.mean(1).tolist()
        apart = (labels[unlabeled] - around.mean(1)).abs() / max(typical_error, 1e-12)
        margin = [None] * len(unlabeled)
    else:
        said = [dataset.classes[index] for index in around.mode(1).values.tolist()]
        apart = (around != labels[unlabeled, None]).double().mean(1)
        likeliest = (each.topk(2).values for each in (found.labels, found.predictions))
        label, model = (first - second for first, second in (two.unbind(-1) for two in likeliest))
        margin = torch.minimum(label, model).tolist()
    given = [label if is_value else dataset.classes[int(label)] for label in labels.tolist()]
    rows = [
        Example(name, label, origin=origin)
        for name, label, origin in zip(dataset.names, given, origins, strict=True)
    ]
    for row, *speaks in zip(unlabeled.tolist(), said, apart.tolist(), margin, strict=True):
        rows[row] = Example(dataset.names[row], None, *speaks)
    return rows


def nearest_labeled(dataset: Dataset, outputs: Tensor) -> Tensor:
    """For each unlabeled example the few labeled ones most like it, as rows of the dataset."""
    points = kind_named(dataset.kind).near(dataset.x, outputs)
    labeled = dataset.labeled
    return nearest(points, (~labeled).nonzero().squeeze(1), labeled.nonzero().squeeze(1))


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


def shown(value: Label | None) -> str:
    """A class, or a number that is short enough to read.

    >>> shown("cat"), shown(3.14159), shown(None)
    ('cat', '3.142', '')
    """
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else value


def labels_csv(rows: Sequence[ImputedLabel], key: str, *, spreadsheet_safe: bool = False) -> bytes:
    r"""The content of `labels.csv`; its first column is `file` or `row`.

    >>> labels_csv([ImputedLabel("7", "cat", 0.5, "dog", 0.75, False, 0.7, None)], "row")[-27:]
    b'7,cat,0.5,dog,0.75,no,0.7,\n'
    """
    return _csv(ImputedLabel, rows, key, spreadsheet_safe)


def examples_csv(rows: Sequence[Example], key: str) -> bytes:
    """The content of `examples.csv`."""
    return _csv(Example, rows, key)


def read_labels(content: bytes, task: str, classes: Sequence[str]) -> list[ImputedLabel]:
    """The rows of a `labels.csv`; a ValueError says what a damaged one has in its place."""
    return [
        ImputedLabel(
            name,
            _label(label, task, classes),
            _number(label_probability, most=1),
            _label(prediction, task, classes),
            _number(prediction_probability, most=1),
            _yes(agree),
            _number(entropy),
            int(visits) if visits else None,
        )
        for (
            name,
            label,
            label_probability,
            prediction,
            prediction_probability,
            agree,
            entropy,
            visits,
        ) in _cells(content, ImputedLabel)
    ]


def read_examples(content: bytes, task: str, classes: Sequence[str]) -> list[Example]:
    """The rows of an `examples.csv`."""
    return [
        Example(
            name,
            _label(given, task, classes) if given else None,
            _label(neighbours, task, classes) if neighbours else None,
            _number(apart),
            _number(margin, most=1),
            origin or None,
        )
        for name, given, neighbours, apart, margin, origin in _cells(content, Example)
    ]


def _csv(
    row_type: type,
    rows: Sequence[ImputedLabel] | Sequence[Example],
    key: str,
    spreadsheet_safe: bool = False,
) -> bytes:
    columns = [key, *(field.name for field in fields(row_type)[1:])]
    names = [field.name for field in fields(row_type)]
    cells = ([written(getattr(row, name)) for name in names] for row in rows)
    return csv_bytes(columns, cells, spreadsheet_safe=spreadsheet_safe)


def _cells(content: bytes, row_type: type) -> list[list[str]]:
    """The rows below the header, each with as many cells as its type has fields."""
    try:
        head, *rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    except csv.Error as error:
        raise ValueError(str(error)) from None
    names = [field.name for field in fields(row_type)[1:]]
    if head[1:] != names:
        raise ValueError(f"its columns must be {', '.join(names)} behind the first")
    for line, row in enumerate(rows, 2):
        if len(row) != len(head):
            raise ValueError(f"row {line} has {len(row)} cells in place of {len(head)}")
    return rows


def written(value: object) -> object:
    """A cell of a CSV file.

    >>> written(True), written(0.1234567891), written(None)
    ('yes', '0.1234568', None)
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.7g}" if isinstance(value, float) else value


def _label(cell: str, task: str, classes: Sequence[str]) -> Label:
    if task == "regression":
        return _finite(cell)
    if cell not in classes:
        raise ValueError(f"{cell!r} is no class of the run")
    return cell


def _number(cell: str, most: float = math.inf) -> float | None:
    value = _finite(cell) if cell else None
    if value is not None and not 0 <= value <= most:
        raise ValueError(f"{cell} must be at least 0{'' if most == math.inf else ' and at most 1'}")
    return value


def _finite(cell: str) -> float:
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(f"{cell} is no finite number")
    return value


def _yes(cell: str) -> bool:
    if cell not in ("yes", "no"):
        raise ValueError(f"{cell!r} must be yes or no")
    return cell == "yes"
