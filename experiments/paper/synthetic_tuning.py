"""`tune synthetic`: a search for the settings behind the paper's synthetic curves.

The paper does not state them.

Four stages: points spread evenly over the whole space; the two rates together, in fine steps around
the point nearest to the paper's curves; the best of all these again on other draws of the data, so
that luck is not mistaken for merit; and each setting alone, up and down, around two points of the
first stage, the nearest to the paper's curves and the one that reached the lowest test loss.
The trials have data of their own, seeds from 1000, which the reproduction never uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import sqrt
from typing import Any

from experiments.common import Line, Results, aligned, run_trials, table
from experiments.figures import GREY, OURS, THIRD, canvas, legend, save
from experiments.paper.image_experiments import Options
from experiments.paper.numbers import paper_curves
from experiments.paper.synthetic import SIZES, Settings, synthetic_trial

FIRST_SEED, OTHER_SEEDS = 1000, (1001, 1002)
HOPELESS, PATIENCE = 0.15, 200  # a trial this far behind after this many steps is given up


@dataclass(frozen=True)
class Range:
    """Where a setting is looked for: between two numbers on a log scale, or among some values.

    >>> Range(low=0.01, high=1.0).at(0.5)
    0.1
    >>> Range(values=(0.0, 0.5, 0.9)).at(0.5)
    0.5
    """

    low: float = 0.0
    high: float = 0.0
    values: tuple[float, ...] = ()

    def at(self, part: float) -> float:
        """The setting that lies this part (from 0 to 1) of the way through the range."""
        if self.values:
            return self.values[min(int(part * len(self.values)), len(self.values) - 1)]
        return float(f"{self.low * (self.high / self.low) ** part:.3g}")

    def around(self, centre: float) -> tuple[float, ...]:
        """What is tried in place of `centre` when the setting alone is moved."""
        if self.values:
            return tuple(value for value in self.values if value != centre)
        wide = (self.high / self.low) ** 0.25
        return tuple(float(f"{centre * wide**power:.3g}") for power in (-1, 1))


TITLES = {
    "learning_rate": "learning rate α_θ",
    "label_rate": "label rate α_w",
    "gradient_decay": "decay of EMA(g_ℓ)",
    "moment_decay": "decay of EMA(v⁴)",
    "epsilon": "ε_norm",
    "labeled_weight": "weight T",
}
ROWS = {"distance": "distance from the paper", "lowest_loss": "lowest test loss"}
STAGES = {"around nearest": OURS, "around best": THIRD}
SPACE = {
    "learning_rate": Range(3e-4, 3e-3),
    "label_rate": Range(3e-3, 1e-1),
    "gradient_decay": Range(values=(0.0, 0.5, 0.9, 0.99)),
    "moment_decay": Range(values=(0.0, 0.9, 0.99, 0.999)),
    "epsilon": Range(1e-6, 1.0),
    "labeled_weight": Range(values=(0.0, 0.03, 0.1, 0.3, 1.0)),
}


def spread(count: int, seed: int = 0) -> list[Settings]:
    """The settings we start from, then others spread evenly over the space (a Sobol sequence).

    >>> spread(3) == spread(3), spread(5)[0] == Settings(), len(spread(5))
    (True, True, 5)
    """
    from scipy.stats.qmc import Sobol

    points = Sobol(len(SPACE), rng=seed).random_base2(max(1, count.bit_length()))
    others = (
        Settings(**{name: r.at(part) for (name, r), part in zip(SPACE.items(), p, strict=True)})
        for p in points
    )
    return [Settings(), *others][:count]


def neighbours(centre: Settings) -> Iterator[tuple[str, Settings]]:
    """The centre itself, then each setting alone moved through its range."""
    yield "centre", centre
    for name, where in SPACE.items():
        for value in where.around(getattr(centre, name)):
            yield name, replace(centre, **{name: value})


def finer(centre: Settings, factor: float = 1.2) -> Iterator[tuple[str, Settings]]:
    """Both rates a little up and down, in every combination but the centre itself."""
    for powers in product((-1, 0, 1), repeat=2):
        rates = zip(("learning_rate", "label_rate"), powers, strict=True)
        moved = {name: float(f"{getattr(centre, name) * factor**k:.3g}") for name, k in rates}
        if any(powers):
            yield "both rates", replace(centre, **moved)


def leaders(lines: list[Line], count: int = 2) -> list[Settings]:
    """The settings nearest to the paper's curves, and those that ended with the lowest loss."""
    ranked = (sorted(lines, key=lambda line: float(line[key])) for key in ("distance", "last_loss"))
    best = [Settings(**line["settings"]) for ranking in ranked for line in ranking[:count]]
    return list(dict.fromkeys(best))


def tuning_trial(
    *, stage: str, moved: str, settings: Settings, seed: int, scale: str
) -> list[Line]:
    """One trial of the search: a line with the score and both curves."""
    lines = synthetic_trial("lga", seed=seed, scale=scale, settings=settings, give_up=hopeless)
    curves = {name: [line[name] for line in lines] for name in ("step", "accuracy", "loss")}
    apart = {f"{name}_distance": distance(lines, name) for name in ("accuracy", "loss")}
    line: Line = {"experiment": "tune-synthetic", "stage": stage, "moved": moved, "seed": seed}
    line |= {"settings": asdict(settings)}
    line |= {"distance": round(sum(apart.values()) / len(apart), 5), **apart}
    line |= {"lowest_loss": min(curves["loss"])}
    line |= {f"last_{name}": values[-1] for name, values in curves.items()}
    return [line | {"seconds": lines[-1]["seconds"], "curve": curves}]


def hopeless(lines: Sequence[Line]) -> bool:
    """Whether a trial is far from the paper's accuracy, and below it, when patience ends."""
    if lines[-1]["step"] != PATIENCE:
        return False
    behind = lines[-1]["accuracy"] < paper_curves("synthetic_accuracy")["lga"].at(PATIENCE)[0]
    return bool(behind and distance(lines, "accuracy") > HOPELESS)


def distance(lines: Sequence[Line], name: str) -> float:
    """The root-mean-square distance of a curve from the paper's, at the steps both have.

    >>> distance([{"step": 0, "accuracy": 0.19962560057640075 + 0.1}], "accuracy")
    0.1
    """
    curve = paper_curves(f"synthetic_{name}")["lga"]
    gaps = [line[name] - curve.at(line["step"])[0] for line in lines if line["step"] in curve.x]
    return round(sqrt(sum(gap**2 for gap in gaps) / len(gaps)), 5)


def tune_synthetic(options: Options, seed: int) -> None:
    """Search the whole space, then around the nearest; print the best, draw each one's effect."""
    size = {"scale": options.scale, "size": asdict(SIZES[options.scale]), "search_seed": seed}
    results = Results(options.out, size)

    def finish(stage: str, plan: Iterable[tuple[str, Settings]], seeds: Sequence[int]) -> None:
        jobs = {
            f"{stage} {trial}: {moved}, seed {draw}": {
                **{"stage": stage, "moved": moved, "settings": settings},
                **{"seed": draw, "scale": options.scale},
            }
            for trial, (moved, settings) in enumerate(plan)
            for draw in seeds
            if not results.has(stage=stage, settings=asdict(settings), seed=draw)
        }
        run_trials(tuning_trial, jobs, results, options.workers)

    def best(key: str) -> Settings:
        search = [line for line in results.lines if line["stage"] == "search"]
        return Settings(**min(search, key=lambda line: float(line[key]))["settings"])

    finish("search", [("all", one) for one in spread(options.trials, seed)], [FIRST_SEED])
    finish("finer", finer(best("distance")), [FIRST_SEED])
    first = [line for line in results.lines if line["stage"] in ("search", "finer")]
    finish("again", [("draw", one) for one in leaders(first)], OTHER_SEEDS)
    finish("around best", neighbours(best("lowest_loss")), [FIRST_SEED])
    finish("around nearest", neighbours(best("distance")), [FIRST_SEED])
    for title, key in (("Nearest to the paper", "distance"), ("Lowest last loss", "last_loss")):
        print(f"{title}\n{aligned(best_table(results.lines, key))}")
    draw_tuning(results.lines, options)


def best_table(lines: Sequence[Line], key: str, count: int = 6) -> str:
    """The trials with the lowest value of `key`, lowest first."""
    rows = (
        [
            f"{line['distance']:.4f}",
            *(f"{line['settings'][name]:g}" for name in SPACE),
            f"{line['last_loss']:.3f}",
            f"{line['last_accuracy']:.3f}",
        ]
        for line in sorted(lines, key=lambda line: float(line[key]))[:count]
    )
    return table(["apart", *TITLES.values(), "loss", "accuracy"], rows)


def draw_tuning(lines: Sequence[Line], options: Options) -> None:
    """A column for each setting: the search as points, the setting moved alone as lines."""
    figure, panels = canvas(len(ROWS), len(SPACE), (16, 6))
    for panel, (key, name) in zip(panels, product(ROWS, SPACE), strict=True):
        search = [line for line in lines if line["stage"] == "search"]
        last = max(line["last_step"] for line in search)
        for whole, label in ((True, "search"), (False, "search, given up")):
            chosen = [line for line in search if (line["last_step"] == last) == whole]
            look: dict[str, Any] = {"s": 18, "edgecolors": GREY, "label": label}
            look["facecolors"] = GREY if whole else "none"
            panel.scatter([_place(name, x) for x in chosen], [x[key] for x in chosen], **look)
        for stage, color in STAGES.items():
            mine = [x for x in lines if x["stage"] == stage and x["moved"] in (name, "centre")]
            points = sorted((_place(name, line), line[key]) for line in mine)
            panel.plot(*zip(*points, strict=True), "o-", color=color, label=f"alone, {stage}")
        if SPACE[name].values:
            panel.set_xticks(range(len(SPACE[name].values)), map("{:g}".format, SPACE[name].values))
        else:
            panel.set_xscale("log")
            panel.minorticks_off()
        panel.set_title(TITLES[name] if key == "distance" else "")
        panel.set_ylabel(ROWS[key] if name == "learning_rate" else "")
        panel.set_ylim(*((0, 0.4) if key == "distance" else (0.45, 1.1)))
    legend(figure, panels[0], loc="outside lower center", ncols=4)
    save(figure, options.out / "tuning")


def _place(name: str, line: Line) -> float:
    """Where a setting stands on its axis: a few values are spaced evenly."""
    value = float(line["settings"][name])
    return float(SPACE[name].values.index(value)) if SPACE[name].values else value
