"""Who is ahead, by the lines of the comparison with peers: ranks, ratios, wins, and honesty.

A set counts once every method has been tried on it with the same seeds. A method that failed with
one of these has no mean there, and shares the last places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import mean

from labelgrad.bench.peer_trial import LABELS_ONLY, OURS, TITLES
from labelgrad.training.results import Line

Table = dict[str, dict[str, float]]  # by set, then by method; who failed is not in it
CLEARLY = 1.05  # times the best loss
FEWEST = 20  # sure labels of a set, for their share to say something


@dataclass(frozen=True)
class Standing:
    """One method over all sets of a task; loss and sureness are of classes alone."""

    method: str
    error_rank: float
    error_ratio: float  # to the best peer of each set, in hindsight; the geometric mean
    seconds: float
    failed: int  # sets
    loss_rank: float | None = None
    loss_ratio: float | None = None
    clearly_behind: int | None = None  # sets where the loss is above the best labels-only peer's
    sure_right: float | None = None  # of the labels that claim more than 0.9, the mean of sets
    sure_right_least: tuple[str, float] | None = None  # the worst set

    @property
    def order(self) -> tuple[float, float]:
        """Small for the better: by loss where there is one."""
        return (self.loss_rank or self.error_rank, self.error_rank)


def of_task(lines: Sequence[Line], task: str) -> list[Line]:
    """The lines of classifications, or those of regressions."""
    return [line for line in lines if line["task"] == task]


def methods_in(lines: Sequence[Line]) -> list[str]:
    """The methods that were tried, in the order of the registry."""
    tried = {line["method"] for line in lines}
    return [method for method in TITLES if method in tried]


def sets_in(lines: Sequence[Line]) -> list[str]:
    """The sets on which every method was tried with at least one seed that all have."""
    return [data for data in dict.fromkeys(line["data"] for line in lines) if shared(lines, data)]


def shared(lines: Sequence[Line], data: str) -> set[int]:
    """The seeds that every method has been tried with on a set.

    >>> shared([{"data": "a", "method": "svm", "seed": s} for s in (0, 1)], "a")
    {0, 1}
    """
    mine = [line for line in lines if line["data"] == data]
    seeds = [{x["seed"] for x in mine if x["method"] == method} for method in methods_in(lines)]
    return set.intersection(*seeds) if seeds else set()


def means(lines: Sequence[Line], quantity: str) -> Table:
    """The mean over the shared seeds, of every set and every method that did not fail there.

    >>> lines = [{"data": "a", "method": "svm", "seed": s, "error": s / 2} for s in (0, 1)]
    >>> means(lines, "error")
    {'a': {'svm': 0.25}}
    """
    found: Table = {}
    for data in sets_in(lines):
        seeds, found[data] = shared(lines, data), {}
        for method in methods_in(lines):
            mine = [
                line
                for line in lines
                if (line["data"], line["method"]) == (data, method) and line["seed"] in seeds
            ]
            if all(quantity in line for line in mine):
                found[data][method] = mean(line[quantity] for line in mine)
    return found


def ranks(values: dict[str, float], methods: Sequence[str]) -> dict[str, float]:
    """1 for the smallest; equal ones share a place, and so do those at the end without a value.

    >>> ranks({"a": 0.3, "b": 0.1, "c": 0.3}, ["a", "b", "c", "d"])
    {'a': 2.5, 'b': 1.0, 'c': 2.5, 'd': 4.0}
    """
    filled = {method: values.get(method, float("inf")) for method in methods}
    return {
        method: sum(other < mine for other in filled.values())
        + (sum(other == mine for other in filled.values()) + 1) / 2
        for method, mine in filled.items()
    }


def mean_ranks(table: Table, methods: Sequence[str]) -> dict[str, float]:
    """The mean place over all sets."""
    places = [ranks(values, methods) for values in table.values()]
    return {method: mean(place[method] for place in places) for method in methods}


def peers_in(methods: Sequence[str]) -> list[str]:
    """Those that are not ours."""
    return [method for method in methods if method not in OURS]


def best(values: dict[str, float], among: Sequence[str]) -> float | None:
    """The smallest value of these methods, if one of them has any."""
    return min((values[method] for method in among if method in values), default=None)


def ratios(table: Table, methods: Sequence[str], extra: dict[str, float] | None = None) -> Table:
    """Each value over the best peer's of its set, in hindsight.

    `extra` is added to both: an error of 0 on few test rows is no error of 0.

    >>> ratios({"a": {"svm": 0.0, "lga": 0.1}}, ["svm", "lga"], {"a": 0.1})
    {'a': {'svm': 1.0, 'lga': 2.0}}
    """
    found: Table = {}
    for data, values in table.items():
        level, more = best(values, peers_in(methods)), (extra or {}).get(data, 0.0)
        if level is not None:
            found[data] = {m: (value + more) / (level + more) for m, value in values.items()}
    return found


def half_a_row(lines: Sequence[Line]) -> dict[str, float]:
    """Half a test row of every classification, as an error; nothing of values."""
    return {
        line["data"]: 0.5 / line["test_rows"] if line["task"] == "classification" else 0.0
        for line in lines
    }


def geometric(numbers: Sequence[float]) -> float:
    """The geometric mean, in which twice and half cancel.

    >>> geometric([0.5, 2.0])
    1.0
    """
    return exp(mean(log(number) for number in numbers)) if numbers else float("nan")


def over_sets(table: Table, method: str) -> float:
    """The geometric mean of a method's ratios, of the sets where it has one."""
    return geometric([values[method] for values in table.values() if method in values])


def clearly_behind(losses: Table, method: str) -> int:
    """On how many sets the loss is more than 5 % above that of the best labels-only peer."""
    levels = {data: best(values, LABELS_ONLY) for data, values in losses.items()}
    return sum(
        method in losses[data] and level is not None and losses[data][method] > CLEARLY * level
        for data, level in levels.items()
    )


def sure_shares(lines: Sequence[Line], method: str) -> dict[str, float]:
    """Of the labels that claim more than 0.9, the share that is right; of sets with enough."""
    found = {}
    for data in sets_in(lines):
        seeds = shared(lines, data)
        mine = [
            line
            for line in lines
            if (line["data"], line["method"]) == (data, method)
            and line["seed"] in seeds
            and "sure" in line
        ]
        count = sum(line["sure"] for line in mine)
        if count >= FEWEST:
            found[data] = sum(line["sure_right"] for line in mine) / count
    return found


def won_and_lost(table: Table, method: str, other: str) -> tuple[int, int]:
    """On how many sets a method is below another, and above; who failed has lost.

    >>> table = {"a": {"svm": 0.2, "lga": 0.1}, "b": {"svm": 0.2, "lga": 0.2}, "c": {"svm": 0.1}}
    >>> won_and_lost(table, "lga", "svm")
    (1, 1)
    """
    pairs = [
        [values.get(name, float("inf")) for name in (method, other)] for values in table.values()
    ]
    return sum(mine < theirs for mine, theirs in pairs), sum(
        mine > theirs for mine, theirs in pairs
    )


def standings(lines: Sequence[Line]) -> list[Standing]:
    """Every method of a task, the best first."""
    methods = methods_in(lines)
    errors, losses, seconds = (means(lines, key) for key in ("error", "loss", "seconds"))
    if not errors:
        return []
    error_ranks = mean_ranks(errors, methods)
    error_ratios = ratios(errors, methods, half_a_row(lines))
    has_losses = any(losses.values())
    loss_ranks = mean_ranks(losses, methods) if has_losses else {}
    loss_ratios = ratios(losses, methods)
    found = []
    for method in methods:
        shares = sure_shares(lines, method)
        worst = min(shares, key=shares.__getitem__, default=None)
        found.append(
            Standing(
                method,
                error_ranks[method],
                over_sets(error_ratios, method),
                mean(values[method] for values in seconds.values() if method in values),
                sum(method not in values for values in errors.values()),
                loss_ranks.get(method),
                over_sets(loss_ratios, method) if has_losses else None,
                clearly_behind(losses, method) if has_losses else None,
                mean(shares.values()) if shares else None,
                None if worst is None else (worst, shares[worst]),
            )
        )
    return sorted(found, key=lambda standing: standing.order)
