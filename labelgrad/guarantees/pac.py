"""Labels to hand back with a promise: of the surest rows so many as audits can answer for.

N rows are put in order by how sure their labels are, before any audit is seen. n of them are drawn
at random and looked at. Let W_k be how many of the k surest labels are wrong, and m_k how many
mistakes the audit found among them: m_k is hypergeometric with N, W_k and n. For k = 1, 2, …, N in
turn the hypothesis is

    W_k > ε k            of the labels handed back, more than ε are wrong, or
    W_k > ε N            of all rows, once a person has labeled the others,

and it is rejected where so few mistakes as m_k had at most the probability α. The k surest are
handed back up to the first hypothesis that stands. The first one that is true is rejected with a
probability of at most α, so no confidence is lost by testing many (fixed sequence testing). The
second kind is the rule of Candès, Ilyas and Zrnic (2025, arXiv 2506.10908). The first kind cannot
begin at k = 1, where nothing is ever rejected. It begins where two mistakes would be allowed if
that is among the surest rows, else where one would be, else where none is: settled by N, n and ε.

Audited rows are handed back with the labels that a person gave them, which makes it only better.
Where no hypothesis is rejected, nothing is handed back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labelgrad.guarantees.binomial import CONFIDENCE, allowed_mistakes, check_share

FORGIVEN, AMONG = 2, 0.4  # mistakes at the beginning, if that is in this share of the rows


def allowed_by_rank(
    rows: int,
    audited: int,
    wrong_at_most: float,
    *,
    confidence: float = CONFIDENCE,
    rest_by_hand: bool = False,
    most: int | None = None,
) -> NDArray[np.int_]:
    """For k = 1 … rows how many mistakes an audit may find among the k surest; −1: not even none.

    More than `most` are not counted, for audits that found no more.

    >>> allowed_by_rank(2000, 300, 0.02)[[500, 1000, 1999]]
    array([-1,  0,  2])
    >>> allowed_by_rank(2000, 300, 0.02, rest_by_hand=True)[[500, 1000, 1999]]
    array([2, 2, 2])
    """
    check_share("wrong_at_most", wrong_at_most)
    check_share("confidence", confidence)
    ranks = np.full(rows, rows) if rest_by_hand else np.arange(1, rows + 1)
    limits = np.floor(wrong_at_most * ranks + 1e-9).astype(int)
    counted = None if most is None else max(most, FORGIVEN)  # the beginning is the same for all
    return allowed_mistakes(limits, audited, rows, confidence, most=counted)


def handed_back(mistakes: NDArray[np.int_], allowed: NDArray[np.int_]) -> NDArray[np.int_]:
    """How many of the surest rows are handed back: (…, rows) mistakes up to each rank in, (…,) out.

    >>> handed_back(np.array([[0, 0, 1, 1], [1, 1, 1, 2]]), np.array([-1, 0, 0, 1]))
    array([2, 0])
    """
    begins = [int(np.argmax(allowed >= c)) for c in range(FORGIVEN + 1) if (allowed >= c).any()]
    if not begins:
        return np.zeros(mistakes.shape[:-1], dtype=int)
    early = [begin for begin in begins[1:] if begin <= AMONG * len(allowed)]
    first = max(early, default=begins[0])
    stands = mistakes[..., first:] > allowed[first:]
    until = np.where(stands.any(-1), stands.argmax(-1), stands.shape[-1])
    return np.where(until > 0, first + until, 0)


def mistakes_by_rank(
    uncertainty: NDArray[np.float64], audited: NDArray[np.int_], wrong: NDArray[np.bool_]
) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """The rows from the surest on, and how many mistakes the audit found up to each of them.

    `wrong` says of each of the `audited` rows whether its label is. Rows as sure as each other stay
    in their order.

    >>> order, mistakes = mistakes_by_rank(
    ...     np.array([0.5, 0.1, 0.2]), np.array([0, 1]), np.array([True, False])
    ... )
    >>> order, mistakes
    (array([1, 2, 0]), array([0, 0, 1]))
    """
    order = np.argsort(uncertainty, kind="stable")
    found = np.zeros(len(uncertainty), dtype=int)
    found[audited] = wrong
    return order, found[order].cumsum()


def surest_rows(
    uncertainty: NDArray[np.float64],
    audited: NDArray[np.int_],
    wrong: NDArray[np.bool_],
    wrong_at_most: float,
    *,
    confidence: float = CONFIDENCE,
    rest_by_hand: bool = False,
) -> NDArray[np.int_]:
    """The rows whose labels can be handed back, the surest first.

    >>> sure = np.linspace(0, 1, 400)
    >>> looked_at = np.arange(0, 400, 2)
    >>> rows = surest_rows(sure, looked_at, looked_at > 300, 0.05)
    >>> len(rows), rows[-1]
    (310, np.int64(309))
    """
    order, mistakes = mistakes_by_rank(uncertainty, audited, wrong)
    allowed = allowed_by_rank(
        len(order),
        len(audited),
        wrong_at_most,
        confidence=confidence,
        rest_by_hand=rest_by_hand,
        most=int(wrong.sum()),
    )
    return order[: int(handed_back(mistakes, allowed))]


def more_audits(
    mistakes: NDArray[np.int_],
    audited: int,
    wrong_at_most: float,
    *,
    confidence: float = CONFIDENCE,
    rest_by_hand: bool = False,
) -> int:
    """At least how many more rows must be looked at until something can be handed back.

    That is if they bring no new mistake; `mistakes` are those up to each rank. 0 where something
    can be handed back now; it may take all rows.

    >>> none = np.zeros(2000, dtype=int)
    >>> more_audits(none, 50, 0.02), more_audits(none, 150, 0.02)
    (90, 0)
    """
    rows = len(mistakes)

    def enough(in_all: int) -> bool:
        allowed = allowed_by_rank(
            rows,
            in_all,
            wrong_at_most,
            confidence=confidence,
            rest_by_hand=rest_by_hand,
            most=int(mistakes[-1]),
        )
        return bool(handed_back(mistakes, allowed))

    if enough(audited):
        return 0
    few, many = audited, min(max(2 * audited, 1), rows)
    while many < rows and not enough(many):
        few, many = many, min(2 * many, rows)
    while many - few > 1:  # `few` are too few, `many` are enough
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many - audited
