"""Labels to hand back that are at most so often wrong on average: conformal selection.

The promise is weaker than that of `pac`: the share of wrong labels among those handed back is at
most ε in expectation over the draw of the audit, and one run may well have more. It needs fewer
audits. Of each row that was not audited the hypothesis is that its label is wrong, with the
conformal p-value

    p_j = (1 + audited rows that are wrong and at least as sure) / (1 + audited rows),

and the procedure of Benjamini and Hochberg at the level ε picks the rows (Jin and Candès 2023;
conformal labeling, arXiv 2510.14581).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from labelgrad.guarantees.binomial import check_share
from labelgrad.guarantees.pac import mistakes_by_rank


def handed_back_on_average(
    mistakes: NDArray[np.int_], looked_at: NDArray[np.int_], wrong_at_most: float
) -> NDArray[np.int_]:
    """How many of the surest rows are handed back, from counts (…, rows) up to each rank.

    `mistakes` are those the audit found, `looked_at` the rows it looked at.

    >>> looked_at = np.arange(1, 401) // 4
    >>> handed_back_on_average(np.maximum(looked_at - 80, 0), looked_at, 0.05)
    array(335)
    """
    check_share("wrong_at_most", wrong_at_most)
    rows = mistakes.shape[-1]
    audited = looked_at[..., -1:]
    others = np.arange(1, rows + 1) - looked_at  # rows up to each rank that nobody has looked at
    passes = (rows - audited) * (1 + mistakes) <= wrong_at_most * (1 + audited) * others + 1e-9
    passes &= others > 0
    last = rows - passes[..., ::-1].argmax(-1)
    return np.where(passes.any(-1), last, 0)


def surest_rows_on_average(
    uncertainty: NDArray[np.float64],
    audited: NDArray[np.int_],
    wrong: NDArray[np.bool_],
    wrong_at_most: float,
) -> NDArray[np.int_]:
    """The rows whose labels can be handed back, the surest first.

    >>> sure = np.linspace(0, 1, 400)
    >>> looked_at = np.arange(0, 400, 4)
    >>> len(surest_rows_on_average(sure, looked_at, looked_at > 320, 0.05))
    336
    """
    order, mistakes = mistakes_by_rank(uncertainty, audited, wrong)
    seen = np.zeros(len(order), dtype=int)
    seen[audited] = 1
    many = handed_back_on_average(mistakes, seen[order].cumsum(), wrong_at_most)
    return order[: int(many)]


def more_audits_on_average(mistakes: NDArray[np.int_], audited: int, wrong_at_most: float) -> int:
    """At least how many more rows must be looked at until something can be handed back.

    That is if they bring no new mistake; `mistakes` are those up to each rank.

    >>> more_audits_on_average(np.zeros(2000, dtype=int), 30, 0.02)
    19
    """
    check_share("wrong_at_most", wrong_at_most)
    rows = len(mistakes)
    needed = rows * (1 + mistakes) / (wrong_at_most * np.arange(1, rows + 1))
    in_all = math.ceil(float(needed.min()) - 1e-9) - 1
    return max(min(in_all, rows) - audited, 0)
