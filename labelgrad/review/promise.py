"""What can be promised of a run's labels as audits come in, as `labels --wrong-at-most` would say.

It is `fitting.promises` on columns, without PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from labelgrad.guarantees.evidence import Evidence, stand_ins
from labelgrad.review.run import NONE, Array, FinishedRun

AT_MOST = 0.02


def evidence_of(run: FinishedRun, looked_at: Mapping[str, str | None]) -> Evidence:
    """What audits, and labels that were drawn at random, say about the imputed labels.

    `looked_at` has the answer about each audited row, None where it was left out.
    """
    rows = run.unlabeled
    unsure = 1 - np.nan_to_num(run.probability[rows].astype(np.float64))
    audited = [run.where[name] for name in looked_at if name in run.where]
    open_rows = [row for row in audited if run.place[row] != NONE]
    rank = np.full(len(run.names), NONE)
    rank[rows] = np.arange(len(rows))
    wrong = [looked_at[run.names[row]] != run.shown(run.label[row]) for row in open_rows]
    drawn = {row for row in audited if run.place[row] == NONE}
    drawn.update(np.flatnonzero((run.place == NONE) & run.is_random).tolist())
    hidden_unsure, missed = _out_of_fold(run, np.array(sorted(drawn), dtype=int))
    stands = stand_ins(unsure, hidden_unsure) if len(unsure) else hidden_unsure
    uncertainty = np.concatenate([unsure, stands])
    hidden = np.arange(len(unsure), len(uncertainty))
    return Evidence(
        uncertainty,
        np.concatenate([rank[open_rows], hidden]).astype(int),
        np.concatenate([np.array(wrong, dtype=bool), missed]),
    )


def promise_state(
    run: FinishedRun, looked_at: Mapping[str, str | None], wrong_at_most: float, confidence: float
) -> dict[str, Any]:
    """How many labels can be handed back with the promise, or what it takes until some can."""
    known = evidence_of(run, looked_at)
    handed = known.surest(wrong_at_most, confidence=confidence)
    gaps = sum(answer is None for answer in looked_at.values())
    rows = len(run.unlabeled)
    return {
        "audits": len(looked_at),
        "gaps": gaps,
        "random": int(((run.place == NONE) & run.is_random).sum()),
        "mistakes": known.mistakes,
        "bound": known.bound(confidence) if len(known.audited) else 1.0,
        "at_most": wrong_at_most,
        "confidence": confidence,
        "handed": int((handed < rows).sum()),
        "more": 0 if len(handed) else known.more_audits(wrong_at_most, confidence=confidence),
    }


def _out_of_fold(run: FinishedRun, rows: Array) -> tuple[Array, Array]:
    """Of given labels how unsure the pool was while they were hidden, and whether it was wrong.

    The only label of its class was never hidden: it counts as one the pool was sure of and wrong.
    """
    held = run.held_out
    mine = np.isin(held.rows, rows)
    unsure = 1 - np.exp(held.said[mine].max(1, initial=-np.inf))
    wrong = held.said[mine].argmax(1) != held.y[mine] if mine.any() else np.zeros(0, dtype=bool)
    never = np.setdiff1d(rows, held.rows)
    given = run.given[run.place == NONE]
    alone = sum(int((given == run.given[row]).sum()) == 1 for row in never)
    return np.append(unsure, np.zeros(alone)), np.append(wrong, np.ones(alone, dtype=bool))
