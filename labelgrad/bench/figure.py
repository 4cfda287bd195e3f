"""Test loss by how far the one setting of a method is from its usual value, for every set."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

from labelgrad.bench.results import SUPERVISED, sets_in, values
from labelgrad.bench.trial import FIXED_RATE, METHODS, RATES, TIMES, Method
from labelgrad.figures import GREY, OURS, THEIRS, canvas, save
from labelgrad.training.results import Line

COLUMNS = 4
TICKS = {0.1: "÷ 10", 1 / 3: "÷ 3", 1.0: "1", 3.0: "× 3"}


def draw_bench(lines: Sequence[Line], out: Path) -> list[Path]:
    """One panel a set: a dot for each split, lines through means, supervised as a level."""
    sets = sets_in(lines)
    rows = ceil(len(sets) / COLUMNS)
    figure, panels = canvas(rows, COLUMNS, (12, 0.8 + 2.5 * rows))
    for panel, data in zip(panels, sets, strict=False):
        _set(panel, lines, data)
    for panel in panels[len(sets) :]:
        panel.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("Test loss, when the one setting is moved from its usual value")
    return save(figure, out / "bench")


def _set(panel: Any, lines: Sequence[Line], data: str) -> None:
    rates = [(rate / FIXED_RATE, Method("lga", rate)) for rate in RATES]
    scales = [(times, Method("evidence", times)) for times in TIMES]
    # Lines are of splits that every setting has: one split differs from another more than they do.
    splits = min(len(values(lines, data, method, "loss")) for method in METHODS)
    level = values(lines, data, SUPERVISED, "loss")[:splits]
    panel.axhline(sum(level) / splits, color=GREY, linestyle="--", label="supervised")
    algorithm_1 = f"LGA, Algorithm 1 (usual rate {FIXED_RATE:g})"
    _line(panel, lines, data, rates, splits, THEIRS, algorithm_1)
    _line(panel, lines, data, scales, splits, OURS, "LGA by evidence")
    panel.set_xscale("log")
    panel.set_xticks(list(TICKS), list(TICKS.values()))
    panel.minorticks_off()
    panel.set_title(data, fontsize=10)
    panel.set_ylim(0, None)


def _line(
    panel: Any,
    lines: Sequence[Line],
    data: str,
    tried: list[tuple[float, Method]],
    splits: int,
    color: str,
    label: str,
) -> None:
    found = [(place, values(lines, data, method, "loss")) for place, method in tried]
    for place, losses in found:
        panel.plot([place] * len(losses), losses, "o", color=color, alpha=0.3, markersize=3)
    means = [sum(losses[:splits]) / splits for _, losses in found]
    panel.plot([place for place, _ in found], means, "o-", color=color, linewidth=2, label=label)
