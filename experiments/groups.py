"""Labels of whole groups: the error that a run states beside the error it makes.

    python -m experiments.groups voices.csv --groups person --labeled 10 --out results/groups

All rows of some groups are labeled, as when some persons were examined, and a run is fitted with
and without `groups`. A line has the stated error with its interval beside the error on the
unlabeled rows, and whether guarantees of 20 % were false: from the labels, as if they had been
drawn at random, and from an audit of 60 unlabeled rows.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from experiments.common import Line, Results, run, table
from labelgrad.auto.annotations import AUDIT, Annotation, log_of
from labelgrad.auto.audits import draw_audit
from labelgrad.auto.fit import fit
from labelgrad.auto.guarantee import guaranteed_labels
from labelgrad.auto.result import Result

RATE, AUDITS = 0.2, 60


def trial(data: pl.DataFrame, groups: str, labeled: int, seed: int, *, known: bool) -> Line:
    """One fit with the rows of some groups labeled; `known`: whether it knows the groups."""
    names = data[groups].unique().sort().shuffle(seed)
    truth = data["target"].cast(pl.String)
    is_labeled = data[groups].is_in(names[:labeled].implode())
    partly = data.with_columns(pl.when(is_labeled).then(truth).alias("target"))
    partly = partly if known else partly.drop(groups)
    options: dict[str, Any] = {"groups": groups} if known else {}
    options |= {"target": "target", "task": "classification", "seed": seed}
    with TemporaryDirectory() as folder:
        result = fit(partly, label_sampling="random", out=folder, **options)
        unlabeled = (~is_labeled).arg_true().to_list()
        wrong = (result.labels["label"].cast(pl.String) != truth)[unlabeled].to_numpy()
        stated = result.evaluation.score("ensemble").error
        assert stated is not None
        line: Line = {"labels": int(is_labeled.sum()), "error": float(wrong.mean())}
        line |= {"stated": stated.value, "low": stated.low, "high": stated.high}
        line |= {"from_labels": guarantee_kept(result, truth)}
        draw = draw_audit(result, min(AUDITS, len(unlabeled)))
        answers = [Annotation(n, truth[int(n) - 1], AUDIT, result.digest) for n in draw.ids]
        log_of(result).add(answers)
        return line | {"from_audit": guarantee_kept(result, truth)}


def guarantee_kept(result: Result, truth: pl.Series) -> bool | None:
    """Whether a guarantee is true; None where none is given."""
    try:
        labels = guaranteed_labels(result, RATE).labels
    except ValueError:
        return None
    if not len(labels):
        return None
    rows = labels.to_series(0).cast(pl.Int64) - 1
    wrong = (labels["label"].cast(pl.String) != truth[rows.to_list()]).to_numpy()
    return bool(wrong.mean() <= RATE)


def main(
    data: Annotated[Path, typer.Argument(help="Table with the columns target and that of groups.")],
    groups: Annotated[str, typer.Option(help="Column of the groups.")],
    labeled: Annotated[int, typer.Option(help="Groups whose rows are labeled.")] = 10,
    seeds: Annotated[int, typer.Option(help="Draws of the labeled groups.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("runs/groups"),
) -> None:
    """Fit with and without groups, and print stated errors beside true ones."""
    frame = pl.read_csv(data)
    results = Results(out, {"rate": RATE, "audits": AUDITS})
    results.begin()
    for seed, known in product(range(seeds), (False, True)):
        key = {"data": data.stem, "labeled": labeled, "seed": seed, "groups": known}
        if not results.has(**key):
            results.add([key | trial(frame, groups, labeled, seed, known=known)])
    lines = [line for line in results.lines if line["data"] == data.stem]
    rows = [
        [name, *summary([line for line in lines if line["groups"] is known])]
        for name, known in (("without groups", False), ("with groups", True))
    ]
    typer.echo(table(["", "error %", "stated %", "inside", "from labels", "from an audit"], rows))


def summary(lines: list[Line]) -> list[str]:
    """The cells of a row: means, and how many intervals and guarantees were true."""

    def share(values: list[bool]) -> str:
        return f"{sum(values)} of {len(values)}"

    inside = [line["low"] <= line["error"] <= line["high"] for line in lines]
    cells = [f"{100 * np.mean([line[key] for line in lines]):.1f}" for key in ("error", "stated")]
    kept = (
        [line[k] for line in lines if line[k] is not None] for k in ("from_labels", "from_audit")
    )
    return [*cells, share(inside), *map(share, kept)]


if __name__ == "__main__":
    run(main)
