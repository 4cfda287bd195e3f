"""Imputed labels to use as they are, and imputed labels that a person should see first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from labelgrad.files import csv_bytes, write_pieces, write_whole
from labelgrad.fitting.labels import Example, ImputedLabel, Label, shown
from labelgrad.fitting.many_labels import AT_ONCE, ManyLabels, column
from labelgrad.fitting.result import Result

APART = 0.5  # more neighbours than this share are against the label
FAR = 1.0  # typical errors away from the neighbours' mean


@dataclass(frozen=True)
class ReviewItem:
    """An imputed label that a person should see, and why."""

    name: str
    label: Label
    prediction: Label
    neighbours: Label | None
    margin: float | None  # between the two likeliest classes
    reason: str


@dataclass(frozen=True)
class SureLabel:
    """An imputed label that table and model agree on, with the smaller of their probabilities."""

    name: str
    label: Label
    probability: float


def sure_labels(result: Result, above: float = 0.95) -> Sequence[SureLabel]:
    """The imputed labels that table and model agree on, both with at least this probability."""
    if result.summary.task == "regression":
        raise ValueError("Values have no probability, so none is above another; see labels.csv.")
    if not 0 <= above <= 1:
        raise ValueError(f"`above` must be a probability from 0 to 1, got {above:g}.")
    if isinstance(result.labels, ManyLabels):
        return ManySure(result.labels, above)
    agreed = [
        SureLabel(row.name, row.label, min(row.label_probability, row.prediction_probability))
        for row in result.labels
        if row.agree
        and row.label_probability is not None
        and row.prediction_probability is not None
    ]
    return [row for row in agreed if row.probability >= above]


def review_queue(
    result: Result, most: int = 20, *, leave_out: Collection[str] = ()
) -> list[ReviewItem]:
    """The imputed labels that are most in doubt, the most doubtful first.

    First those that both the model and the neighbours speak against, then those that one of them
    does, then those with the smallest margin (of values: farthest from what the others say).
    """
    if isinstance(result.labels, ManyLabels):
        pairs = _most_doubtful(result.labels, result.examples, most + len(leave_out))
        pairs = [pair for pair in pairs if pair[0].name not in leave_out]
    else:
        beside = {example.name: example for example in result.examples}
        pairs = [(row, beside[row.name]) for row in result.labels if row.name not in leave_out]
    ranked = sorted(pairs, key=lambda pair: _doubt(*pair))[: max(most, 0)]
    return [
        ReviewItem(
            row.name, row.label, row.prediction, near.neighbours, near.margin, _reason(row, near)
        )
        for row, near in ranked
    ]


def save_sure_labels(
    rows: Sequence[SureLabel], key: str, path: Path, *, spreadsheet_safe: bool = False
) -> None:
    """Write sure labels as CSV; `spreadsheet_safe` as in `labelgrad.files.csv_bytes`."""

    def pieces() -> Iterator[bytes]:
        for first in range(0, max(1, len(rows)), AT_ONCE):
            some = rows[first : first + AT_ONCE]
            yield csv_bytes(
                [key, "label", "probability"],
                [[row.name, row.label, f"{row.probability:.6f}"] for row in some],
                spreadsheet_safe=spreadsheet_safe,
                with_header=first == 0,
            )

    write_pieces(path, pieces())


def save_review_queue(
    items: Sequence[ReviewItem], key: str, path: Path, *, spreadsheet_safe: bool = False
) -> None:
    """Write the queue as CSV, with an empty column `label` to fill in and hand back."""
    columns = [key, "label", "imputed", "prediction", "neighbours", "margin", "reason"]
    rows = [
        [
            item.name,
            "",
            *map(shown, (item.label, item.prediction, item.neighbours, item.margin)),
            item.reason,
        ]
        for item in items
    ]
    write_whole(path, csv_bytes(columns, rows, spreadsheet_safe=spreadsheet_safe))


class ManySure(Sequence[SureLabel]):
    """The sure ones of very many labels, made when they are asked for."""

    def __init__(self, labels: ManyLabels, above: float):
        self.labels = labels
        fields = ("label_probability", "prediction_probability")
        self._sure = np.minimum(*(column(labels, field) for field in fields))
        agree = column(labels, "agree").astype(bool)
        self._places = np.flatnonzero(agree & (self._sure >= above))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> SureLabel: ...

    @overload
    def __getitem__(self, place: slice) -> list[SureLabel]: ...

    def __getitem__(self, place: int | slice) -> SureLabel | list[SureLabel]:
        if isinstance(place, int):
            first = range(len(self))[place]
            return self[first : first + 1][0]
        mine, labels = self._places[place], self.labels
        rows = labels.rows[mine]
        names = (labels.names[row] for row in rows.tolist())
        cells = zip(names, labels.named("label", rows), self._sure[mine].tolist(), strict=True)
        return [SureLabel(*each) for each in cells]


def _most_doubtful(
    labels: ManyLabels, examples: Sequence[Example], most: int
) -> list[tuple[ImputedLabel, Example]]:
    """The first rows by `_doubt`, of labels that are too many to be looked at one by one."""
    apart, margin = (labels.records[field][labels.rows] for field in ("apart", "margin"))
    far = FAR if not labels.classes else APART
    against = (column(labels, "agree") == 0).astype(int) + (apart > far)
    small = margin
    if not labels.classes:
        said = (labels.records[field][labels.rows] for field in ("prediction", "neighbours"))
        small = -np.fmax(*(np.abs(column(labels, "label") - other) for other in said))
    first = np.lexsort((small, -against))[: max(most, 0)]
    return [(labels[int(place)], examples[int(labels.rows[place])]) for place in first]


def _against(row: ImputedLabel, near: Example) -> tuple[bool, bool]:
    """Whether the model, and whether the neighbours speak against the label."""
    apart = 0.0 if near.apart is None else near.apart
    return not row.agree, apart > (FAR if near.margin is None else APART)


def _doubt(row: ImputedLabel, near: Example) -> tuple[float, float]:
    """Smaller is more doubtful."""
    small = near.margin
    if small is None:  # values
        others = (float(other) for other in (row.prediction, near.neighbours) if other is not None)
        small = -max(abs(float(row.label) - other) for other in others)
    return -sum(_against(row, near)), small


def _reason(row: ImputedLabel, near: Example) -> str:
    model, neighbours = _against(row, near)
    is_value = near.margin is None
    around = "neighbours" if is_value else f"{near.apart or 0:.0%} of neighbours"
    if model and neighbours:
        return f"model and {around} differ"
    if model or neighbours:
        return "model differs" if model else f"{around} differ"
    return "farthest of those that agree" if is_value else "small margin"
