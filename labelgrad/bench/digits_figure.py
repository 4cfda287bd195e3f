"""The demo's picture: error and loss, a row for each method, a dot for each split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from labelgrad.bench.digits import OURS as OUR_METHODS
from labelgrad.bench.digits import TITLES
from labelgrad.figures import GREY, OURS, canvas, save
from labelgrad.training.results import Line

PANELS = {"error": ("test error, %", 100, 1), "loss": ("test loss", 1, 2)}  # title, factor, digits
BOLD = ("pool", "student")
INK, RULE = "#222222", "#e6e8ea"
BELOW = 0.24  # of a row: where the splits' dots are, so that the mean hides none


def draw_digits(lines: Sequence[Line], labels: int, out: Path) -> list[Path]:
    """Draw the picture; gives the paths of its files."""
    figure, panels = canvas(1, 2, (9.6, 4.0))
    figure.get_layout_engine().set(wspace=0.05, h_pad=0.08)
    for panel, key in zip(panels, PANELS, strict=True):
        _draw_panel(panel, lines, key)
    _name_rows(panels[0])
    left: dict[str, Any] = {"x": 0.008, "ha": "left"}
    figure.suptitle(f"Digits with {labels} labels", fontsize=13, weight="bold", color=INK, **left)
    figure.supxlabel(
        "Large dots are means, small dots single splits. Red is ours, grey scikit-learn's.",
        fontsize=9,
        color=GREY,
        **left,
    )
    return save(figure, out / "digits")


def _draw_panel(panel: Any, lines: Sequence[Line], key: str) -> None:
    """The dots of one quantity, and each mean as a number."""
    title, factor, digits = PANELS[key]
    for row, method in enumerate(TITLES):
        found = [factor * line[key] for line in lines if line["method"] == method]
        _draw_row(panel, row, found, _color(method), f"{mean(found):.{digits}f}")
    panel.set(xlim=(0, None), ylim=(len(TITLES) - 0.5, -0.6))
    panel.set_yticks(range(len(TITLES)), [""] * len(TITLES))
    panel.locator_params(axis="x", nbins=6)
    panel.set_title(title, loc="left", fontsize=10.5, color=INK)
    panel.spines[["left", "bottom"]].set_visible(False)
    panel.tick_params(length=0, labelcolor=GREY, labelsize=9)


def _draw_row(panel: Any, row: int, found: list[float], color: str, number: str) -> None:
    panel.axhline(row, color=RULE, linewidth=1, zorder=0)
    below = [row + BELOW] * len(found)
    panel.plot(found, below, "o", color=color, alpha=0.45, markersize=4.5, markeredgewidth=0)
    panel.plot(
        mean(found), row, "o", color=color, markersize=11, markeredgecolor="white", clip_on=False
    )
    panel.annotate(
        number,
        (mean(found), row),
        xytext=(0, 8),  # points above the dot's middle
        textcoords="offset points",
        ha="center",
        fontsize=9,
        color=color,
    )


def _name_rows(panel: Any) -> None:
    panel.set_yticks(range(len(TITLES)), TITLES.values())
    for name, method in zip(panel.get_yticklabels(), TITLES, strict=True):
        name.set(color=_color(method), fontsize=10)
        name.set_weight("bold" if method in BOLD else "normal")


def _color(method: str) -> str:
    return OURS if method in OUR_METHODS else GREY
