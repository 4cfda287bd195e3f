"""The commands that use a run: predictions, labels, audits, prevalence, the review page, export."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import labelgrad
from labelgrad.auto.cli.console import Terminal
from labelgrad.auto.cli.options import FILE, Share, config_options

if TYPE_CHECKING:
    import polars as pl

    from labelgrad.auto.result import Result

RUN = click.argument("run", type=FILE)
NEW_CLASSES = click.option(
    "--new-classes", is_flag=True, help="Accept labels that are no class of the run."
)
FORMATS = click.Choice(["torch", "onnx", "numpy"])
TO_REVIEW = 20  # examples that `labels` lists


@click.command(epilog="Example: labelgrad predict runs/pets new.csv --out predictions.csv")
@RUN
@click.argument("data", type=click.Path())
@click.option("--out", type=FILE, default=Path("predictions.csv"), show_default=True)
@click.option(
    "--all-classes/--no-all-classes",
    default=None,
    help="A column for each class. [default: up to twenty classes]",
)
@click.option("--ensemble", is_flag=True, help="Use the saved ensemble instead of the network.")
@config_options("strict", "encoder", "cache")
def predict(
    run: Path, data: str, out: Path, all_classes: bool | None, ensemble: bool, **options: Any
) -> None:
    """Predict labels for new DATA, with calibrated probabilities, as CSV."""
    from labelgrad.auto.predictor import save_predictions

    options = {name: value for name, value in options.items() if value is not None}
    with closing(Terminal()) as console:
        result = labelgrad.load(run, **options)
        parts = result.predict_in_parts(data, ensemble=ensemble, events=console)
        count, skipped = save_predictions(parts, out, all_classes=all_classes)
    console.say(f"{count:,} predictions: {out}")
    for name, reason in skipped[:3]:
        console.say(f"Skipped {name}: {reason}")
    if len(skipped) > 3:
        console.say(f"Skipped {len(skipped) - 3:,} more.")


@click.command(epilog="Example: labelgrad labels runs/pets --max-error-rate 2% --out good.csv")
@RUN
@click.option("--out", type=FILE, help="CSV file for the selected labels.")
@click.option("--table", type=FILE, help="File for the table with the selected labels filled in.")
@click.option("--above", type=Share(), default=0.95, show_default=True, help="Minimum confidence.")
@click.option("--max-error-rate", type=Share(), help="Select labels with this guarantee.")
@click.option("--confidence", type=Share(), default=0.95, help="Of the guarantee. [default: 95%]")
@click.option("--rest-by-hand", is_flag=True, help="Guarantee all, once you label the rest.")
@click.option("--review", type=click.IntRange(0), help="How many to list for review. [default: 20]")
@click.option("--review-out", type=FILE, help="CSV file for that list, or .json for Label Studio.")
@click.option("--corrections", type=FILE, help="CSV file or Label Studio's JSON of corrections.")
@NEW_CLASSES
def labels(
    run: Path,
    out: Path | None,
    table: Path | None,
    above: float,
    max_error_rate: float | None,
    confidence: float,
    rest_by_hand: bool,
    review: int | None,
    review_out: Path | None,
    corrections: Path | None,
    new_classes: bool,
) -> None:
    """Select labels to use, list labels to review, and take corrections.

    --out writes the selected labels. --table writes the table that was fitted, with these labels
    filled in. The file name sets the format.

    --max-error-rate selects the largest set of labels of which at most that share is wrong, at the
    given confidence; it needs randomly drawn labels (labelgrad audit, or fit --label-sampling
    random). Corrections (the id column of labels.csv, and label) are recorded in the run; fit
    --resume then trains again with them.
    """
    from labelgrad.auto.labels import confident_labels, save_labels

    console, result = Terminal(), labelgrad.load(run)
    for note in result.load_notes:
        console.say(note)
    selected: pl.DataFrame | None = None
    if max_error_rate is not None:
        from labelgrad.auto.guarantee import guaranteed_labels

        found = guaranteed_labels(
            result, max_error_rate, confidence=confidence, rest_by_hand=rest_by_hand
        )
        if not len(found.labels):
            raise ValueError(found.summary)
        selected, sentence = found.labels, found.summary
    elif corrections is not None:
        from labelgrad.auto.annotations import take_corrections

        console.say(take_corrections(result, corrections, new_classes=new_classes))
    elif result.task.classes or out is not None or table is not None:
        selected = confident_labels(result.labels, above)
        sentence = f"{len(selected):,} imputed labels have confidence {above:g} or more."
    if selected is not None:
        console.say(sentence)
        console.say(f"Labels: {out}" if out else "--out writes them.")
        if out is not None:
            save_labels(selected, out)
        if table is not None:
            result.save_table(table, labels=selected)
            console.say(f"Your table with these labels: {table}")
    if max_error_rate is None:
        default = TO_REVIEW if corrections is None or review_out else 0
        show_review(console, result, default if review is None else review, review_out)


def show_review(console: Terminal, result: Result, count: int, out: Path | None) -> None:
    """The examples whose label is most worth a look, on the terminal and as CSV to fill in."""
    from labelgrad.auto.label_studio import save_to_fill_in
    from labelgrad.auto.queue import review_list

    listed = review_list(result, count)
    if len(listed):
        console.table("Most worth a review", listed.columns, listed.rows())
    if out is not None:
        save_to_fill_in(result, listed, out)
        console.say(f"Fill in the column label, and give it back with --corrections: {out}")


@click.command(epilog="Example: labelgrad export runs/pets --to numpy")
@RUN
@click.option("--to", type=FORMATS, default="torch", show_default=True, help="Format.")
@click.option("--out", type=FILE, help="[default: a file in the run]")
@click.option("--with-encoder", is_flag=True, help="Include the image encoder, to take pixels.")
@config_options("encoder")
def export(run: Path, to: str, out: Path | None, with_encoder: bool, **options: Any) -> None:
    """Write the model for programs without labelgrad, and check its outputs.

    The model takes images (pixel values) or columns as fit preprocesses them, and gives calibrated
    probabilities in the order of the classes in model.json, or values. --to numpy is for tables: a
    Python file that takes the columns as they are in your file, and needs NumPy alone.
    """
    from labelgrad.auto.export import export as run_export

    result = labelgrad.load(run, **{k: v for k, v in options.items() if v is not None})
    path = run_export(result, to=to, out=out, with_encoder=with_encoder)
    Terminal().say(f"Model: {path}")


@click.command(epilog="Example: labelgrad audit runs/pets --rows 60 --out audit.csv")
@RUN
@click.option("--rows", type=click.IntRange(1), metavar="N", help="Draw N examples at random.")
@click.option("--out", type=FILE, help="File to fill in: CSV, or .json for Label Studio.")
@click.option("--filled", type=FILE, help="The filled-in file.")
@NEW_CLASSES
def audit(
    run: Path, rows: int | None, out: Path | None, filled: Path | None, new_classes: bool
) -> None:
    """Draw random examples to label by hand, and take them back filled in.

    Guarantees and intervals rest on audits. Predictions are hidden, because seeing them would bias
    the annotator. No example is drawn twice. Label them in order: if you stop early, the
    labeled part is still random; if you skip the hard ones, it is not.
    """
    from labelgrad.auto.audits import audit_status, draw_audit, take_audit

    if rows is not None and out is None:
        raise ValueError("--rows needs --out, the file to fill in.")
    console, result = Terminal(), labelgrad.load(run)
    if filled is not None:
        console.say(take_audit(result, filled, new_classes=new_classes))
    if rows is not None and out is not None:
        draw = draw_audit(result, rows, path=out)
        console.say(
            f"{len(draw.ids):,} of {draw.population:,} examples, drawn at random: {out}. Fill in "
            f"the column label in order, and give it back with --filled."
        )
    if rows is None and filled is None:
        console.say(audit_status(result))


@click.command(epilog="Example: labelgrad prevalence runs/pets --out prevalence.csv")
@RUN
@click.option("--confidence", type=Share(), default=0.95, help="Of the intervals. [default: 95%]")
@click.option("--out", type=FILE, help="CSV file for the intervals.")
def prevalence(run: Path, confidence: float, out: Path | None) -> None:
    """Estimate each class's share of all examples, or the mean value, with an interval.

    Uses randomly drawn labels (labelgrad audit, or fit --label-sampling random) and the predictions
    of all examples (prediction-powered inference).
    """
    from labelgrad.auto.prevalence import prevalence as estimate

    console, found = Terminal(), estimate(labelgrad.load(run), confidence=confidence)
    console.table("", found.table.columns, found.table.rows())
    console.say(found.summary)
    if out is not None:
        found.table.write_csv(out)
        console.say(f"Intervals: {out}")


@click.command("label-issues", epilog="Example: labelgrad label-issues runs/pets --out look.csv")
@RUN
@click.option("--most", type=click.IntRange(1), default=20, show_default=True, help="How many.")
@click.option("--out", type=FILE, help="File to fill in: CSV, or .json for Label Studio.")
def label_issues(run: Path, most: int, out: Path | None) -> None:
    """List given labels that are probably wrong, by their out-of-fold predictions."""
    from labelgrad.auto.label_issues import find_label_issues

    console, result = Terminal(), labelgrad.load(run)
    found = find_label_issues(result, most)
    shown = found.drop("given_confidence", "prediction_confidence")  # 80 columns
    console.table("Labels most at odds with held-out predictions", shown.columns, shown.rows())
    if out is not None:
        from labelgrad.auto.label_studio import save_to_fill_in

        save_to_fill_in(result, found, out)
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
    from labelgrad.auto.server.serve import serve

    say = Terminal().say
    serve(
        run, say, data=data, port=port, browser=browser, audit=audit, max_error_rate=max_error_rate
    )
