"""`python -m experiments.paper reproduce`, `tune` and `pages`: the paper's figures and tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from experiments.common import (
    Results,
    aligned,
    check_choice,
    commands_for,
    listed,
    run,
    run_trials,
    table,
)
from experiments.datasets.image_sets import SETS
from experiments.paper.image_experiments import COUNTS, Options, run_images, run_table_1

commands = commands_for("The experiments of the paper.")
Data = Annotated[Path | None, typer.Option(help="Folder of the data sets; else LABELGRAD_DATA.")]
Workers = Annotated[int, typer.Option(min=1, help="Trials in parallel.")]
Scale = Annotated[str | None, typer.Option(help="Size: paper, laptop (images) or tiny.")]
Methods = Annotated[str, typer.Option(help="Methods, separated by commas; default: all.")]
Device = Annotated[str, typer.Option(help="Where to train: cpu or cuda.")]
Rebuilt = Annotated[bool, typer.Option("--rebuilt", help="SVHN's files are rebuilt ones.")]


def learning_speeds(options: Options) -> None:
    """Figure 1, and the three propositions on random problems."""
    from experiments.paper import learning_speeds as speeds
    from experiments.paper.propositions import propositions

    steps = 13_500 if options.scale == "paper" else 200
    results = Results(options.out, {"steps": steps, "directions": asdict(speeds.FIGURE_1)})
    jobs = {
        method: {"method": method, "steps": steps}
        for method in speeds.METHODS
        if not results.has(method=method, step=steps)
    }
    run_trials(speeds.learning_speeds, jobs, results, options.workers)
    print(aligned(speeds.speeds_table(results.lines)))
    print(*propositions(3 if options.scale == "paper" else 1), sep="\n")
    speeds.draw_learning_speeds(results.lines, options.out)


def synthetic_data(options: Options) -> None:
    """Figure 2: the shells in the plane."""
    import torch

    from experiments.datasets.shells import shells
    from experiments.paper.synthetic_results import draw_shells

    draw_shells(*shells(2500, 2, torch.Generator().manual_seed(0)), options.out)


def synthetic(options: Options) -> None:
    """Figures 3 and 4: alignment, accuracy and loss on the shells."""
    from experiments.paper import synthetic_results
    from experiments.paper.synthetic import METHODS, SIZES, SUPERVISED_RATE, synthetic_trial

    size, methods = SIZES[options.scale], options.methods or tuple(METHODS)
    check_choice("--methods", METHODS, *methods)
    rate = {"learning_rate": SUPERVISED_RATE}
    chosen = {name: asdict(s) if s else rate for name, s in METHODS.items() if name in methods}
    results = Results(options.out, {"size": asdict(size), **chosen})
    last = (size.steps - 1) // size.every * size.every
    jobs = {
        f"{method}, seed {seed}": {"method": method, "seed": seed, "scale": options.scale}
        for seed in range(options.trials)
        for method in methods
        if not results.has(method=method, seed=seed, step=last)
    }
    run_trials(synthetic_trial, jobs, results, options.workers)
    lines = [line for line in results.lines if line["seed"] < options.trials]
    print(aligned(synthetic_results.differences_table(lines)))
    print(aligned(synthetic_results.summary_table(lines)))
    synthetic_results.draw_synthetic(lines, options.out)


@dataclass(frozen=True)
class Recipe:
    """One line of `reproduce --list`."""

    run: Callable[[Options], None]
    what: str
    cost: str
    trials: int = 1
    scales: tuple[str, ...] = ("paper", "tiny")  # the first one is the default
    labels: tuple[int, ...] = ()


def _images(data: str, what: str, cost: str) -> Recipe:
    return Recipe(partial(run_images, data), what, cost, 5, IMAGE_SCALES, COUNTS)


IMAGE_SCALES = ("laptop", "paper", "tiny")
RECIPES = {
    "learning-speeds": Recipe(
        learning_speeds, "Figure 1 and Propositions 1-3: linear regression", "about a minute"
    ),
    "synthetic-data": Recipe(synthetic_data, "Figure 2: the shells in the plane", "seconds"),
    "synthetic": Recipe(
        synthetic, "Figures 3 and 4: the shells in 50 dimensions", "an hour on two cores", 25
    ),
    "cifar10": _images(
        "cifar10",
        "Figure 5: CIFAR-10 (170 MB), error and loss by the number of labels, thirteen methods",
        "laptop: 1 to 4 minutes of a core per trial; paper: 1 to 6 hours of an A100, estimated",
    ),
    "svhn": _images("svhn", "Figure 6: SVHN (250 MB)", "as cifar10"),
    "fashion-mnist": _images("fashion-mnist", "Figure 7: Fashion-MNIST (30 MB)", "as cifar10"),
    "table-1": Recipe(
        run_table_1,
        "Table 1: CIFAR-10 with 4,000 labels and SVHN with 1,000, the paper's eight methods",
        "as cifar10, 16 trials per seed",
        5,
        IMAGE_SCALES,
    ),
    "digits": Recipe(
        partial(run_images, "digits"),
        "not in the paper: scikit-learn's digits, to try it without a download",
        "a minute of a core per trial",
        1,
        IMAGE_SCALES,
        (50,),
    ),
}


@commands.command(epilog="Example: reproduce synthetic --trials 3 --workers 2")
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which experiment; see --list.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List experiments and costs.")] = False,
    trials: Annotated[
        int | None, typer.Option("--trials", "--seeds", min=1, help="Default: the paper's.")
    ] = None,
    workers: Workers = 2,
    scale: Scale = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps, on images.")] = None,
    tuned: Annotated[Path | None, typer.Option(help="Folder of `tune`: use its best.")] = None,
    methods: Methods = "",
    labels: Annotated[str, typer.Option(help="Label counts, separated by commas.")] = "",
    rebuilt: Rebuilt = False,
    data: Data = None,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder; default: runs/NAME.")] = None,
) -> None:
    """Run an experiment of the paper and print our results beside the paper's.

    After an interruption the same command trains what is missing. The folder gets results.jsonl,
    commands.jsonl and figures as PNG and SVG.
    """
    if list_all:
        rows = ([name, recipe.what, recipe.cost] for name, recipe in RECIPES.items())
        print(aligned(table(["name", "what", "cost"], rows)))
        return
    check_choice("NAME", RECIPES, name or "nothing")
    recipe = RECIPES[str(name)]
    check_choice("--scale", recipe.scales, scale or recipe.scales[0])
    if (steps or tuned) and recipe.scales != IMAGE_SCALES:
        raise ValueError(f"--steps and --tuned are for images; leave them out with {name}.")
    counts = listed(labels)
    if not all(count.isdigit() for count in counts):
        raise ValueError(f"--labels must be whole numbers separated by commas, got {labels!r}.")
    options = Options(
        trials or recipe.trials,
        workers,
        scale or recipe.scales[0],
        out or Path("runs") / str(name),
        listed(methods),
        tuple(map(int, counts)) or recipe.labels,
        data,
        device,
        rebuilt,
        steps,
        tuned,
    )
    recipe.run(options)


@commands.command(epilog="Example: tune fashion-mnist --methods lga,vat --trials 6")
def tune(
    experiment: Annotated[str, typer.Argument(help="What to tune: synthetic, or an image set.")],
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials: of the space, or per term of a method.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    workers: Workers = 2,
    scale: Scale = None,
    methods: Methods = "",
    labels: Annotated[int, typer.Option(help="Label count at which to tune.")] = 1000,
    rebuilt: Rebuilt = False,
    data: Data = None,
    device: Device = "cpu",
    storage: Annotated[
        str | None, typer.Option(help="Database shared by several machines, as Optuna's URL.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder; default: runs/tune-NAME.")] = None,
) -> None:
    """Search for settings: near the paper's curves on the shells, by validation error on images.

    After an interruption the same command continues.
    """
    check_choice("EXPERIMENT", ["synthetic", *SETS], experiment)
    on_shells = experiment == "synthetic"
    scales = ("paper", "tiny") if on_shells else IMAGE_SCALES
    check_choice("--scale", scales, scale or scales[0])
    options = Options(
        trials or (32 if on_shells else 6),
        workers,
        scale or scales[0],
        out or Path("runs") / f"tune-{experiment}",
        listed(methods),
        (labels,),
        data,
        device,
        rebuilt=rebuilt,
    )
    if on_shells:
        from experiments.paper.synthetic_tuning import tune_synthetic

        tune_synthetic(options, seed)
    else:
        from experiments.paper.image_tuning import tune_images

        tune_images(experiment, options, seed=seed, storage=storage)


@commands.command()
def variants(
    question: Annotated[str, typer.Argument(help="label-weights or sum-radius.")],
    data_set: Annotated[str, typer.Option("--set", help="An image set.")] = "fashion-mnist",
    labels: Annotated[str, typer.Option(help="Label counts, separated by commas.")] = "250,1000",
    workers: Workers = 2,
    scale: Annotated[str, typer.Option(help="Size: laptop or tiny.")] = "laptop",
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="Folder; default: runs/QUESTION.")] = None,
) -> None:
    """Train variants of sums with LGA, on the split that settings are tuned on."""
    from experiments.paper.variants import QUESTIONS, run_variants

    check_choice("QUESTION", QUESTIONS, question)
    counts, folder = tuple(map(int, listed(labels))), out or Path("runs") / question
    options = Options(1, workers, scale, folder, labels=counts, data=data)
    run_variants(question, data_set, options)


@commands.command()
def pages() -> None:
    """Print the tables of the pages on images, from the committed results."""
    from experiments.paper.pages import tables

    for name, rows in tables().items():
        print(f"<!-- {name} -->\n\n{rows}\n")


if __name__ == "__main__":
    run(commands)
