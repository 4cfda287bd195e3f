"""Trials that are not in the results yet: run them, keep each as it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.console import Console

from labelgrad.cli.progress import progress
from labelgrad.training.parallel import Settings, Work, finish_all
from labelgrad.training.results import Results


def add_missing(
    make: Callable[..., Work],
    jobs: Mapping[str, Settings],
    results: Results,
    *,
    workers: int,
    command: str,
) -> None:
    """Run all jobs side by side, after writing down the command that does."""
    if not jobs:
        return
    results.begin(command)
    finish_all(
        make,
        jobs,
        workers=workers,
        progress=progress(Console()),
        when_done=lambda _, history: results.add(history),
    )
