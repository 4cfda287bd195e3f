"""LGA on features of frozen encoders, beside what people use on the same features.

A folder has one file for each set, `NAME.npz` with `x` (rows, features as an encoder gives them)
and `y` (classes from 0 on). Each split has test rows of its own; of the others at most 2,000 are
used, and a few of each class have their label. Features have unit length, are centred by the rows
that are used, and divided by one number. Nothing is chosen on test rows, and splits that are in
the results are not run again.

    python -m experiments.features FEATURES --out results/features [--splits 5] [--labels 4,10]
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from experiments.common import Line, Results, listed, run, table
from labelgrad.auto.base_models.registry import BASE_MODELS
from labelgrad.auto.cross_fit import cross_fit, make_folds
from labelgrad.auto.data.dataset import Dataset, Examples, RowIds
from labelgrad.auto.stacking import stack
from labelgrad.auto.task import Array, Classification

MAX_ROWS, MAX_TEST, TEST = 2000, 800, 6  # a test set is at most one row in six
ENSEMBLE = ("linear", "nearest features", "lga-linear")
METHODS = ("linear", "self-training", "label spreading", "nearest features", "lga-linear")
RESAMPLES = 2000  # of sets and splits, for an interval


def split(x: Array, y: Array, per_class: int, number: int) -> tuple[Array, Array, Array, Array]:
    """Features and labels (-1 for none) to learn from, and those of the test."""
    order = np.random.default_rng(0).permutation(len(y))
    size = min(MAX_TEST, len(y) // TEST)
    test = order[number * size : (number + 1) * size]
    rest = np.random.default_rng(number + 1).permutation(np.setdiff1d(order, test))[:MAX_ROWS]
    given = np.concatenate([rest[y[rest] == c][:per_class] for c in np.unique(y)])
    labels = np.where(np.isin(rest, given), y[rest], -1)
    units = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    mean = units[rest].mean(0)
    scaled = ((units - mean) / (units[rest] - mean).std()).astype(np.float32)
    return scaled[rest], labels, scaled[test], y[test]


def trial(path: Path, per_class: int, number: int) -> Iterator[Line]:
    """Error and loss of every method and of the ensemble on one split."""
    with np.load(path) as file:
        x, y = file["x"].astype(float), file["y"].astype(int)
    features, labels, x_test, y_test = split(x, y, per_class, number)
    task = Classification(tuple(str(c) for c in range(int(y.max()) + 1)))
    dataset = Dataset(features, labels, task, RowIds(len(labels)), None)  # type: ignore[arg-type]
    folds = make_folds(labels, task, 0)
    about = {"set": path.stem, "labels": per_class, "split": number, "rows": len(labels)}
    fits: dict[str, Any] = {}
    for name in (*METHODS, "ensemble"):
        began = time.process_time()
        if name == "ensemble":
            model: Any = stack([fits[each] for each in ENSEMBLE], dataset, folds)
        else:
            (fits[name],), _ = cross_fit([BASE_MODELS[name]()], dataset, folds)
            model = fits[name].final
        prediction = model.predict(Examples(x_test))
        yield about | {
            "method": name,
            "error": task.error(prediction, y_test),
            "loss": float(task.losses(prediction, y_test).mean()),
            "test": len(y_test),
            "seconds": round(time.process_time() - began, 2),
        }


def errors_and_losses(lines: Sequence[Line]) -> str:
    """Error in percent and loss by set and number of labels, means over the splits."""
    methods, rows = (*METHODS, "ensemble"), []
    cells = sorted({(line["set"], line["labels"]) for line in lines})
    for cell in [*cells, None]:
        mine = [line for line in lines if cell in (None, (line["set"], line["labels"]))]
        values = []
        for name in methods:
            chosen = [line for line in mine if line["method"] == name]
            error, loss = (np.mean([line[what] for line in chosen]) for what in ("error", "loss"))
            values.append(f"{100 * error:.1f} / {loss:.3f}")
        title = "**mean**" if cell is None else f"{cell[0]}, {cell[1]}"
        rows.append([title, *values])
    return table(["set, labels per class", *methods], rows)


def difference(lines: Sequence[Line], name: str, other: str, what: str) -> Array:
    """One method minus another: mean over sets, and its 95 % interval over sets and splits."""
    value = {
        (line["set"], line["labels"], line["split"], line["method"]): line[what] for line in lines
    }
    pairs: dict[str, list[float]] = {}
    for key in value:
        if key[3] == name:
            pairs.setdefault(key[0], []).append(value[key] - value[(*key[:3], other)])
    rng, sets = np.random.default_rng(0), [np.array(each) for each in pairs.values()]
    means = []
    for _ in range(RESAMPLES):
        drawn = [sets[place] for place in rng.integers(len(sets), size=len(sets))]
        means.append(np.mean([rng.choice(each, len(each)).mean() for each in drawn]))
    return np.array([np.mean([each.mean() for each in sets]), *np.quantile(means, [0.025, 0.975])])


def main(
    features: Annotated[Path, typer.Argument(help="Folder of NAME.npz files.")],
    out: Annotated[Path, typer.Option(help="Folder of the results.")],
    splits: Annotated[int, typer.Option(help="Splits of each set.")] = 5,
    labels: Annotated[str, typer.Option(help="Labels of each class, with commas.")] = "4,10",
) -> None:
    """Run what is missing, and print the tables."""
    torch.set_num_threads(1)
    results = Results(out, {"max_rows": MAX_ROWS, "max_test": MAX_TEST})
    results.begin()
    sets = sorted(features.glob("*.npz"))
    for path, count, number in product(sets, map(int, listed(labels)), range(splits)):
        if not results.has(set=path.stem, labels=count, split=number):
            results.add(trial(path, count, number))
    print(errors_and_losses(results.lines))
    for other in METHODS[:-1]:
        for what in ("error", "loss"):
            mean, low, high = difference(results.lines, "lga-linear", other, what)
            print(f"lga-linear minus {other}, {what}: {mean:+.3f} ({low:+.3f} to {high:+.3f})")


if __name__ == "__main__":
    run(main)
