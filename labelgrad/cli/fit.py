"""`labelgrad fit`: say what was found, show how far the training is, say what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from labelgrad.cli.cluster import executor_at
from labelgrad.cli.console import Terminal, Update, begun_when_needed, say
from labelgrad.files import write_pieces
from labelgrad.fitting.fit import fit
from labelgrad.fitting.kept_pool import POOL, has_pool
from labelgrad.fitting.labels import ImputedLabel, labels_csv
from labelgrad.fitting.many_labels import ManyLabels, column
from labelgrad.fitting.report import confident
from labelgrad.fitting.result import Result, Summary
from labelgrad.fitting.run_files import LABELS, REPORT
from labelgrad.fitting.verdict import shown_error
from labelgrad.group import here
from labelgrad.inputs.base import Dataset, join_few
from labelgrad.training.parallel import Progress

INTERRUPTED = 130
FOR_SPREADSHEETS = "labels-spreadsheet.csv"
MANY = 20  # classes; the counts of more would fill the screen
MOST_WORKERS = 8


def run_fit(
    data: Path,
    *,
    out: Path,
    device: str,
    workers: int | None = None,
    dask: str | None = None,
    spreadsheet_safe: bool = False,
    **options: Any,
) -> None:
    """Fit, and print what a person wants to know on the way and at the end."""
    console = Terminal()
    told: list[str] = []
    with (
        executor_at(dask) as executor,
        shown_on_the_way(data, console) as (show_data, update, _),
    ):

        def on_data(dataset: Dataset) -> None:
            told.extend(dataset.notes)
            show_data(dataset)

        def on_note(note: str) -> None:
            told.append(note)
            say(console, note)

        result = fit(
            data,
            out=out,
            device=device,
            workers=workers or usual_workers(device),
            executor=executor,
            on_data=on_data,
            on_note=on_note,
            on_progress=update,
            **options,
        )
    for said in result_lines(result):
        say(console, said) if isinstance(said, str) else console.print(said)
    for note in result.summary.notes:
        if note not in told:
            say(console, note)
    say(console, f"A page to look at: {out / REPORT}")
    if spreadsheet_safe:
        key = result.predictor.config.key
        write_pieces(out / FOR_SPREADSHEETS, _for_spreadsheets(result.labels, key))
        say(console, f"The labels for a spreadsheet: {out / FOR_SPREADSHEETS}")
    if has_pool(out):
        say(console, f"The pool, for predict --pool: {out / POOL}")
    say(console, f"The model and everything else: {out}")
    if result.summary.stopped:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def shown_on_the_way(
    data: Path, console: Console
) -> Iterator[tuple[Callable[[Dataset], None], Update, Progress]]:
    """Say what was found in the data once they are read, and how far the work is once it begins."""
    with begun_when_needed(console) as (update, bars):

        def on_data(dataset: Dataset) -> None:
            for line in found_lines(data, dataset):
                say(console, line)

        yield on_data, update, bars


def usual_workers(device: str) -> int:
    """A process for each core, few enough to share the trainings; a GPU has one.

    Those of `torchrun` train together, and start no others.
    """
    if here().size > 1:
        return 1
    return min(MOST_WORKERS, os.cpu_count() or 1) if device == "cpu" else 1


def found_lines(data: Path, dataset: Dataset) -> list[str]:
    """What was found in the data, a line each."""
    counts = dataset.summary
    line = f"{data}: {counts['labeled']} labeled, {counts['unlabeled']} unlabeled examples"
    lines = [f"{line}, {counts['skipped']} skipped." if counts["skipped"] else f"{line}."]
    if dataset.task == "classification":
        each = [f"{name} {count}" for name, count in counts["classes"].items()]
        more = f" and {len(each) - MANY} more" if len(each) > MANY else ""
        lines.append(f"Labels of each class: {', '.join(each[:MANY])}{more}.")
    if dataset.skipped:
        reasons = [f"{name} ({reason})" for name, reason in dataset.skipped]
        lines.append(f"Skipped: {join_few(reasons, most=3)}.")
    return lines + dataset.notes


def result_lines(result: Result) -> list[str | Table]:
    """The table of all who were judged, the verdict, the calibration, and what to look at."""
    summary = result.summary
    lines: list[str | Table] = [_table(summary)] if summary.verdict.examples else []
    if summary.stopped:
        lines.append(f"Stopped at step {summary.step} of {summary.plan.steps}; --resume goes on.")
    lines.append(result.verdict)
    if summary.verdict.pool_is_better:
        kept = has_pool(result.folder)
        lines.append(
            "The pool's probabilities are better than the student's by more than noise; "
            + ("predict --pool asks it." if kept else "--keep-pool keeps it beside the student.")
        )
    if summary.calibration is not None:
        found = summary.calibration
        lines.append(
            f"Calibration error of the student: {found.before:.3f}, and {found.after:.3f} "
            f"after temperature scaling (temperature {found.temperature:.2f})."
        )
    if result.labels:
        agree = int(column(result.labels, "agree").sum())
        lines.append(
            f"{LABELS} has a label for each of the {len(result.labels)} unlabeled examples; label "
            f"and prediction agree on {agree}."
        )
        sure = confident(result.labels)
        if sure is not None:
            lines.append(sure.sentence)
    return lines


def _for_spreadsheets(labels: Sequence[ImputedLabel], key: str) -> Iterable[bytes]:
    if isinstance(labels, ManyLabels):
        return labels.pieces(key, spreadsheet_safe=True)
    return [labels_csv(labels, key, spreadsheet_safe=True)]


def _table(summary: Summary) -> Table:
    verdict = summary.verdict
    is_class = summary.task == "classification"
    headings = ["error", "95 % interval", "loss", *(["calibration"] if is_class else []), "weight"]
    table = Table(
        "",
        *(Column(name, justify="right", no_wrap=True) for name in headings),
        title=f"On {verdict.examples} held-out labels",
    )
    for row in verdict.rows:
        kept = " (kept)" if row.kept else ""
        said = [_number(row.loss), *([_number(row.calibration)] if is_class else [])]
        weight = "" if row.weight is None else f"{row.weight:.2f}"
        if row.error is None:
            table.add_row(Text(row.name + kept), "–", "–", *said, weight)
            continue
        value, low, high = (
            shown_error(number, summary.task)
            for number in (row.error.value, row.error.low, row.error.high)
        )
        table.add_row(Text(row.name + kept), value, f"{low} to {high}", *said, weight)
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
