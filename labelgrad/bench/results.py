"""What the lines of a bench come to: means for each set, and the comparisons that matter.

The tuned rate of a set is the one with the lowest mean test loss on that very set: an oracle, which
nobody has who needs a method.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

from labelgrad.bench.trial import FIXED_RATE, METHODS, RATES, Method
from labelgrad.training.results import Line

SUPERVISED, FIXED, EVIDENCE = Method("supervised"), Method("lga", FIXED_RATE), Method("evidence")


def values(lines: Sequence[Line], data: str, method: Method, quantity: str) -> list[float]:
    """One number for each seed, by seed."""
    wanted = {"data": data, "method": method.kind, "setting": method.setting}
    mine = [line for line in lines if wanted.items() <= line.items()]
    return [line[f"test_{quantity}"] for line in sorted(mine, key=lambda line: line["seed"])]


def average(lines: Sequence[Line], data: str, method: Method, quantity: str) -> float:
    """The mean over the seeds."""
    return mean(values(lines, data, method, quantity))


def oracle(lines: Sequence[Line], data: str) -> Method:
    """Algorithm 1 at the rate that is best on the test rows of this set.

    >>> lines = [{"data": "a", "method": "lga", "setting": rate, "seed": 0, "test_loss": rate}
    ...          for rate in RATES]
    >>> oracle(lines, "a")
    Method(kind='lga', setting=0.01)
    """
    tried = [Method("lga", rate) for rate in RATES]
    return min(tried, key=lambda method: average(lines, data, method, "loss"))


def times_oracle(lines: Sequence[Line], data: str, method: Method) -> float:
    """A method's mean test loss over the oracle's."""
    best = average(lines, data, oracle(lines, data), "loss")
    return average(lines, data, method, "loss") / best


def price_of(lines: Sequence[Line], data: str, times: float) -> float:
    """What another scale of the evidence does to the mean test loss, as a part of it."""
    moved = values(lines, data, Method("evidence", times), "loss")
    return mean(moved) / mean(values(lines, data, EVIDENCE, "loss")[: len(moved)]) - 1


def excess(
    lines: Sequence[Line], data: str, method: Method, other: Method, quantity: str
) -> tuple[float, float]:
    """How much more a method has than another, seed by seed: the mean, and its standard error."""
    pairs = zip(
        values(lines, data, method, quantity), values(lines, data, other, quantity), strict=True
    )
    more = [mine - theirs for mine, theirs in pairs]
    return mean(more), (stdev(more) / len(more) ** 0.5 if len(more) > 1 else 0.0)


def sets_in(lines: Sequence[Line]) -> list[str]:
    """The sets of which every method has a trial, in the order they are in."""
    found: dict[str, set[tuple[str, float]]] = {}
    for line in lines:
        found.setdefault(line["data"], set()).add((line["method"], line["setting"]))
    return [data for data, methods in found.items() if len(methods) == len(METHODS)]
