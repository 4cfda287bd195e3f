"""LGA on features of frozen encoders, beside what people use on the same features.

A folder has one file for each set, `NAME.npz` with `x` (rows, features as an encoder gives them)
and `y` (classes from 0 on). Each split has test rows of its own, that no other split has; of the
others at most 2,000 are there, and so many of each class have their label. Features are brought
to unit length, centred by the rows that are there, and divided by one number. Nothing is chosen on
test rows. Splits that are in the results already are not run again.

    python benchmarks/features.py FEATURES --out results/features [--splits 5] [--labels 4 10]
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgrad import peers
from labelgrad.fitting.pooling import weigh
from labelgrad.training.results import Results
from labelgrad.witnesses.base import even_parts, log_probabilities, normalized, not_too_sure
from labelgrad.witnesses.hearing import Case, Heard, hear_all
from labelgrad.witnesses.named import witnesses_named

Array = NDArray[Any]
MOST_ROWS, MOST_TEST, TEST = 2000, 800, 6  # rows; a test is at most one row in six of a set
FOLDS = 4
PEERS = ("logistic-regression-cv", "self-training", "label-spreading-knn")
SURENESS = np.geomspace(0.1, 100, 61)  # of cosines, for the nearest centroid
CENTROID, LGA = "nearest-centroid", "lga-linear"
NEAREST = "nearest features"
POOLS = {"linear × nearest": ("linear", NEAREST), "pool": ("linear", NEAREST, LGA)}
WITNESSES = ("linear", NEAREST, LGA)
TITLES = {
    "logistic-regression-cv": "logistic regression, tuned",
    CENTROID: "nearest centroid",
    "label-spreading-knn": "label spreading",
    "self-training": "self-training",
    LGA: "LGA",
    "linear × nearest": "linear × nearest",
    "pool": "pool",
}
DRAWS = 2000  # of sets and splits, for an interval


def split(x: Array, y: Array, per_class: int, number: int) -> tuple[Array, Array, Array, Array]:
    """Rows that are there, their labels or -1, and rows and labels of the test."""
    order = np.random.default_rng(0).permutation(len(y))
    size = min(MOST_TEST, len(y) // TEST)
    test = order[number * size : (number + 1) * size]
    rest = np.random.default_rng(number + 1).permutation(np.setdiff1d(order, test))[:MOST_ROWS]
    given = np.concatenate([rest[y[rest] == c][:per_class] for c in np.unique(y)])
    labels = np.where(np.isin(rest, given), y[rest], -1)
    units = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    mean = units[rest].mean(0)
    spread = (units[rest] - mean).std()
    return (units[rest] - mean) / spread, labels, (units[test] - mean) / spread, y[test]


def case_of(x: Array, labels: Array, classes: int) -> Case:
    """The witnesses' case: labels dealt into four folds."""
    known = np.flatnonzero(labels >= 0)
    parts = even_parts(labels[known], FOLDS)
    return Case(x, labels, [known[parts == fold] for fold in range(FOLDS)], classes)


def nearest_centroid(case: Case, x: Array) -> Array:
    """Cosines to the classes' centroids; how sure they are by the folds."""

    def cosines(labels: Array, rows: Array) -> Array:
        centroids = np.stack([case.x[labels == c].mean(0) for c in range(case.classes)])
        lengths = np.linalg.norm(rows, axis=1)[:, None] * np.linalg.norm(centroids, axis=1)
        found: Array = rows @ centroids.T / np.maximum(lengths, 1e-12)
        return found

    hidden = np.concatenate(
        [cosines(v, case.x[f]) for v, f in zip(case.versions, case.folds, strict=False)]
    )
    y, every = case.y[case.hidden], np.arange(len(case.hidden))
    losses = [-normalized(s * hidden)[every, y].mean() for s in SURENESS]
    return not_too_sure(normalized(SURENESS[int(np.argmin(losses))] * cosines(case.y, x)))


@dataclass(frozen=True, eq=False)
class Said:
    """What a witness said of the rows that a pool asks about; a file can hold it."""

    out_of_fold: Array
    unlabeled: Array
    test: Array
    seconds: float  # of CPU time

    def of_rows(self, rows: Array) -> Array:
        """About the unlabeled rows, which alone are asked for."""
        return self.unlabeled

    def of_new(self, x: Array) -> Array:
        """About the test rows."""
        return self.test


def peer_said(name: str, case: Case, x: Array) -> Said:
    """A peer, or the nearest centroid, on the labels that there are."""
    began, nothing = time.process_time(), np.zeros((0, case.classes))
    if name == CENTROID:
        logs = nearest_centroid(case, x)
    else:
        here = case.x
        if not peers.PEERS[name].sees_unlabeled:  # its weights are in the span of labeled rows
            basis = np.linalg.qr(here[case.y >= 0].T)[0]
            here, x = here @ basis, x @ basis
        (said,) = peers.probabilities(name, here, case.y, [x], classes=case.classes, seed=0)
        logs = log_probabilities(said, np.arange(case.classes), case.classes)
    return Said(nothing, nothing, logs, time.process_time() - began)


def witness_said(name: str, case: Case, x: Array) -> Said:
    """A witness of ours on the folds and on all labels."""
    began = time.process_time()
    heard, notes = hear_all(witnesses_named([name]), case)
    if notes:
        raise RuntimeError(notes[0])
    opinion = heard[0].opinion
    said = opinion.of_rows(case.unlabeled), opinion.of_new(x)
    return Said(heard[0].out_of_fold, *said, time.process_time() - began)


def remembered(path: Path | None, say: Callable[[], Said]) -> Said:
    """What was said, from a file if it is there."""
    if path is not None and path.exists():
        with np.load(path) as kept:
            return Said(*(kept[f.name] for f in fields(Said)))
    found = say()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **vars(found))
    return found


def opinions(case: Case, x: Array, memory: str | None) -> Iterator[tuple[str, Array, float]]:
    """What everybody says of test rows, in log-probabilities, and the CPU seconds it took."""
    said: dict[str, Said] = {}
    for name in (CENTROID, *PEERS, *WITNESSES):
        say = witness_said if name in WITNESSES else peer_said
        path = None if memory is None else Path(f"{memory}-{name}.npz")
        said[name] = remembered(path, partial(say, name, case, x))
        yield name, said[name].test, float(said[name].seconds)
    for name, members in POOLS.items():
        began = time.process_time()
        heard = [Heard(each, True, said[each].out_of_fold, said[each]) for each in members]
        pool = weigh(case, heard).pool
        seconds = time.process_time() - began + sum(float(said[each].seconds) for each in members)
        yield name, pool.combined({each: said[each].test for each in members}), seconds


def trial(path: Path, per_class: int, number: int, memory: Path | None) -> Iterator[dict[str, Any]]:
    """Error and loss of everybody on one split."""
    with np.load(path) as file:
        x, y = file["x"].astype(float), file["y"].astype(int)
    here, labels, x_test, y_test = split(x, y, per_class, number)
    case = case_of(here, labels, int(y.max()) + 1)
    kept = None if memory is None else str(memory / f"{path.stem}-{per_class}-{number}")
    for name, said, seconds in opinions(case, x_test, kept):
        yield {
            "set": path.stem,
            "labels": per_class,
            "split": number,
            "method": name,
            "error": float((said.argmax(1) != y_test).mean()),
            "loss": float(-said[np.arange(len(y_test)), y_test].mean()),
            "rows": len(here),
            "test": len(y_test),
            "seconds": round(seconds, 2),
        }


def table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each set and number of labels: error in percent and loss, means of the splits."""
    cells = sorted({(line["set"], line["labels"]) for line in lines})
    found = ["| set, labels a class | " + " | ".join(TITLES.values()) + " |"]
    found.append("|---" * (len(TITLES) + 1) + "|")
    for name, labels in cells:
        mine = [line for line in lines if (line["set"], line["labels"]) == (name, labels)]
        found.append(f"| {name}, {labels} | " + _columns(mine) + " |")
    return [*found, "| **mean** | " + _columns(lines) + " |"]


def _columns(lines: Sequence[dict[str, Any]]) -> str:
    values = []
    for name in TITLES:
        mine = [line for line in lines if line["method"] == name]
        error, loss = (np.mean([line[what] for line in mine]) for what in ("error", "loss"))
        values.append(f"{100 * error:.1f} / {loss:.3f}")
    return " | ".join(values)


def comparison(lines: Sequence[dict[str, Any]]) -> list[str]:
    """How much lower error and loss of LGA and of the pool are than everybody's, with intervals."""
    found = ["| | beside | error, points | loss | lower loss, of splits |", "|---|---|---|---|---|"]
    for name in (LGA, "pool"):
        for other in [each for each in TITLES if each != name]:
            error, loss = (differences(lines, name, other, what) for what in ("error", "loss"))
            won = np.concatenate(list(loss.values())) < 0
            found.append(
                f"| {TITLES[name]} | {TITLES[other]} | {_interval(error, 100, 1)} | "
                f"{_interval(loss, 1, 3)} | {won.sum()} of {len(won)} |"
            )
    return found


def differences(
    lines: Sequence[dict[str, Any]], name: str, other: str, what: str
) -> dict[str, Array]:
    """One method less another on the same splits, by set."""
    by_split: dict[tuple[str, int, int], dict[str, float]] = {}
    for line in lines:
        split_of = line["set"], line["labels"], line["split"]
        by_split.setdefault(split_of, {})[line["method"]] = line[what]
    sets = sorted({key[0] for key in by_split})
    return {
        each: np.array([v[name] - v[other] for k, v in by_split.items() if k[0] == each])
        for each in sets
    }


def _interval(found: dict[str, Array], unit: float, digits: int) -> str:
    """The mean over sets, and where it lies in 95 % of draws of sets, and of splits of each."""
    rng, sets = np.random.default_rng(0), list(found.values())
    means = []
    for _ in range(DRAWS):
        drawn = [sets[place] for place in rng.integers(len(sets), size=len(sets))]
        means.append(np.mean([rng.choice(each, len(each)).mean() for each in drawn]))
    low, high = np.quantile(means, [0.025, 0.975]) * unit
    mean = unit * np.mean([each.mean() for each in sets])
    return f"{mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("features", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--memory", type=Path, help="keep what was said, to try other pools")
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--labels", type=int, nargs="*", default=[4, 10])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    files = sorted(asked.features.glob("*.npz"))
    files = [path for path in files if not asked.sets or path.stem in asked.sets]
    results = Results(asked.out, {"rows": MOST_ROWS, "least": peers.LEAST, "folds": FOLDS})
    cells = [(p, n, s) for s in range(asked.splits) for n in asked.labels for p in files]
    missing = [c for c in cells if not results.has(set=c[0].stem, labels=c[1], split=c[2])]
    if missing:
        counts = [str(count) for count in asked.labels]
        options = ["--out", str(asked.out), "--splits", str(asked.splits), "--labels", *counts]
        command = ["python", "benchmarks/features.py", asked.features.name, *options]
        results.begin(shlex.join([*command, *(["--sets", *asked.sets] if asked.sets else [])]))
    for path, per_class, number in missing:
        results.add(list(trial(path, per_class, number, asked.memory)))
        print(f"{path.stem}, {per_class} labels a class, split {number}", file=sys.stderr)
    print("\n".join([*table(results.lines), "", *comparison(results.lines)]))


if __name__ == "__main__":
    main()
