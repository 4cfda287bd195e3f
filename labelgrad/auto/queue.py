"""The review queue: which labels a person should see first, for the command and for the page."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from labelgrad.auto.annotations import AnnotationLog, log_of
from labelgrad.auto.label_issues import ranked_labels
from labelgrad.auto.task import Array, Classification

if TYPE_CHECKING:
    from labelgrad.auto.result import Result

LABEL_ISSUES = "label-issues"
ORDERS = ("useful", "uncertain", "confident", "disagreement", "random", "data", LABEL_ISSUES)
DISAGREEMENT_WEIGHT = 0.25  # beside the probability that the label is wrong
MANY_NEIGHBOURS = 0.5  # a larger share of neighbours with another label is a reason
LIKELY = 0.5  # a larger probability of an unknown class is a reason
FAR = 1.0  # typical errors from the neighbours' mean


@dataclass(frozen=True)
class Query:
    """Which examples somebody wants to see, in which order.

    >>> Query("best")
    Traceback (most recent call last):
    ValueError: The order must be one of useful, uncertain, confident, disagreement, random, data, \
label-issues, got 'best'.
    """

    order: str = "useful"
    label: int | None = None  # code of the imputed class
    low: float = 0.0  # of the confidence
    high: float = 1.0
    search: str = ""

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"The order must be one of {', '.join(ORDERS)}, got {self.order!r}.")


class ReviewQueue:
    """The labels of a run in any order; each order is computed once."""

    def __init__(self, result: Result):
        self.result = result
        table = result.labels
        self.is_classification = isinstance(result.task, Classification)
        self.imputed = np.flatnonzero((table["source"] == "imputed").to_numpy())
        self.label = codes(table["label"])
        self.confidence = table["confidence"].to_numpy()
        self.order = lru_cache(self._order)

    @cached_property
    def disagreement(self) -> Array:
        """How much contradicts each imputed label.

        For classes the share of base models, saved model and neighbours with another label; for
        values the largest distance of the saved model and the neighbours, in the target's units.
        """
        table, rows, label = self.result.labels[self.imputed], self.imputed, self.label
        prediction = codes(table["prediction"])
        if not self.is_classification:
            others = np.stack([prediction, codes(table["neighbours"])])
            found: Array = np.nan_to_num(np.fmax(*np.abs(others - label[rows])))
            return found
        against: Array = (prediction != label[rows]).astype(float)
        against += np.nan_to_num(table["neighbour_disagreement"].to_numpy())
        known = self.result.base_model_predictions
        at, voters = np.searchsorted(rows, known.rows), np.full(len(rows), 2.0)
        voters[at] += len(known.predictions)
        for predicted in known.predictions.values():
            against[at] += predicted[:, 0] != label[known.rows]
        against /= voters
        return against

    @cached_property
    def doubt(self) -> Array:
        """One less the confidence in each imputed label, or for values the disagreement."""
        if not self.is_classification:
            return self.disagreement
        doubt: Array = 1 - np.nan_to_num(self.confidence[self.imputed].astype(float), nan=1.0)
        return doubt

    def _order(self, name: str) -> Array:
        """Rows of the table of labels in an order of `ORDERS`, the first ones to be seen first."""
        if name == LABEL_ISSUES:
            ranked = ranked_labels(self.result)
            return np.asarray(self.result.held_out.rows[ranked.order[: ranked.issues]])
        if name == "random":  # the same on every page
            digest = hashlib.blake2b(self.result.digest.encode(), digest_size=8).digest()
            return np.random.default_rng(int.from_bytes(digest)).permutation(self.imputed)
        weight = DISAGREEMENT_WEIGHT * self.is_classification
        worth: dict[str, Callable[[], Array]] = {
            "useful": lambda: self.doubt + weight * self.disagreement,
            "uncertain": lambda: self.doubt,
            "confident": lambda: -self.doubt,
            "disagreement": lambda: self.disagreement,
            "data": lambda: np.zeros(len(self.imputed)),
        }
        return self.imputed[np.argsort(-worth[name](), kind="stable")]

    def rows(self, query: Query, annotated: Array, found: Array | None = None) -> Array:
        """The rows without an annotation that a query asks for.

        Parameters
        ----------
        query
            Order and filters.
        annotated
            Whether each row has an annotation.
        found
            The rows that a search has found; None without a search.

        Returns
        -------
        array
            Rows of the table of labels.
        """
        rows = self.order(query.order)
        fits = ~annotated[rows]
        if query.label is not None and query.order != LABEL_ISSUES:
            fits &= self.label[rows] == query.label
        if (query.low, query.high) != (0.0, 1.0) and self.is_classification:
            with np.errstate(invalid="ignore"):
                fits &= (self.confidence[rows] >= query.low) & (self.confidence[rows] <= query.high)
        if found is not None:
            fits &= np.isin(rows, found)
        return np.asarray(rows[fits])

    def reason(self, row: int) -> str:
        """Why an imputed label is in doubt, in a few words."""
        of = self.result.labels.row(row, named=True)
        apart = of["neighbour_disagreement"] or 0.0
        reasons = []
        if (of["unknown_probability"] or 0.0) > LIKELY:
            reasons.append("looks like no labeled class")
        if self.is_classification:
            predicted = base_model_labels(self.result, row)
            against = sum(code != self.label[row] for code, _ in predicted.values())
            if against:
                reasons.append(f"{against} of {len(predicted)} base models differ")
            if of["prediction"] != of["label"]:
                reasons.append("saved model differs")
            if apart > MANY_NEIGHBOURS:
                reasons.append(f"{apart:.0%} of neighbours differ")
        elif apart > FAR:
            reasons.append(f"{apart:.1f} typical errors from its neighbours")
        return ", ".join(reasons) or "low confidence"


def codes(column: pl.Series) -> Array:
    """A column of labels as codes of classes, -1 where there is none; or as values, NaN so."""
    if isinstance(column.dtype, pl.Enum):
        found: Array = column.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        return found
    return column.to_numpy()


def base_model_labels(result: Result, row: int) -> dict[str, tuple[float, float]]:
    """Code and confidence, or mean and deviation, that each base model predicts of a row."""
    known = result.base_model_predictions
    places = np.flatnonzero(known.rows == row)
    if not len(places):
        return {}
    return {name: tuple(one[places[0]].tolist()) for name, one in known.predictions.items()}


def annotated_rows(result: Result, log: AnnotationLog) -> Array:
    """Whether each row of the table of labels has an annotation."""
    ids = [one.id for one in log.annotations()]
    return result.labels.to_series(0).is_in(ids).to_numpy()


def review_list(result: Result, n: int = 20) -> pl.DataFrame:
    """The imputed labels that a person should see first, without those that are annotated.

    Parameters
    ----------
    result
        A run.
    n
        How many; labels that are probably wrong or disputed come first.

    Returns
    -------
    polars.DataFrame
        Id, imputed label, confidence, prediction of the saved model, label of the neighbours, and
        the reason.
    """
    queue = ReviewQueue(result)
    rows = queue.rows(Query(), annotated_rows(result, log_of(result)))[:n]
    columns = [result.labels.columns[0], "label", "confidence", "prediction", "neighbours"]
    reasons = pl.Series("reason", [queue.reason(row) for row in rows.tolist()], dtype=pl.String)
    return result.labels[rows, columns].with_columns(reasons)
