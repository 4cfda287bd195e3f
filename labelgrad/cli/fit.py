"""`labelgrad fit`: say what was found, train with a bar, say what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from labelgrad.cli.progress import progress
from labelgrad.cli.say import say
from labelgrad.cli.shares import train_side_by_side, usual_workers
from labelgrad.fitting.conclusion import conclude
from labelgrad.fitting.contest import Contest
from labelgrad.fitting.corrections import corrected
from labelgrad.fitting.fit import begin, check_folder, checkpoints
from labelgrad.fitting.interruption import stopping
from labelgrad.fitting.plan import Plan
from labelgrad.fitting.result import LABELS, REPORT, Result
from labelgrad.fitting.wording import shown_error
from labelgrad.inputs.dataset import Dataset, join_few
from labelgrad.inputs.read import read
from labelgrad.training.parallel import Progress

INTERRUPTED = 130
PAUSE = 0.1  # seconds between two looks at the bar
MANY = 20  # classes; the counts of more would fill the screen


def run_fit(
    data: Path,
    *,
    out: Path,
    reading: dict[str, Any],
    training: dict[str, Any],
    device: str,
    resume: bool,
) -> None:
    """Read, train, keep, and print what a person wants to know."""
    console, workers = Console(), usual_workers(device)
    check_folder(out, resume=resume)
    given = read(data, **reading)
    source = corrected(given, out)
    for line in found_lines(data, source):
        say(console, line)
    if workers > 1:
        torch.set_num_threads(1)  # the processes share the cores
    plan = begin(given, out, device=device, resume=resume, workers=workers, **training)
    contest = _train(source, plan, out, device, workers, progress(console))
    result = conclude(contest, name=str(data), folder=out)
    for said in result_lines(result):
        say(console, said) if isinstance(said, str) else console.print(said)
    say(console, f"A page to look at: {out / REPORT}")
    say(console, f"The model and everything else: {out}")
    if result.summary["stopped"]:
        raise typer.Exit(INTERRUPTED)


def _train(
    source: Dataset, plan: Plan, out: Path, device: str, workers: int, bars: Progress
) -> Contest:
    """All trainings, as far as they came before somebody stopped them."""
    folder = checkpoints(out)
    if workers > 1 and folder is not None:
        with suppress(KeyboardInterrupt):
            train_side_by_side(source, plan, folder, workers=workers, progress=bars)
        return Contest(source, plan, folder=folder, device=device)
    contest = Contest(source, plan, folder=folder, device=device)
    with bars, stopping() as stopped:
        contest.advance(_watch(bars), stopped)
    return contest


def found_lines(data: Path, source: Dataset) -> list[str]:
    """What was found in the data, a line each."""
    counts = source.summary
    line = f"{data}: {counts['labeled']} labeled, {counts['unlabeled']} unlabeled examples"
    lines = [f"{line}, {counts['skipped']} skipped." if counts["skipped"] else f"{line}."]
    if source.task == "classification":
        each = [f"{name} {count}" for name, count in counts["classes"].items()]
        more = f" and {len(each) - MANY} more" if len(each) > MANY else ""
        lines.append(f"Labels of each class: {', '.join(each[:MANY])}{more}.")
    if source.skipped:
        reasons = [f"{name} ({reason})" for name, reason in source.skipped]
        lines.append(f"Skipped: {join_few(reasons, most=3)}.")
    return lines + source.notes


def result_lines(result: Result) -> list[str | Table]:
    """The table of both methods, the verdict, the calibration, and what to look at."""
    facts = result.summary
    lines: list[str | Table] = [_table(facts)] if facts["verdict"]["errors"] else []
    if facts["stopped"]:
        lines.append(
            f"Stopped at step {facts['step']} of {facts['plan']['steps']}; --resume goes on."
        )
    lines.append(result.verdict)
    if facts["calibration"] is not None:
        found = facts["calibration"]
        lines.append(
            f"Calibration error of the kept model: {found['before']:.3f}, and {found['after']:.3f} "
            f"after temperature scaling (temperature {found['temperature']:.2f})."
        )
    if result.labels:
        agree = sum(row["agree"] for row in result.labels)
        lines.append(
            f"{LABELS} has a label for each of the {len(result.labels)} unlabeled examples; label "
            f"and prediction agree on {agree}."
        )
    return lines


def _table(facts: dict[str, Any]) -> Table:
    judged, task = facts["verdict"], facts["task"]
    table = Table(
        "",
        *(Column(name, justify="right") for name in ("error", "95 % interval", "loss")),
        title=f"On {judged['examples']} held-out labels",
    )
    for name, estimate in judged["errors"].items():
        value, low, high = (shown_error(number, task) for number in estimate)
        kept = " (kept)" if name == judged["kept"] else ""
        loss = f"{judged['losses'][name]:.3f}"
        table.add_row(Text(name + kept), value, f"{low} to {high}", loss)
    return table


def _watch(bar: Progress) -> Callable[[int, int, float], None]:
    last = 0.0

    def watch(done: int, total: int, loss: float) -> None:
        nonlocal last
        if time.monotonic() - last > PAUSE or done == total:
            last = time.monotonic()
            bar.update("training", done, total, loss)

    return watch
