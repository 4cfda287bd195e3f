"""Every number the paper plots, to be laid beside ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

NAME = "Jackson & Schulman, 2019"


@dataclass(frozen=True)
class Curve:
    """Means and standard deviations over trials, by step or by number of labels."""

    x: list[int]
    mean: list[float]
    std: list[float]

    @property
    def band(self) -> tuple[list[float], list[float]]:
        """A deviation below the means, and one above."""
        pairs = list(zip(self.mean, self.std, strict=True))
        return [mean - std for mean, std in pairs], [mean + std for mean, std in pairs]

    def at(self, x: int) -> tuple[float, float]:
        """Mean and standard deviation at one x."""
        place = self.x.index(x)
        return self.mean[place], self.std[place]


def paper_curves(figure: str) -> dict[str, Curve]:
    """All curves of one figure by method; none, if the paper has no such figure.

    >>> sorted(paper_curves("svhn_loss")), paper_curves("digits_loss")
    (['lga', 'supervised', 'vat'], {})
    >>> mean, std = paper_curves("synthetic_accuracy")["lga"].at(575)
    >>> round(mean, 3)
    0.742
    """
    return {name: Curve(**c) for name, c in _numbers()["figures"].get(figure, {}).items()}


def table_1(data: str, labels: int) -> dict[str, tuple[float, float]]:
    """Means and deviations of Table 1's test errors, in percent, by method.

    >>> table_1("cifar10", 4000)["lga"]
    (12.91, 0.15)
    """
    column = _numbers()["table_1"][f"{data}_{labels}"]
    return {name.replace("_", "-"): (mean, std) for name, (mean, std) in column.items()}


@cache
def _numbers() -> dict[str, Any]:
    text = files("experiments.paper").joinpath("numbers.json").read_text()
    numbers: dict[str, Any] = json.loads(text)
    return numbers
