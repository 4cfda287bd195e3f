"""How the methods learned: one line for each round and method, over all folds."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgrad.fitting.contest import ALL, Contest, Training


def curves(contest: Contest) -> list[dict[str, Any]]:
    """For every round and method: the held-out error, and how the gradients agreed."""
    lines: list[dict[str, Any]] = []
    for method in contest.plan.contenders:
        mine = [t for t in contest.trainings if t.method == method]
        histories = zip(*(t.run.history for t in mine), strict=False)
        lines += [_line(contest, method, mine, records) for records in histories]
    return sorted(lines, key=lambda line: line["step"])


def _line(
    contest: Contest, method: str, trainings: list[Training], records: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    line = {"step": records[-1]["step"], "method": method, "training_loss": records[-1]["loss"]}
    last = records[-1]
    line |= {key: last[f"lga/{key}"] for key in ("gap", "cosine") if f"lga/{key}" in last}
    weights = [len(t.held_out) for t in trainings if t.part != ALL]
    if weights:
        folds = records[: len(weights)]
        power = 1 if contest.source.task == "classification" else 2
        errors = [record["held_out_error"] ** power for record in folds]
        line["error"] = np.average(errors, weights=weights) ** (1 / power) * contest.spread
        line["loss"] = np.average([r["held_out_loss"] for r in folds], weights=weights)
    return line
