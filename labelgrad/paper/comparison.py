"""Our trials beside the paper's: means, spreads, and differences in the paper's own deviations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from labelgrad.paper.numbers import Curve, paper_curve
from labelgrad.training.results import Line


@dataclass(frozen=True)
class Difference:
    """One number of ours beside the paper's."""

    method: str
    quantity: str
    step: int
    ours: float
    paper: float
    paper_std: float

    @property
    def deviations(self) -> float:
        """The difference, in units of the paper's standard deviation over its trials."""
        return (self.ours - self.paper) / self.paper_std


def our_curve(lines: Sequence[Line], method: str, quantity: str) -> Curve:
    """Mean and standard deviation over the trials of a method, at each step.

    >>> lines = [{"method": "lga", "step": 0, "loss": loss} for loss in (1.0, 3.0)]
    >>> our_curve(lines, "lga", "loss")
    Curve(x=[0], mean=[2.0], std=[1.4142135623730951])
    """
    by_step: dict[int, list[float]] = {}
    for line in lines:
        if line["method"] == method and quantity in line:
            by_step.setdefault(line["step"], []).append(line[quantity])
    steps = sorted(by_step)
    spreads = [stdev(by_step[s]) if len(by_step[s]) > 1 else 0.0 for s in steps]
    return Curve(steps, [mean(by_step[s]) for s in steps], spreads)


def differences(
    lines: Sequence[Line], method: str, quantity: str, *, theirs: str
) -> Iterator[Difference]:
    """Ours beside the paper's curve `theirs`, at every step that both have."""
    ours, paper = our_curve(lines, method, quantity), paper_curve(f"synthetic_{quantity}", theirs)
    for step, value in zip(ours.x, ours.mean, strict=True):
        if step in paper.x:
            yield Difference(method, quantity, step, value, *paper.at(step))
