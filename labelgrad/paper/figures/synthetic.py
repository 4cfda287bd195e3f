"""Figures 2, 3 and 4 of the paper, ours over the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from labelgrad.figures import GREY, OURS, THIRD, canvas, save
from labelgrad.paper.comparison import our_curve
from labelgrad.paper.numbers import NAME, Curve, paper_curve
from labelgrad.training.results import Line

TITLES = {"alignment": "alignment", "accuracy": "test accuracy", "loss": "test loss"}
LIMITS = {"alignment": (0, 1), "accuracy": (0.15, 0.85), "loss": (0.4, 1.7)}
COLORS = {"supervised": GREY, "lga": OURS, "lga-best": THIRD}
NAMES = {
    "supervised": "supervised",
    "lga": "LGA, nearest to the paper",
    "lga-best": "LGA, best found",
}


def draw_synthetic(lines: Sequence[Line], out: Path) -> list[Path]:
    """Alignment, accuracy and loss over the steps: ours solid, the paper's dashed."""
    figure, panels = canvas(1, 3, (14, 4.6))
    for panel, (quantity, title) in zip(panels, TITLES.items(), strict=True):
        for method in ("supervised", "lga"):
            paper = paper_curve(f"synthetic_{quantity}", method)
            _band(panel, paper, COLORS[method], "--", f"{method.replace('lga', 'LGA')}, paper")
        for method, name in NAMES.items():
            _band(panel, our_curve(lines, method, quantity), COLORS[method], "-", f"{name}, ours")
        panel.set(title=title, xlabel="iteration", ylim=LIMITS[quantity])
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    trials = len({line["seed"] for line in lines})
    figure.suptitle(f"The synthetic shells: ours, {trials} trials, over the paper's 25 ({NAME})")
    return save(figure, out / "synthetic")


def _band(panel: Any, curve: Curve, color: str, style: str, label: str) -> None:
    if not curve.x:
        return
    paper = style == "--"
    panel.plot(curve.x, curve.mean, style, color=color, linewidth=1.3 if paper else 2, label=label)
    low = [m - s for m, s in zip(curve.mean, curve.std, strict=True)]
    high = [m + s for m, s in zip(curve.mean, curve.std, strict=True)]
    look: dict[str, Any] = {"hatch": "////", "facecolor": "none"} if paper else {"facecolor": color}
    panel.fill_between(
        curve.x, low, high, alpha=0.25 if paper else 0.2, edgecolor=color, linewidth=0, **look
    )


def draw_shells(x: Tensor, y: Tensor, out: Path) -> list[Path]:
    """The points of a plane, coloured by class."""
    figure, (panel,) = canvas(1, 1, (6, 6))
    colors = ("#1b4f8f", "#e08a00", "#3a8f4c", "#c8102e", "#7d4fa8")
    for kind, color in enumerate(colors):
        mine = x[y == kind]
        panel.scatter(mine[:, 0], mine[:, 1], s=5, color=color, linewidths=0, label=f"{kind + 1}")
    panel.set_aspect("equal")
    panel.set_title(f"The synthetic set, d = {x.shape[1]}, n = {len(x):,}")
    figure.legend(title="class", loc="outside lower center", ncols=5, frameon=False, markerscale=3)
    return save(figure, out / "synthetic-data")
