"""`labelgrad predict`: a run folder and new data in, a CSV file out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from labelgrad.cli.console import Terminal, begun_when_needed, say
from labelgrad.fitting.asked import encoding_of
from labelgrad.fitting.predictor import save_parts
from labelgrad.fitting.result import load
from labelgrad.inputs.base import join_few


def run_predict(
    run: Path,
    data: Path,
    *,
    out: Path,
    all_classes: bool | None,
    strict: bool,
    pool: bool,
    encoder: Sequence[str] = (),
    cache: Path | None = None,
    spreadsheet_safe: bool = False,
) -> None:
    """Write the predictions, and say how many there are."""
    console = Terminal()
    with begun_when_needed(console) as (update, _):
        encoding = encoding_of(
            encoder, cache=cache, on_note=partial(say, console), on_progress=update
        )
        result = load(run, encoding=encoding)
        parts = result.predict_in_parts(data, strict=strict, pool=pool, encoding=encoding)
        count, skipped = save_parts(
            parts, out, all_classes=all_classes, spreadsheet_safe=spreadsheet_safe
        )
    lines = [f"{count} predictions: {out}"]
    if skipped:
        reasons = [f"{name} ({reason})" for name, reason in skipped]
        lines.append(f"Skipped: {join_few(reasons, most=3)}.")
    for line in lines:
        say(console, line)
