"""`labelgrad labels`: labels to use, labels to look at, and corrections taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from labelgrad.cli.console import Terminal, say
from labelgrad.cli.promises import say_promised
from labelgrad.fitting.corrections import (
    FILE,
    Known,
    changed_notes,
    kept_corrections,
    take_corrections,
)
from labelgrad.fitting.labels import shown
from labelgrad.fitting.many_labels import names_of
from labelgrad.fitting.result import Result, load
from labelgrad.fitting.review import (
    ReviewItem,
    review_queue,
    save_review_queue,
    save_sure_labels,
    sure_labels,
)
from labelgrad.fitting.run_files import BEFORE
from labelgrad.inputs.row_names import quickly_found

USUAL = 20  # to look at


def run_labels(
    run: Path,
    *,
    above: float,
    out: Path | None,
    look: int | None,
    look_out: Path | None,
    corrections: Path | None,
    promise: dict[str, Any] | None = None,
    spreadsheet_safe: bool = False,
) -> None:
    """Take corrections, then write and print what was asked for; `promise` is what is promised."""
    console, result = Terminal(), load(run)
    key = result.predictor.config.key
    for note in [*result.notes, *changed_notes(run)]:
        say(console, note)
    if promise is not None:
        say_promised(console, result, out=out, **promise)
        return
    if corrections is not None:
        say(console, _taken(run, result, corrections))
    if out is not None or (corrections is None and result.predictor.config.classes):
        sure = sure_labels(result, above)
        if out is not None:
            save_sure_labels(sure, key, out, spreadsheet_safe=spreadsheet_safe)
        count = f"{len(sure)} of {len(result.labels)} imputed labels are {above:g} sure or more"
        say(console, f"{count}: {out}" if out else f"{count}; --out writes them.")
    most = look if look is not None else USUAL if corrections is None or look_out else 0
    queue = review_queue(result, most, leave_out=_seen(run, result))
    if queue:
        console.print(_table(queue, key))
    if look_out is not None:
        save_review_queue(queue, key, look_out, spreadsheet_safe=spreadsheet_safe)
        say(console, f"To fill in its column label, and hand back with --corrections: {look_out}")


def _taken(run: Path, result: Result, corrections: Path) -> str:
    taken = take_corrections(result, corrections)
    if not taken.new:
        return f"{corrections} says nothing new; {taken.kept} corrections are kept in {run / FILE}."
    return (
        f"{taken.new} new corrections, {taken.kept} in all, in {run / FILE}; labelgrad fit DATA "
        f"--out {run} --resume trains anew with them, and keeps this result in {run / BEFORE}."
    )


def _seen(run: Path, result: Result) -> set[str]:
    """What a person has looked at already."""
    key, classes = result.predictor.config.key, result.predictor.config.classes
    names = quickly_found(names_of(result.examples))
    return set(kept_corrections(run, Known(key, names, classes)))


def _table(queue: list[ReviewItem], key: str) -> Table:
    title = "Worth a look, the most doubtful first"
    right = Column("margin", justify="right")
    table = Table(key, "label", "model", "neighbours", right, "why", title=title)
    for item in queue:
        margin = "" if item.margin is None else f"{item.margin:.3f}"
        cells = map(shown, (item.label, item.prediction, item.neighbours))
        table.add_row(*map(Text, (item.name, *cells, margin, item.reason)))
    return table
