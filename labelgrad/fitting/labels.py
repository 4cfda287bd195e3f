"""A label for every unlabeled example: what the label table says beside what the model says."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelgrad.fitting.contest import Contest
from labelgrad.fitting.predictor import Predictor
from labelgrad.labels.table import LabelTable
from labelgrad.objectives.lga import LGA
from labelgrad.training.trainer import Trainer

COLUMNS = (
    "label",
    "label_probability",
    "prediction",
    "prediction_probability",
    "agree",
    "entropy",
    "visits",
)
NUMBERS = ("label_probability", "prediction_probability", "entropy", "apart", "margin")
VALUES = ("label", "prediction", "given", "neighbours")  # numbers, too, where there are no classes
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Imputed:
    """For each unlabeled example, in their order: the label it was given, and the model's.

    Both are probabilities (n, classes), or values (n,). The label is the table's where the kept
    method has one, and else the model's. `everywhere` is the model's for labeled ones, too.
    """

    labels: Tensor
    said: Tensor
    visits: Sequence[int | None]
    everywhere: Tensor


def imputed(contest: Contest, predictor: Predictor) -> Imputed:
    """The labels that training settled on, beside the kept model's."""
    everywhere = predictor(contest.source.x)  # all at once, as `predict` would do it
    said = everywhere[contest.unlabeled]
    table = label_table(contest.of(predictor.config.method))
    if table is None:
        return Imputed(said, said, [None] * len(said), everywhere)
    labels = table.labels().double()
    if contest.source.task == "regression":
        labels = labels[:, 0] * contest.spread + contest.mean
    return Imputed(labels, said, table.visits().tolist(), everywhere)


def label_rows(contest: Contest, found: Imputed, key: str, near: float) -> list[Row]:
    """One row for each unlabeled example; values agree that are as `near` as this."""
    source = contest.source
    names, visits = [source.names[row] for row in contest.unlabeled.tolist()], found.visits
    if source.task == "regression":
        rows = _value_rows(found.labels, found.said, near)
    else:
        rows = _class_rows(found.labels, found.said, source.classes)
    return [
        {key: name, **row, "visits": count}
        for name, row, count in zip(names, rows, visits, strict=True)
    ]


def label_table(trainer: Trainer) -> LabelTable | None:
    """The labels that LGA learned, where it is one of the terms."""
    tables = [term.table for term in trainer.objective.leaves() if isinstance(term, LGA)]
    return tables[0] if tables else None


def csv_cells(row: Row) -> list[Any]:
    """A row as `labels.csv` has it."""
    return [_cell(value) for value in row.values()]


def rows_of(content: bytes, task: str) -> list[Row]:
    """The rows of a `labels.csv`, or of an `examples.csv`."""
    numbers = NUMBERS if task == "classification" else (*NUMBERS, *VALUES)
    read: dict[str, Any] = {name: lambda cell: float(cell) if cell else None for name in numbers}
    read["visits"] = lambda cell: int(cell) if cell else None
    read["agree"] = lambda cell: cell == "yes"
    lines = csv.DictReader(io.StringIO(content.decode(), newline=""))
    return [{k: read[k](cell) if k in read else cell for k, cell in line.items()} for line in lines]


def _class_rows(labels: Tensor, said: Tensor, classes: tuple[str, ...]) -> list[Row]:
    label_sure, label = labels.max(-1)
    sure, prediction = said.max(-1)
    entropy = torch.special.entr(labels).sum(-1)
    columns = (label, label_sure, prediction, sure, label == prediction, entropy)
    return [
        dict(zip(COLUMNS, (classes[a], p, classes[b], q, same, h), strict=False))
        for a, p, b, q, same, h in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _value_rows(values: Tensor, said: Tensor, near: float) -> list[Row]:
    agree = (values - said).abs() <= near
    columns = (values.tolist(), said.tolist(), agree.tolist())
    return [
        dict(zip(COLUMNS, (value, None, prediction, None, same, None), strict=False))
        for value, prediction, same in zip(*columns, strict=True)
    ]


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if not isinstance(value, float) else f"{value:.7g}"
