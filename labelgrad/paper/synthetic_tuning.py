"""A search for the settings behind the paper's synthetic curves, which the paper does not state.

Four stages: points spread evenly over the whole space; the two rates together, in fine steps around
the point nearest to the paper's curves; the best of all these again on other draws of the data, so
that luck is not mistaken for merit; and each setting alone, up and down, around two points of the
first stage, the nearest to the paper's curves and the one that reached the lowest test loss.
The trials have data of their own, seeds from 1000, which the reproduction never uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import sqrt
from typing import Any

from labelgrad.paper.numbers import paper_curve
from labelgrad.paper.synthetic import Settings, SyntheticTrial
from labelgrad.training.results import Line

FIRST_SEED, OTHER_SEEDS = 1000, (1001, 1002)
KEYS = ("distance", "last_loss")  # what a trial can be best in
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
    for up, across in product((-1, 0, 1), repeat=2):
        if up or across:
            rate, label_rate = centre.learning_rate * factor**up, centre.label_rate * factor**across
            yield (
                "both rates",
                replace(
                    centre,
                    learning_rate=float(f"{rate:.3g}"),
                    label_rate=float(f"{label_rate:.3g}"),
                ),
            )


def leaders(lines: list[Line], count: int = 2) -> list[Settings]:
    """The settings nearest to the paper's curves, and those that ended with the lowest loss."""
    ranked = (sorted(lines, key=lambda line: float(line[key])) for key in KEYS)
    best = [Settings(**line["settings"]) for ranking in ranked for line in ranking[:count]]
    return list(dict.fromkeys(best))


class TuningTrial:
    """One trial of the search: its history is a single line with the score and both curves."""

    def __init__(self, *, stage: str, moved: str, settings: Settings, seed: int, scale: str):
        self._inner = SyntheticTrial(
            "lga", seed=seed, scale=scale, settings=settings, with_alignment=False
        )
        self.steps = self._inner.steps
        self._head: Line = {"experiment": "tune-synthetic", "stage": stage, "moved": moved}
        self._head |= {"seed": seed, "settings": asdict(settings)}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for record in self._inner:
            yield record
            if record["step"] == PATIENCE + 1 and self._hopeless():
                return

    @property
    def history(self) -> list[Line]:
        """The one line of this trial."""
        lines = self._inner.history
        curves = {name: [line[name] for line in lines] for name in ("step", "accuracy", "loss")}
        return [{**self._head, **self._score(), "seconds": lines[-1]["seconds"], "curve": curves}]

    def _hopeless(self) -> bool:
        """Far from the paper's accuracy, and below it: one that is far above is let go on."""
        lines = self._inner.history
        behind = lines[-1]["accuracy"] < paper_curve("synthetic_accuracy", "lga").at(PATIENCE)[0]
        return behind and distance(lines, "accuracy") > HOPELESS

    def _score(self) -> Line:
        lines = self._inner.history
        apart = {f"{name}_distance": distance(lines, name) for name in ("accuracy", "loss")}
        return {
            "distance": round(sum(apart.values()) / len(apart), 5),
            **apart,
            "lowest_loss": min(line["loss"] for line in lines),
            "last_step": lines[-1]["step"],
            "last_accuracy": lines[-1]["accuracy"],
            "last_loss": lines[-1]["loss"],
        }


def distance(lines: list[Line], name: str, method: str = "lga") -> float:
    """The root-mean-square distance of a curve from the paper's, at the steps both have.

    >>> distance([{"step": 0, "accuracy": 0.19962560057640075 + 0.1}], "accuracy")
    0.1
    """
    curve = paper_curve(f"synthetic_{name}", method)
    gaps = [line[name] - curve.at(line["step"])[0] for line in lines if line["step"] in curve.x]
    return round(sqrt(sum(gap**2 for gap in gaps) / len(gaps)), 5)
