"""Labels handed back with a promise: at most so many of them are wrong.

What is promised, with a confidence of 1 − α over the random draw of the audit:

    wrong labels among those handed back  ≤  ε · labels handed back

The labels handed back are the surest of the run's unlabeled rows, and all rows that were audited,
with the labels a person gave them. How sure a label is was settled before the audit, so the promise
is exact for audits. Labels that were drawn at random and trained on can stand in for an audit by
what was said of them while they were hidden; that is as good as the folds' models are no better
than the kept one (`guarantees.evidence.stand_ins`). Labels that somebody chose allow no promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgrad.files import csv_bytes, write_whole
from labelgrad.fitting.audits import Audits
from labelgrad.fitting.labels import Label
from labelgrad.fitting.provenance import AUDIT, RANDOM
from labelgrad.fitting.result import Result
from labelgrad.fitting.run_files import SAID_BY
from labelgrad.fitting.verdict import POOL
from labelgrad.guarantees.binomial import CONFIDENCE, audits_needed, check_share
from labelgrad.guarantees.evidence import Evidence, stand_ins

IMPUTED = "imputed"


@dataclass(frozen=True)
class HandedLabel:
    """A label of a promise: imputed, with its probability, or given by whoever audited the row."""

    name: str
    label: Label
    probability: float | None
    origin: str  # IMPUTED or AUDIT


@dataclass(frozen=True)
class Drawn:
    """How many labels of which origin a promise rests on, and how many of them were mistakes."""

    audits: int
    gaps: int  # of them left out, which count as mistakes
    random: int  # trained on, judged by what was said while they were hidden
    mistakes: int

    @property
    def sentence(self) -> str:
        """What it rests on, as a part of a sentence.

        >>> Drawn(60, 0, 0, 2).sentence
        '60 random audits with 2 mistakes'
        >>> Drawn(60, 1, 100, 5).sentence
        '60 random audits (1 left out, which counts as a mistake) and 100 labels drawn at random, \
hidden in turn, with 5 mistakes'
        """
        parts = []
        if self.audits:
            left_out = f" ({self.gaps} left out, which counts as a mistake)" if self.gaps else ""
            parts.append(f"{_count(self.audits, 'random audit')}{left_out}")
        if self.random:
            parts.append(f"{_count(self.random, 'label')} drawn at random, hidden in turn,")
        return f"{' and '.join(parts)} with {_count(self.mistakes, 'mistake')}"


@dataclass(frozen=True)
class Promise:
    """What can be promised of a run's labels, and the labels it can be promised of."""

    labels: Sequence[HandedLabel]
    wrong_at_most: float
    confidence: float
    kind: str  # "of these", "of all rows" or "on average"
    rows: int  # unlabeled ones
    drawn: Drawn
    bound: float  # the share of all labels that may be wrong, at the same confidence
    more: int  # audits that it takes at least, where nothing can be handed back

    @property
    def imputed(self) -> int:
        """How many of the labels are the run's own."""
        return sum(label.origin == IMPUTED for label in self.labels)

    @property
    def sentence(self) -> str:
        """The promise, or why there is none and what would help."""
        share, sure = _percent(self.wrong_at_most), _percent(self.confidence)
        if not self.labels:
            return (
                f"Nothing can be handed back with at most {share} wrong: {self.drawn.sentence} say "
                f"that up to {_percent(self.bound)} of all {self.rows:,} labels may be wrong; it "
                f"takes at least {_count(self.more, 'more audit')}, if they bring no mistake."
            )
        audited = len(self.labels) - self.imputed
        also = f", and {_count(audited, 'audited one')}," if audited else ""
        handed = f"{self.imputed:,} of {self.rows:,} imputed labels{also}"
        if self.kind == "on average":
            what = f"at most {share} of them are wrong on average over audits like this one"
        elif self.kind == "of all rows":
            rest = self.rows - len(self.labels)
            what = (
                f"once a person labels the other {rest:,}, at most {share} of all {self.rows:,} "
                f"are wrong, with {sure} confidence"
            )
        else:
            what = f"at most {share} of them are wrong, with {sure} confidence"
        return f"{handed} can be handed back: {what} ({self.drawn.sentence})."

    def save(self, path: str | Path, key: str) -> None:
        """Write the labels as CSV."""
        cells = [
            [row.name, row.label, None if p is None else f"{p:.6f}", row.origin]
            for row in self.labels
            for p in [row.probability]
        ]
        content = csv_bytes([key, "label", "probability", "origin"], cells)
        write_whole(Path(path), content)


def promised_labels(
    result: Result,
    wrong_at_most: float,
    *,
    confidence: float = CONFIDENCE,
    on_average: bool = False,
    rest_by_hand: bool = False,
) -> Promise:
    """The largest set of a run's labels of which at most so many are wrong, and what is promised.

    With `rest_by_hand` it is promised of all rows, once a person has labeled those that are not
    handed back; that hands back more. `on_average` is a weaker promise that takes fewer audits.
    """
    check_share("wrong_at_most", wrong_at_most)
    check_share("confidence", confidence)
    if on_average and rest_by_hand:
        raise ValueError("A promise is either `on_average` or with the `rest_by_hand`, got both.")
    known = known_rows(result)
    asked: dict[str, Any] = {
        "confidence": confidence,
        "on_average": on_average,
        "rest_by_hand": rest_by_hand,
    }
    surest = known.evidence.surest(wrong_at_most, **asked)
    if all(row.name in known.truth for row in result.labels):  # nothing is left to be wrong
        surest = np.arange(len(result.labels))
    kind = "on average" if on_average else "of all rows" if rest_by_hand else "of these"
    return Promise(
        _handed_back(result, known, surest) if len(surest) else [],
        wrong_at_most,
        confidence,
        kind,
        len(result.labels),
        known.drawn,
        known.evidence.bound(confidence),
        0 if len(surest) else known.evidence.more_audits(wrong_at_most, **asked),
    )


class KnownRows(NamedTuple):
    """The rows a promise is about, those of `Result.labels` first, and what is known of them."""

    evidence: Evidence
    drawn: Drawn
    truth: dict[str, str]  # by name, of audited rows


def known_rows(result: Result) -> KnownRows:
    """What the audits and the random labels of a run say about its imputed labels."""
    if result.summary.task == "regression":
        raise ValueError(
            "A promise counts wrong labels, and values are never quite right; `count` gives their "
            "mean with an interval."
        )
    looked_at = {} if result.folder is None else Audits(result.folder).looked_at
    place = {row.name: number for number, row in enumerate(result.labels)}
    sure = np.array([row.label_probability or 0.0 for row in result.labels], dtype=float)
    audited = [name for name in looked_at if name in place]
    wrong = [looked_at[name] != result.labels[place[name]].label for name in audited]
    trained = [
        name for name, origin in hidden_origins(result, looked_at).items() if name not in place
    ]
    unsure, missed = out_of_fold(result, trained)
    uncertainty = np.concatenate([1 - sure, stand_ins(1 - sure, unsure) if len(sure) else unsure])
    places = np.array([place[name] for name in audited], dtype=int)
    hidden = np.arange(len(sure), len(uncertainty))
    evidence = Evidence(
        uncertainty,
        np.concatenate([places, hidden]),
        np.concatenate([np.array(wrong, dtype=bool), missed]),
    )
    if not len(evidence.audited) or not len(sure):
        raise ValueError(no_random_labels(result, "A promise"))
    gaps = sum(looked_at[name] is None for name in audited)
    drawn = Drawn(len(audited), gaps, len(trained), evidence.mistakes)
    truth = {name: label for name, label in looked_at.items() if label is not None}
    return KnownRows(evidence, drawn, truth)


def hidden_origins(result: Result, looked_at: dict[str, str | None]) -> dict[str, str]:
    """The given labels that were drawn at random, or audited and then trained on, by name.

    What the pool said of them tells nothing where the labels of others are not the pool's.
    """
    if result.summary.learned_from is not None:
        return {}
    return {
        example.name: RANDOM if example.origin == RANDOM else AUDIT
        for example in result.examples
        if example.given is not None and (example.origin == RANDOM or example.name in looked_at)
    }


def out_of_fold(
    result: Result, names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Of given labels how unsure the pool was while they were hidden, and whether it was wrong.

    The only label of its class was never hidden: it counts as one the pool was sure of and wrong.
    Of many labels only a fold was hidden, and the others are left out.
    """
    row_of = {example.name: row for row, example in enumerate(result.examples)}
    place = {row: number for number, row in enumerate(result.held_out["rows"].tolist())}
    said, y = result.held_out[SAID_BY + POOL], result.held_out["y"]
    of_class = Counter(example.given for example in result.examples)
    unsure, wrong = [], []
    for name in names:
        row = row_of[name]
        if row in place:
            logs = said[place[row]] - np.logaddexp.reduce(said[place[row]])
            unsure.append(1 - float(np.exp(logs.max())))
            wrong.append(bool(logs.argmax() != y[place[row]]))
        elif of_class[result.examples[row].given] == 1:
            unsure.append(0.0)
            wrong.append(True)
    return np.array(unsure, dtype=float), np.array(wrong, dtype=bool)


def _handed_back(result: Result, known: KnownRows, surest: NDArray[np.int_]) -> list[HandedLabel]:
    chosen = [result.labels[place] for place in surest.tolist() if place < len(result.labels)]
    handed = [
        HandedLabel(row.name, row.label, row.label_probability, IMPUTED)
        for row in chosen
        if row.name not in known.truth
    ]
    unlabeled = {row.name for row in result.labels}
    audited = [
        HandedLabel(name, label, None, AUDIT)
        for name, label in known.truth.items()
        if name in unlabeled
    ]
    return handed + audited


def no_random_labels(result: Result, what: str) -> str:
    """Why something that needs random labels is not possible, and what to do."""
    if not result.labels:
        return f"{what} is about imputed labels, and this run has none: every row has a label."
    came = Counter(str(example.origin) for example in result.examples if example.given is not None)
    each = ", ".join(f"{count} {origin}" for origin, count in came.items())
    return (
        f"{what} needs labels drawn at random, and this run has none ({each}); draw rows with "
        f"labelgrad audit, {audits_needed(0.05)} or more, or fit with --drawn random if the labels "
        f"are a random draw of all rows."
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
