"""Classes that nobody labeled: whether confident labels are still right, and what that costs.

    python -m experiments.unknown_classes --tables TABLES --out results/unknown-classes

Of each data set a share of the classes gets no label, the others ten labels each; where the share
is less than a class, there is no line. A line has how many imputed labels have a confidence above
0.9, how many of these are wrong, and the loss of all confidences, with and without the correction
by `unknown_probability`, and the area under the ROC curve of `ood_score`.
"""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from sklearn.metrics import roc_auc_score

from experiments.common import Line, Results, listed, run, table
from experiments.tabular.data import Sources, whole
from labelgrad.auto.fit import fit

SETS = "digits-50,segment,pendigits,vowel,dermatology,vehicle,car,page-blocks,waveform,splice"
SHARES = "0,0.2,0.4,0.6"
ROWS, LABELS, CONFIDENT = 1500, 10, 0.9


def trial(name: str, missing: float, seed: int, sources: Sources) -> Line | None:
    """One fit without the labels of some classes, or None if the share is less than a class."""
    x, y = whole(name, sources)
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(y))[:ROWS]
    x, y = x[some], y[some]
    classes = rng.permutation(np.unique(y))
    known = classes[: max(2, math.ceil((1 - missing) * len(classes)))]
    if missing and len(known) == len(classes):
        return None
    labeled = [rng.permutation(np.flatnonzero(y == one))[:LABELS] for one in known]
    given = np.full(len(y), -1)
    given[np.concatenate(labeled)] = y[np.concatenate(labeled)]
    result = fit(x, given, task="classification", seed=seed)
    rows = np.flatnonzero(given < 0)
    found = result.labels[rows]
    wrong = found["label"].cast(pl.String).cast(pl.Int64).to_numpy() != y[rows]
    is_unknown = ~np.isin(y[rows], known)
    line: Line = {"unlabeled": len(rows), "unknown": float(is_unknown.mean())}
    chance = 1 - found["unknown_probability"].to_numpy().astype(float)
    line["known_error"] = float(wrong[~is_unknown].mean())
    line["noticed"] = bool((chance < 1).any())
    for key, share in (("before", chance), ("after", 1.0)):
        confidence = found["confidence"].to_numpy() / share
        confident = confidence > CONFIDENT
        loss = -np.log(np.clip(np.where(wrong, 1 - confidence, confidence), 1e-3, 1))
        line[f"loss_{key}"] = float(loss.mean())  # of "this label is right"
        line[f"confident_{key}"] = int(confident.sum())
        line[f"wrong_{key}"] = int(wrong[confident].sum())
    if is_unknown.any():
        line["auroc"] = float(roc_auc_score(is_unknown, found["ood_score"].to_numpy()))
    return line


def main(
    tables: Annotated[Path, typer.Option(help="Folder of CSV files with a column target.")],
    sets: Annotated[str, typer.Option(help="Names, with commas.")] = SETS,
    shares: Annotated[str, typer.Option(help="Shares of classes without a label.")] = SHARES,
    seeds: Annotated[int, typer.Option(help="Draws of classes and labels.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("runs/unknown-classes"),
) -> None:
    """Fit without the labels of some classes, and print the table."""
    sources = Sources(tables=tables)
    results = Results(out, {"rows": ROWS, "labels": LABELS})
    results.begin()
    for seed, name, share in product(range(seeds), listed(sets), map(float, listed(shares))):
        key = {"data": name, "missing": share, "seed": seed}
        if not results.has(**key) and (line := trial(name, share, seed, sources)) is not None:
            results.add([key | line])
    typer.echo(markdown(results.lines))


def markdown(lines: list[Line]) -> str:
    """A row for each data set and share, over all seeds."""
    rows = []
    for name, share in dict.fromkeys((line["data"], line["missing"]) for line in lines):
        mine = [line for line in lines if (line["data"], line["missing"]) == (name, share)]
        cells = [name, f"{100 * share:.0f}"]
        for key in ("before", "after"):
            confident = sum(line[f"confident_{key}"] for line in mine)
            wrong = sum(line[f"wrong_{key}"] for line in mine)
            cells += [str(confident), f"{100 * wrong / max(confident, 1):.1f}"]
        areas = [line["auroc"] for line in mine if "auroc" in line]
        cells += [f"{sum(line['noticed'] for line in mine)} of {len(mine)}"]
        rows.append([*cells, f"{np.mean(areas):.2f}" if areas else "–"])
    heads = ["data", "classes missing %", "above 0.9", "wrong %", "corrected: above 0.9", "wrong %"]
    return table([*heads, "noticed", "AUROC"], rows)


if __name__ == "__main__":
    run(main)
