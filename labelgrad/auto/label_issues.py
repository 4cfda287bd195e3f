"""Given labels that are probably wrong, by out-of-fold predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from labelgrad.auto.guarantees.confident_learning import rank_labels
from labelgrad.auto.task import Classification, Regression, log_normalize

if TYPE_CHECKING:
    from labelgrad.auto.result import Result

FAR = 3.0  # typical errors between a value and its prediction


def find_label_issues(result: Result, n: int = 20) -> pl.DataFrame:
    """The given labels that are most likely wrong.

    Labels that were never held out, such as the only one of its class, are not listed.

    Parameters
    ----------
    result
        A run.
    n
        How many labels to list.

    Returns
    -------
    polars.DataFrame
        Id, given label, prediction, their out-of-fold probabilities (null for values),
        whether the label is an issue, and the reason; the most likely wrong first.
    """
    held_out, name = result.held_out, result.labels.columns[0]
    if isinstance(result.task, Classification):
        found = _classes(result, result.task, max(n, 0))
    else:
        found = _values(result, result.task, max(n, 0))
    ids = result.labels[name][held_out.rows[found.pop("place")]]
    numbers = ("given_confidence", "prediction_confidence")
    return pl.DataFrame({name: ids, **found}, schema_overrides=dict.fromkeys(numbers, pl.Float64))


def _classes(result: Result, task: Classification, n: int) -> dict[str, Any]:
    y, predictions = result.held_out.y, result.held_out.predictions
    probability = np.exp(log_normalize(predictions["ensemble"].astype(float)))
    ranked = rank_labels(probability, y)
    order = ranked.order[:n]
    other = ranked.other[order]
    models = [one for name, one in predictions.items() if name not in ("ensemble", "student")]
    against = sum((one[order].argmax(1) != y[order] for one in models), np.zeros(len(order), int))
    return {
        "place": order,
        "given": task.display(y[order]),
        "prediction": task.display(other),
        "given_confidence": probability[order, y[order]],
        "prediction_confidence": probability[order, other],
        "is_issue": np.arange(len(order)) < ranked.issues,
        "reason": [f"{count} of {len(models)} base models differ" for count in against.tolist()],
    }


def _values(result: Result, task: Regression, n: int) -> dict[str, Any]:
    y, predicted = result.held_out.y, result.held_out.predictions["ensemble"][:, 0].astype(float)
    off = np.abs(y - predicted)
    typical = max(float(np.median(off)) / 0.6745 if len(off) else 0.0, 1e-12)  # robust deviation
    order = np.argsort(-off, kind="stable")[:n]
    ratio = off[order] / typical
    return {
        "place": order,
        "given": task.display(y[order]),
        "prediction": task.display(predicted[order]),
        "given_confidence": [None] * len(order),
        "prediction_confidence": [None] * len(order),
        "is_issue": ratio > FAR,
        "reason": [f"{one:.1f} typical errors from its prediction" for one in ratio.tolist()],
    }
