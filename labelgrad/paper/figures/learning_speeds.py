"""Figure 1 of the paper: how fast each direction is learned, by LGA and by gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelgrad.figures import OURS, THEIRS, canvas, save
from labelgrad.paper.learning_speeds import (
    BY_LABELED,
    BY_UNLABELED,
    FIGURE_1,
    early_stopping,
)
from labelgrad.training.results import Line

SHOWN = 12_000  # steps; the slowest direction takes the rest to come within 1e-3 of 1


def draw_learning_speeds(lines: Sequence[Line], out: Path) -> list[Path]:
    """LGA by λ of the labeled data, LGA by λ of the unlabeled data, gradient descent."""
    lga, plain = (
        [line for line in lines if line["method"] == method]
        for method in ("lga", "gradient descent")
    )
    figure, panels = canvas(1, 3, (14, 4.2))
    one = "the other λ is 1"
    _curves(panels[0], lga, BY_LABELED, FIGURE_1.labeled, f"LGA, by λˡ ({one})")
    _curves(panels[1], lga, BY_UNLABELED, FIGURE_1.unlabeled, f"LGA, by λᵘ ({one})")
    _curves(panels[2], plain, BY_LABELED, FIGURE_1.labeled, "gradient descent, by λˡ")
    for index in BY_LABELED:
        steps = [line["step"] for line in plain]
        exact = [early_stopping(FIGURE_1.labeled[index], step) for step in steps]
        label = "closed form" if index == BY_LABELED[0] else None
        panels[2].plot(steps, exact, "k:", linewidth=1, label=label)
    for panel in panels:
        panel.set(xlabel="step k", ylabel="c", xlim=(0, SHOWN), ylim=(0, 1.05))
        panel.legend(frameon=False, loc="lower right")
    return save(figure, out / "learning-speeds")


def _curves(
    panel: Any, lines: list[Line], chosen: Sequence[int], eigenvalues: Sequence[float], title: str
) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("slow to fast", [THEIRS, "#8e6bb0", OURS])
    for rank, index in enumerate(chosen):
        color = colors(rank / (len(chosen) - 1))
        heights = [line["c"][index] for line in lines]
        label = f"λ = {eigenvalues[index]:g}"
        panel.plot([line["step"] for line in lines], heights, color=color, label=label)
    panel.set_title(title)
