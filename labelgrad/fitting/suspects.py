"""Given labels that are probably wrong, by what all witnesses said while they were hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labelgrad.files import csv_bytes, write_whole
from labelgrad.fitting.labels import Label, shown
from labelgrad.fitting.result import Result
from labelgrad.fitting.run_files import SAID_BY
from labelgrad.fitting.verdict import POOL, STUDENT
from labelgrad.guarantees.suspects import rank_suspects

FAR = 3.0  # typical errors away from what the others say


@dataclass(frozen=True)
class Suspect:
    """A given label, the one that others speak for, and why it is listed."""

    name: str
    given: Label
    other: Label
    given_probability: float | None
    other_probability: float | None
    suspect: bool  # whether another class is spoken for; the rest is listed by its margin alone
    reason: str


def suspects(result: Result, most: int = 20) -> list[Suspect]:
    """The given labels that are most likely wrong, the most suspect first.

    Labels that could not be hidden, the only ones of their class, are not judged.
    """
    held_out = result.held_out
    names = [result.examples[row].name for row in held_out["rows"].tolist()]
    if not names or most < 1:
        return []
    if result.summary.task == "regression":
        return _far_values(result, names, most)
    classes, y = result.predictor.config.classes, held_out["y"]
    said = _probabilities(held_out[SAID_BY + POOL])
    ranked = rank_suspects(said, y)
    others = [
        held_out[name].argmax(1)
        for name in held_out
        if name.startswith(SAID_BY) and name[len(SAID_BY) :] not in (POOL, STUDENT)
    ]
    found = []
    for place, label in enumerate(ranked.order[:most].tolist()):
        own, other = int(y[label]), int(ranked.other[label])
        against = sum(int(votes[label]) != own for votes in others)
        found.append(
            Suspect(
                names[label],
                classes[own],
                classes[other],
                float(said[label, own]),
                float(said[label, other]),
                place < ranked.suspect,
                f"{against} of {len(others)} witnesses say otherwise",
            )
        )
    return found


def save_suspects(found: Sequence[Suspect], key: str, path: Path) -> None:
    """Write suspects as CSV, with an empty column `label` to fill in and hand back."""
    columns = [key, "label", "given", "other", "given_probability", "other_probability", "reason"]
    rows = [
        [
            each.name,
            "",
            *map(shown, (each.given, each.other, each.given_probability, each.other_probability)),
            each.reason,
        ]
        for each in found
    ]
    write_whole(path, csv_bytes(columns, rows))


def _probabilities(outputs: np.ndarray) -> np.ndarray:
    logs = outputs.astype(float)
    found: np.ndarray = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
    return found


def _far_values(result: Result, names: Sequence[str], most: int) -> list[Suspect]:
    y, said = result.held_out["y"], result.held_out[SAID_BY + POOL][:, 0]
    off = np.abs(y - said)
    typical = max(float(np.median(off)) / 0.6745, 1e-12)  # of a Gaussian, its standard deviation
    order = np.argsort(-off, kind="stable")[:most]
    return [
        Suspect(
            names[row],
            float(y[row]),
            float(said[row]),
            None,
            None,
            bool(off[row] > FAR * typical),
            f"together the witnesses say {shown(float(said[row]))}, "
            f"{off[row] / typical:.1f} typical errors away",
        )
        for row in order.tolist()
    ]
