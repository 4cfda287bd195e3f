"""How many steps fit into a time."""

from __future__ import annotations

import time

from torch import nn

from labelgrad.fitting.contest import Contest
from labelgrad.fitting.plan import Plan
from labelgrad.inputs.base import Dataset

WARM_UP, MEASURED, LONGEST = 2, 20, 2.0  # steps, steps, seconds: to see how long a step takes
PART = 0.85  # of the time goes into steps; the rest is for evaluation and files
TOGETHER = 0.85  # of their number is how much faster several processes are


def affordable_steps(
    source: Dataset,
    plan: Plan,
    model: nn.Module | None,
    device: str,
    minutes: float,
    *,
    workers: int = 1,
) -> int:
    """So many steps as fit into the time, judged by the first few, which are thrown away."""
    if not minutes > 0:
        raise ValueError(f"`time_budget` must be more than 0 minutes, got {minutes}.")
    contest = Contest(source, plan, model=model, device=device)
    longest = min(LONGEST, 60 * minutes / 20)
    each = sum(_seconds_a_step(contest, method, longest) for method in plan.contenders)
    parts = len(contest.trainings) / len(plan.contenders)
    side_by_side = 1 if workers == 1 else TOGETHER * workers
    return max(1, int(PART * 60 * minutes * side_by_side / (each * parts)))


def _seconds_a_step(contest: Contest, method: str, longest: float) -> float:
    trainer = contest.of(method)
    for _ in range(WARM_UP):
        trainer.step()
    began, taken = time.perf_counter(), 0
    while taken < MEASURED and (taken == 0 or time.perf_counter() - began < longest):
        trainer.step()
        taken += 1
    return (time.perf_counter() - began) / taken
