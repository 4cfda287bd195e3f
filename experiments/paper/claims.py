"""The paper's claims about its curves, tested on ours: a claim holds, does not, or is within noise.

A claim compares two methods at a number of labels. Trials of one seed share their split, initial
weights and batches, so the difference is taken seed by seed, with Student's 95 % interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from experiments.common import Line, table
from experiments.paper.image_results import Score, labels_in, paper_score

LEVEL = 0.95


@dataclass(frozen=True)
class Claim:
    """That a method is below all others named, or below the best of them, in error or loss."""

    text: str
    method: str
    others: tuple[str, ...]
    quantity: str = "error"  # or "loss"
    data: tuple[str, ...] = ("cifar10", "svhn", "fashion-mnist")


CLAIMS = (
    Claim("LGA's error is below supervised's", "lga", ("supervised",)),
    Claim("LGA's loss is below supervised's", "lga", ("supervised",), "loss"),
    Claim("LGA's loss is below VAT's", "lga", ("vat",), "loss"),
    Claim("LGA + VAT's error is at or below the better one's", "lga+vat", ("lga", "vat")),
    Claim("VAT's error is below LGA's", "vat", ("lga",), data=("svhn",)),
)


@dataclass(frozen=True)
class Difference(Score):
    """A method's number less another's, over seeds, with half the width of its interval.

    >>> one = Difference((-0.02, -0.03, -0.025))
    >>> round(one.mean, 3), round(one.half_width, 4), one.outcome
    (-0.025, 0.0124, 'holds')
    >>> Difference((-0.02, 0.03, -0.025)).outcome, Difference((0.02,)).outcome
    ('within noise', 'within noise')
    """

    @property
    def half_width(self) -> float:
        """Of the interval; one seed alone has none that ends."""
        from scipy.stats import t

        many = len(self.values)
        if many < 2:
            return math.inf
        return float(t.ppf((1 + LEVEL) / 2, many - 1)) * stdev(self.values) / math.sqrt(many)

    @property
    def outcome(self) -> str:
        """Whether the method is below the other one."""
        if abs(self.mean) <= self.half_width:
            return "within noise"
        return "holds" if self.mean < 0 else "does not"


def difference(lines: Sequence[Line], claim: Claim, labels: int) -> Difference | None:
    """What a claim is about at one label count; of several others the best, by its mean.

    >>> lines = [{"method": m, "labels": 250, "seed": s, "test_error": e + s / 10}
    ...          for m, e in (("lga", 0.2), ("supervised", 0.25)) for s in (0, 1)]
    >>> found = difference(lines, CLAIMS[0], 250)
    >>> [round(value, 2) for value in found.values]
    [-0.05, -0.05]
    """
    name = f"test_{claim.quantity}"
    found = {
        method: {
            line["seed"]: line[name]
            for line in lines
            if line["method"] == method and line["labels"] == labels
        }
        for method in (claim.method, *claim.others)
    }
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in found.values())))
    if not seeds:
        return None
    best = min(claim.others, key=lambda other: mean(found[other][seed] for seed in seeds))
    return Difference(tuple(found[claim.method][seed] - found[best][seed] for seed in seeds))


def over_all(by_labels: Mapping[int, Difference]) -> Difference:
    """The mean over the label counts, seed by seed, as far as each count has the seed.

    >>> one = over_all({250: Difference((0.1, 0.3)), 500: Difference((0.3, 0.1))})
    >>> [round(value, 3) for value in one.values]
    [0.2, 0.2]
    """
    return Difference(
        tuple(map(mean, zip(*(one.values for one in by_labels.values()), strict=False)))
    )


def paper_difference(data: str, claim: Claim, labels: int) -> float | None:
    """The same difference out of the paper's own numbers, where it has them.

    >>> round(paper_difference("fashion-mnist", CLAIMS[0], 250), 4)
    -0.0184
    """
    own, *others = (
        paper_score(data, claim.quantity, method=method, labels=labels)
        for method in (claim.method, *claim.others)
    )
    known = [other[0] for other in others if other is not None]
    return own[0] - min(known) if own and len(known) == len(others) else None


def claims_table(data: str, lines: Sequence[Line], title: str | None = None) -> str:
    """Two rows for each claim about the data: our difference and the paper's, by label count.

    Differences of errors are in percentage points. The column `all` is the mean over the counts.
    """
    counts, rows = labels_in(lines), []
    for claim in CLAIMS:
        found = {n: difference(lines, claim, n) for n in counts} if data in claim.data else {}
        ours = {n: one for n, one in found.items() if one is not None}
        theirs = {n: paper_difference(data, claim, n) for n in counts}
        paper = {n: Difference((one,)) for n, one in theirs.items() if one is not None}
        if ours:
            rows.append([claim.text, *_cells(claim, ours, counts), _outcomes(ours)])
        if ours and paper:
            below = sum(one.mean <= 0 for one in paper.values())
            holds = f"at {below} of {len(paper)}"
            rows.append(["the paper's own", *_cells(claim, paper, counts), holds])
    heads = [title or f"of the paper, on {data}", *(f"{n:,}" for n in counts), "all", "holds"]
    return table(heads, rows) if rows else ""


def _cells(claim: Claim, found: Mapping[int, Difference], counts: Sequence[int]) -> list[str]:
    """A difference and its interval at each label count, and over all."""
    unit, digits = (100, 1) if claim.quantity == "error" else (1, 3)
    cells = []
    for one in (*(found.get(labels) for labels in counts), over_all(found)):
        if one is None:
            cells.append("–")
            continue
        around = f" ± {unit * one.half_width:.{digits}f}" if len(one.values) > 1 else ""
        cells.append(f"{unit * one.mean:.{digits}f}{around}")
    return cells


def _outcomes(by_labels: Mapping[int, Difference]) -> str:
    """At how many label counts a claim holds, and at how many it does not, beyond noise or not.

    >>> sure, unsure = Difference((-0.02, -0.03, -0.025)), Difference((0.01, -0.02))
    >>> _outcomes({250: sure, 500: sure}), _outcomes({250: sure, 500: unsure})
    ('at 2 of 2', 'at 1 of 2; below within noise at 1')
    """
    found = [one.outcome for one in by_labels.values()]
    unsure = [one.mean <= 0 for one in by_labels.values() if one.outcome == "within noise"]
    counts = {
        "below within noise at": unsure.count(True),
        "above within noise at": unsure.count(False),
        "not at": found.count("does not"),
    }
    rest = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    return f"at {found.count('holds')} of {len(found)}" + (f"; {rest}" if rest else "")
