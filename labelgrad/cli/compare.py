"""`labelgrad compare`: train methods side by side, say which is best and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from labelgrad.cli.fit import found_lines
from labelgrad.cli.say import say
from labelgrad.cli.trials import add_missing
from labelgrad.fitting.compare import (
    Trial,
    missing,
    ranking,
    trial_name,
    trial_plans,
    trial_results,
)
from labelgrad.fitting.fit import check_device
from labelgrad.fitting.ranking import Ranking, Scored
from labelgrad.inputs.kinds import read


def run_compare(
    data: Path,
    *,
    methods: Sequence[str],
    seeds: int,
    out: Path,
    reading: dict[str, Any],
    training: dict[str, Any],
    device: str,
    workers: int,
    command: str,
) -> None:
    """Read, train what is not in the folder yet, and print the ranking."""
    console = Console()
    check_device(device)
    source = read(data, **reading)
    plans = trial_plans(source, methods=methods or None, seeds=seeds, **training)
    results = trial_results(out, source, plans)
    for line in found_lines(data, source):
        say(console, line)
    # As NumPy arrays the examples are copied: PyTorch's shared memory is often too small for them.
    arrays: Any = replace(source, x=source.x.numpy(), y=source.y.numpy())  # type: ignore[arg-type]
    jobs = {
        trial_name(plan): {"source": arrays, "plan": plan, "device": device}
        for plan in missing(plans, results.lines)
    }
    add_missing(Trial, jobs, results, workers=workers, command=command)
    found = ranking(source, plans, results.lines)
    console.print(_table(found))
    for line in (found.sentence, found.limits, f"All trials: {results.path}"):
        say(console, line)


def _table(found: Ranking) -> Table:
    heads = ("error", "± over seeds", "loss", "above the best", "seconds")
    columns = [Column(head, justify="right") for head in heads]
    table = Table("", *columns, title=f"On {found.examples} held-out labels, {found.seeds} seeds")
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
