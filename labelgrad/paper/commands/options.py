"""What `labelgrad reproduce` was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
