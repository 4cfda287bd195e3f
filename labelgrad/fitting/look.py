"""Imputed labels to use, and imputed labels to look at first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelgrad.files import write_whole
from labelgrad.fitting.files import csv_bytes
from labelgrad.fitting.labels import Row
from labelgrad.fitting.result import Result, every_example

APART = 0.5  # more neighbours than this share are against the label
FAR = 1.0  # typical errors away from the neighbours' mean


@dataclass(frozen=True)
class Look:
    """An imputed label that a person should see, and why."""

    name: str
    label: Any
    prediction: Any
    neighbours: Any
    margin: float | None  # between the two likeliest classes
    reason: str


def sure_labels(result: Result, above: float = 0.95) -> list[Row]:
    """The imputed labels that table and model agree on, both with at least this probability.

    The smaller one of the two is given, in rows of `file` or `row`, `label` and `probability`.
    """
    config = result.predictor.config
    if config.task == "regression":
        raise ValueError("Values have no probability, so none is above another; see labels.csv.")
    if not 0 <= above <= 1:
        raise ValueError(f"`above` must be a probability from 0 to 1, got {above:g}.")
    both = ("label_probability", "prediction_probability")
    return [
        {config.key: row[config.key], "label": row["label"], "probability": sure}
        for row in result.labels
        if row["agree"] and (sure := min(row[name] for name in both)) >= above
    ]


def look_first(result: Result, most: int = 20, *, leave_out: Collection[str] = ()) -> list[Look]:
    """The imputed labels that are most in doubt, the most doubtful first.

    First those that both the model and the neighbours speak against, then those that one of them
    does, then those with the smallest margin (of values: farthest from what the others say).
    """
    key = result.predictor.config.key
    beside = {row[key]: row for row in every_example(result)}
    rows = [row | beside[row[key]] for row in result.labels if row[key] not in leave_out]
    ranked = sorted(rows, key=_rank)[: max(most, 0)]
    names = ("label", "prediction", "neighbours", "margin")
    return [
        Look(name=row[key], **{name: row[name] for name in names}, reason=_reason(row))
        for row in ranked
    ]


def save_sure(rows: Sequence[Row], key: str, path: Path) -> None:
    """Write sure labels as CSV."""
    cells = [[row[key], row["label"], f"{row['probability']:.6f}"] for row in rows]
    write_whole(path, csv_bytes([key, "label", "probability"], cells))


def save_look(looks: Sequence[Look], key: str, path: Path) -> None:
    """Write them as CSV, with an empty column `label` to fill in and hand back."""
    columns = [key, "label", "imputed", "prediction", "neighbours", "margin", "reason"]
    cells = [
        [look.name, "", *map(shown, (look.label, look.prediction, look.neighbours, look.margin))]
        for look in looks
    ]
    rows = [[*row, look.reason] for row, look in zip(cells, looks, strict=True)]
    write_whole(path, csv_bytes(columns, rows))


def shown(value: Any) -> str:
    """A class, or a number that is short enough to read."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _against(row: Row) -> tuple[bool, bool]:
    """Whether the model, and whether the neighbours speak against the label."""
    return not row["agree"], row["apart"] > (APART if row["margin"] is not None else FAR)


def _rank(row: Row) -> tuple[float, float]:
    doubt = row["margin"]
    if doubt is None:
        doubt = -max(abs(row["label"] - row["prediction"]), abs(row["label"] - row["neighbours"]))
    return -sum(_against(row)), doubt


def _reason(row: Row) -> str:
    model, neighbours = _against(row)
    is_class = row["margin"] is not None
    around = f"{row['apart']:.0%} of neighbours" if is_class else "neighbours"
    if model and neighbours:
        return f"model and {around} differ"
    if model or neighbours:
        return "model differs" if model else f"{around} differ"
    return "small margin" if is_class else "farthest of those that agree"
