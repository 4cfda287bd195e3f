"""Promises, counts and suspects on real data, played by a script that knows the truth.

Each set is fitted once with 100 labels drawn at random. Then 60 or 150 of the other rows are
audited, drawn anew 200 times: how many labels are handed back, and how many of them are wrong in
truth. For suspects it is fitted once with 300 labels of which 5 % are flipped to another class, at
random: how many of the first 20 suspects are flipped ones. Digits are rows of 64 numbers, or
pictures with `--pictures`.

    python benchmarks/promises_on_data.py --tables TABLES --out results/promises-on-data
    python benchmarks/promises_on_data.py --show results/promises-on-data
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import labelgrad
from labelgrad.fitting.count import count
from labelgrad.fitting.result import Result
from labelgrad.fitting.suspects import suspects
from labelgrad.guarantees.evidence import Evidence
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import read
from labelgrad.training.results import Results

DIGITS, TABLES, MOST_ROWS = "digits", ("segment", "spambase"), 2500
LABELS, AUDITS, AT_MOST, DRAWS = 100, (60, 150), (0.05, 0.02), 200
SUSPECT_LABELS, FLIPPED, LISTED = 300, 0.05, 20
Line = dict[str, Any]


def whole_set(name: str, tables: Path | None, pictures: bool) -> Dataset:
    """All rows with their labels; of a large table some, drawn at random."""
    if name == DIGITS:
        from sklearn.datasets import load_digits

        digits = load_digits()
        x = (15 * digits.images).astype(np.uint8)[:, None] if pictures else digits.data
        return read(x, digits.target)
    if tables is None:
        raise SystemExit("--tables must say where the tables are.")
    return read(tables / f"{name}.csv", target="target", task="classification")


def with_few_labels(whole: Dataset, labels: int, seed: int) -> tuple[Dataset, np.ndarray]:
    """At most MOST_ROWS of the rows, so many of them with their label; and the truth of all."""
    from dataclasses import replace

    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(whole.y))[:MOST_ROWS]
    truth = whole.y[rows]
    y = truth.clone()
    y[labels:] = -1
    names = [str(place) for place in range(len(rows))]
    return replace(whole, x=whole.x[rows], y=y, names=names, notes=[]), truth.numpy()


def promise_lines(name: str, result: Result, truth: np.ndarray) -> Iterator[Line]:
    """What audits of this size hand back, on average over draws."""
    classes = list(result.predictor.config.classes)
    wrong = np.array([classes.index(str(r.label)) != truth[int(r.name)] for r in result.labels])
    unsure = np.array([1 - (row.label_probability or 0.0) for row in result.labels])
    for audits in AUDITS:
        for at_most in AT_MOST:
            for by_hand in (False, True):
                rng, found = np.random.default_rng(audits), []
                for _ in range(DRAWS):
                    drawn = rng.permutation(len(wrong))[:audits]
                    known = Evidence(unsure, drawn, wrong[drawn])
                    surest = known.surest(at_most, rest_by_hand=by_hand)
                    mine = np.setdiff1d(surest, drawn)
                    many = len(np.union1d(surest, drawn)) if len(surest) else 0
                    errors = int(wrong[mine].sum())
                    of = len(wrong) if by_hand else many
                    found.append((len(mine), errors, errors > at_most * of))
                back, errors, broken = np.array(found, dtype=float).T
                yield {
                    "table": "promise",
                    "set": name,
                    "rows": len(wrong),
                    "wrong": float(wrong.mean()),
                    "audits": audits,
                    "at_most": at_most,
                    "rule": "rest by hand" if by_hand else "of these",
                    "draws": DRAWS,
                    "handed_back": float(back.mean()),
                    "nothing": float((back == 0).mean()),
                    "wrong_among": float(errors.sum() / max(back.sum(), 1)),
                    "most_wrong": float(max(errors / np.maximum(back, 1))),
                    "broken": float(broken.mean()),
                }


def count_line(name: str, result: Result, truth: np.ndarray) -> Line:
    """The shares by 100 labels drawn at random and trained on, beside those labels alone."""
    found = count(result)
    shares = np.bincount(truth, minlength=len(found.each)) / len(truth)
    pairs = list(zip(found.each, shares, strict=True))
    covered = [each.powered.low <= share <= each.powered.high for each, share in pairs]
    alone = [each.by_labels.low <= share <= each.by_labels.high for each, share in pairs]
    return {
        "table": "count",
        "set": name,
        "classes": len(shares),
        "covered": int(sum(covered)),
        "covered_alone": int(sum(alone)),
        "width_ratio": float(np.mean([each.narrower for each in found.each])),
    }


def suspect_line(name: str, whole: Dataset, seed: int, steps: int | None) -> Line:
    """How many of the first suspects are labels that were flipped."""
    data, _ = with_few_labels(whole, SUSPECT_LABELS, seed)
    rng = np.random.default_rng(seed)
    flipped = rng.permutation(SUSPECT_LABELS)[: round(FLIPPED * SUSPECT_LABELS)]
    for row in flipped.tolist():
        others = [c for c in range(len(data.classes)) if c != int(data.y[row])]
        data.y[row] = int(rng.choice(others))
    result = labelgrad.fit(data, drawn="random", seed=seed, steps=steps)
    listed = suspects(result, LISTED)
    names = {str(row) for row in flipped.tolist()}
    return {
        "table": "suspects",
        "set": name,
        "labels": SUSPECT_LABELS,
        "flipped": len(flipped),
        "listed": len(listed),
        "found": sum(each.name in names for each in listed),
        "called_suspect": sum(each.suspect for each in listed),
        "suspect_and_flipped": sum(each.suspect and each.name in names for each in listed),
    }


def shown_tables(lines: Sequence[Line]) -> list[str]:
    """The tables of the page."""
    columns = "set, imputed, wrong in truth, audits, at most, handed back, wrong of them, broken in"
    columns += ", the rest by hand, wrong of all, broken in"
    promises = [_row(columns.split(", ")), "| --- " + "| ---: " * 10 + "|"]
    plain = [line for line in lines if line["table"] == "promise" and line["rule"] == "of these"]
    for line in plain:
        (by_hand,) = (
            other
            for other in lines
            if other["table"] == "promise"
            and other["rule"] == "rest by hand"
            and all(other[name] == line[name] for name in ("set", "audits", "at_most"))
        )
        of_all = by_hand["wrong_among"] * by_hand["handed_back"] / by_hand["rows"]
        cells = [line["set"], f"{line['rows']:,}", f"{100 * line['wrong']:.1f} %"]
        cells += [str(line["audits"]), f"{100 * line['at_most']:.0f} %"]
        for each, share in ((line, line["wrong_among"]), (by_hand, of_all)):
            cells.append(f"{each['handed_back']:,.0f}")
            cells.append(f"{100 * share:.1f} %" if each["handed_back"] else "–")
            cells.append(f"{100 * each['broken']:.1f} %")
        promises.append(_row(cells))
    found = [_row(["set", "labels", "flipped", "flipped among the first 20"])]
    found.append("| --- " + "| ---: " * 3 + "|")
    found += [
        f"| {line['set']} | {line['labels']} | {line['flipped']} | {line['found']} |"
        for line in lines
        if line["table"] == "suspects"
    ]
    return ["\n".join(promises), "\n".join(found)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Fit every set that is not in the results yet, or show them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--sets", nargs="+", default=[DIGITS, *TABLES])
    parser.add_argument("--pictures", action="store_true", help="digits as pictures")
    parser.add_argument("--steps", type=int, help="of each training; as `fit` if not said")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    settings = {"labels": LABELS, "draws": DRAWS, "seed": asked.seed}
    if asked.out is not None:
        results = Results(asked.out, settings)
        results.begin(shlex.join(["python", "benchmarks/promises_on_data.py", *sys.argv[1:]]))
        for name in asked.sets:
            shown = "digits as pictures" if name == DIGITS and asked.pictures else name
            whole = whole_set(name, asked.tables, asked.pictures)
            if not results.has(table="promise", set=shown):
                data, truth = with_few_labels(whole, LABELS, asked.seed)
                result = labelgrad.fit(data, drawn="random", seed=asked.seed, steps=asked.steps)
                lines = [*promise_lines(shown, result, truth), count_line(shown, result, truth)]
                results.add(lines)
            if not results.has(table="suspects", set=shown):
                results.add([suspect_line(shown, whole, asked.seed, asked.steps)])
            print(shown, len(results.lines), flush=True)
    place = asked.show or asked.out
    if place is not None:
        print("\n\n".join(shown_tables(Results(place, settings).lines)))


if __name__ == "__main__":
    main()
