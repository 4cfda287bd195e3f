"""`labelgrad bench peers`: ours beside what a person would pick instead, on many small sets."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict, replace
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from labelgrad.bench.peer_trial import (
    CONTENDERS,
    OURS,
    SURE,
    TITLES,
    PeerTrial,
    contenders_for,
)
from labelgrad.bench.splits import VALUES, Draw, Places, set_names, whole
from labelgrad.bench.standing import Standing, of_task, standings
from labelgrad.bench.standing_page import write_page
from labelgrad.cli.cluster import seen_from_anywhere
from labelgrad.cli.console import Tally, Terminal, add_missing, say, say_pictures
from labelgrad.cli.words import check_choice
from labelgrad.inputs.targets import TASKS
from labelgrad.peers import LEAST, PEERS
from labelgrad.training.results import Line, Results

LEGEND = (
    "* ours; + sees unlabeled rows, too. The smaller the better: a ratio is to the best peer of "
    "each set in hindsight, the geometric mean; > 5 % counts the sets whose loss is so far above "
    "that of the best peer by labels alone. Sure are labels of unlabeled rows that claim more than "
    f"{SURE:g}: right in percent, on average and on the worst set."
)


def run_peers(
    *,
    sets: tuple[str, ...],
    methods: tuple[str, ...],
    seeds: int,
    draw: Draw,
    places: Places,
    workers: int,
    out: Path,
    command: str,
    executor: Executor | None = None,
) -> None:
    """Fit what is missing, here or by an executor; print the tables, write page and pictures."""
    for method in methods:
        check_choice("--methods", method, list(TITLES))
    names = set_names(places, sets)
    tasks = {name: _task(name, places) for name in names}
    places = replace(
        places,
        pictures=seen_from_anywhere(places.pictures),
        tables=seen_from_anywhere(places.tables),
    )
    results = Results(out, {"least": LEAST, "values": VALUES} | asdict(draw))
    jobs = {
        f"{name}, {CONTENDERS[contender].title}, seed {seed}": {
            "data": name,
            "contender": contender,
            "seed": seed,
            "draw": draw,
            "places": places,
        }
        for seed in range(seeds)
        for name in names
        for contender in contenders_for(tasks[name])
        if _wanted(contender, methods)
        and not results.has(data=name, method=next(iter(CONTENDERS[contender].methods)), seed=seed)
    }
    console = Terminal()
    add_missing(
        PeerTrial,
        jobs,
        results,
        workers=workers,
        command=command,
        shown=Tally(console),
        executor=executor,
    )
    shown = [
        line
        for line in results.lines
        if line["seed"] < seeds
        and line["data"] in names
        and (not methods or line["method"] in methods)
    ]
    show(console, shown, out, command)


def show(console: Console, lines: Sequence[Line], out: Path, command: str) -> None:
    """The tables, who failed, the pictures and the page."""
    from labelgrad.bench.standing_figure import draw_standing

    for task in TASKS:
        mine = of_task(lines, task)
        if mine and (found := standings(mine)):
            console.print(standing_table(found, task))
    console.print(LEGEND, highlight=False)
    for line in lines:
        if "why" in line:
            say(console, f"No result: {line['data']}, {line['method']}: {line['why']}")
    say_pictures(console, draw_standing(lines, out))
    say(console, f"The page: {write_page(lines, out, command)}")


def standing_table(found: Sequence[Standing], task: str) -> Table:
    """A row for each method, the best first."""
    classes = task == "classification"
    heads = ["error\nrank", "error\nratio"]
    if classes:
        heads += ["loss\nrank", "loss\nratio", ">\n5 %", "sure,\nright"]
    table = Table(
        Column("\nclasses" if classes else "\nvalues", no_wrap=True),
        *(Column(head, justify="right", no_wrap=True) for head in (*heads, "\ns")),
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),  # so that 80 columns are enough
        pad_edge=False,
        show_edge=False,
    )
    for standing in found:
        table.add_row(*standing_cells(standing, classes=classes))
    return table


def standing_cells(standing: Standing, *, classes: bool) -> list[str]:
    """The cells of one method."""
    name = f"{marked(standing.method)} {TITLES[standing.method]}"
    cells = [name, f"{standing.error_rank:.1f}", f"{standing.error_ratio:.2f}"]
    if classes:
        cells += [f"{standing.loss_rank:.1f}", f"{standing.loss_ratio:.2f}"]
        cells += [str(standing.clearly_behind), _sure(standing)]
    return [*cells, f"{standing.seconds:.1f}"]


def _sure(standing: Standing) -> str:
    if standing.sure_right is None or standing.sure_right_least is None:
        return "–"
    return f"{100 * standing.sure_right:.0f}/{100 * standing.sure_right_least[1]:.0f}"


def marked(method: str) -> str:
    """A star for ours, a plus for a peer that sees unlabeled rows, too."""
    if method in OURS:
        return "*"
    return "+" if PEERS[method].sees_unlabeled else " "


def _task(name: str, places: Places) -> str:
    """What is misspelt or missing is said here, before any work begins."""
    return "regression" if whole(name, places)[1].dtype.kind == "f" else "classification"


def _wanted(contender: str, methods: tuple[str, ...]) -> bool:
    return not methods or any(method in CONTENDERS[contender].methods for method in methods)
