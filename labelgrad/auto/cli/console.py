"""What a command prints: sentences, tables, and progress; bars on a terminal, lines elsewhere."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from labelgrad.auto.events import Events

# What moves a cursor, clears a screen, turns the reading direction, or is half a character.
CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
LINE_EVERY = 10.0  # seconds between two lines about one stage, where there is no terminal


def visible(text: str) -> str:
    r"""The text with every character that a terminal would obey spelled out.

    >>> visible("caf\u00e9 \x1b[2J"), visible("a\u202eb"), visible("two\nlines")
    ('café \\x1b[2J', 'a\\u202eb', 'two\nlines')
    """
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class PlainConsole(Console):
    """A console that spells out the control characters of every text."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments to write."""
        for segment in super().render(renderable, options):
            yield (segment if segment.control else segment._replace(text=visible(segment.text)))


@dataclass(eq=False)
class Terminal(Events):
    """What all commands print to: no text is markup, and none can control the terminal.

    Names of classes, columns and files come from data and may hold anything. Notes are printed once
    each. Progress is bars in a terminal or a notebook, and a line now and then elsewhere.

    >>> Terminal().note("The column 'id' is left out.")
    The column 'id' is left out.
    """

    console: Console = field(default_factory=partial(PlainConsole, markup=False, highlight=False))
    notes: list[str] = field(default_factory=list)
    _bars: Progress | None = None
    _tasks: dict[str, TaskID] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)

    def close(self) -> None:
        """Remove the bars."""
        if self._bars is not None:
            self._bars.stop()

    def say(self, sentence: str) -> None:
        """One sentence, never wrapped."""
        self.console.print(sentence, soft_wrap=True)

    def table(self, title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        """A table; the first column is text, numbers stand on the right, a dash for no number."""
        first, *others = (name.replace("_", " ") for name in columns)
        table = Table(
            Column(first, overflow="fold"),
            *(Column(name, justify="right", overflow="fold") for name in others),
            title=title or None,
        )
        for row in rows:
            cells = (f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row)
            table.add_row(*(Text("–" if cell in (None, "nan") else str(cell)) for cell in cells))
        self.console.print(table)

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)
            self.say(sentence)

    def progress(self, stage: str, done: int, total: int) -> None:
        if self.console.is_terminal or self.console.is_jupyter:
            if self._bars is None:
                self._bars = Progress(
                    TextColumn("{task.description:<24}", markup=False),
                    BarColumn(),
                    MofNCompleteColumn(),
                    TimeRemainingColumn(),
                    console=self.console,
                    transient=True,
                )
            self._bars.start()
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task(visible(stage), total=total)
            self._bars.update(self._tasks[stage], completed=done, total=total)
            if self._bars.finished:
                self._bars.stop()
            return
        now = time.monotonic()
        if done < total and now - self._last.setdefault(stage, now) >= LINE_EVERY:
            self._last[stage] = now
            self.say(f"{stage}: {done} of {total}")
