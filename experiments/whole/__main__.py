"""`python -m experiments.whole train` and `figure`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import torch
import typer

from experiments.common import commands_for, read_lines, run, typed
from experiments.whole.cost import visit_cost
from experiments.whole.figures import draw_labels, draw_wrong_labels, results_table
from experiments.whole.settings import Settings
from experiments.whole.slopes import slope_accuracy
from experiments.whole.trial import Trial
from labelgrad.files import append_lines, write_whole

commands = commands_for("All of an image set with few labels, on one core.")


@commands.command(epilog="Example: train lga --seed 1 --set visits=20 --set width=32 --test")
def train(
    method: Annotated[str, typer.Argument(help="Such as supervised, lga or lga+vat.")],
    labels: Annotated[int, typer.Option(help="Labeled images.")] = 4_000,
    seed: Annotated[int, typer.Option(help="Of the split and of the training.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Other settings, as NAME=VALUE; data=svhn.")
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="Evaluate test images, too.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of runs and results.")] = Path("runs/whole"),
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
) -> None:
    """Train one trial and append its line to results.jsonl; the same command resumes it.

    With LGA it ends in a picture of the images whose imputed labels are most certain and wrong.
    """
    torch.set_num_threads(1)
    base = Settings(method=method, labels=labels, seed=seed)
    chosen = base.changed(settings or [])
    trial = Trial(chosen, out / chosen.name, data=data, test=test, device=device)
    for record in trial:
        shown = ("step", "visits", "validation_error", "validation_loss", "imputed_accuracy")
        words = [f"{name} {record[name]:.4g}" for name in shown if name in record]
        typer.echo(f"{', '.join(words)}; {record['seconds_left'] // 60} min left")
    results = out / "results.jsonl"
    done = json.dumps(trial.line | {"command": typed()})
    if not results.exists() or done not in results.read_text():
        append_lines(results, [done])
    if "imputed_accuracy" in trial.line["curve"]:
        draw_wrong_labels(trial, out / chosen.name / "wrong-labels.png")


@commands.command(epilog="Example: figures --out results/whole-cifar10")
def figures(
    out: Annotated[Path, typer.Option(help="Folder of results.jsonl.")] = Path("runs/whole"),
) -> None:
    """Print the table of a folder's results and draw how imputed labels learn."""
    lines = read_lines(out / "results.jsonl")
    typer.echo(results_table([line for line in lines if "test_error" in line]))
    learned = [line for line in lines if "imputed_accuracy" in line["curve"]]
    draw_labels([line for line in learned if line["seed"] == 0], out / "imputed-labels.png")


@commands.command(epilog="Example: slopes --out results/whole-cifar10")
def slopes(
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of slopes.jsonl.")] = Path("runs/whole"),
) -> None:
    """Measure what one slope says of a label, with a network that is half trained."""
    torch.set_num_threads(1)
    found = slope_accuracy(Settings(visits=2.5, weight_decay=0.5, learning_rate=8e-3), data)
    text = "".join(json.dumps(line) + "\n" for line in found)
    write_whole(out / "slopes.jsonl", text.encode())
    typer.echo(text, nl=False)


@commands.command(epilog="Example: cost lga --set width=16 --set autocast=False")
def cost(
    method: Annotated[str, typer.Argument(help="Such as supervised, lga or lga+vat.")] = "lga",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Other settings, as NAME=VALUE.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="The fastest one counts.")] = 10,
) -> None:
    """Measure what a visit of all images costs, beside its convolutions alone."""
    torch.set_num_threads(1)
    found = visit_cost(Settings(method=method).changed(settings or []), rounds)
    typer.echo(json.dumps({"method": method, **found}))


if __name__ == "__main__":
    run(commands)
