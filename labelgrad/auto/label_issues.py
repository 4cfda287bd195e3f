"""Given labels that are probably wrong, by out-of-fold predictions.

Confident learning (Northcutt, Jiang and Chuang 2021): a class is confidently predicted where its
out-of-fold probability is at least its mean over the examples labeled with that class. A label is
an issue if another class is confidently predicted and more probable than the label. A value is one
if it is far from its prediction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from labelgrad.auto.result import Result
from labelgrad.auto.task import Array, Classification, log_normalize

FAR = 3.0  # typical errors between a value and its prediction


class RankedLabels(NamedTuple):
    """All labels, the most likely wrong first, and how many of them are issues."""

    order: Array
    issues: int
    other: Array  # the most probable other class of each label, in the order of the input


def rank_labels(probabilities: Array, y: Array) -> RankedLabels:
    """Rank labels by out-of-fold probabilities (labels, classes).

    >>> predicted = np.array([[0.9, 0.1], [0.95, 0.05], [0.2, 0.8], [0.1, 0.9]])
    >>> ranked = rank_labels(predicted, np.array([0, 1, 1, 1]))
    >>> ranked.order, ranked.issues, ranked.other[ranked.order[0]]
    (array([1, 2, 0, 3]), 1, np.int64(0))
    """
    rows, classes = np.arange(len(y)), probabilities.shape[1]
    own = probabilities[rows, y]
    counts = np.bincount(y, minlength=classes)
    threshold = np.bincount(y, own, classes) / np.maximum(counts, 1)
    threshold[counts == 0] = 1.0
    others = probabilities.copy()
    others[rows, y] = -1.0
    other = others.argmax(1)
    margin = own - others[rows, other]
    is_issue = (others >= threshold).any(1) & (margin < 0)
    return RankedLabels(np.lexsort((margin, ~is_issue)), int(is_issue.sum()), other)


def ranked_labels(result: Result) -> RankedLabels:
    """The given labels of a run; values are ranked by their distance from the prediction."""
    y, predicted = result.held_out.y, result.held_out.predictions["ensemble"].astype(float)
    if isinstance(result.task, Classification):
        return rank_labels(np.exp(log_normalize(predicted)), y)
    order = np.argsort(-np.abs(predicted[:, 0] - y), kind="stable")
    return RankedLabels(order, len(y), predicted[:, 0])


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
    task, y, predictions = result.task, result.held_out.y, result.held_out.predictions
    predicted, ranked = predictions["ensemble"].astype(float), ranked_labels(result)
    order = ranked.order[:n]
    if isinstance(task, Classification):
        probability = np.exp(log_normalize(predicted))
        other = ranked.other[order]
        models = [one for name, one in predictions.items() if name not in ("ensemble", "student")]
        against = np.sum([one[order].argmax(1) != y[order] for one in models], axis=0, dtype=int)
        given_confidence, confidence = probability[order, y[order]], probability[order, other]
        is_issue = np.arange(len(order)) < ranked.issues
        reasons = [f"{count} of {len(models)} base models differ" for count in against.tolist()]
    else:
        off = np.abs(y - predicted[:, 0])
        typical = max(float(np.median(off)) / 0.6745 if len(off) else 0.0, 1e-12)  # robust
        other = predicted[order, 0]
        given_confidence = confidence = np.full(len(order), np.nan)
        is_issue = off[order] / typical > FAR
        reasons = [f"{one / typical:.1f} typical errors from its prediction" for one in off[order]]
    found = {
        "id": result.labels.to_series(0)[result.held_out.rows[order]],
        "given": task.display(y[order]),
        "prediction": task.display(other),
        "given_confidence": pl.Series(given_confidence).fill_nan(None),
        "prediction_confidence": pl.Series(confidence).fill_nan(None),
        "is_issue": is_issue,
        "reason": reasons,
    }
    return pl.DataFrame(found).rename({"id": result.labels.columns[0]})
