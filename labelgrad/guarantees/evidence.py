"""What is known about the rows in question: how sure their labels are, and which were looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labelgrad.guarantees.binomial import CONFIDENCE, upper_bound
from labelgrad.guarantees.conformal import more_audits_on_average, surest_rows_on_average
from labelgrad.guarantees.pac import mistakes_by_rank, more_audits, surest_rows


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows with an uncertainty each, and of some that were drawn at random whether they are wrong.

    >>> found = Evidence(np.linspace(0, 1, 400), np.arange(0, 400, 2), np.arange(0, 400, 2) > 300)
    >>> len(found.surest(0.05)), found.more_audits(0.05), round(found.bound(), 3)
    (310, 0, 0.282)
    """

    uncertainty: NDArray[np.float64]  # (rows,): smaller is surer
    audited: NDArray[np.int_]  # places among the rows
    wrong: NDArray[np.bool_]  # of each of them

    @property
    def mistakes(self) -> int:
        """How many of those looked at are wrong."""
        return int(self.wrong.sum())

    def bound(self, confidence: float = CONFIDENCE) -> float:
        """The share of all rows that may be wrong."""
        return upper_bound(
            self.mistakes, len(self.audited), rows=len(self.uncertainty), confidence=confidence
        )

    def surest(
        self,
        wrong_at_most: float,
        *,
        confidence: float = CONFIDENCE,
        rest_by_hand: bool = False,
        on_average: bool = False,
    ) -> NDArray[np.int_]:
        """The rows that can be handed back with the promise, the surest first."""
        known = self.uncertainty, self.audited, self.wrong
        if on_average:
            return surest_rows_on_average(*known, wrong_at_most)
        return surest_rows(*known, wrong_at_most, confidence=confidence, rest_by_hand=rest_by_hand)

    def more_audits(
        self,
        wrong_at_most: float,
        *,
        confidence: float = CONFIDENCE,
        rest_by_hand: bool = False,
        on_average: bool = False,
    ) -> int:
        """At least how many more must be looked at until something can be handed back."""
        _, mistakes = mistakes_by_rank(self.uncertainty, self.audited, self.wrong)
        if on_average:
            return more_audits_on_average(mistakes, len(self.audited), wrong_at_most)
        return more_audits(
            mistakes,
            len(self.audited),
            wrong_at_most,
            confidence=confidence,
            rest_by_hand=rest_by_hand,
        )


def stand_ins(
    uncertainty: NDArray[np.float64], out_of_fold: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The uncertainty at which labels that were trained on stand in for rows without a label.

    What was said of a label while it was hidden was said by a model of fewer labels, which is less
    sure. So only the order is taken from it: the surest tenth of these labels stands among the
    surest tenth of the rows. Where the kept model is at least as good as those of the folds, that
    tells no fewer mistakes than there are.

    >>> stand_ins(np.array([0.0, 0.1, 0.2, 0.3, 0.4]), np.array([0.9, 0.5]))
    array([0.3, 0.1])
    """
    order = np.argsort(np.argsort(out_of_fold, kind="stable"), kind="stable")
    return np.quantile(uncertainty, (order + 0.5) / max(len(out_of_fold), 1))
