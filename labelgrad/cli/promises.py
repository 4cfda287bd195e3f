"""Labels with a promise, audits, counts, what more labels would buy, suspects: said and written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from labelgrad.cli.console import Terminal, progress, say, say_pictures
from labelgrad.fitting.audits import Audits, draw_audit, save_audit, take_audit
from labelgrad.fitting.count import Counts, count
from labelgrad.fitting.labels import Label, shown
from labelgrad.fitting.more import more_labels
from labelgrad.fitting.promises import Promise, promised_labels
from labelgrad.fitting.result import Result, load
from labelgrad.fitting.suspects import save_suspects, suspects
from labelgrad.fitting.trust import refresh_report
from labelgrad.fitting.verdict import shown_error
from labelgrad.guarantees.learning_curve import CurveAhead

MANY = 20  # classes; more would fill the screen


def say_promised(
    console: Console,
    result: Result,
    wrong_at_most: float,
    *,
    confidence: float,
    on_average: bool,
    rest_by_hand: bool,
    out: Path | None,
) -> None:
    """Say what can be promised, and write the labels; nothing to hand back is an error."""
    found = promised_labels(
        result,
        wrong_at_most,
        confidence=confidence,
        on_average=on_average,
        rest_by_hand=rest_by_hand,
    )
    if not found.labels:
        raise ValueError(found.sentence + _otherwise(result, found))
    if out is not None:
        found.save(out, result.predictor.config.key)
    say(console, found.sentence)
    say(console, f"They are in {out}." if out else "--out writes them.")


def _otherwise(result: Result, refused: Promise) -> str:
    """What a weaker promise would hand back, if that is something."""
    if refused.kind != "of these":
        return ""
    by_hand = promised_labels(
        result, refused.wrong_at_most, confidence=refused.confidence, rest_by_hand=True
    )
    if not by_hand.labels:
        return ""
    return (
        f" With --rest-by-hand {by_hand.imputed:,} can be, and the promise is of all rows once a "
        f"person has labeled the others."
    )


def run_audit(
    run: Path,
    *,
    rows: int | None,
    out: Path | None,
    seed: int | None,
    filled: Path | None,
    new_classes: bool,
) -> None:
    """Draw rows for an audit, take one back, or say how far it is."""
    console, result = Terminal(), load(run)
    if filled is not None:
        taken = take_audit(result, filled, new_classes=new_classes)
        refresh_report(result)
        say(console, f"{taken.new} new answers; {_how_far(run)}")
        if taken.gaps:
            say(
                console,
                f"{taken.gaps} were left out before the last answer: who leaves out what is hard "
                f"has no random draw any more, so they count as mistakes in promises, and make "
                f"intervals wider, until they are filled in.",
            )
        if taken.new_classes:
            say(
                console,
                f"No class of the run, and so mistakes: {', '.join(taken.new_classes)}; a new "
                f"class needs labels in the data and a new run.",
            )
    if rows is not None:
        if out is None:
            raise ValueError("--rows needs --out, the CSV file to fill in.")
        drawn = draw_audit(result, rows, seed=seed)
        save_audit(drawn, result.predictor.config.key, out)
        say(
            console,
            f"{len(drawn.names)} of {drawn.out_of:,} rows, drawn at random (seed {drawn.seed}): "
            f"{out}. Look at them in their order, fill in the column label without asking the run, "
            f"and hand them back with --filled.",
        )
    if filled is None and rows is None:
        say(console, _how_far(run))


def _how_far(run: Path) -> str:
    audits = Audits(run)
    return (
        f"{len(audits.looked_at)} rows looked at in {len(audits.draws)} draws, {len(audits.open)} "
        f"drawn and not looked at yet."
    )


def run_count(run: Path, *, confidence: float, out: Path | None) -> None:
    """Print each class's share, or the mean, with intervals."""
    console, result = Terminal(), load(run)
    found = count(result, confidence=confidence)
    console.print(count_table(found, result.summary.task))
    say(console, found.sentence)
    if out is not None:
        found.save(out)
        say(console, f"They are in {out}.")


def count_table(found: Counts, task: str) -> Table:
    """A row for each class, those with the largest share first, or one for the mean."""
    right = [Column(name, justify="right", no_wrap=True) for name in ("share", "interval")]
    beside = Column("by labels alone", justify="right", no_wrap=True)
    table = Table("class" if task == "classification" else "", *right, beside)
    for each in sorted(found.each, key=lambda one: -one.powered.value)[:MANY]:
        ends = [
            f"{shown_error(i.low, task)} to {shown_error(i.high, task)}"
            for i in (each.powered, each.by_labels)
        ]
        table.add_row(Text(each.of), shown_error(each.powered.value, task), *ends)
    if len(found.each) > MANY:
        table.add_row(Text(f"and {len(found.each) - MANY} more"), "", "", "")
    return table


def run_more(run: Path, *, more: Sequence[int], out: Path | None) -> None:
    """Print what more labels would buy, and draw the curve."""
    console, result = Terminal(), load(run)
    with progress(console) as bars:
        found = more_labels(
            result,
            more,
            on_series=lambda done, of: bars.update("smaller trainings", done, of, float("nan")),
        )
    task = result.summary.task
    title = "Error with more labels" if task == "classification" else "Root mean squared error"
    names = ("error", "95 % band", "of today's", "95 % band")
    table = Table("labels", *(Column(n, justify="right", no_wrap=True) for n in names), title=title)
    for each in found.ahead:
        more_than_now = each.labels - found.now
        low, high = shown_error(each.error.low, task), shown_error(each.error.high, task)
        cells = [shown_error(each.error.value, task), f"{low} to {high}", "", ""]
        if more_than_now:
            cells[2:] = [f"{each.left.value:.0%}", f"{each.left.low:.0%} to {each.left.high:.0%}"]
        name = f"{each.labels} (+{more_than_now})" if more_than_now else f"{each.labels} (now)"
        table.add_row(name, *cells)
    console.print(table)
    say(
        console,
        "Read off quick witnesses that were trained on a quarter, a half and three quarters of "
        "the labels; labels more, drawn like those there are.",
    )
    say_pictures(console, draw_curve(found, task, out or run / "more"))


def draw_curve(found: CurveAhead, task: str, path: Path) -> list[Path]:
    """The curve with its band, as PNG and SVG."""
    from labelgrad.figures import GREY, OURS, THEIRS, canvas, save

    figure, (panel,) = canvas(1, 1, (6.0, 3.6))
    unit = 100 if task == "classification" else 1
    labels = [each.labels for each in found.ahead]
    ends = ("value", "low", "high")
    value, low, high = ([unit * getattr(each.error, e) for each in found.ahead] for e in ends)
    panel.fill_between(labels, low, high, color=OURS, alpha=0.15, linewidth=0)
    panel.plot(labels, value, "o-", color=OURS)
    panel.plot(*zip(*((n, unit * e) for n, e in found.tried), strict=True), "s--", color=THEIRS)
    panel.axvline(found.now, color=GREY, linewidth=0.8, linestyle=":")
    panel.set_xlabel("labels")
    panel.set_ylabel("error (%)" if unit == 100 else "root mean squared error")
    panel.set_ylim(bottom=0)
    first = (found.tried[0][0], unit * found.tried[0][1])
    aside = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
    panel.annotate("quick witnesses, on parts of the labels", first, color=THEIRS, **aside)
    panel.annotate("the pool, with its band", (labels[0], high[0]), color=OURS, va="bottom")
    return save(figure, path)


def run_suspects(run: Path, *, most: int, out: Path | None) -> None:
    """Print the given labels that are probably wrong."""
    console, result = Terminal(), load(run)
    key, found = result.predictor.config.key, suspects(result, most)
    many = sum(each.suspect for each in found)
    judged = len(result.held_out["rows"])
    if not judged:
        raise ValueError("No label of this run could be hidden, so none can be suspect.")
    title = "Given labels, the most suspect first"
    table = Table(key, "given", "others say", "suspect", "why", title=title)
    for each in found:
        cells = (
            _with_chance(each.given, each.given_probability),
            _with_chance(each.other, each.other_probability),
            "yes" if each.suspect else "",
        )
        table.add_row(*map(Text, (each.name, *cells, each.reason)))
    console.print(table)
    say(console, f"{many} of these {len(found)} are suspect; {judged} given labels were judged.")
    if out is not None:
        save_suspects(found, key, out)
        say(
            console,
            f"To fill in its column label, and hand back with labels --corrections: {out}",
        )


def _with_chance(label: Label, probability: float | None) -> str:
    return shown(label) if probability is None else f"{shown(label)} ({probability:.0%})"
