"""The synthetic experiment beside the paper: tables and Figures 2, 3 and 4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from torch import Tensor

from experiments.common import Line, table
from experiments.figures import GREY, OURS, THIRD, canvas, legend, save
from experiments.paper.numbers import NAME, Curve, paper_curves

PAIRS = {"supervised": "supervised", "lga": "lga", "lga-best": "lga"}  # our method, the paper's
SHOWN = (0, 100, 200, 300, 575)
LATE = 300  # the step from which the alignment is averaged
TITLES = {"alignment": "alignment", "accuracy": "test accuracy", "loss": "test loss"}
LIMITS = {"alignment": (0, 1), "accuracy": (0.15, 0.85), "loss": (0.4, 1.7)}
COLORS = {"supervised": GREY, "lga": OURS, "lga-best": THIRD}
NAMES = {
    "supervised": "supervised",
    "lga": "LGA, nearest to the paper",
    "lga-best": "LGA, best found",
}


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
    ours, paper = our_curve(lines, method, quantity), paper_curves(f"synthetic_{quantity}")[theirs]
    for step, value in zip(ours.x, ours.mean, strict=True):
        if step in paper.x:
            yield Difference(method, quantity, step, value, *paper.at(step))


def differences_table(lines: Sequence[Line]) -> str:
    """Ours beside the paper's at a few steps."""
    heads = ("method", "", "step", "ours", "paper", "difference", "in paper's std")
    rows = [
        (
            *(one.method, one.quantity, str(one.step), f"{one.ours:.3f}", f"{one.paper:.3f}"),
            *(f"{one.ours - one.paper:+.3f}", f"{one.deviations:+.1f}"),
        )
        for method, theirs in PAIRS.items()
        for quantity in TITLES
        for one in differences(lines, method, quantity, theirs=theirs)
        if one.step in SHOWN
    ]
    return table(heads, rows)


def summary_table(lines: Sequence[Line]) -> str:
    """The numbers by which the reproduction is judged, at the last step, the paper's in brackets.

    apart: the root-mean-square distance of the accuracy curves; near: points of accuracy and loss
    within two of the paper's deviations; alignment: the mean from step 300 on.
    """
    heads = ("", "accuracy", "loss", "lowest loss", "apart", "near", "alignment")
    rows = []
    for method, theirs in PAIRS.items():
        accuracy, loss, aligned = (
            list(differences(lines, method, quantity, theirs=theirs))
            for quantity in ("accuracy", "loss", "alignment")
        )
        if not accuracy:
            continue
        both, late = [*accuracy, *loss], [found for found in aligned if found.step >= LATE]
        apart = sqrt(mean((found.ours - found.paper) ** 2 for found in accuracy))
        near = sum(abs(found.deviations) <= 2 for found in both)
        pairs = (
            (accuracy[-1].ours, accuracy[-1].paper),
            (loss[-1].ours, loss[-1].paper),
            (min(found.ours for found in loss), min(found.paper for found in loss)),
        )
        alignment = "–"
        if late:
            alignment = f"{mean(f.ours for f in late):.3f} ({mean(f.paper for f in late):.3f})"
        shown = (f"{ours:.3f} ({paper:.3f})" for ours, paper in pairs)
        rows.append([method, *shown, f"{apart:.3f}", f"{near}/{len(both)}", alignment])
    return table(heads, rows)


def draw_synthetic(lines: Sequence[Line], out: Path) -> None:
    """Alignment, accuracy and loss over the steps: ours solid, the paper's dashed."""
    figure, panels = canvas(1, 3, (14, 4.6))
    for panel, (quantity, title) in zip(panels, TITLES.items(), strict=True):
        for method in ("supervised", "lga"):
            paper = paper_curves(f"synthetic_{quantity}")[method]
            _band(panel, paper, COLORS[method], "--", f"{method.replace('lga', 'LGA')}, paper")
        for method, name in NAMES.items():
            _band(panel, our_curve(lines, method, quantity), COLORS[method], "-", f"{name}, ours")
        panel.set(title=title, xlabel="iteration", ylim=LIMITS[quantity])
    legend(figure, panels[1], loc="outside lower center", ncols=5)
    trials = len({line["seed"] for line in lines})
    figure.suptitle(f"The synthetic shells: ours, {trials} trials, over the paper's 25 ({NAME})")
    save(figure, out / "synthetic")


def _band(panel: Any, curve: Curve, color: str, style: str, label: str) -> None:
    if not curve.x:
        return
    paper = style == "--"
    panel.plot(curve.x, curve.mean, style, color=color, linewidth=1.3 if paper else 2, label=label)
    look: dict[str, Any] = {"hatch": "////", "facecolor": "none"} if paper else {"facecolor": color}
    look |= {"alpha": 0.25 if paper else 0.2, "edgecolor": color, "linewidth": 0}
    panel.fill_between(curve.x, *curve.band, **look)


def draw_shells(x: Tensor, y: Tensor, out: Path) -> None:
    """The points of a plane, colored by class."""
    figure, (panel,) = canvas(1, 1, (6, 6))
    colors = ("#1b4f8f", "#e08a00", "#3a8f4c", "#c8102e", "#7d4fa8")
    for kind, color in enumerate(colors):
        mine = x[y == kind]
        panel.scatter(mine[:, 0], mine[:, 1], s=5, color=color, linewidths=0, label=f"{kind + 1}")
    panel.set_aspect("equal")
    panel.set_title(f"The synthetic set, d = {x.shape[1]}, n = {len(x):,}")
    figure.legend(title="class", loc="outside lower center", ncols=5, frameon=False, markerscale=3)
    save(figure, out / "synthetic-data")
