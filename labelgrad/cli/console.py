"""What is said while a command works: lines as they are, and how far long work has come.

That is bars on a terminal, plain lines elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from functools import cache
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.segment import Segment

from labelgrad.cli.words import visible

if TYPE_CHECKING:  # PyTorch comes with them, and not every command needs it
    from labelgrad.training.parallel import Progress, Settings, Work
    from labelgrad.training.results import Results

Update = Callable[[str, int, int, float], None]  # a name, steps done and in all, the loss
FEW = 12  # pieces of work that can each have a line of their own


class Terminal(Console):
    """The console of all commands: no text is markup, and none can steer the terminal.

    Names of classes, columns and files come from data, and may hold anything. Colours and cursor
    moves of our own are no texts, and stay.
    """

    def __init__(self, **options: Any):
        super().__init__(markup=False, highlight=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The pieces of text to write, with what a terminal would obey spelled out."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=visible(piece.text))


def say(console: Console, line: str) -> None:
    """A line as it is: names from the data are no markup."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def say_pictures(console: Console, paths: Iterable[Path]) -> None:
    """Where the figures are, a line each."""
    for path in paths:
        say(console, f"The picture: {path}")


def progress(console: Console, *, every: float = 10.0) -> Progress:
    """Bars where the console is a terminal, else a line every so many seconds."""
    return Bars(console) if console.is_terminal else Lines(console, every)


def now_and_then(update: Update) -> Update:
    """Pass on what is told of a name ten times a second, and its end: a step may take no longer."""
    from labelgrad.training.parallel import PAUSE

    last: dict[str, float] = {}

    def heard(name: str, done: int, total: int, loss: float) -> None:
        now = time.monotonic()
        if done >= total or now - last.get(name, 0.0) > PAUSE:
            last[name] = now
            update(name, done, total, loss)

    return heard


@contextmanager
def begun_when_needed(console: Console) -> Iterator[tuple[Update, Progress]]:
    """What shows how far work is, which is not on the screen before there is some."""
    bars = progress(console)
    told = now_and_then(bars.update)
    with ExitStack() as showing:
        begin = cache(lambda: showing.enter_context(bars))

        def update(name: str, done: int, total: int, loss: float) -> None:
            begin()
            told(name, done, total, loss)

        yield update, bars


@contextmanager
def downloading(console: Console) -> Iterator[Callable[[int, int], None]]:
    """A bar for bytes, on a terminal, once there are some."""
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("downloading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def add_missing(
    make: Callable[..., Work],
    jobs: Mapping[str, Settings],
    results: Results,
    *,
    workers: int,
    command: str,
    shown: Progress | None = None,
    executor: Executor | None = None,
) -> None:
    """Run all jobs that are not in the results yet side by side, and keep each as it ends.

    The command that does is written down before. How far it has come is `shown` step by step, if
    nothing else is said. With an `executor` the jobs go there, in place of `workers` of ours.
    """
    from labelgrad.group import here
    from labelgrad.training.parallel import finish_all

    jobs = here().first(lambda: dict(jobs))
    if not jobs:
        return
    results.begin(command)
    finish_all(
        make,
        jobs,
        workers=workers,
        progress=shown or progress(Terminal()),
        when_done=lambda _, history: results.add(history),
        executor=executor,
    )


class Speed:
    """Steps a second and seconds left, counted from when a name was first heard of."""

    def __init__(self, done: int):
        self.begin, self.first = time.monotonic(), done

    def rate(self, done: int) -> float:
        """Steps a second so far."""
        return (done - self.first) / max(time.monotonic() - self.begin, 1e-9)

    def left(self, done: int, total: int) -> float:
        """Seconds until the end at that rate."""
        return (total - done) / max(self.rate(done), 1e-9) if done > self.first else float("nan")


class Bars:
    """A bar for all of the work, and one for each piece under way: steps, loss, speed, time left.

    Where there are few pieces their bars stay when they are done; many would fill the screen.
    """

    def __init__(self, console: Console):
        self._rich = RichProgress(
            TextColumn("{task.description:<18}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks: dict[str, tuple[TaskID, Speed]] = {}
        self._all = self._rich.add_task("all", total=None, visible=False, note="")
        self._many = False

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rich.stop()

    def update(self, name: str, done: int, total: int, loss: float) -> None:
        if name not in self._tasks:
            task = self._rich.add_task(name, total=total, completed=done, note="")
            self._tasks[name] = task, Speed(done)
        task, speed = self._tasks[name]
        note = "" if isnan(loss) else f"loss {loss:.3f}  {speed.rate(done):.0f} steps/s"
        self._rich.update(task, completed=done, note=note)
        if done >= total and self._many:
            self._rich.update(task, visible=False)

    def count(self, done: int, total: int) -> None:
        self._many = total > FEW
        self._rich.update(self._all, completed=done, total=total, visible=self._many)


class Lines:
    """A plain line now and then, and one when a piece of work is done."""

    def __init__(self, console: Console, every: float):
        self._console, self._every = console, every
        self._said: dict[str, float] = {}
        self._done: set[str] = set()
        self._speed: dict[str, Speed] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, name: str, done: int, total: int, loss: float) -> None:
        speed = self._speed.setdefault(name, Speed(done))
        now = time.monotonic()
        if name in self._done:
            return
        if done >= total:
            self._done.add(name)
        if done < total and now - self._said.setdefault(name, now) < self._every:
            return
        self._said[name] = now
        line = f"{name}: {done} of {total}"
        if not isnan(loss):
            line = (
                f"{name}: step {done} of {total}, loss {loss:.3f}, {speed.rate(done):.0f} steps/s"
            )
        left = "done" if done >= total else f"{speed.left(done, total):.0f} s left"
        self._console.print(f"{line}, {left}", highlight=False)

    def count(self, done: int, total: int) -> None:
        if total > FEW:
            self._console.print(f"{done} of {total} done", highlight=False)


class Tally:
    """How many pieces of work are done, which tell no steps, and which are under way."""

    def __init__(self, console: Console, every: float = 10.0):
        self._console, self._every, self._said = console, every, 0.0
        self._under_way: dict[str, None] = {}
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._rich = RichProgress(
            *columns,
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._rich.add_task("", total=None)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._rich.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rich.stop()

    def update(self, name: str, done: int, total: int, loss: float) -> None:
        self._under_way[name] = None
        if done >= total:
            del self._under_way[name]
        self._rich.update(self._task, description="; ".join(self._under_way))

    def count(self, done: int, total: int) -> None:
        self._rich.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if self._console.is_terminal or (done < total and now - self._said < self._every):
            return
        self._said = now
        self._console.print(f"{done} of {total} done", highlight=False)
