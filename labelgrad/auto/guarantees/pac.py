"""The largest set of most confident labels with a guaranteed error rate.

N labels are ordered by confidence before any audit is seen. An audit checks n of them, drawn at
random. Let W_k be the number of wrong labels among the k most confident, and m_k the mistakes that
the audit found among them: m_k is hypergeometric with N, W_k and n. For k = 1, 2, …, N in turn the
hypothesis is

    W_k > ε k            more than ε of the selected labels are wrong, or
    W_k > ε N            more than ε of all labels are, once a person has labeled the others,

and it is rejected where m_k or fewer mistakes had a probability of at most α. The k most confident
labels are selected up to the first hypothesis that is not rejected. The first true hypothesis is
rejected with probability at most α, so that testing many costs no confidence (fixed sequence
testing). The second kind is the rule of Candès, Ilyas and Zrnic (2025, arXiv 2506.10908). The first
kind cannot begin at k = 1, where nothing is ever rejected. It begins where two mistakes would be
allowed if that is among the most confident labels, else where one would be, else where none is:
this depends on N, n and ε alone.

A person may look, audit more and look again. The i-th look that counts is given its own part of α,

    α_1 = 0.9 α,   α_i = 0.1 α / 2^(i−1)   for i = 2, 3, …

The parts add up to α, so that all guarantees of one rate that were ever shown for a model hold
together with probability 1 − α, whenever a person stops. A look counts if a sample of its size can
select anything at its part of α, and if it has half as many labels again as the last one that
counts; other looks show what the earlier ones have selected.

Audited examples are returned with the labels that a person gave them, which only lowers the error
rate. Where no hypothesis is rejected, nothing is selected.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
START_MISTAKES, START_WITHIN = 2, 0.4  # allowed at the first k, if that is in this part of all
FIRST_LOOK, GROWTH = 0.9, 1.5  # part of α; labels of a look that counts, relative to the last one


@dataclass(frozen=True, eq=False)
class AuditSample:
    """Labels with an uncertainty each, and for a random sample of them whether they are wrong.

    >>> audited = np.arange(0, 400, 2)
    >>> sample = AuditSample(np.linspace(0, 1, 400), audited, audited > 300)
    >>> len(sample.select(0.05)), sample.more_audits(0.05), round(sample.bound(), 3)
    (310, 0, 0.282)
    """

    uncertainty: NDArray[np.float64]  # (population,): smaller is more confident
    audited: NDArray[np.int_]  # places in the population
    wrong: NDArray[np.bool_]  # of each of them

    @property
    def mistakes(self) -> int:
        """How many of the audited labels are wrong."""
        return int(self.wrong.sum())

    def bound(self, confidence: float = CONFIDENCE) -> float:
        """The largest error rate of the whole population that the audit does not rule out."""
        n = len(self.uncertainty)
        return (int(ruled_out(self.mistakes, len(self.audited), n, confidence)) - 1) / n

    def first(self, labels: int) -> AuditSample:
        """The sample when it had this many labels."""
        return replace(self, audited=self.audited[:labels], wrong=self.wrong[:labels])

    def select(
        self, max_error_rate: float, *, confidence: float = CONFIDENCE, rest_by_hand: bool = False
    ) -> NDArray[np.int_]:
        """Places of the labels that the guarantee covers, the most confident first."""
        found = self._selected(len(self.audited), max_error_rate, confidence, rest_by_hand)
        return self._order[:found]

    def more_audits(
        self, max_error_rate: float, *, confidence: float = CONFIDENCE, rest_by_hand: bool = False
    ) -> int:
        """The least number of further audits until something is selected, if all are right."""

        def enough(audited: int) -> bool:
            return self._selected(audited, max_error_rate, confidence, rest_by_hand) > 0

        audited = len(self.audited)
        return bisect_left(range(audited, len(self._order)), True, key=enough)

    @cached_property
    def _order(self) -> NDArray[np.int_]:
        """Places from the most confident on."""
        return np.argsort(self.uncertainty, kind="stable")

    def _selected(
        self, audited: int, max_error_rate: float, confidence: float, rest_by_hand: bool
    ) -> int:
        """How many labels would be selected if so many audits had found these mistakes."""
        found = np.zeros(len(self._order), dtype=int)
        found[self.audited] = self.wrong
        allowed = allowed_by_rank(
            len(found),
            audited,
            max_error_rate,
            confidence=confidence,
            rest_by_hand=rest_by_hand,
            most=self.mistakes,
        )
        return int(selected_count(found[self._order].cumsum(), allowed))


def look_confidence(confidence: float, earlier: int = 0) -> float:
    """The confidence of a look after others that count.

    >>> [round(look_confidence(0.95, earlier), 5) for earlier in (0, 1, 2)]
    [0.955, 0.9975, 0.99875]
    """
    part = (1 - FIRST_LOOK) / 2**earlier if earlier else FIRST_LOOK
    return 1 - (1 - confidence) * part


def counted_looks(
    looks: Iterable[int], population: int, max_error_rate: float, confidence: float = CONFIDENCE
) -> list[tuple[int, float]]:
    """The looks that count, as their numbers of labels, and the confidence of each.

    >>> counted_looks([20, 80, 90, 200], 2000, 0.05)
    [(80, 0.955), (200, 0.9975)]
    """
    found: list[tuple[int, float]] = []
    for labels in looks:
        if found and labels < GROWTH * found[-1][0]:
            continue
        level = look_confidence(confidence, len(found))
        if certifies(min(labels, population), population, max_error_rate, level):
            found.append((labels, level))
    return found


def certifies(audited: int, population: int, max_error_rate: float, confidence: float) -> bool:
    """Whether an audit without a mistake rules out that more of all labels are wrong."""
    from scipy.stats import hypergeom

    too_many = int(max_error_rate * population + 1e-9) + 1
    return bool(hypergeom.pmf(0, population, too_many, audited) <= 1 - confidence)


def audits_needed(max_error_rate: float, population: int, *, confidence: float = CONFIDENCE) -> int:
    """How many audits certify an error rate of all labels if they find no mistake.

    >>> audits_needed(0.05, 400), audits_needed(0.02, 10**6)
    (52, 149)
    """
    return 1 + bisect_left(
        range(1, population),
        True,
        key=lambda audited: certifies(audited, population, max_error_rate, confidence),
    )


def ruled_out(
    mistakes: ArrayLike, audited: int, population: int, confidence: float = CONFIDENCE
) -> NDArray[np.int_]:
    """The smallest number of wrong labels that the audit rules out; `population` + 1 if none.

    >>> ruled_out([0, 1], 150, 2000), ruled_out(0, 0, 2000)
    (array([39, 61]), array(2001))
    """
    from scipy.stats import hypergeom

    few = np.asarray(mistakes)
    many = population - audited + few + 1  # more than that cannot be
    found = few
    while (many - few > 1).any():
        middle = (few + many) // 2
        unlikely = hypergeom.cdf(found, population, middle, audited) <= 1 - confidence
        few, many = np.where(unlikely, few, middle), np.where(unlikely, middle, many)
    return many


def allowed_by_rank(
    population: int,
    audited: int,
    max_error_rate: float,
    *,
    confidence: float = CONFIDENCE,
    rest_by_hand: bool = False,
    most: int | None = None,
) -> NDArray[np.int_]:
    """For k = 1 … population the mistakes that an audit may find among the k most confident.

    -1 where not even none suffices. Numbers beyond `most` are not computed.

    >>> allowed_by_rank(2000, 300, 0.02)[[500, 1000, 1999]]
    array([-1,  0,  2])
    >>> allowed_by_rank(2000, 300, 0.02, rest_by_hand=True)[[500, 1000, 1999]]
    array([2, 2, 2])
    """
    check_rate("max_error_rate", max_error_rate)
    check_rate("confidence", confidence)
    ranks = np.full(population, population) if rest_by_hand else np.arange(1, population + 1)
    limits: NDArray[np.int_] = np.floor(max_error_rate * ranks + 1e-9).astype(int)
    largest = min(audited, int(limits.max(initial=0)))
    if most is not None:
        largest = min(largest, max(most, START_MISTAKES))
    found = ruled_out(np.arange(largest + 1), audited, population, confidence)
    return np.searchsorted(found, limits + 1, side="right") - 1


def selected_count(mistakes: NDArray[np.int_], allowed: NDArray[np.int_]) -> NDArray[np.int_]:
    """How many of the most confident labels are selected; `mistakes` (…, n) are cumulative.

    >>> selected_count(np.array([[0, 0, 1, 1], [1, 1, 1, 2]]), np.array([-1, 0, 0, 1]))
    array([2, 0])
    """
    tolerated = range(START_MISTAKES + 1)
    starts = [int(np.argmax(allowed >= c)) for c in tolerated if (allowed >= c).any()]
    if not starts:
        return np.zeros(mistakes.shape[:-1], dtype=int)
    early = [start for start in starts[1:] if start <= START_WITHIN * len(allowed)]
    first = max(early, default=starts[0])
    fails = mistakes[..., first:] > allowed[first:]
    until = np.where(fails.any(-1), fails.argmax(-1), fails.shape[-1])
    return np.where(until > 0, first + until, 0)


def match_ranks(
    uncertainty: NDArray[np.float64], out_of_fold: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Uncertainties at which held-out labels represent unlabeled examples of the same rank.

    An out-of-fold prediction comes from a model of fewer labels, which is less confident, so only
    its rank is used: the most confident tenth of the held-out labels represents the most confident
    tenth of the unlabeled examples. If the final model is at least as good as those of the folds,
    this does not underestimate the number of mistakes.

    >>> match_ranks(np.array([0.0, 0.1, 0.2, 0.3, 0.4]), np.array([0.9, 0.5]))
    array([0.3, 0.1])
    """
    rank = np.argsort(np.argsort(out_of_fold, kind="stable"), kind="stable")
    return np.quantile(uncertainty, (rank + 0.5) / max(len(out_of_fold), 1))


def check_rate(name: str, rate: float) -> None:
    """Raise unless the rate is above 0 and below 1.

    >>> check_rate("max_error_rate", 0.0)
    Traceback (most recent call last):
    ValueError: `max_error_rate` must be above 0 and below 1, such as 0.02 for 2 %, got 0; only \
an audit of every label can rule out every mistake.
    """
    if 0 < rate < 1:
        return
    why = "; only an audit of every label can rule out every mistake" if rate == 0 else ""
    raise ValueError(
        f"`{name}` must be above 0 and below 1, such as 0.02 for 2 %, got {rate:g}{why}."
    )
