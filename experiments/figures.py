"""What every figure shares: colours, a canvas without a window, two files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.common import FIRST

OURS, THEIRS, THIRD, GREY = "#c8102e", "#1b4f8f", "#e08a00", "#5b6770"


def canvas(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    """A figure and its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(panels.flat)


def legend(figure: Any, panel: Any, **place: Any) -> None:
    """One legend for a figure whose panels are alike: that of one of them."""
    figure.legend(*panel.get_legend_handles_labels(), frameon=False, **place)


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG and as SVG, and print where."""
    if not FIRST:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    print(f"Figure: {path.with_suffix('.png')}")
