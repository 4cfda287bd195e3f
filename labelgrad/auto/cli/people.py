"""The commands for people who look at labels: audits, prevalence, label issues, review."""

from __future__ import annotations

from pathlib import Path

import click

from labelgrad.auto.cli.options import Share
from labelgrad.auto.cli.runs import RUN

CONFIDENCE = click.option(
    "--confidence", type=Share(), default=0.95, help="Of the intervals. [default: 95%]"
)


@click.command(epilog="Example: labelgrad audit runs/pets --rows 60 --out audit.csv")
@RUN
@click.option("--rows", type=click.IntRange(1), metavar="N", help="Draw N examples at random.")
@click.option("--out", type=click.Path(path_type=Path), help="CSV file to fill in.")
@click.option("--filled", type=click.Path(path_type=Path), help="CSV file that is filled in.")
@click.option("--new-classes", is_flag=True, help="Accept labels that are no class of the run.")
def audit(
    run: Path, rows: int | None, out: Path | None, filled: Path | None, new_classes: bool
) -> None:
    """Draw random examples to label by hand, and take them back filled in.

    Guarantees and intervals rest on audits. Predictions are hidden, because seeing them would bias
    the annotator. No example is drawn twice. Label them in order: whoever stops has labeled a
    random part; whoever skips the hard ones has not.
    """
    from labelgrad.auto.audits import audit_status, draw_audit, save_audit, take_audit
    from labelgrad.auto.cli.console import Terminal
    from labelgrad.auto.run import load

    if rows is not None and out is None:
        raise ValueError("--rows needs --out, the CSV file to fill in.")
    console, result = Terminal(), load(run)
    if filled is not None:
        console.say(take_audit(result, filled, new_classes=new_classes).summary)
    if rows is not None and out is not None:
        draw = draw_audit(result, rows)
        save_audit(result, draw, out)
        console.say(
            f"{len(draw.ids):,} of {draw.population:,} examples, drawn at random: {out}. Fill in "
            f"the column label in order, and give it back with --filled."
        )
    if rows is None and filled is None:
        console.say(audit_status(result))


@click.command(epilog="Example: labelgrad prevalence runs/pets --out prevalence.csv")
@RUN
@CONFIDENCE
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for the intervals.")
def prevalence(run: Path, confidence: float, out: Path | None) -> None:
    """Estimate each class's share of all examples, or the mean value, with an interval.

    Uses randomly drawn labels (labelgrad audit, or fit --label-sampling random) and the predictions
    of all examples (prediction-powered inference).
    """
    from labelgrad.auto.cli.console import Terminal
    from labelgrad.auto.prevalence import prevalence as estimate
    from labelgrad.auto.run import load

    console, found = Terminal(), estimate(load(run), confidence=confidence)
    console.table("", found.table.columns, found.table.rows())
    console.say(found.summary)
    if out is not None:
        found.table.write_csv(out)
        console.say(f"Intervals: {out}")


@click.command("label-issues", epilog="Example: labelgrad label-issues runs/pets --out look.csv")
@RUN
@click.option("--most", type=click.IntRange(1), default=20, show_default=True, help="To list.")
@click.option("--out", type=click.Path(path_type=Path), help="CSV file to fill in.")
def label_issues(run: Path, most: int, out: Path | None) -> None:
    """List given labels that are probably wrong, by their out-of-fold predictions."""
    from labelgrad.auto.cli.console import Terminal
    from labelgrad.auto.label_issues import find_label_issues
    from labelgrad.auto.run import load

    console, found = Terminal(), find_label_issues(load(run), most)
    console.table("Labels most at odds with held-out predictions", found.columns, found.rows())
    if out is not None:
        from labelgrad.auto.queue import save_review_list

        save_review_list(found, out)
        console.say(f"Fill in the column label, and give it to labels --corrections: {out}")


@click.command(epilog="Example: labelgrad review runs/pets --port 8765")
@RUN
@click.option("--data", type=click.Path(), help="The run's data, if it was moved.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 is any free port.")
@click.option("--browser/--no-browser", default=True, help="Open the page in the browser.")
@click.option("--audit", is_flag=True, help="Begin with random examples, predictions hidden.")
@click.option("--max-error-rate", type=Share(), default=0.02, help="Guarantee to audit for.")
def review(
    run: Path, data: str | None, port: int, browser: bool, audit: bool, max_error_rate: float
) -> None:
    """Open a page to accept and correct labels by keyboard, audit, and retrain.

    The page is for this machine only, at an address with a secret. Every annotation is on disk
    before the next example is shown. Needs the extra: pip install 'labelgrad[review]'.
    """
    from labelgrad.auto.cli.console import Terminal
    from labelgrad.auto.server.serve import serve

    serve(
        run,
        data=data,
        port=port,
        browser=browser,
        audit=audit,
        max_error_rate=max_error_rate,
        say=Terminal().say,
    )
