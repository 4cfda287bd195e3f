"""What `labelgrad reproduce` was asked for, and the trials that it takes."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labelgrad.cli.console import add_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from labelgrad.training.parallel import Settings, Work
    from labelgrad.training.results import Results


@dataclass(frozen=True)
class Options:
    """The options of the command; an experiment reads those that concern it."""

    trials: int
    workers: int
    scale: str
    out: Path
    command: str
    methods: tuple[str, ...] = ()  # all of them if none is named
    labels: tuple[int, ...] = ()
    data: Path | None = None
    device: str = "cpu"
    imbalance: float = 1.0
    foreign: float | None = None
    rebuilt: bool = False
    steps: int | None = None  # of a training, where they are not the scale's
    tuned: Path | None = None  # a search whose best settings are used in place of the frozen ones
    executor: Executor | None = None  # who does the trials in place of `workers`


def add_asked(
    make: Callable[..., Work], jobs: Mapping[str, Settings], results: Results, options: Options
) -> None:
    """Run the trials that are not in the results yet, by whom the options say."""
    add_missing(
        make,
        jobs,
        results,
        workers=options.workers,
        command=options.command,
        executor=options.executor,
    )
