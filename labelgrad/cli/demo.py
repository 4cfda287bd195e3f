"""`labelgrad demo`: digits by the pool and by others, a table, a sentence, a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from labelgrad.bench.digits import OURS, PEERS, TITLES, DigitsTrial
from labelgrad.bench.peer_trial import SURE
from labelgrad.cli.console import Tally, Terminal, add_missing, say, say_pictures
from labelgrad.datasets.digits import digits
from labelgrad.training.results import Line, Results

HEADS = ("\nerror %", "\nloss", "labels\nright %", "\nsure %", "sure\nright %", "\nseconds")
LEGEND = (
    "Error and loss on test digits, mean ± standard deviation over the splits. “Labels” are those "
    f"of the unlabeled digits, and “sure” those that claim more than {SURE:g}. One fit gives the "
    "last four rows: its seconds stand with the pool and the student, and the networks' include "
    "their cross-validation."
)


def run_demo(
    *, seeds: int, labels: int, steps: int | None, workers: int, out: Path, command: str
) -> None:
    """Fit the splits that are missing, then print what came of all, and where the picture is."""
    console = Terminal()
    split = digits(labels=labels)  # a bad count of labels is said before any work begins
    say(
        console,
        f"Digits: {labels} labeled, {len(split.unlabeled[0])} unlabeled, {len(split.test[0])} for "
        f"the test; {seeds} split{'s' if seeds > 1 else ''}, {len(TITLES)} methods.",
    )
    folder = out / (f"{labels}-labels" + (f"-{steps}-steps" if steps else ""))
    results = Results(folder, {"labels": labels, "steps": steps})
    jobs = {
        f"split {seed + 1}": {"seed": seed, "labels": labels, "network_steps": steps}
        for seed in range(seeds)
        if not results.has(seed=seed)
    }
    add_missing(DigitsTrial, jobs, results, workers=workers, command=command, shown=Tally(console))
    show(console, [line for line in results.lines if line["seed"] < seeds], labels, out)


def show(console: Console, lines: Sequence[Line], labels: int, out: Path) -> None:
    """The table, what it says in sentences, and the picture."""
    from labelgrad.bench.digits_figure import draw_digits

    console.print(results_table(lines))
    console.print(LEGEND, highlight=False)
    for key in ("error", "loss"):
        say(console, conclusion(lines, key))
    say_pictures(console, draw_digits(lines, labels, out))


def results_table(lines: Sequence[Line]) -> Table:
    """One row a method."""
    table = Table(
        Column("", no_wrap=True),
        *(Column(head, justify="right", no_wrap=True) for head in HEADS),
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),  # so that 80 columns are enough
        pad_edge=False,
        show_edge=False,
    )
    for method, title in TITLES.items():
        table.add_row(title, *_cells([line for line in lines if line["method"] == method]))
    return table


def conclusion(lines: Sequence[Line], key: str) -> str:
    """Who has the lowest error or loss, and how the best of the other house does beside it.

    >>> errors = dict.fromkeys(TITLES, 0.2) | {"label-spreading-knn": 0.11, "pool": 0.1}
    >>> lines = [{"seed": 0, "method": name, "error": error} for name, error in errors.items()]
    >>> conclusion(lines, "error").split("; ")[0]
    'The pool has the lowest error, 10.0 %'
    >>> conclusion(lines, "error").split("; ")[1]
    'the best of scikit-learn, label spreading, has 11.0 %.'
    """
    found = {
        method: {line["seed"]: line[key] for line in lines if line["method"] == method}
        for method in TITLES
    }
    means = {method: mean(values.values()) for method, values in found.items()}
    best = min(means, key=lambda method: means[method])
    others, house = (PEERS, "scikit-learn") if best in OURS else (OURS, "ours")
    other = min(others, key=lambda method: means[method])
    ahead = sum(value < found[best][seed] for seed, value in found[other].items())
    lowest, beside = (_number(means[method], key) for method in (best, other))
    splits, first = len(found[best]), _called(best)
    often = f" and is ahead on {ahead or 'none'} of {splits} splits" if splits > 1 else ""
    return (
        f"{first[0].upper()}{first[1:]} has the lowest {key}, {lowest}; the best of {house}, "
        f"{_called(other)}, has {beside}{often}."
    )


def _cells(lines: Sequence[Line]) -> list[str]:
    unlabeled, right, sure, sure_right = (
        sum(line[key] for line in lines) for key in ("unlabeled", "right", "sure", "sure_right")
    )
    return [
        _with_spread([100 * line["error"] for line in lines], 1),
        _with_spread([line["loss"] for line in lines], 2),
        f"{100 * right / unlabeled:.1f}",
        f"{100 * sure / unlabeled:.0f}",
        f"{100 * sure_right / sure:.1f}" if sure else "–",
        f"{mean(line['seconds'] for line in lines):.1f}",
    ]


def _with_spread(values: Sequence[float], decimals: int) -> str:
    spread = f" ± {stdev(values):.{decimals}f}" if len(values) > 1 else ""
    return f"{mean(values):.{decimals}f}{spread}"


def _called(method: str) -> str:
    return f"the {TITLES[method]}" if method in OURS else TITLES[method]


def _number(value: float, key: str) -> str:
    return f"{100 * value:.1f} %" if key == "error" else f"{value:.2f}"
