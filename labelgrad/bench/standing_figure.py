"""Who is ahead where: a cell for every set and method, by its ratio to the best peer there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, log
from pathlib import Path
from typing import Any

from labelgrad.bench.peer_trial import OURS as OUR_METHODS
from labelgrad.bench.peer_trial import TITLES
from labelgrad.bench.standing import (
    Table,
    half_a_row,
    mean_ranks,
    means,
    methods_in,
    of_task,
    over_sets,
    ratios,
)
from labelgrad.figures import GREY, OURS, THEIRS, THIRD, canvas, save
from labelgrad.peers import PEERS
from labelgrad.training.results import Line

DARK = 0.62  # of the way to the last colour, from where on numbers are white
CELL = (0.58, 0.27)  # inches
BELOW = ("all sets", "mean rank")
GAP = 0.35  # above them, of a cell
INK = "#222222"


@dataclass(frozen=True)
class Colors:
    """Blue below 1, white there, brown above; so many times better or worse the colour stays."""

    farthest: float

    def warmth(self, ratio: float) -> float:
        """Where a ratio is between the best colour, -1, and the worst, 1.

        >>> colors = Colors(4.0)
        >>> colors.warmth(1.0), colors.warmth(0.25), colors.warmth(99.0)
        (0.0, -1.0, 1.0)
        """
        return max(-1.0, min(1.0, log(ratio) / log(self.farthest)))

    def of(self, ratio: float) -> Any:
        """The colour of a ratio."""
        return self.map((self.warmth(ratio) + 1) / 2)

    @property
    def map(self) -> Any:
        """From the best to the worst."""
        from matplotlib.colors import LinearSegmentedColormap

        stops = [THEIRS, "#86aedb", "#f7f5f0", "#f0b45a", "#b3471d"]
        return LinearSegmentedColormap.from_list("ratio", stops)


def draw_standing(lines: Sequence[Line], out: Path) -> list[Path]:
    """One picture for the loss of classes, one for their error, one for the error of values."""
    pictures = (
        ("classification", "loss", "standing-loss", "Log loss", Colors(3.0)),
        ("classification", "error", "standing-error", "Error", Colors(3.0)),
        ("regression", "error", "standing-values", "Root mean square of values", Colors(1.5)),
    )
    drawn = []
    for task, quantity, file, title, colors in pictures:
        mine = of_task(lines, task)
        found = means(mine, quantity)
        extra = half_a_row(mine) if quantity == "error" else None
        shown = ratios(found, methods_in(mine), extra)
        if shown:
            places = mean_ranks(found, methods_in(mine))
            drawn += _draw(shown, places, title, colors, out / file)
    return drawn


def _draw(
    shown: Table, places: dict[str, float], title: str, colors: Colors, path: Path
) -> list[Path]:
    order = sorted(places, key=places.__getitem__)
    ours = next((method for method in order if method in OUR_METHODS), order[0])
    sets = sorted(shown, key=lambda data: shown[data].get(ours, inf))
    size = (2.4 + CELL[0] * len(order), 2.9 + CELL[1] * (len(sets) + 3))
    figure, (panel,) = canvas(1, 1, size)
    bottom = len(sets) + GAP
    for column, method in enumerate(order):
        for row, data in enumerate(sets):
            _cell(panel, column, row, shown[data].get(method), method, colors)
        _cell(panel, column, bottom, over_sets(shown, method), method, colors)
        _write(panel, column, bottom + 1, f"{places[method]:.1f}", GREY, method)
    _axes(panel, [*sets, *BELOW], order)
    _legend(figure, panel, colors)
    heading = f"{title}: ratio to the best peer of each set, chosen in hindsight"
    figure.suptitle(heading, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return save(figure, path)


def _cell(
    panel: Any, column: int, row: float, ratio: float | None, method: str, colors: Colors
) -> None:
    from matplotlib.patches import Rectangle

    if ratio is None or isnan(ratio):
        _write(panel, column, row, "–", GREY, method)
        return
    corner = (column + 0.02, row + 0.03)
    panel.add_patch(Rectangle(corner, 0.96, 0.94, color=colors.of(ratio), linewidth=0))
    if ratio == 1 and method not in OUR_METHODS:  # the best peer of the set
        panel.add_patch(Rectangle(corner, 0.96, 0.94, fill=False, edgecolor=GREY, linewidth=0.8))
    text = f"{ratio:.2f}" if ratio < 9.95 else f"{ratio:.0f}"
    _write(panel, column, row, text, "white" if abs(colors.warmth(ratio)) > DARK else INK, method)


def _write(panel: Any, column: int, row: float, text: str, color: str, method: str) -> None:
    weight = "bold" if method in OUR_METHODS else "normal"
    place = {"ha": "center", "va": "center", "fontsize": 7.5}
    panel.text(column + 0.5, row + 0.52, text, color=color, fontweight=weight, **place)


def _axes(panel: Any, rows: list[str], order: list[str]) -> None:
    many = len(rows) - len(BELOW)
    panel.set_xlim(0, len(order))
    panel.set_ylim(len(rows) + GAP, 0)
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)
    panel.set_yticks([row + 0.5 + GAP * (row >= many) for row in range(len(rows))], rows)
    panel.tick_params(axis="y", labelsize=8)
    panel.get_yticklabels()[many].set_fontweight("bold")
    panel.get_yticklabels()[-1].set_color(GREY)
    panel.xaxis.tick_top()
    names = [TITLES[method] for method in order]
    panel.set_xticks([column + 0.5 for column in range(len(order))], names)
    for label, method in zip(panel.get_xticklabels(), order, strict=True):
        label.set(rotation=45, ha="left", va="bottom", rotation_mode="anchor", fontsize=8.5)
        if method in OUR_METHODS:
            label.set(color=OURS, fontweight="bold")
        elif PEERS[method].sees_unlabeled:
            label.set(color=THIRD)


def _legend(figure: Any, panel: Any, colors: Colors) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    scale = ScalarMappable(LogNorm(1 / colors.farthest, colors.farthest), colors.map)
    bar = figure.colorbar(
        scale, ax=panel, location="bottom", fraction=0.025, aspect=45, pad=0.02, shrink=0.7
    )
    above = [(1 + colors.farthest) / 2, colors.farthest]
    ticks = [*(1 / tick for tick in reversed(above)), 1.0, *above]
    bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks], fontsize=8)
    bar.ax.minorticks_off()
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)
    bar.set_label(
        "better than the best peer  ←      →  worse\n"
        "framed: the best peer of the set;  red: ours;  orange: a peer that sees unlabeled rows, "
        "too",
        fontsize=8,
    )
