"""How near to the paper's curves each setting comes, and how low its test loss."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelgrad.figures import GREY, OURS, THIRD, canvas, save
from labelgrad.paper.synthetic_tuning import SPACE
from labelgrad.training.results import Line

TITLES = {
    "learning_rate": "learning rate α_θ",
    "label_rate": "label rate α_w",
    "gradient_decay": "decay of EMA(g_ℓ)",
    "moment_decay": "decay of EMA(v⁴)",
    "epsilon": "ε_norm",
    "labeled_weight": "weight T",
}
ROWS = {"distance": "distance from the paper", "lowest_loss": "lowest test loss"}
STAGES = {"around nearest": OURS, "around best": THIRD}


def draw_tuning(lines: Sequence[Line], out: Path) -> list[Path]:
    """A column for each setting: the search as points, the setting moved alone as lines."""
    figure, panels = canvas(len(ROWS), len(SPACE), (16, 6))
    for place, panel in enumerate(panels):
        key, name = list(ROWS)[place // len(SPACE)], list(SPACE)[place % len(SPACE)]
        _points(panel, [line for line in lines if line["stage"] == "search"], name, key)
        for stage, color in STAGES.items():
            mine = [line for line in lines if line["stage"] == stage]
            _line(panel, [x for x in mine if x["moved"] in (name, "centre")], name, key, color)
        _label(panel, name)
        panel.set_title(TITLES[name] if key == "distance" else "")
        panel.set_ylim(*((0, 0.4) if key == "distance" else (0.45, 1.1)))
    for row, title in enumerate(ROWS.values()):
        panels[row * len(SPACE)].set_ylabel(title)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return save(figure, out / "tuning")


def _points(panel: Any, lines: list[Line], name: str, key: str) -> None:
    last = max(line["last_step"] for line in lines)
    for whole, label in ((True, "search"), (False, "search, given up")):
        chosen = [line for line in lines if (line["last_step"] == last) == whole]
        where = [_place(name, line) for line in chosen]
        face = GREY if whole else "none"
        heights = [line[key] for line in chosen]
        panel.scatter(where, heights, s=18, facecolors=face, edgecolors=GREY, label=label)


def _line(panel: Any, lines: list[Line], name: str, key: str, color: str) -> None:
    lines = sorted(lines, key=lambda line: _place(name, line))
    where = [_place(name, line) for line in lines]
    heights = [line[key] for line in lines]
    label = f"this setting alone, {lines[0]['stage']}" if lines else None
    panel.plot(where, heights, "o-", color=color, label=label)


def _place(name: str, line: Line) -> float:
    """Where a setting stands on its axis: a few values are spaced evenly, whatever they are."""
    value = float(line["settings"][name])
    return float(SPACE[name].values.index(value)) if SPACE[name].values else value


def _label(panel: Any, name: str) -> None:
    values = SPACE[name].values
    if values:
        panel.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        return
    from matplotlib.ticker import LogLocator, NullFormatter

    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(numticks=5))
    panel.xaxis.set_minor_formatter(NullFormatter())
