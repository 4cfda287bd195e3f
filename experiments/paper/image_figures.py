"""Figures 5, 6 and 7 of the paper and what they lack: ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.common import Line
from experiments.figures import GREY, OURS, THEIRS, THIRD, canvas, legend, save
from experiments.paper.image_results import labels_in, methods_in, paper_score, score
from experiments.paper.numbers import NAME, paper_curves

TITLES = {"error": "test error, %", "loss": "test loss"}
UNITS = {"error": 100, "loss": 1}
TICKS = {  # of log scales
    "error": (4, 5, 7, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100),
    "loss": (0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8, 12),
}
COLORS = {
    "supervised": GREY,
    "lga": OURS,
    "vat": THEIRS,
    "lga+vat": THIRD,
    "mean-teacher": "#3a8f4c",
    "pi-model": "#7d4fa8",
    "pseudo-label": "#8a6d3b",
    "flexmatch": "#3a8f8f",
    "lga-certain+flexmatch": "#b5489d",
}
# Of all others, in their order in a figure.
SPARE = ("#6aa84f", "#c98bb9", "#00a3cc", "#9c3d1f", "#b3b300", "#5c5cff", "#000000", "#ff8f80")
QUIET = {"linestyle": "none", "color": GREY}
LEGEND: dict[str, dict[str, Any]] = {
    "a seed": {"marker": "o", "alpha": 0.4, "markersize": 4, **QUIET},
    "mean": {"marker": "|", "markersize": 12, "markeredgewidth": 2.5, **QUIET},
    f"{NAME}, full scale": {**QUIET, "marker": "D", "mfc": "none", "color": THEIRS},
    "our supervised": {"color": GREY, "linewidth": 0.8, "linestyle": ":"},
}


def draw_scores(data: str, lines: Sequence[Line], out: Path) -> None:
    """Every method's error and loss: a dot for each seed, a bar for their mean, the paper's beside.

    One row of panels for each number of labels; supervised is a line through them all.
    """
    counts, methods = labels_in(lines), methods_in(lines)
    figure, panels = canvas(len(counts), 2, (11, 0.9 + len(counts) * (0.9 + 0.27 * len(methods))))
    for row, labels in enumerate(counts):
        for column, quantity in enumerate(TITLES):
            panel = panels[2 * row + column]
            _dots(panel, data, lines, methods, labels, quantity)
            panel.set(xlabel=TITLES[quantity], title=f"{labels:,} labels" if not column else "")
    legend(figure, panels[0], loc="outside lower center", ncols=4)
    seeds = len({line["seed"] for line in lines})
    figure.suptitle(
        f"{data}, {lines[0]['scale']} scale, {seeds} seeds: at the best validation error"
    )
    save(figure, out / f"{data}-methods")


def _dots(
    panel: Any, data: str, lines: Sequence[Line], methods: list[str], labels: int, quantity: str
) -> None:
    unit = UNITS[quantity]
    for place, method in enumerate(methods):
        found = score(lines, f"test_{quantity}", method=method, labels=labels)
        paper = paper_score(data, quantity, method=method, labels=labels)
        if found is None:
            continue
        color = OURS if "lga" in method else GREY
        values = [unit * value for value in found.values]
        panel.plot(values, [place] * len(values), "o", color=color, alpha=0.4, markersize=4)
        panel.plot(unit * found.mean, place, "|", color=color, markersize=16, markeredgewidth=2.5)
        if paper:
            panel.plot(unit * paper[0], place, "D", mfc="none", color=THEIRS, markersize=6)
        if method == "supervised":
            panel.axvline(unit * found.mean, color=GREY, linewidth=0.8, linestyle=":")
    panel.set_yticks(range(len(methods)), methods)
    panel.set_ylim(len(methods) - 0.5, -0.5)
    if quantity == "loss":  # a large one must not press others together
        _log_scale(panel, "x", quantity)
    panel.grid(axis="x", alpha=0.25)
    for name, look in LEGEND.items():
        panel.plot([], [], label=name, **look)


def _log_scale(panel: Any, axis: str, quantity: str) -> None:
    """A log scale, where the values differ by as much as two ticks."""
    low, high = getattr(panel, f"get_{axis}lim")()
    inside = {tick: f"{tick:g}" for tick in TICKS[quantity] if low <= tick <= high}
    if len(inside) > 1:
        panel.set(**{f"{axis}scale": "log"})
        getattr(panel, f"set_{axis}ticks")([*inside], inside.values())
        panel.minorticks_off()


def draw_curves(data: str, lines: Sequence[Line], out: Path) -> None:
    """Error and loss by the number of labels: ours solid with dots, the paper's dashed.

    Both are on log scales: a failed training must not squeeze the others. Bands are
    from the lowest seed to the highest, the paper's a deviation to either side. Nothing is drawn
    where the paper has no figure of the data.
    """
    if not paper_curves(f"{data.replace('-', '_')}_error"):
        return
    figure, panels = canvas(1, 2, (12, 4.8))
    spare = cycle(SPARE)
    colors = {method: COLORS.get(method) or next(spare) for method in methods_in(lines)}
    for panel, quantity in zip(panels, TITLES, strict=True):
        for method, color in colors.items():
            _paper_line(panel, data, quantity, method, color)
            _our_line(panel, lines, quantity, method, color)
        panel.set(xscale="log", xlabel="labels", title=TITLES[quantity])
        panel.set_xticks([250, 500, 1000, 2000, 4000, 8000], [250, 500, "1k", "2k", "4k", "8k"])
        panel.set_yscale("log")
        _log_scale(panel, "y", quantity)
    legend(figure, panels[0], loc="outside right upper")
    figure.suptitle(f"{data}: ours, {lines[0]['scale']} scale, over {NAME}, full scale (dashed)")
    save(figure, out / f"{data}-labels")


def _paper_line(panel: Any, data: str, quantity: str, method: str, color: str) -> None:
    curve = paper_curves(f"{data.replace('-', '_')}_{quantity}").get(method.replace("-", "_"))
    if curve is not None:
        panel.plot(curve.x, curve.mean, color=color, linestyle="--", linewidth=1, alpha=0.6)
        panel.fill_between(curve.x, *curve.band, color=color, alpha=0.07, linewidth=0)


def _our_line(panel: Any, lines: Sequence[Line], quantity: str, method: str, color: str) -> None:
    name = f"test_{quantity}"
    points = {n: score(lines, name, method=method, labels=n) for n in labels_in(lines)}
    found = {labels: point for labels, point in points.items() if point is not None}
    if found:
        means, low, high = (
            [UNITS[quantity] * number(point.values) for point in found.values()]
            for number in (mean, min, max)
        )
        panel.plot(list(found), means, color=color, marker="o", markersize=4, label=method)
        # The range of the seeds: a deviation of one training that failed would go below zero.
        panel.fill_between(list(found), low, high, color=color, alpha=0.18, linewidth=0)
