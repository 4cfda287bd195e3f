"""`reproduce cifar10`, `svhn`, `fashion-mnist`, `table-1`, `digits`: the paper's Section 4."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from experiments.common import Line, Results, aligned, run_trials
from experiments.datasets.image_sets import load
from experiments.paper.claims import claims_table
from experiments.paper.image_figures import draw_curves, draw_scores
from experiments.paper.image_results import COLUMNS, beside_table_1, scores_table
from experiments.paper.image_task import SIZES, Task, sized, task_rows
from experiments.paper.image_trial import image_trial
from experiments.paper.settings import choice, searched
from labelgrad.methods import parts

PAPER = (
    *("supervised", "lga", "vat", "lga+vat", "vat+entmin"),
    *("pi-model", "mean-teacher", "pseudo-label"),
)
RECENT = ("fixmatch", "flexmatch", "freematch", "softmatch", "lga+fixmatch")
COUNTS = (250, 500, 1000, 2000, 4000, 8000)  # labels
REBUILT = " SVHN's digits are cut again from the published full numbers: not the authors' bytes."


@dataclass(frozen=True)
class Options:
    """The options of `reproduce` and `tune`."""

    trials: int
    workers: int
    scale: str
    out: Path
    methods: tuple[str, ...] = ()  # all if none is named
    labels: tuple[int, ...] = ()
    data: Path | None = None
    device: str = "cpu"
    rebuilt: bool = False
    steps: int | None = None  # of a training, in place of the scale's
    tuned: Path | None = None  # a search whose best settings replace the frozen ones

    @property
    def where(self) -> Line:
        """What trials are told of the machine and the size."""
        return {"scale": self.scale, "data_folder": self.data, "device": self.device}


def run_images(data: str, options: Options) -> None:
    """Train what is missing, then print and draw everything."""
    lines = train_images(data, options)
    print(aligned(scores_table(data, lines)))
    if claims := claims_table(data, lines):
        print(aligned(claims))
    print(_scope(options))
    draw_scores(data, lines, options.out)
    draw_curves(data, lines, options.out)


def run_table_1(options: Options) -> None:
    """Table 1: CIFAR-10 with 4,000 labels and SVHN with 1,000, the paper's eight methods."""
    asked = {
        data: replace(
            options,
            labels=(labels,),
            methods=options.methods or PAPER,
            out=options.out / data,
            rebuilt=options.rebuilt and data == "svhn",
        )
        for data, labels in COLUMNS.items()
    }
    for data, mine in asked.items():
        check_data(data, mine)  # before the first one is trained
    found = {data: train_images(data, mine) for data, mine in asked.items()}
    print(aligned(beside_table_1(found, digits=2)))
    print(_scope(options))


def train_images(data: str, options: Options) -> list[Line]:
    """The lines of every trial; those that are missing are trained."""
    methods = [spelled(name) for name in options.methods or (*PAPER, *RECENT)]
    if options.tuned is None:
        chosen = {name: choice(name, options.scale, data) for name in methods}
    else:
        chosen = searched(options.tuned, methods, options.scale)
    check_data(data, options)
    size = asdict(sized(options.scale, options.steps))
    frozen = {name: asdict(settings) for name, settings in chosen.items()}
    results = Results(options.out, {"size": size, **frozen})
    tasks = [
        Task(data, name, labels, seed, options.rebuilt)
        for seed in range(options.trials)
        for labels in options.labels
        for name in methods
    ]
    unfinished = options.out.absolute() / "unfinished"
    jobs: dict[str, dict[str, Any]] = {
        task.name: {
            "task": task,
            "settings": chosen[task.method],
            "unfinished": unfinished / task.name,
            "steps": options.steps,
            **options.where,
        }
        for task in tasks
        if not results.has(**task.line)
    }
    run_trials(image_trial, jobs, results, options.workers)
    with suppress(OSError):  # trials of another method or seed may be unfinished
        unfinished.rmdir()
    return [line for task in tasks for line in results.lines if task.line.items() <= line.items()]


def check_data(data: str, options: Options) -> None:
    """Raise if the device, the data or the asked split of it does not exist."""
    import torch

    try:
        torch.empty(0, device=options.device)
    except (RuntimeError, AssertionError):  # PyTorch's own message is a paragraph
        raise ValueError(f"--device must be one PyTorch has, got {options.device!r}.") from None
    images = load(data, options.data, rebuilt=options.rebuilt)
    for labels in options.labels:
        task_rows(Task(data, "supervised", labels, 0), SIZES[options.scale], images)


def spelled(name: str) -> str:
    """A method's name as the results have it, checked."""
    return "+".join(parts(name)) or "supervised"


def _scope(options: Options) -> str:
    """What the numbers are of, so that they are not mistaken for the paper's."""
    size = sized(options.scale, options.steps)
    unlabeled = "all" if size.unlabeled is None else f"{size.unlabeled:,}"
    stem = " with a stem of stride 2" if size.stem_stride == 2 else ""
    found = f" Settings are the best ones in {options.tuned}." if options.tuned else ""
    return (
        f"Ours: WRN-{size.depth}-{size.width}{stem}, {unlabeled} unlabeled images, {size.steps:,} "
        f"steps; at the best validation error, mean ± deviation over seeds. The paper: WRN-28-2, "
        f"all images, 500,000 steps.{REBUILT if options.rebuilt else ''}{found}"
    )
