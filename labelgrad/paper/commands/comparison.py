"""Tables of the synthetic experiment: ours, the paper's, and how far apart they are."""

from __future__ import annotations

from math import sqrt
from statistics import mean

from rich.table import Column, Table

from labelgrad.paper.comparison import Difference, differences
from labelgrad.training.results import Line

PAIRS = {"supervised": "supervised", "lga": "lga", "lga-best": "lga"}  # our method, the paper's
SHOWN = (100, 200, 300, 575)
LATE = 300  # the step from which the alignment is averaged


def differences_table(lines: list[Line]) -> Table:
    """Ours beside the paper's at a few steps."""
    heads = ("step", "ours", "paper", "difference", "in paper's std")
    table = Table("method", "", *(Column(head, justify="right") for head in heads))
    for method, theirs in PAIRS.items():
        for quantity in ("accuracy", "loss", "alignment"):
            found = list(differences(lines, method, quantity, theirs=theirs))
            for one in found:
                if one.step in SHOWN or one is found[0]:
                    table.add_row(*_cells(one))
            if found:
                table.add_section()
    return table


def _cells(found: Difference) -> tuple[str, ...]:
    return (
        found.method,
        found.quantity,
        str(found.step),
        f"{found.ours:.3f}",
        f"{found.paper:.3f}",
        f"{found.ours - found.paper:+.3f}",
        f"{found.deviations:+.1f}",
    )


def summary_table(lines: list[Line]) -> Table:
    """The few numbers by which the reproduction is judged, each with the paper's in brackets."""
    heads = ("accuracy", "loss", "lowest loss", "apart", "near", "alignment")
    table = Table(
        "",
        *(Column(head, justify="right") for head in heads),
        title="At the last step, the paper's in brackets",
        caption=(
            "apart: root-mean-square distance of the accuracy curves; near: points of accuracy and "
            f"loss within two of the paper's deviations; alignment: mean from step {LATE} on"
        ),
    )
    for method, theirs in PAIRS.items():
        accuracy, loss, aligned = (
            list(differences(lines, method, quantity, theirs=theirs))
            for quantity in ("accuracy", "loss", "alignment")
        )
        if accuracy:
            table.add_row(method, *_summary(accuracy, loss, aligned))
    return table


def _summary(
    accuracy: list[Difference], loss: list[Difference], aligned: list[Difference]
) -> tuple[str, ...]:
    both = [*accuracy, *loss]
    late = [found for found in aligned if found.step >= LATE]
    return (
        _pair(accuracy[-1].ours, accuracy[-1].paper),
        _pair(loss[-1].ours, loss[-1].paper),
        _pair(min(found.ours for found in loss), min(found.paper for found in loss)),
        f"{sqrt(mean((found.ours - found.paper) ** 2 for found in accuracy)):.3f}",
        f"{sum(abs(found.deviations) <= 2 for found in both)}/{len(both)}",
        _pair(mean(f.ours for f in late), mean(f.paper for f in late)) if late else "–",
    )


def _pair(ours: float, paper: float) -> str:
    return f"{ours:.3f} ({paper:.3f})"
