"""`labelgrad reproduce cifar10`, `svhn`, `fashion-mnist`, `table-1`, `digits`: Section 4."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column, Table

from labelgrad.cli.cluster import seen_from_anywhere
from labelgrad.cli.console import Terminal, downloading, say_pictures
from labelgrad.paper.commands.claims import claims_table
from labelgrad.paper.commands.options import Options, add_asked
from labelgrad.paper.picture_results import (
    Score,
    labels_in,
    methods_in,
    paper_score,
    score,
)
from labelgrad.training.results import Line, Results

if TYPE_CHECKING:
    from labelgrad.paper.picture_task import Task

PAPER = (
    "supervised",
    "lga",
    "vat",
    "lga+vat",
    "vat+entmin",
    "pi-model",
    "mean-teacher",
    "pseudo-label",
)
REBUILT = " SVHN's digits are cut anew out of the published full numbers: not the authors' bytes."
TODAY = ("fixmatch", "flexmatch", "freematch", "softmatch", "lga+fixmatch")


def run_pictures(data: str, options: Options, console: Console) -> None:
    """Train what is missing, then print and draw all that was asked for."""
    from labelgrad.paper.figures.pictures import draw_curves, draw_scores

    lines = train_pictures(data, options)
    console.print(scores_table(data, lines))
    claims = claims_table(data, lines)
    if claims is not None:
        console.print(claims)
    console.print(_claim(options), highlight=False)
    say_pictures(console, draw_scores(data, lines, options.out))
    say_pictures(console, draw_curves(data, lines, options.out))


def train_pictures(data: str, options: Options) -> list[Line]:
    """The lines of every trial that was asked for; those that are not there yet are trained."""
    from labelgrad.paper.picture_task import Task, sized
    from labelgrad.paper.picture_trial import PictureTrial
    from labelgrad.paper.settings import choice, searched

    methods = [spelled(name) for name in options.methods or (*PAPER, *TODAY)]
    if options.tuned is None:
        chosen = {name: choice(name, options.scale, data) for name in methods}
    else:
        chosen = searched(options.tuned, methods, options.scale)
    ready(data, options)
    size = asdict(sized(options.scale, options.steps))
    frozen = {name: asdict(settings) for name, settings in chosen.items()}
    results = Results(options.out, {"size": size, **frozen})
    tasks = [
        Task(data, name, labels, seed, options.imbalance, options.foreign, options.rebuilt)
        for seed in range(options.trials)
        for labels in options.labels
        for name in methods
    ]
    folder, unfinished = seen_from_anywhere(options.data), options.out.absolute() / "unfinished"
    where = {
        "scale": options.scale,
        "steps": options.steps,
        "data_folder": folder,
        "device": options.device,
    }
    jobs = {
        _name(task): {
            "task": task,
            "settings": chosen[task.method],
            "unfinished": unfinished / _name(task),
            **where,
        }
        for task in tasks
        if not results.has(**task.line)
    }
    if jobs and options.executor is not None:  # who sees this folder keeps checkpoints in it
        unfinished.mkdir(parents=True, exist_ok=True)
    add_asked(PictureTrial, jobs, results, options)
    with suppress(OSError):  # trials of another method or seed may be unfinished
        unfinished.rmdir()
    return [line for task in tasks for line in results.lines if task.line.items() <= line.items()]


def ready(data: str, options: Options) -> None:
    """Have the data's files in their folder, and see that they can be split as asked.

    The device is looked for here only where the training is here.
    """
    from labelgrad.datasets.picture_sets import load
    from labelgrad.fitting.asked import check_device
    from labelgrad.group import here
    from labelgrad.paper.picture_task import SIZES, Task, task_rows

    if options.executor is None:
        check_device(options.device)
    with downloading(Terminal()) as progress:
        pictures = here().in_turn(
            lambda: load(data, options.data, progress, rebuilt=options.rebuilt)
        )
    for labels in options.labels:
        task = Task(data, "supervised", labels, 0, options.imbalance, options.foreign)
        task_rows(task, SIZES[options.scale], pictures)


def _name(task: Task) -> str:
    extra = "" if task.imbalance == 1 else f", imbalance {task.imbalance:g}"
    extra += "" if task.foreign is None else f", foreign {task.foreign:g}"
    extra += ", rebuilt" if task.rebuilt else ""
    return f"{task.method}, {task.labels} labels, seed {task.seed}{extra}"


def spelled(name: str) -> str:
    """A method's name as the results have it, checked."""
    from labelgrad.methods import parts

    return "+".join(parts(name)) or "supervised"


def scores_table(data: str, lines: list[Line]) -> Table:
    """Test error and loss at the best validation error, the last step's error, and the paper's."""
    heads = ("error %", "paper", "loss", "paper", "last %", "seeds", "sec.")
    table = Table(
        "labels", Column("method", no_wrap=True), *(Column(head, justify="right") for head in heads)
    )
    for labels in labels_in(lines):
        for method in methods_in(lines):
            cells = score_cells(data, lines, method, labels)
            if cells:
                table.add_row(str(labels), method, *cells)
        table.add_section()
    return table


def score_cells(data: str, lines: list[Line], method: str, labels: int) -> list[str]:
    """One row of the table: ours beside the paper's, or nothing where there is none of ours."""
    error, loss, last, seconds = (
        score(lines, name, method=method, labels=labels)
        for name in ("test_error", "test_loss", "last_test_error", "seconds")
    )
    if not (error and loss and last and seconds):
        return []
    theirs = [paper_score(data, q, method=method, labels=labels) for q in ("error", "loss")]
    return [
        _ours(error, 100, 1),
        f"{100 * theirs[0][0]:.1f}" if theirs[0] else "–",
        _ours(loss, 1, 3),
        f"{theirs[1][0]:.3f}" if theirs[1] else "–",
        f"{100 * last.mean:.1f}",
        str(len(error.values)),
        f"{seconds.mean:.0f}",
    ]


def _ours(found: Score, unit: float, digits: int) -> str:
    spread = f" ± {unit * found.std:.{digits}f}" if len(found.values) > 1 else ""
    return f"{unit * found.mean:.{digits}f}{spread}"


def _claim(options: Options) -> str:
    """What the numbers are of, so that nobody takes them for the paper's."""
    from labelgrad.paper.picture_task import sized

    size = sized(options.scale, options.steps)
    unlabeled = "all" if size.unlabeled is None else f"{size.unlabeled:,}"
    stem = " with a stem of stride 2" if size.stem_stride == 2 else ""
    found = f" Settings are the best ones in {options.tuned}." if options.tuned else ""
    return (
        f"Ours: WRN-{size.depth}-{size.width}{stem}, {unlabeled} unlabeled pictures, "
        f"{size.steps:,} steps; at the best validation error, mean ± deviation over seeds. The "
        f"paper: WRN-28-2, all pictures, 500,000 steps.{REBUILT if options.rebuilt else ''}{found}"
    )


def run_table_1(options: Options, console: Console) -> None:
    """Table 1: CIFAR-10 with 4,000 labels and SVHN with 1,000, the paper's eight methods."""
    from labelgrad.paper.numbers import table_1

    heads = ("ours %", "paper %")
    columns = {"cifar10": 4000, "svhn": 1000}
    table = Table("data", "labels", "method", *(Column(head, justify="right") for head in heads))
    methods = options.methods or PAPER
    asked = {
        data: replace(
            options,
            labels=(labels,),
            methods=methods,
            out=options.out / data,
            rebuilt=options.rebuilt and data == "svhn",
        )
        for data, labels in columns.items()
    }
    for data, mine in asked.items():
        ready(data, mine)  # what the second set lacks is said before the first is trained
    for data, mine in asked.items():
        labels = columns[data]
        lines, theirs = train_pictures(data, mine), table_1(data, labels)
        for method in methods_in(lines):
            found = score(lines, "test_error", method=method, labels=labels)
            paper = "{:.2f} ± {:.2f}".format(*theirs[method]) if method in theirs else "–"
            table.add_row(data, str(labels), method, _ours(found, 100, 2) if found else "–", paper)
        table.add_section()
    console.print(table)
    console.print(_claim(options), highlight=False)
