"""What every picture shares: a canvas without a window, quiet axes, two files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

OURS, THEIRS, THIRD, GREY = "#c8102e", "#1b4f8f", "#e08a00", "#5b6770"


def canvas(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    """A figure and its panels, row by row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(panels.flat)


def save(figure: Any, path: Path) -> list[Path]:
    """Write a figure as PNG and as SVG; gives both paths."""
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    targets = [path.with_suffix(ending) for ending in (".png", ".svg")]
    for target in targets:
        figure.savefig(target, dpi=150, metadata={"Date": None} if target.suffix == ".svg" else {})
    plt.close(figure)
    return targets
