"""`labelgrad predict`: a run folder and new data in, a CSV file out."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from labelgrad.cli.console import say
from labelgrad.fitting.result import load
from labelgrad.inputs.base import join_few


def run_predict(
    run: Path, data: Path, *, out: Path, all_classes: bool | None, strict: bool, pool: bool
) -> None:
    """Write the predictions, and say how many there are."""
    found = load(run).predict(data, strict=strict, pool=pool)
    found.save(out, all_classes=all_classes)
    console = Console()
    lines = [f"{len(found)} predictions: {out}"]
    if found.skipped:
        reasons = [f"{name} ({reason})" for name, reason in found.skipped]
        lines.append(f"Skipped: {join_few(reasons, most=3)}.")
    for line in lines:
        say(console, line)
