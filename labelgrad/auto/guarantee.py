"""Imputed labels with a guaranteed error rate.

With a probability of 1 − α over the random draw of the audit,

    wrong labels among those selected  ≤  ε · labels selected

Selected are the most confident imputed labels, and all audited examples with the labels that a
person gave them. The order by confidence was fixed before the audit, so that the guarantee is
exact for audits. It holds at every look: the first one is given most of α, later ones the rest
(`guarantees.pac`), for which the log has every look. Labels that were sampled at random and
trained on count by their out-of-fold predictions; this is as good as the final model is no worse
than those of the folds (`guarantees.pac.match_ranks`). Labels that somebody chose give no
guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np
import polars as pl

from labelgrad.auto.annotations import AUDIT, AnnotationLog, Label, Look, audit_of, log_of
from labelgrad.auto.guarantees.pac import (
    CONFIDENCE,
    GROWTH,
    AuditSample,
    audits_needed,
    counted_looks,
    look_confidence,
    match_ranks,
)
from labelgrad.auto.queue import codes
from labelgrad.auto.result import Result
from labelgrad.auto.task import Array, Classification, log_normalize

RATES = (0.1, 0.05, 0.02)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The labels of a run that are a random sample its present model was not fitted on."""

    imputed: Array  # rows of all imputed labels: the population
    audited: dict[int, Label | None]  # label of each audited row; None where it was left out
    random: Array  # rows of labels sampled at random, to be judged by out-of-fold predictions
    discarded: tuple[str, ...] = ()  # sentences on labels that no longer count

    @property
    def gaps(self) -> int:
        """How many audited rows were left out."""
        return sum(label is None for label in self.audited.values())

    def __len__(self) -> int:
        return len(self.audited) + len(self.random)


def evidence(result: Result, log: AnnotationLog) -> Evidence:
    """The random labels that may judge the imputed labels of a run.

    Audits count if they were drawn with the present model. A model trained later may have learned
    from what they showed. Labels sampled at random count while all labels of the run are such
    labels. Labels that people added since were not sampled at random, and those that remain
    unlabeled are no longer like the rest. Held-out predictions are the ensemble's, so that they
    say nothing of labels that another model imputed.
    """
    ids, source, discarded = result.labels.to_series(0), result.labels["source"], []
    imputed, random = (np.flatnonzero((source == one).to_numpy()) for one in ("imputed", "random"))
    audit = audit_of(log, result.digest)
    rows = (ids.is_in(list(audit.labels)) & (source == "imputed")).arg_true()
    place = dict(zip(ids[rows], rows, strict=True))
    audited = {place[name]: label for name, label in audit.labels.items() if name in place}
    if earlier := sum(one.model != result.digest for one in log.newest(audits=True)):
        discarded.append(
            f"{_count(earlier, 'audit')} drawn before the last training no longer "
            f"{'counts' if earlier == 1 else 'count'}, because the training could have used what "
            f"they showed."
        )
    added, reason = len(ids) - len(imputed) - len(random), ""
    if result.about.learned_from is not None:
        reason = (
            f"do not count, because examples beyond the {result.about.learned_from:,} that were "
            f"learned from have the saved model's labels, and the held-out predictions are the "
            f"ensemble's"
        )
    elif result.config.groups is not None:
        reason = "do not count, because labels of one group are alike; draw an audit"
    elif added:
        reason = (
            f"no longer represent the unlabeled examples, because {_count(added, 'label')} were "
            f"added since"
        )
    if len(random) and reason:
        discarded.append(f"The {_count(len(random), 'label')} sampled at random {reason}.")
        random = random[:0]
    return Evidence(imputed, audited, random, tuple(discarded))


@dataclass(frozen=True, eq=False)
class Guarantee:
    """A guarantee, and the labels that it covers."""

    labels: pl.DataFrame  # id, label, confidence, source
    max_error_rate: float
    confidence: float
    rest_by_hand: bool
    evidence: Evidence
    mistakes: int  # among the random labels
    bound: float  # on the error rate of all imputed labels
    more_audits: int  # needed at least, if nothing is selected
    rests_on: int  # how many of the random labels, the first ones, the guarantee rests on

    @property
    def imputed(self) -> int:
        """How many of the labels are imputed."""
        return int((self.labels["source"] == "imputed").sum())

    @property
    def basis(self) -> str:
        """What the guarantee rests on, as a part of a sentence."""
        known, parts = self.evidence, []
        if known.audited:
            gaps = f" ({known.gaps} left out, counted as mistakes)" if known.gaps else ""
            parts.append(_count(len(known.audited), "random audit") + gaps)
        if len(known.random):
            parts.append(f"{_count(len(known.random), 'held-out random label')}")
        return f"{' and '.join(parts)} with {_count(self.mistakes, 'mistake')}"

    @property
    def summary(self) -> str:
        """The guarantee, or why there is none and what is needed."""
        rate, n = _percent(self.max_error_rate), len(self.evidence.imputed)
        if not len(self.labels):
            what = (
                f"No labels can be guaranteed to have an error rate of at most {rate}: "
                f"{self.basis} bound the error rate of all {n:,} imputed labels by "
                f"{_percent(self.bound)} only. At least {_count(self.more_audits, 'more audit')} "
                f"without a mistake are needed before you ask again."
            )
            return " ".join([what, *self.evidence.discarded])
        by_hand = len(self.labels) - self.imputed
        also = f" and {_count(by_hand, 'audited label')}" if by_hand else ""
        selected = f"{self.imputed:,} of {n:,} imputed labels{also}"
        what = f"At most {rate} of {selected} are wrong"
        if self.rest_by_hand:
            what = (
                f"{selected} are selected. Once a person has labeled the other "
                f"{n - len(self.labels):,} examples, at most {rate} of all {n:,} labels are wrong"
            )
        what += f", with {_percent(self.confidence)} confidence ({self.basis})."
        if self.rests_on < len(self.evidence):
            what += (
                f" This rests on the first {self.rests_on:,} of the random labels, with which a "
                f"guarantee was asked for before; a later one needs half as many again."
            )
        return " ".join([what, *self.evidence.discarded])


class GuaranteeFinder:
    """Guarantees of several rates for one state of a run and its audits.

    Parameters
    ----------
    result
        A run with classes.
    log
        The annotations of the run, if they are open already.
    confidence
        Probability with which each guarantee holds.
    look
        Whether a person is shown what the present audits guarantee, which is written to the log.
        If not, guarantees are those that were shown before.
    """

    def __init__(
        self,
        result: Result,
        log: AnnotationLog | None = None,
        *,
        confidence: float = CONFIDENCE,
        look: bool = True,
    ):
        if not isinstance(result.task, Classification):
            raise ValueError("Values are never exactly right; prevalence gives their mean instead.")
        log = log_of(result) if log is None else log
        self.result, self.evidence, self.confidence = result, evidence(result, log), confidence
        labels, random = len(self.evidence), len(self.evidence.random)
        self.looks = [random] if random else []  # every fit shows what they guarantee
        looks = (entry for entry in log.entries if isinstance(entry, Look))
        self.looks += [one.labels for one in looks if one.model == result.digest]
        if look and self.evidence.audited and labels not in self.looks:
            log.add([Look(labels, result.digest)])
            self.looks.append(labels)

    @cached_property
    def sample(self) -> AuditSample:
        """The imputed labels, with held-out random labels appended, and which are wrong."""
        table, known = self.result.labels, self.evidence
        uncertainty = 1 - table["confidence"].to_numpy()[known.imputed].astype(float)
        wrong = [table["label"][row] != answer for row, answer in known.audited.items()]
        unsure, missed = out_of_fold(self.result, known.random)
        n = len(uncertainty)
        matched = match_ranks(uncertainty, unsure) if len(unsure) and n else unsure
        audited = np.searchsorted(known.imputed, np.fromiter(known.audited, dtype=int))
        return AuditSample(
            np.concatenate([uncertainty, matched]),
            np.concatenate([np.arange(n, n + len(matched)), audited]).astype(int),
            np.concatenate([missed, np.array(wrong, dtype=bool)]),
        )

    def find(self, max_error_rate: float, *, rest_by_hand: bool = False) -> Guarantee:
        """The largest set of labels with a guarantee; as `guaranteed_labels`."""
        known = self.evidence
        if not len(known) or not len(known.imputed):
            raise ValueError(no_evidence(self.result, known, "A guarantee"))
        chosen, rests_on = self.select(max_error_rate, rest_by_hand)
        truth = {row: label for row, label in known.audited.items() if label is not None}
        if len(truth) == len(known.imputed):  # nothing is left to be wrong
            chosen = np.arange(len(known.imputed))
        shown = self.sample.first(max(self.looks, default=0))
        earlier = max(len(self._counted(max_error_rate)) - 1, 0)
        return Guarantee(
            self._labels(chosen[chosen < len(known.imputed)], truth if len(chosen) else {}),
            max_error_rate,
            self.confidence,
            rest_by_hand,
            known,
            shown.mistakes,
            shown.bound(look_confidence(self.confidence, earlier)),
            0 if len(chosen) else self.more_audits(max_error_rate, rest_by_hand),
            rests_on,
        )

    def select(self, max_error_rate: float, rest_by_hand: bool = False) -> tuple[Array, int]:
        """The most that any look selected, as places in the sample, and its number of labels."""
        best, rests_on = np.zeros(0, dtype=int), len(self.evidence)
        for labels, level in self._counted(max_error_rate):
            if labels <= len(self.evidence):  # some may have been undone since
                found = self.sample.first(labels).select(
                    max_error_rate, confidence=level, rest_by_hand=rest_by_hand
                )
                if len(found) and len(found) >= len(best):
                    best, rests_on = found, labels
        return best, rests_on

    def more_audits(self, max_error_rate: float, rest_by_hand: bool = False) -> int:
        """The least number of further audits until a look selects something, if all are right."""
        known, looks = self.evidence, self._counted(max_error_rate)
        level = look_confidence(self.confidence, len(looks))
        more = self.sample.more_audits(max_error_rate, confidence=level, rest_by_hand=rest_by_hand)
        grown = ceil(GROWTH * looks[-1][0]) - len(known) if looks else 0
        return min(max(more, grown), len(known.imputed) - len(known.audited))

    def _counted(self, max_error_rate: float) -> list[tuple[int, float]]:
        population = len(self.sample.uncertainty)
        return counted_looks(self.looks, population, max_error_rate, self.confidence)

    def _labels(self, chosen: Array, truth: dict[int, Label]) -> pl.DataFrame:
        """Imputed labels, and after them the audited examples with their true labels."""
        rows = [row for row in self.evidence.imputed[chosen].tolist() if row not in truth]
        columns = [self.result.labels.columns[0], "label", "confidence", "source"]
        table = self.result.labels.select(columns).cast({"label": pl.String, "source": pl.String})
        by_hand = table[list(truth)].with_columns(
            pl.Series("label", [str(label) for label in truth.values()], pl.String),
            pl.lit(None, table.schema["confidence"]).alias("confidence"),
            pl.lit(AUDIT).alias("source"),
        )
        return pl.concat([table[rows], by_hand])


def guaranteed_labels(
    result: Result,
    max_error_rate: float,
    *,
    confidence: float = CONFIDENCE,
    rest_by_hand: bool = False,
) -> Guarantee:
    """The largest set of labels of which at most a given fraction is wrong.

    Parameters
    ----------
    result
        A run with classes, and with audits or labels sampled at random.
    max_error_rate
        The largest fraction of wrong labels, such as 0.02.
    confidence
        Probability with which the guarantee holds, over the random draw of the audit.
    rest_by_hand
        Guarantee the error rate of all imputed labels, once a person has labeled those that are
        not selected. This selects more.

    Returns
    -------
    Guarantee
        The labels, possibly none, and a summary.
    """
    finder = GuaranteeFinder(result, confidence=confidence)
    return finder.find(max_error_rate, rest_by_hand=rest_by_hand)


class GuaranteeTable(NamedTuple):
    """What can be guaranteed now, for the report; without rows the sentence says why nothing."""

    sentence: str
    rows: Sequence[Mapping[str, float]] = ()  # a rate, and what it selects


def guarantee_table(result: Result, log: AnnotationLog | None = None) -> GuaranteeTable:
    """Guarantees of 10, 5 and 2 % with 95 % confidence, or why there are none."""
    rows = []
    try:
        finder = GuaranteeFinder(result, log)
        for rate in RATES:
            plain, by_hand = finder.find(rate), finder.find(rate, rest_by_hand=True).imputed
            row = {"max_error_rate": rate, "selected": plain.imputed, "rest_by_hand": by_hand}
            rows.append(row | {"more": plain.more_audits})
    except ValueError as error:  # no random labels, or values
        return GuaranteeTable(str(error))
    sentences = [f"From {plain.basis}, with 95 % confidence.", *finder.evidence.discarded]
    return GuaranteeTable(" ".join(sentences), rows)


def out_of_fold(result: Result, rows: Array) -> tuple[Array, Array]:
    """How uncertain the ensemble was of labeled rows out of fold, and whether it was wrong.

    The only label of a class was never held out: it counts as a confident mistake.
    """
    held_out, label = result.held_out, codes(result.labels["label"])
    mine = np.isin(held_out.rows, rows)
    predicted = log_normalize(held_out.predictions["ensemble"][mine].astype(float))
    unsure = 1 - np.exp(predicted.max(1, initial=-np.inf))
    wrong = predicted.argmax(1) != held_out.y[mine]
    is_given = (result.labels["source"] != "imputed").to_numpy()
    counts = np.bincount(label[is_given], minlength=len(result.task.classes))
    alone = int((counts[label[np.setdiff1d(rows, held_out.rows)]] == 1).sum())
    return np.append(unsure, np.zeros(alone)), np.append(wrong, np.ones(alone, dtype=bool))


def no_evidence(result: Result, known: Evidence, what: str) -> str:
    """Why something that needs random labels is not possible, and what to do."""
    if not len(known.imputed):
        return f"{what} is about imputed labels, and every example of this run has a label."
    counts = result.labels["source"].value_counts(sort=True).rows()
    each = ", ".join(f"{count:,} {source}" for source, count in counts)
    needed = audits_needed(0.05, len(known.imputed), confidence=look_confidence(CONFIDENCE))
    number = f"only {len(known):,}" if len(known) else "none"
    advice = (
        f"{what} needs labels sampled at random, and this run has {number} (by source: {each}). "
        f"Draw {needed} or more with labelgrad audit, or fit with --label-sampling random if the "
        f"labels are a random sample of all examples."
    )
    return " ".join([advice, *known.discarded])


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _percent(rate: float) -> str:
    return f"{100 * rate:.3g} %"
