"""`labelgrad reproduce NAME`: run an experiment of the paper, lay ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from labelgrad.cli.console import Terminal, say_pictures
from labelgrad.paper.commands.comparison import differences_table, summary_table
from labelgrad.paper.commands.options import Options, add_asked
from labelgrad.paper.commands.pictures import run_pictures, run_table_1
from labelgrad.training.results import Line, Results


def learning_speeds(options: Options, console: Console) -> None:
    """Figure 1, and the three propositions on random problems."""
    from labelgrad.paper.figures.learning_speeds import draw_learning_speeds
    from labelgrad.paper.learning_speeds import FIGURE_1, METHODS, LearningSpeeds

    steps = 13_500 if options.scale == "paper" else 200
    results = Results(options.out, {"steps": steps, "directions": asdict(FIGURE_1)})
    jobs = {
        method: {"method": method, "steps": steps}
        for method in METHODS
        if not results.has(method=method, step=steps)
    }
    add_asked(LearningSpeeds, jobs, results, options)
    console.print(_speeds_table(results.lines))
    _print_propositions(console, problems=3 if options.scale == "paper" else 1)
    say_pictures(console, draw_learning_speeds(results.lines, options.out))


def synthetic_data(options: Options, console: Console) -> None:
    """Figure 2: the shells in the plane."""
    import torch

    from labelgrad.datasets.shells import shells
    from labelgrad.paper.figures.synthetic import draw_shells

    x, y = shells(2500, 2, torch.Generator().manual_seed(0))
    say_pictures(console, draw_shells(x, y, options.out))


def synthetic(options: Options, console: Console) -> None:
    """Figures 3 and 4: alignment, accuracy and loss on the shells."""
    from labelgrad.paper.figures.synthetic import draw_synthetic
    from labelgrad.paper.synthetic import (
        ALIGNED,
        METHODS,
        SIZES,
        SUPERVISED_RATE,
        SyntheticTrial,
    )

    size, methods = SIZES[options.scale], options.methods or tuple(METHODS)
    _check_methods(methods, tuple(METHODS))
    rate = {"learning_rate": SUPERVISED_RATE}
    chosen = {name: asdict(s) if s else rate for name, s in METHODS.items() if name in methods}
    results = Results(options.out, {"size": asdict(size), **chosen})
    last = (size.steps - 1) // size.every * size.every
    jobs = {
        f"{method}, seed {seed}": {
            "method": method,
            "seed": seed,
            "scale": options.scale,
            "with_alignment": method in ALIGNED,
        }
        for seed in range(options.trials)
        for method in methods
        if not results.has(method=method, seed=seed, step=last)
    }
    add_asked(SyntheticTrial, jobs, results, options)
    lines = [line for line in results.lines if line["seed"] < options.trials]
    console.print(differences_table(lines))
    console.print(summary_table(lines))
    say_pictures(console, draw_synthetic(lines, options.out))


@dataclass(frozen=True)
class Recipe:
    """One line of `labelgrad reproduce --list`."""

    run: Callable[[Options, Console], None]
    what: str
    cost: str
    trials: int = 1
    scales: tuple[str, ...] = ("paper", "tiny")  # the first one is the usual one
    labels: tuple[int, ...] = ()
    needs: str = "no data, no GPU"


COUNTS = (250, 500, 1000, 2000, 4000, 8000)
PICTURE_SCALES = ("laptop", "paper", "tiny")
PAPER_COST = "--scale paper: 500,000 steps, by estimate 1 to 6 hours of an A100 a trial"
RECIPES = {
    "learning-speeds": Recipe(
        learning_speeds,
        "Figure 1 and Propositions 1-3: linear regression, how fast each direction is learned",
        "about a minute",
    ),
    "synthetic-data": Recipe(synthetic_data, "Figure 2: the shells in the plane", "seconds"),
    "synthetic": Recipe(
        synthetic,
        "Figures 3 and 4: the shells in 50 dimensions, supervised beside LGA",
        "5 minutes of one core a trial, an hour on two cores for 25; 0.5 GB a worker",
        25,
    ),
    "cifar10": Recipe(
        partial(run_pictures, "cifar10"),
        "Figure 5: CIFAR-10, error and loss by the number of labels, thirteen methods",
        f"--scale laptop: 1 to 4 minutes of one core a trial; {PAPER_COST}",
        5,
        PICTURE_SCALES,
        COUNTS,
        "the data, 170 MB; for --scale paper a GPU",
    ),
    "svhn": Recipe(
        partial(run_pictures, "svhn"),
        "Figure 6: SVHN, the same",
        "as cifar10",
        5,
        PICTURE_SCALES,
        COUNTS,
        "the data, 250 MB; for --scale paper a GPU",
    ),
    "fashion-mnist": Recipe(
        partial(run_pictures, "fashion-mnist"),
        "Figure 7: Fashion-MNIST, the same",
        "as cifar10, a little less",
        5,
        PICTURE_SCALES,
        COUNTS,
        "the data, 30 MB; for --scale paper a GPU",
    ),
    "table-1": Recipe(
        run_table_1,
        "Table 1: CIFAR-10 with 4,000 labels and SVHN with 1,000, the paper's eight methods",
        "as cifar10, 16 trials a seed",
        5,
        PICTURE_SCALES,
        needs="the data of both",
    ),
    "digits": Recipe(
        partial(run_pictures, "digits"),
        "not in the paper: the same on scikit-learn's digits, to try it without a download",
        "a minute of one core a trial",
        1,
        PICTURE_SCALES,
        (50,),
    ),
}


def run_recipe(
    name: str, *, scale: str | None, out: Path | None, trials: int | None, **given: Any
) -> None:
    """Run what is not there yet, then print and draw all of it; `given` are other options."""
    recipe = RECIPES[name]
    size = scale or recipe.scales[0]
    if size not in recipe.scales:
        raise ValueError(f"--scale must be one of {', '.join(recipe.scales)}, got {size!r}.")
    for option in ("steps", "tuned"):
        if given.get(option) is not None and "laptop" not in recipe.scales:
            raise ValueError(f"--{option} is for pictures; {name} has the paper's; leave it out.")
    labels = given.pop("labels") or recipe.labels
    wanted = recipe.trials if trials is None else trials
    folder = out or Path("runs") / name
    options = Options(wanted, scale=size, out=folder, labels=labels, **given)
    recipe.run(options, Terminal())


def print_recipes() -> None:
    """What there is, what it costs and what it needs."""
    table = Table(Column("name", no_wrap=True), "what", "cost", "needs")
    for name, recipe in RECIPES.items():
        table.add_row(name, recipe.what, recipe.cost, recipe.needs)
    Terminal().print(table)


def _check_methods(given: tuple[str, ...], known: tuple[str, ...]) -> None:
    for method in given:
        if method not in known:
            raise ValueError(f"--methods must be among {', '.join(known)}, got {method!r}.")


def _speeds_table(lines: list[Line]) -> Table:
    """When each direction is half learned, and how far from 1 it ends."""
    from labelgrad.paper.learning_speeds import BY_LABELED, BY_UNLABELED, FIGURE_1

    table = Table(
        "",
        *(Column(name, justify="right") for name in ("λˡ", "λᵘ", "c > ½ at step", "last |c − 1|")),
    )
    for method, chosen in (
        ("lga", BY_LABELED),
        ("lga", BY_UNLABELED),
        ("gradient descent", BY_LABELED),
    ):
        mine = [line for line in lines if line["method"] == method]
        for index in chosen:
            half = next((line["step"] for line in mine if line["c"][index] > 0.5), None)
            table.add_row(
                method,
                f"{FIGURE_1.labeled[index]:g}",
                f"{FIGURE_1.unlabeled[index]:g}",
                "–" if half is None else str(half),
                f"{abs(mine[-1]['c'][index] - 1):.1e}",
            )
        table.add_section()
    return table


def _print_propositions(console: Console, problems: int) -> None:
    from labelgrad.paper.propositions import STILL, dependence_on_others, fixed_point

    change = max(dependence_on_others(seed) for seed in range(problems))
    bent = [fixed_point(seed, hidden=1, size=2) for seed in range(problems)]
    bent = [found for found in bent if found.movement < STILL]
    straight = [fixed_point(seed) for seed in range(problems)]
    for line in (
        f"Proposition 1: with all other directions drawn anew, c changes by at most {change:.0e}.",
        f"Proposition 2: at {len(bent)} fixed points of small networks the labeled gradient is at "
        f"most {max((found.labeled_gradient for found in bent), default=0):.0e}.",
        f"Proposition 3: at {len(straight)} fixed points of linear models the labeled loss is at "
        f"most {max(found.excess for found in straight):.0e} above its minimum.",
    ):
        console.print(line, highlight=False)
