"""`labelgrad tune synthetic`: look for the settings behind the paper's curves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Column, Table

from labelgrad.cli.console import Terminal, add_missing
from labelgrad.paper.figures.tuning import draw_tuning
from labelgrad.paper.synthetic import SIZES, Settings
from labelgrad.paper.synthetic_tuning import (
    FIRST_SEED,
    OTHER_SEEDS,
    SPACE,
    TuningTrial,
    finer,
    leaders,
    neighbours,
    spread,
)
from labelgrad.training.results import Line, Results

SHORT = {
    "learning_rate": "α_θ",
    "label_rate": "α_w",
    "gradient_decay": "EMA g",
    "moment_decay": "EMA v⁴",
    "epsilon": "ε_norm",
    "labeled_weight": "T",
}


def tune_synthetic(
    *, trials: int, seed: int, workers: int, scale: str, out: Path, command: str
) -> None:
    """Search the whole space, then around the nearest; print the best, draw each one's effect."""
    console = Terminal()
    results = Results(out, {"scale": scale, "size": asdict(SIZES[scale]), "search_seed": seed})
    options = _Options(workers, scale, command)
    _finish([("search", "all", s, FIRST_SEED) for s in spread(trials, seed)], results, options)
    centre = best_of_search(results.lines, "distance")
    _finish([("finer", *found, FIRST_SEED) for found in finer(centre)], results, options)
    ahead = leaders([line for line in results.lines if line["stage"] in ("search", "finer")])
    again = [("again", "draw", s, other) for s in ahead for other in OTHER_SEEDS]
    _finish(again, results, options)
    for stage, key in (("around best", "lowest_loss"), ("around nearest", "distance")):
        centre = best_of_search(results.lines, key)
        around = [(stage, *found, FIRST_SEED) for found in neighbours(centre)]
        _finish(around, results, options)
    for title, key in (
        ("Nearest to the paper", "distance"),
        ("Lowest test loss at the end", "last_loss"),
    ):
        console.print(best_table(results.lines, title, key))
    for path in draw_tuning(results.lines, out):
        console.print(f"The picture: {path}", soft_wrap=True, highlight=False)


@dataclass(frozen=True)
class _Options:
    workers: int
    scale: str
    command: str


def _finish(
    plan: list[tuple[str, str, Settings, int]], results: Results, options: _Options
) -> None:
    """Run those trials of a stage that are not in the results yet."""
    jobs = {
        f"{stage} {trial}: {moved}": {
            "stage": stage,
            "moved": moved,
            "settings": settings,
            "seed": seed,
            "scale": options.scale,
        }
        for trial, (stage, moved, settings, seed) in enumerate(plan)
        if not results.has(stage=stage, settings=asdict(settings), seed=seed)
    }
    add_missing(TuningTrial, jobs, results, workers=options.workers, command=options.command)


def best_of_search(lines: list[Line], key: str) -> Settings:
    """The settings of the search with the lowest value of `key`."""
    search = [line for line in lines if line["stage"] == "search"]
    return Settings(**min(search, key=lambda line: float(line[key]))["settings"])


def best_table(lines: list[Line], title: str, key: str, count: int = 6) -> Table:
    """The trials with the lowest value of `key`, lowest first."""
    table = Table(
        *(Column(name, justify="right") for name in ("apart", *SHORT.values())),
        Column("loss", justify="right"),
        Column("acc.", justify="right"),
        title=title,
    )
    for line in sorted(lines, key=lambda line: float(line[key]))[:count]:
        settings = (f"{line['settings'][name]:g}" for name in SPACE)
        numbers = f"{line['last_loss']:.3f}", f"{line['last_accuracy']:.3f}"
        table.add_row(f"{line['distance']:.4f}", *settings, *numbers)
    return table
