"""`labelgrad methods`: what there is, where it is from, what it costs."""

from __future__ import annotations

from rich.table import Column, Table

from labelgrad.cli.console import Terminal
from labelgrad.methods import Problem, every_method

EXAMPLE = Problem(rows=10_000, width=10, batch_size=50, steps=10_000)
GRADIENT = 3  # forward passes that a gradient costs


def print_methods() -> None:
    """A row for each method, with the settings it would have in a run of ten thousand steps."""
    table = Table(
        Column("name", no_wrap=True),
        "paper",
        Column("passes", justify="right"),
        Column("settings", overflow="fold"),
    )
    table.add_row("supervised", "–", str(GRADIENT), "Supervised()")
    for name, method in every_method().items():
        passes = str(GRADIENT + method.passes)
        settings = repr(method.build(EXAMPLE)) + (", strong views" if method.strong_views else "")
        table.add_row(name, method.paper, passes, settings)
    console = Terminal()
    console.print(table)
    console.print(
        "Passes are forward passes a step, the labeled gradient's three included. Methods add: "
        "lga+vat, vat+entmin, lga+fixmatch.",
        highlight=False,
    )
