"""What the paper says of its curves, looked for in ours: holds, does not, or within noise.

A claim is about two methods at a number of labels. Trials of one seed share their split, first
weights and batches, so the difference of the two is taken seed by seed, and its interval is
Student's, 95 %, over the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from labelgrad.paper.picture_results import labels_in, paper_score
from labelgrad.training.results import Line

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
class Difference:
    """A method's number less another's, over seeds, with half the width of its interval.

    >>> one = Difference((-0.02, -0.03, -0.025))
    >>> round(one.mean, 3), round(one.half_width, 4), one.verdict
    (-0.025, 0.0124, 'holds')
    >>> Difference((-0.02, 0.03, -0.025)).verdict, Difference((0.02,)).verdict
    ('within noise', 'within noise')
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return mean(self.values)

    @property
    def half_width(self) -> float:
        """Of the interval; one seed alone has none that ends."""
        from scipy.stats import t

        many = len(self.values)
        if many < 2:
            return math.inf
        return float(t.ppf((1 + LEVEL) / 2, many - 1)) * stdev(self.values) / math.sqrt(many)

    @property
    def verdict(self) -> str:
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


def looked_for(data: str, lines: Sequence[Line]) -> dict[str, dict[int, Difference]]:
    """Each claim about the data, with its difference at each label count that there is."""
    found = {}
    for claim in CLAIMS:
        by_labels = {labels: difference(lines, claim, labels) for labels in labels_in(lines)}
        known = {labels: one for labels, one in by_labels.items() if one is not None}
        if data in claim.data and known:
            found[claim.text] = known
    return found
