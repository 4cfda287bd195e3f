"""A file of opinions with a good, a useless and a harmful column: their weights and their worth.

Ten labels a class of each table. The good column names the right class of 85 % of the rows, the
useless one a class at random, the harmful one the right class of 5 % and else a wrong one. The same
rows are fitted without the file, with the whole file, and with its useless and harmful columns
alone; what is wrong in truth is counted on the unlabeled rows.

    python benchmarks/opinions.py TABLES vehicle heart-c
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

import labelgrad
from labelgrad.fitting.result import Result

EACH, SEED = 10, 0
RIGHT = {"good": 0.85, "useless": None, "harmful": 0.05}  # none: whatever the row is


def named(truth: np.ndarray, right: float | None, rng: np.random.Generator) -> np.ndarray:
    """A class for each row."""
    classes = np.unique(truth)
    anything = rng.choice(classes, len(truth))
    if right is None:
        return anything
    wrong = np.array([rng.choice(classes[classes != label]) for label in truth])
    return np.where(rng.random(len(truth)) < right, truth, wrong)


def write(path: Path, columns: dict[str, np.ndarray]) -> Path:
    """The opinions as a CSV file; a row's name is its number, from 1."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", *columns])
        cells = zip(*columns.values(), strict=True)
        writer.writerows([row, *line] for row, line in enumerate(cells, 1))
    return path


def measured(result: Result, truth: np.ndarray) -> str:
    """Error and loss of the pool's labels of the unlabeled rows."""
    wrong = [label.label != truth[int(label.name) - 1] for label in result.labels]
    return f"{100 * np.mean(wrong):.1f} % of the labels wrong"


def with_few_labels(table: Path, rng: np.random.Generator) -> tuple[list[list[str]], np.ndarray]:
    """The table with EACH labels of a class and none else, and the truth of all rows."""
    with table.open(newline="") as file:
        head, *lines = list(csv.reader(file))
    at = head.index("target")
    truth = np.array([line[at] for line in lines])
    for label in np.unique(truth):
        for row in rng.permutation(np.flatnonzero(truth == label))[EACH:]:
            lines[row][at] = ""
    return [head, *lines], truth


def main() -> None:
    """Fit each table three times, and say what came of it."""
    folder, *names = sys.argv[1:]
    for name in names:
        rng = np.random.default_rng(SEED)
        lines, truth = with_few_labels(Path(folder, f"{name}.csv"), rng)
        said = {column: named(truth, right, rng) for column, right in RIGHT.items()}
        with tempfile.TemporaryDirectory() as place:
            data = Path(place, f"{name}.csv")
            with data.open("w", newline="") as file:
                csv.writer(file).writerows(lines)
            for columns in ((), tuple(said), ("useless", "harmful")):
                written = write(Path(place, "opinions.csv"), {c: said[c] for c in columns})
                opinions = written if columns else None
                result = labelgrad.fit(data, target="target", opinions=opinions, seed=SEED)
                heard = result.summary.verdict.rows if result.summary.verdict else []
                weights = {row.name: row.weight for row in heard if row.name in RIGHT}
                print(name, columns or "no opinions", measured(result, truth), weights, flush=True)


if __name__ == "__main__":
    main()
