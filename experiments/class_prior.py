"""Class priors where labels were drawn by class: ignored, averaged over, and known.

    python -m experiments.class_prior --tables TABLES --out results/class-prior

Of each data set with two classes, ten labels of each are given. Of the other rows so many are left
out that one class has the share; each class in turn. A line has error and loss on test rows of that
share for one fit of the base models, stacked three times.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from experiments.common import Line, Results, listed, run, table
from experiments.tabular.bench import clipped
from experiments.tabular.data import Array, Draw, Sources, split
from labelgrad.auto.config import FitConfig
from labelgrad.auto.estimators import StackedClassifier
from labelgrad.auto.stacking import stack

SETS = "breast-cancer,credit-g,diabetes-classes,heart-c,ionosphere,mushroom,phoneme,pima,spambase"
SHARES = "0.5,0.6,0.7,0.8,0.9,0.95,0.98,0.99"


def trial(name: str, share: float, common: int, seed: int, sources: Sources) -> Line:
    """One fit where the class `common` has the share."""
    rows, rng = split(name, sources, Draw(), seed), np.random.default_rng(seed)
    others = np.flatnonzero(~rows.given)
    kept = others[_of_share(rows.y[others], share, common, rng)]
    used = np.sort(np.append(np.flatnonzero(rows.given), kept))
    model = StackedClassifier(random_state=seed).fit(rows.x[used], rows.partial[used])
    test = _of_share(rows.y_test, share, common, rng)
    known = {str(label): share if label == common else 1 - share for label in (0, 1)}
    rules = {
        "ignored": FitConfig(label_sampling="random"),
        "averaged": FitConfig(),
        "known": FitConfig(class_prior=known),
    }
    line: Line = {"unlabeled": len(kept), "test_rows": len(test)}
    ensemble, y = model.ensemble_, rows.y_test[test]
    for rule, config in rules.items():
        model.ensemble_ = stack(ensemble.cross_fits, ensemble.dataset, ensemble.folds, config)
        found = clipped(model.predict_proba(rows.x_test[test]))
        line[f"error_{rule}"] = round(float((found.argmax(1) != y).mean()), 5)
        line[f"loss_{rule}"] = round(float(-np.log(found[np.arange(len(y)), y]).mean()), 5)
    return line


def _of_share(y: Array, share: float, common: int, rng: np.random.Generator) -> Array:
    """As many rows as there can be for the class `common` to have the share; one of the other."""
    many, few = (rng.permutation(np.flatnonzero((y == common) == wanted)) for wanted in (1, 0))
    total = min(len(many) / share, len(few) / (1 - share))
    few = few[: max(1, round(total * (1 - share)))]
    return np.append(many[: round(total * share)], few)


def markdown(lines: Iterable[Line]) -> str:
    """Means over data sets, classes and seeds, for each share."""
    rows = []
    for share in sorted({line["share"] for line in lines}):
        mine = [line for line in lines if line["share"] == share]
        cells = [f"{share:g}"]
        for rule in ("ignored", "averaged", "known"):
            error, loss = (np.mean([x[f"{key}_{rule}"] for x in mine]) for key in ("error", "loss"))
            cells += [f"{100 * error:.1f}", f"{loss:.3f}"]
        rows.append(cells)
    heads = [head for rule in ("ignored", "averaged", "known") for head in (f"{rule}: %", "loss")]
    return table(["share", *heads], rows)


def main(
    tables: Annotated[Path, typer.Option(help="Folder of CSV files with a column target.")],
    sets: Annotated[str, typer.Option(help="Names, with commas.")] = SETS,
    shares: Annotated[str, typer.Option(help="Shares of one class.")] = SHARES,
    seeds: Annotated[int, typer.Option(help="Draws of labels and rows.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("runs/class-prior"),
) -> None:
    """Fit with ten labels of each class at many class shares, and print the table."""
    sources, results = Sources(tables=tables), Results(out, {"labels": Draw().per_class})
    results.begin()
    cells = product(range(seeds), listed(sets), map(float, listed(shares)), (0, 1))
    for seed, name, share, common in cells:
        key = {"data": name, "share": share, "common": common, "seed": seed}
        if not results.has(**key) and (share > 0.5 or common == 0):
            results.add([key | trial(name, share, common, seed, sources)])
    typer.echo(markdown(results.lines))


if __name__ == "__main__":
    run(main)
