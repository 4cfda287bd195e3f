"""Results of the image experiments: means over seeds beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from experiments.common import Line, table, with_spread
from experiments.paper.numbers import paper_curves, table_1

COLUMNS = {"cifar10": 4000, "svhn": 1000}  # of Table 1: the labels
TITLES = {"fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "svhn": "SVHN"}


@dataclass(frozen=True)
class Score:
    """A number over several seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return mean(self.values)

    def shown(self, unit: float = 1, digits: int = 3) -> str:
        """Mean ± deviation.

        >>> Score((0.1, 0.2)).shown(100, 1)
        '15.0 ± 7.1'
        """
        return with_spread([unit * value for value in self.values], digits)


def score(lines: Sequence[Line], name: str, *, method: str, labels: int) -> Score | None:
    """One number of one method at one label count, over its seeds in their order.

    >>> lines = [{"method": "lga", "labels": 250, "seed": s, "test_error": s / 4} for s in (2, 1)]
    >>> score(lines, "test_error", method="lga", labels=250)
    Score(values=(0.25, 0.5))
    """
    mine = [line for line in lines if line["method"] == method and line["labels"] == labels]
    found = [line[name] for line in sorted(mine, key=lambda line: line["seed"]) if name in line]
    return Score(tuple(found)) if found else None


def paper_score(data: str, name: str, *, method: str, labels: int) -> tuple[float, float] | None:
    """The paper's mean and deviation of `"error"` (a part of 1) or `"loss"`, where it has them.

    >>> paper_score("fashion-mnist", "loss", method="lga", labels=250)
    (0.760273, 0.026531)
    """
    curves = paper_curves(f"{data.replace('-', '_')}_{name}")
    curve = curves.get(method.replace("-", "_"))
    if curve is None or labels not in curve.x:
        return None
    unit = 100 if name == "error" else 1
    middle, spread = curve.at(labels)
    return round(middle / unit, 6), round(spread / unit, 6)


def methods_in(lines: Sequence[Line]) -> list[str]:
    """The methods there are, in the order in which they were first run."""
    return list(dict.fromkeys(line["method"] for line in lines))


def labels_in(lines: Sequence[Line]) -> list[int]:
    """The label counts there are, fewest first."""
    return sorted({line["labels"] for line in lines})


def scores_table(data: str, lines: Sequence[Line]) -> str:
    """Test error and loss at the best validation error, the last step's error, and the paper's."""
    heads = ("labels", "method", "error %", "paper", "loss", "paper", "last %", "seeds", "sec.")
    rows = (
        [str(labels), method, *cells]
        for labels in labels_in(lines)
        for method in methods_in(lines)
        if (cells := score_cells(data, lines, method, labels))
    )
    return table(heads, rows)


def beside_table_1(ours: Mapping[str, Sequence[Line]], digits: int) -> str:
    """Table 1 of the paper with a column of ours before each of its own."""
    theirs = {data: table_1(data, labels) for data, labels in COLUMNS.items()}
    known = sorted(theirs["cifar10"], key=lambda name: -theirs["cifar10"][name][0])
    trained = [method for lines in ours.values() for method in methods_in(lines)]
    heads, rows = ["error %"], []
    for data, labels in COLUMNS.items():
        heads += [f"{TITLES[data]}, {labels:,}: ours", "paper"]
    for method in dict.fromkeys([*known, *trained]):
        cells = [method]
        for data, labels in COLUMNS.items():
            found = score(ours[data], "test_error", method=method, labels=labels)
            cells.append(found.shown(100, digits) if found else "–")
            paper = theirs[data].get(method)
            cells.append("{:.2f} ± {:.2f}".format(*paper) if paper else "–")
        rows.append(cells)
    return table(heads, rows)


def score_cells(data: str, lines: Sequence[Line], method: str, labels: int) -> list[str]:
    """One row of the table: ours beside the paper's, or nothing where there is none of ours."""
    error, loss, last, seconds = (
        score(lines, name, method=method, labels=labels)
        for name in ("test_error", "test_loss", "last_test_error", "seconds")
    )
    if not (error and loss and last and seconds):
        return []
    theirs = [paper_score(data, q, method=method, labels=labels) for q in ("error", "loss")]
    return [
        error.shown(100, 1),
        f"{100 * theirs[0][0]:.1f}" if theirs[0] else "–",
        loss.shown(),
        f"{theirs[1][0]:.3f}" if theirs[1] else "–",
        f"{100 * last.mean:.1f}",
        str(len(error.values)),
        f"{seconds.mean:.0f}",
    ]
