"""The commands that use a run: `predict`, `labels`, `export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labelgrad.auto.cli.options import Share, config_options, given

if TYPE_CHECKING:
    from labelgrad.auto.cli.console import Terminal
    from labelgrad.auto.result import Result

RUN = click.argument("run", type=click.Path(path_type=Path))
TO_REVIEW = 20  # examples that `labels` lists


@click.command(epilog="Example: labelgrad predict runs/pets new.csv --out predictions.csv")
@RUN
@click.argument("data", type=click.Path())
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("predictions.csv"), show_default=True
)
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
    from labelgrad.auto.cli.console import Terminal, TerminalEvents
    from labelgrad.auto.predictor import save_predictions
    from labelgrad.auto.run import load

    console = Terminal()
    with TerminalEvents(console) as events:
        result = load(run, **given(options))
        parts = result.predict_in_parts(data, ensemble=ensemble, events=events)
        count, skipped = save_predictions(parts, out, all_classes=all_classes)
    console.say(f"{count:,} predictions: {out}")
    for name, reason in skipped[:3]:
        console.say(f"Skipped {name}: {reason}")
    if len(skipped) > 3:
        console.say(f"Skipped {len(skipped) - 3:,} more.")


@click.command(epilog="Example: labelgrad labels runs/pets --max-error-rate 2% --out good.csv")
@RUN
@click.option("--out", type=click.Path(path_type=Path), help="CSV file for the selected labels.")
@click.option(
    "--above", type=Share(), default=0.95, show_default=True, help="Least confidence of a label."
)
@click.option(
    "--max-error-rate", type=Share(), help="Select labels with this guarantee; needs an audit."
)
@click.option("--confidence", type=Share(), default=0.95, help="Of the guarantee. [default: 95%]")
@click.option(
    "--rest-by-hand", is_flag=True, help="Guarantee all labels, once the others are made by hand."
)
@click.option(
    "--review", type=click.IntRange(0), metavar="N", help="List N examples to review. [default: 20]"
)
@click.option("--review-out", type=click.Path(path_type=Path), help="CSV file for that list.")
@click.option("--corrections", type=click.Path(path_type=Path), help="CSV file of labels to take.")
@click.option("--new-classes", is_flag=True, help="Accept corrections that are no class yet.")
def labels(
    run: Path,
    out: Path | None,
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

    --max-error-rate selects the largest set of labels of which at most that share is wrong, at the
    given confidence; it needs randomly drawn labels (labelgrad audit, or fit --label-sampling
    random). Corrections (columns file or row, and label) are recorded in the run; fit --resume
    then trains again with them.
    """
    from labelgrad.auto.cli.console import Terminal
    from labelgrad.auto.run import load

    console, result = Terminal(), load(run)
    for note in result.load_notes:
        console.say(note)
    if max_error_rate is not None:
        show_guarantee(console, result, max_error_rate, confidence, rest_by_hand, out)
        return
    if corrections is not None:
        from labelgrad.auto.annotations import take_corrections

        console.say(take_corrections(result, corrections, new_classes=new_classes).summary)
    elif result.task.classes or out is not None:
        from labelgrad.auto.labels import confident_labels, save_labels

        selected = confident_labels(result.labels, above)
        where = f": {out}" if out else "; --out writes them."
        if out is not None:
            save_labels(selected, out)
        console.say(f"{len(selected):,} imputed labels have confidence {above:g} or more{where}")
    if review is None:
        review = TO_REVIEW if corrections is None or review_out else 0
    show_review(console, result, review, review_out)


def show_guarantee(
    console: Terminal,
    result: Result,
    max_error_rate: float,
    confidence: float,
    rest_by_hand: bool,
    out: Path | None,
) -> None:
    """Print what can be guaranteed and write the labels; that nothing can be is an error."""
    from labelgrad.auto.guarantee import guaranteed_labels
    from labelgrad.auto.labels import save_labels

    found = guaranteed_labels(
        result, max_error_rate, confidence=confidence, rest_by_hand=rest_by_hand
    )
    if not len(found.labels):
        raise ValueError(found.summary)
    console.say(found.summary)
    if out is not None:
        save_labels(found.labels, out)
    console.say(f"Labels: {out}" if out else "--out writes them.")


def show_review(console: Terminal, result: Result, count: int, out: Path | None) -> None:
    """The examples whose label is most worth a look, on the terminal and as CSV to fill in."""
    from labelgrad.auto.queue import review_list, save_review_list

    listed = review_list(result, count)
    if len(listed):
        console.table("Most worth a review", listed.columns, listed.rows())
    if out is not None:
        save_review_list(listed, out)
        console.say(f"Fill in the column label, and give it back with --corrections: {out}")


@click.command(epilog="Example: labelgrad export runs/pets --to onnx")
@RUN
@click.option(
    "--to", type=click.Choice(["torch", "onnx"]), default="torch", show_default=True, help="Format."
)
@click.option("--out", type=click.Path(path_type=Path), help="[default: a file in the run]")
@click.option("--with-encoder", is_flag=True, help="Include the image encoder: pixels in.")
@config_options("encoder")
def export(run: Path, to: str, out: Path | None, with_encoder: bool, **options: Any) -> None:
    """Write the model for programs without labelgrad, and check its outputs.

    The model takes images (pixel values) or columns as fit preprocesses them, and gives calibrated
    probabilities in the order of the classes in model.json, or values.
    """
    from labelgrad.auto.cli.console import Terminal
    from labelgrad.auto.export import export as run_export
    from labelgrad.auto.run import load

    result = load(run, **given(options))
    path = run_export(result, to=to, out=out, with_encoder=with_encoder)
    Terminal().say(f"Model: {path}")
