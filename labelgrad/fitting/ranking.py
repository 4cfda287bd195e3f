"""Methods beside the best of them, and how much of each difference may be chance.

Chance comes in twice: another seed trains another model, and other labels would have judged it.
A difference is a table with a row for each seed and a column for each held-out example. The
variance of its mean is taken as that of its row means plus that of its column means, over their
numbers; what both share is counted twice, so the interval is rather too wide. Its width is
Student's, with degrees of freedom after Satterthwaite: few seeds make it wide where seeds matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose

import numpy as np
from scipy import stats

from labelgrad.fitting.verdict import LEVEL, Numbers, shown_error
from labelgrad.report.data import Estimate
from labelgrad.training.results import Line


@dataclass(frozen=True)
class Scored:
    """A method over all seeds; `difference` is its error minus the best one's, which has none."""

    method: str
    error: float
    spread: float  # standard deviation over the seeds
    loss: float
    seconds: float  # of one seed
    difference: Estimate | None

    @property
    def is_told_apart(self) -> bool:
        """Whether its difference from the best is more than chance."""
        return self.difference is not None and self.difference.low > 0


@dataclass(frozen=True)
class Ranking:
    """What a comparison found; `methods` are in the order they were asked for."""

    task: str
    methods: list[Scored]
    seeds: int
    examples: int  # held out, of all seeds together

    @property
    def best(self) -> Scored:
        """The method of the smallest error, and of the smaller loss where errors are the same."""
        return next(scored for scored in self.methods if scored.difference is None)

    @property
    def sentence(self) -> str:
        """Which is best, and whether that is more than chance, in one plain sentence."""
        others = [scored for scored in self.methods if scored.difference is not None]
        worse = [scored.method for scored in others if scored.is_told_apart]
        same = [scored.method for scored in others if isclose(scored.error, self.best.error)]
        equal = [x.method for x in others if not x.is_told_apart and x.method not in same]
        error = self.number(self.best.error)
        start = f"{self.best.method} has the smallest error, {error}{_ties(same)}"
        if not equal and not worse:
            return f"{start}."
        if not equal:
            return f"{start}, and the difference from {_and(worse)} is more than chance."
        if not worse:
            return f"{start}, but its difference from {_and(equal)} may be chance."
        return (
            f"{start}: better than {_and(worse)} by more than chance, while its difference from "
            f"{_and(equal)} may be chance."
        )

    @property
    def limits(self) -> str:
        """What was done, and what it cannot tell."""
        seeds = (
            "One seed says nothing about the chance in training: the intervals are too narrow."
            if self.seeds == 1
            else f"{self.seeds} seeds are few: a small difference needs more of them to show."
            if self.seeds < 6
            else "The best is picked by the same labels, so its error is a little flattering."
        )
        return (
            f"Paired over {self.seeds} seeds and {self.examples} held-out labels; the intervals "
            f"hold together with {100 * LEVEL:.0f} %, by Student's t. {seeds}"
        )

    def number(self, error: float) -> str:
        """An error as a person reads it."""
        return shown_error(error, self.task)


def rank(task: str, lines: Sequence[Line]) -> Ranking:
    """Rank methods by the outcomes of their trials, one line for each method and seed.

    >>> lines = [
    ...     {"method": m, "seed": s, "loss": 1, "seconds": 1, "rows": [0, 1, 2, 3], "wrong": w}
    ...     for s in range(2)
    ...     for m, w in (("a", [1, 1, 1, 0]), ("b", [0, 0, 1, 0]))
    ... ]
    >>> found = rank("classification", lines)
    >>> found.best.method, found.methods[0].difference.value
    ('b', 0.5)
    """
    tables = {name: _table(task, lines, name) for name in dict.fromkeys(x["method"] for x in lines)}
    errors = {name: float(np.nanmean(table)) for name, table in tables.items()}
    losses, seconds = (
        {n: float(np.mean([x[key] for x in lines if x["method"] == n])) for n in tables}
        for key in ("loss", "seconds")
    )
    best = min(tables, key=lambda name: (errors[name], losses[name]))
    level = 1 - (1 - LEVEL) / max(1, len(tables) - 1)  # as many intervals are to hold together
    scored = [
        Scored(
            name,
            errors[name],
            _spread(task, lines, name),
            losses[name],
            seconds[name],
            None if name == best else interval(table - tables[best], level),
        )
        for name, table in tables.items()
    ]
    return Ranking(task, scored, *next(iter(tables.values())).shape)


def interval(differences: Numbers, level: float) -> Estimate:
    """The mean of a table with rows for seeds and columns for examples, and where it lies.

    NaN is an example that was not held out with that seed.

    >>> found = interval(np.array([[1.0, 0, 1, 0], [1, 0, 1, 0]]), 0.95)
    >>> found.value, round(found.high - found.value, 3)  # Student's t with 3 degrees of freedom
    (0.5, 0.919)
    """
    value = float(np.nanmean(differences))
    parts = [_variance(np.nanmean(differences, axis=axis)) for axis in (1, 0)]
    total = sum(variance for variance, _ in parts)
    if total == 0:
        return Estimate(value, value, value)
    freedom = total**2 / sum(variance**2 / free for variance, free in parts if free)
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * total**0.5
    return Estimate(value, value - half, value + half)


def _variance(means: Numbers) -> tuple[float, int]:
    """Of the mean of these, with its degrees of freedom; of one alone nothing is known."""
    free = len(means) - 1
    return (float(means.var(ddof=1)) / len(means) if free else 0.0), free


def _table(task: str, lines: Sequence[Line], method: str) -> Numbers:
    """How wrong a method was with each seed about each example, so that the mean is its error."""
    rows = sorted({row for line in lines for row in line["rows"]})
    seeds = sorted({line["seed"] for line in lines})
    place = {row: column for column, row in enumerate(rows)}
    table = np.full((len(seeds), len(rows)), np.nan)
    for line in lines:
        if line["method"] == method:
            columns = [place[row] for row in line["rows"]]
            table[seeds.index(line["seed"]), columns] = line["wrong"]
    if task == "classification":
        return table
    root = max(float(np.nanmean(table)) ** 0.5, 1e-12)
    straight: Numbers = table / (2 * root) + root / 2  # the tangent of the square root there
    return straight


def _spread(task: str, lines: Sequence[Line], method: str) -> float:
    means = np.array([np.mean(line["wrong"]) for line in lines if line["method"] == method])
    errors = means if task == "classification" else np.sqrt(means)
    return float(errors.std(ddof=1)) if len(errors) > 1 else 0.0


def _ties(methods: list[str]) -> str:
    if not methods:
        return ""
    return f", and so {'has' if len(methods) == 1 else 'have'} {_and(methods)} at no smaller loss"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
