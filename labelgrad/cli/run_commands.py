"""What the commands take that work on a run: `predict`, `labels`, `audit`, `review` and others.

The work is imported when it begins, so that help does not wait for PyTorch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelgrad.cli.options import Cache, EncoderFolder, Run, SpreadsheetSafe, Strict
from labelgrad.cli.words import counts, listed, share_typed


def predict(
    run: Run,
    data: Annotated[Path, typer.Argument(help="New data of the same kind.")],
    out: Annotated[Path, typer.Option(help="Where to write them.")] = Path("predictions.csv"),
    all_classes: Annotated[
        bool | None,
        typer.Option(
            "--all-classes/--no-all-classes",
            help="A column for each class, too; if not said, up to twenty.",
        ),
    ] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="Ask the kept pool in place of the student.")
    ] = False,
    spreadsheet_safe: SpreadsheetSafe = False,
    strict: Strict = False,
    encoder: EncoderFolder = None,
    cache: Cache = None,
) -> None:
    """Predict labels for new data, with calibrated probabilities, as CSV."""
    from labelgrad.cli.predict import run_predict

    run_predict(
        run,
        data,
        out=out,
        all_classes=all_classes,
        strict=strict,
        pool=pool,
        encoder=listed(encoder or ""),
        cache=cache,
        spreadsheet_safe=spreadsheet_safe,
    )


def labels(
    run: Run,
    above: Annotated[float, typer.Option(help="Smallest probability of a sure label.")] = 0.95,
    out: Annotated[Path | None, typer.Option(help="CSV for the labels to use.")] = None,
    wrong_at_most: Annotated[
        str | None, typer.Option(help="Hand back labels with this promise: 2%.")
    ] = None,
    confidence: Annotated[str, typer.Option(help="Of the promise.")] = "95%",
    on_average: Annotated[
        bool, typer.Option("--on-average", help="Promise it on average only.")
    ] = False,
    rest_by_hand: Annotated[
        bool, typer.Option("--rest-by-hand", help="Promise it of all rows, others by hand.")
    ] = False,
    look: Annotated[
        int | None, typer.Option(min=0, help="How many doubtful ones to show; else 20.")
    ] = None,
    look_out: Annotated[Path | None, typer.Option(help="CSV for the doubtful ones.")] = None,
    corrections: Annotated[
        Path | None, typer.Option(help="CSV of labels, new or changed, to take.")
    ] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
) -> None:
    """Imputed labels to use, imputed labels to look at, and corrections taken back.

    With --wrong-at-most the largest set of labels of which no more are wrong, at the confidence
    asked for; it needs labels drawn at random (labelgrad audit, or fit --drawn random).
    Doubtful are labels that model or neighbours speak against, then those of a small margin.
    Corrections (columns file or row, and label) are kept in the run; fit --resume then trains anew
    with them, because a model that has seen a label cannot be judged by it, and keeps the result
    before in before-corrections.
    """
    from labelgrad.cli.labels import run_labels

    promise = None
    if wrong_at_most is not None:
        promise = {
            "wrong_at_most": share_typed("--wrong-at-most", wrong_at_most),
            "confidence": share_typed("--confidence", confidence),
            "on_average": on_average,
            "rest_by_hand": rest_by_hand,
        }
    run_labels(
        run,
        above=above,
        out=out,
        look=look,
        look_out=look_out,
        corrections=corrections,
        promise=promise,
        spreadsheet_safe=spreadsheet_safe,
    )


def audit(
    run: Run,
    rows: Annotated[int | None, typer.Option(help="So many rows, drawn at random.")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV to fill in.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the draw; else the run's.")] = None,
    filled: Annotated[Path | None, typer.Option(help="CSV that is filled in, to take.")] = None,
    new_classes: Annotated[
        bool, typer.Option("--new-classes", help="Take labels that are no class of the run.")
    ] = False,
) -> None:
    """Draw rows at random to look at, without what the run thinks; take them back filled in.

    Promises and intervals rest on them. No row is drawn twice. Look at them in their order: who
    stops has looked at a random part, and who leaves out what is hard has not.
    """
    from labelgrad.cli.promises import run_audit

    run_audit(run, rows=rows, out=out, seed=seed, filled=filled, new_classes=new_classes)


def count(
    run: Run,
    confidence: Annotated[str, typer.Option(help="Of the intervals.")] = "95%",
    out: Annotated[Path | None, typer.Option(help="CSV for them.")] = None,
) -> None:
    """Each class's share of all rows, or the mean of all values, with an interval.

    By labels drawn at random (labelgrad audit, or fit --drawn random) and what the pool says of
    every row, beside the interval of those labels alone.
    """
    from labelgrad.cli.promises import run_count

    run_count(run, confidence=share_typed("--confidence", confidence), out=out)


def more(
    run: Run,
    labels: Annotated[str, typer.Option(help="How many more, by commas.")] = "25,50,100",
    out: Annotated[Path | None, typer.Option(help="The picture; in the run if not given.")] = None,
) -> None:
    """What more labels would buy: the error ahead, with a band, from parts of those there are."""
    from labelgrad.cli.promises import run_more

    run_more(run, more=counts(labels), out=out)


def suspects(
    run: Run,
    most: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20,
    out: Annotated[Path | None, typer.Option(help="CSV to fill in, for corrections.")] = None,
) -> None:
    """Given labels that are probably wrong, by what was said of them while they were hidden."""
    from labelgrad.cli.promises import run_suspects

    run_suspects(run, most=most, out=out)


def review(
    run: Run,
    data: Annotated[
        Path | None, typer.Option(help="The run's data, if they are not where they were.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page; 0 is any free.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it in the browser, too.")
    ] = True,
    audit: Annotated[
        bool, typer.Option("--audit", help="Begin with random rows, predictions hidden.")
    ] = False,
    wrong_at_most: Annotated[
        str, typer.Option(help="The promise that audits are counted for.")
    ] = "2%",
) -> None:
    """Open a page to work on: look at labels, decide by keyboard, audit, train anew.

    For this machine only, at an address with a secret in it. Every decision is on the disk before
    the next example is shown. fit --resume, or a button, trains anew with them. It needs the extra
    `review`: pip install 'labelgrad[review]'.
    """
    from labelgrad.cli.review import run_review

    run_review(
        run,
        data=data,
        port=port,
        browser=browser,
        audit=audit,
        at_most=share_typed("--wrong-at-most", wrong_at_most),
    )


def export(
    run: Run,
    to: Annotated[str, typer.Option(help="torch, torchscript or onnx.")] = "torch",
    out: Annotated[Path | None, typer.Option(help="The file; in the run if not given.")] = None,
    with_encoder: Annotated[
        bool, typer.Option("--with-encoder", help="The encoder of pictures, too: pixels in.")
    ] = False,
    encoder: EncoderFolder = None,
) -> None:
    """Write the model for programs without labelgrad, and check that it gives the same outputs.

    It takes pictures (values as in the files) or columns as fit prepares them, and gives
    calibrated probabilities in the order of the classes in config.json, or values.
    """
    from labelgrad.cli.export import run_export

    run_export(run, to=to, out=out, with_encoder=with_encoder, encoder=listed(encoder or ""))
