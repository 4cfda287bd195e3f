"""What every picture shares: a canvas without a window, quiet axes, two files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labelgrad.files import replacing

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

    targets = [path.with_suffix(ending) for ending in (".png", ".svg")]
    for target in targets:
        metadata = {"Date": None} if target.suffix == ".svg" else {}
        with replacing(target) as half:
            figure.savefig(half, format=target.suffix[1:], dpi=150, metadata=metadata)
    plt.close(figure)
    return targets
