"""Lines that are printed as they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console


def say(console: Console, line: str) -> None:
    """A line as it is: names from the data are no markup."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def say_pictures(console: Console, paths: Iterable[Path]) -> None:
    """Where the figures are, a line each."""
    for path in paths:
        say(console, f"The picture: {path}")
