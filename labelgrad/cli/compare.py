"""`labelgrad compare`: train methods side by side, say which is best and how sure that is."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from labelgrad.cli.cluster import executor_at
from labelgrad.cli.console import Terminal, say
from labelgrad.cli.fit import shown_on_the_way
from labelgrad.fitting.compare import compare
from labelgrad.fitting.ranking import Ranking, Scored
from labelgrad.training.results import RESULTS


def run_compare(data: Path, *, out: Path, dask: str | None, **options: Any) -> None:
    """Train what is not in the folder yet, here or by a Dask cluster, and print the ranking."""
    console = Terminal()
    with (
        executor_at(dask) as executor,
        shown_on_the_way(data, console) as (on_data, update, bars),
    ):
        found = compare(
            data,
            out=out,
            executor=executor,
            on_data=on_data,
            on_note=partial(say, console),
            on_progress=update,
            on_trial=bars.count,
            **options,
        )
    console.print(_table(found))
    for line in (found.sentence, found.limits, f"All trials: {out / RESULTS}"):
        say(console, line)


def _table(found: Ranking) -> Table:
    heads = ("error", "± over seeds", "loss", "above the best", "seconds")
    columns = [Column(head, justify="right") for head in heads]
    names = Column("", overflow="fold")
    table = Table(
        names, *columns, title=f"On {found.examples} held-out labels, {found.seeds} seeds"
    )
    for scored in found.methods:
        table.add_row(Text(scored.method), *_cells(scored, found))
    return table


def _cells(scored: Scored, found: Ranking) -> list[str]:
    above = "best"
    if scored.difference is not None:
        gap = scored.difference
        value, low, high = (found.number(number) for number in (gap.value, gap.low, gap.high))
        above = f"{value} ({low} to {high})"
    spread = found.number(scored.spread) if found.seeds > 1 else ""
    return [
        found.number(scored.error),
        spread,
        f"{scored.loss:.3f}",
        above,
        f"{scored.seconds:.1f}",
    ]
