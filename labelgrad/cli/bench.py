"""`labelgrad bench`: LGA's two ways to learn labels, and no unlabeled data at all, on many sets."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from statistics import mean

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from labelgrad.bench.results import (
    EVIDENCE,
    FIXED,
    SUPERVISED,
    average,
    oracle,
    price_of,
    sets_in,
    times_oracle,
)
from labelgrad.bench.sets import SETS, rows
from labelgrad.bench.trial import (
    BATCH,
    COMPARED,
    FIXED_RATE,
    HIDDEN,
    LEARNING_RATE,
    MOVED,
    SUPERVISED_WEIGHT,
    TIMES,
    BenchTrial,
    Method,
)
from labelgrad.cli.cluster import seen_from_anywhere
from labelgrad.cli.console import Terminal, add_missing, say_pictures
from labelgrad.labels.evidence import LEAD, SCALE, SUREST, Evidence
from labelgrad.training.results import Line, Results


def run_bench(
    *,
    sets: tuple[str, ...],
    seeds: int,
    steps: int,
    workers: int,
    data: Path | None,
    out: Path,
    command: str,
    executor: Executor | None = None,
) -> None:
    """Train what is missing, here or by an executor, then print the table and draw the picture."""
    names = sets or tuple(SETS)
    for name in names:
        rows(name, 0, data)  # what is misspelt or missing is said before any work begins
    results = Results(out, _settings(steps))
    jobs = {
        f"{name}, {_title(method)}, seed {seed}": {
            "data": name,
            "kind": method.kind,
            "setting": method.setting,
            "seed": seed,
            "steps": steps,
            "folder": seen_from_anywhere(data),
        }
        for methods in (COMPARED, MOVED)  # a bench that is stopped early has the comparison
        for seed in range(seeds)
        for name in names
        for method in methods
        if not results.has(data=name, method=method.kind, setting=method.setting, seed=seed)
    }
    add_missing(BenchTrial, jobs, results, workers=workers, command=command, executor=executor)
    show([line for line in results.lines if line["seed"] < seeds and line["data"] in names], out)


def show(lines: Sequence[Line], out: Path) -> None:
    """The table, what it comes to, and the picture."""
    from labelgrad.bench.figure import draw_bench

    console = Terminal()
    console.print(bench_table(lines))
    console.print(
        "Test error in percent (of values the root mean square, in standard deviations) / test "
        "loss, means over the seeds; “tuned” is Algorithm 1 at the rate, in the last column, that "
        "is best on the test rows.",
        highlight=False,
    )
    for sentence in conclusions(lines):
        console.print(sentence, highlight=False)
    say_pictures(console, draw_bench(lines, out))


def bench_table(lines: Sequence[Line]) -> Table:
    """A row for each set: error in percent (of values the distance) / test loss of four methods."""
    heads = ("supervised", "tuned", f"rate {FIXED_RATE:g}", "evidence")
    table = Table(
        Column("set", no_wrap=True),
        *(Column(head, justify="right", no_wrap=True) for head in heads),
        Column("best", justify="right", no_wrap=True),
        box=SIMPLE_HEAD,
        padding=0,  # so that 80 columns are enough
        pad_edge=False,
        show_edge=False,
    )
    for data in sets_in(lines):
        table.add_row(*bench_row(lines, data))
    return table


def bench_row(lines: Sequence[Line], data: str) -> list[str]:
    """The cells of one set."""
    best = oracle(lines, data)
    compared = (SUPERVISED, best, FIXED, EVIDENCE)
    return [data, *(_cell(lines, data, method) for method in compared), f"{best.setting:g}"]


def conclusions(lines: Sequence[Line]) -> list[str]:
    """Averages over the sets, in sentences."""
    sets = sets_in(lines)
    ratios = [
        (name, mean(times_oracle(lines, data, method) for data in sets))
        for name, method in (("Evidence", EVIDENCE), ("LGA at one rate", FIXED))
    ]
    said = [f"{name}: {ratio:.3f} times the tuned LGA's test loss." for name, ratio in ratios]
    for times in TIMES:
        if times != 1:
            price = mean(price_of(lines, data, times) for data in sets)
            said.append(f"Evidence with {times:.2g} times its scale: test loss {price:+.1%}.")
    return said


def _cell(lines: Sequence[Line], data: str, method: Method) -> str:
    error, loss = (average(lines, data, method, quantity) for quantity in ("error", "loss"))
    classes = any("test_ece" in line for line in lines if line["data"] == data)
    return f"{100 * error:.1f} / {loss:.3f}" if classes else f"{error:.3f} / {loss:.3f}"


def _title(method: Method) -> str:
    return "supervised" if method.kind == "supervised" else f"{method.kind} {method.setting:.2g}"


def _settings(steps: int) -> Line:
    return {
        "steps": steps,
        "batch_size": BATCH,
        "hidden": HIDDEN,
        "learning_rate": LEARNING_RATE,
        "labeled_weight": SUPERVISED_WEIGHT,
        "evidence": SCALE | {"lead": LEAD, "surest": SUREST, "metric_power": Evidence.metric_power},
    }
