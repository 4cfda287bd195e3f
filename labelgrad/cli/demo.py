"""`labelgrad demo`: run digits both ways, print a table, draw the curves."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from labelgrad.bench.digits import METHODS, digits_run
from labelgrad.cli.console import progress
from labelgrad.datasets.digits import digits
from labelgrad.training.parallel import finish_all

Histories = dict[str, list[list[dict[str, Any]]]]  # for each method, one history a seed

COLUMNS = {  # heading: (key in a record, factor, decimals)
    "error %": ("test_error", 100, 1),
    "loss": ("test_loss", 1, 2),
    "ECE": ("test_ece", 1, 2),
    "labels %": ("imputed_accuracy", 100, 1),
    "time, s": ("seconds", 1, 0),
}
NAMES = {"supervised": "supervised", "lga-evidence": "LGA"}


def run_demo(*, seeds: int, labels: int, steps: int, workers: int, out: Path) -> None:
    """Train, then print the table and where the picture is."""
    console = Console()
    split = digits(labels=labels)  # a bad count of labels is said before any work begins
    console.print(
        f"Digits: {labels} labeled, {len(split.unlabeled[0])} unlabeled, {len(split.test[0])} "
        f"for the test; {seeds} splits, {steps} steps each, supervised beside LGA.",
        highlight=False,
    )
    jobs = {
        f"{NAMES[method]}, seed {seed}": {
            "method": method,
            "seed": seed,
            "labels": labels,
            "steps": steps,
            "folder": out / f"{labels}-labels-{steps}-steps" / f"{method}-{seed}",
        }
        for seed in range(seeds)
        for method in METHODS
    }
    found = finish_all(digits_run, jobs, workers=workers, progress=progress(console))
    histories = {
        method: [found[f"{NAMES[method]}, seed {seed}"] for seed in range(seeds)]
        for method in METHODS
    }
    console.print(results_table(histories))
    console.print(
        f"Mean ± standard deviation over {seeds} splits at the last step, on test digits; "
        f"“labels” is how many of the imputed ones are right.",
        highlight=False,
    )
    console.print(f"The curves: {draw(histories, labels, out)}", soft_wrap=True, highlight=False)


def results_table(histories: Histories) -> Table:
    """One row a method, at the last step."""
    table = Table(
        Column("", no_wrap=True),
        *(Column(heading, justify="right", no_wrap=True) for heading in COLUMNS),
    )
    for method, runs in histories.items():
        last = [history[-1] for history in runs]
        table.add_row(NAMES[method], *(_cell(last, *column) for column in COLUMNS.values()))
    return table


def _cell(last: list[dict[str, Any]], key: str, factor: float, decimals: int) -> str:
    values = [factor * line[key] for line in last if key in line]
    if not values:
        return "–"
    spread = f" ± {stdev(values):.{decimals}f}" if len(values) > 1 else ""
    return f"{mean(values):.{decimals}f}{spread}"


def draw(histories: Histories, labels: int, out: Path) -> Path:
    """Test error and test loss over the steps: the mean, and one thin line for each split."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    titles = {"test_error": "test error, %", "test_loss": "test loss"}
    for panel, (key, title) in zip(panels, titles.items(), strict=True):
        for (method, runs), color in zip(histories.items(), ("#5b6770", "#c8102e"), strict=True):
            scale = 100 if key == "test_error" else 1
            steps = [line["step"] for line in runs[0]]
            curves = [[scale * line[key] for line in history] for history in runs]
            for curve in curves:
                panel.plot(steps, curve, color=color, alpha=0.25, linewidth=0.8)
            average = [mean(values) for values in zip(*curves, strict=True)]
            panel.plot(steps, average, color=color, linewidth=2.2, label=NAMES[method])
        panel.set(xlabel="step", title=title, ylim=(0, None))
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False)
    figure.suptitle(f"Digits with {labels} labels")
    path = out / "digits.png"
    for target in (path, path.with_suffix(".svg")):
        figure.savefig(target, dpi=150)
    plt.close(figure)
    return path
