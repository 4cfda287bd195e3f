"""Are promises kept, and do intervals cover? Simulated, with models of which the truth is known.

2,000 rows, 1,000 runs for each cell. A promise is broken where more of the labels handed back are
wrong than it says (of all rows, where the rest is labeled by hand); audited rows are handed back
with their true labels. Models are as right as said, and put the rows in order by calibrated
probabilities, or with a fifth of their mistakes anywhere in the order ("sure mistakes"), or at
random ("no idea which").

    python benchmarks/promises.py --out results/promises     # some minutes on one core
    python benchmarks/promises.py --show results/promises    # the tables of docs/promises.md
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgrad.guarantees.conformal import handed_back_on_average
from labelgrad.guarantees.evidence import stand_ins
from labelgrad.guarantees.pac import allowed_by_rank, handed_back
from labelgrad.guarantees.ppi import Said, powered, share_by_labels
from labelgrad.training.results import Results

ROWS, RUNS, CONFIDENCE = 2000, 1000, 0.95
RIGHT, LABELS = (0.7, 0.8, 0.88, 0.95, 0.98), (30, 60, 100, 150, 300)
AT_MOST = (0.01, 0.02, 0.05, 0.1)
ORDERS = ("calibrated", "sure mistakes", "no idea which")
OF_THESE, REST_BY_HAND, ON_AVERAGE = "of these", "rest by hand", "on average"
SHARES = np.array([0.03, 0.07, 0.1, 0.3, 0.5])
COUNT_RIGHT = (0.7, 0.85, 0.9, 0.95, 0.98)
FOLDS = 4
Array = NDArray[Any]
Line = dict[str, Any]


def mistakes_in_order(rng: np.random.Generator, right: float, order: str, runs: int) -> Array:
    """Which rows (runs, ROWS) are wrong, from the surest to the least sure."""
    doubt = rng.beta(1.5 * (1 - right), 1.5 * right, (runs, ROWS))
    wrong = rng.random((runs, ROWS)) < doubt
    if order == "sure mistakes":
        anywhere = wrong & (rng.random(doubt.shape) < 0.2)
        doubt = np.where(anywhere, rng.permuted(doubt, axis=1), doubt)
    if order == "no idea which":
        doubt = rng.random(doubt.shape)
    return np.take_along_axis(wrong, doubt.argsort(1), 1)


def draws(rng: np.random.Generator, labels: int, runs: int) -> Array:
    """Which rows (runs, ROWS) are looked at: as many in every run."""
    return rng.permuted(np.tile(np.arange(ROWS) < labels, (runs, 1)), axis=1)


def handed(
    rule: str, wrong: Array, drawn: Array, at_most: float, labels: int
) -> tuple[Array, Array]:
    """How many of the surest are handed back, and the share of labels that is wrong."""
    found = (wrong & drawn).cumsum(1)
    if rule == ON_AVERAGE:
        surest = handed_back_on_average(found, drawn.cumsum(1), at_most)
    else:
        by_hand = rule == REST_BY_HAND
        surest = handed_back(found, allowed_by_rank(ROWS, labels, at_most, rest_by_hand=by_hand))
    back = np.arange(ROWS) < surest[:, None]
    errors = (wrong & back & ~drawn).sum(1)
    # On average it is promised of the rows that nobody has looked at.
    of = (back & ~drawn if rule == ON_AVERAGE else back | drawn).sum(1)
    of = np.full(len(of), ROWS) if rule == REST_BY_HAND else np.maximum(of, 1)
    return surest, np.where(surest > 0, errors / of, 0.0)


def promises(runs: int) -> Iterator[Line]:
    """How often each promise is broken, and what it hands back."""
    for right in RIGHT:
        for order in ORDERS:
            rng = np.random.default_rng([int(100 * right), ORDERS.index(order)])
            wrong = mistakes_in_order(rng, right, order, runs)
            for labels in LABELS:
                drawn = draws(rng, labels, runs)
                for at_most in AT_MOST:
                    for rule in (OF_THESE, REST_BY_HAND, ON_AVERAGE):
                        surest, share = handed(rule, wrong, drawn, at_most, labels)
                        yield {
                            "table": "promise",
                            "rule": rule,
                            "right": right,
                            "order": order,
                            "labels": labels,
                            "at_most": at_most,
                            "runs": runs,
                            "broken": float((share > at_most + 1e-12).mean()),
                            "wrong": float(share.mean()),
                            "wrong_spread": float(share.std()),
                            "handed_back": float(surest.mean() / ROWS),
                            "nothing": float((surest == 0).mean()),
                        }


def stand_in_promises(runs: int) -> Iterator[Line]:
    """The same by labels hidden in turn: what was said of them is of a model that is less right."""
    for right, fold_right in ((0.88, 0.88), (0.88, 0.85), (0.95, 0.95), (0.95, 0.93)):
        for labels in LABELS:
            rng = np.random.default_rng([int(100 * right), int(100 * fold_right), labels])
            doubt = rng.beta(1.5 * (1 - right), 1.5 * right, (runs, ROWS))
            wrong = rng.random(doubt.shape) < doubt
            less = rng.beta(1.5 * (1 - fold_right), 1.5 * fold_right, (runs, labels))
            missed = rng.random(less.shape) < less
            placed = [stand_ins(rows, hidden) for rows, hidden in zip(doubt, less, strict=True)]
            order = np.concatenate([doubt, placed], axis=1).argsort(axis=1, kind="stable")
            nobody = np.zeros((runs, ROWS), dtype=bool)
            found = np.take_along_axis(np.concatenate([nobody, missed], axis=1), order, 1).cumsum(1)
            kept = np.concatenate([wrong, nobody[:, :labels]], axis=1)
            errors = np.take_along_axis(kept, order, 1)
            for at_most in AT_MOST:
                surest = handed_back(found, allowed_by_rank(ROWS + labels, labels, at_most))
                back = (np.arange(ROWS + labels) < surest[:, None]) & (order < ROWS)
                yield {
                    "table": "stand-ins",
                    "right": right,
                    "fold_right": fold_right,
                    "labels": labels,
                    "at_most": at_most,
                    "runs": runs,
                    "broken": float(((errors & back).sum(1) > at_most * back.sum(1)).mean()),
                    "handed_back": float(back.sum(1).mean() / ROWS),
                }


def looks(runs: int) -> Iterator[Line]:
    """A person who audits until something can be promised has looked more than once."""
    plans = {"once": (300,), "five times": range(60, 301, 60), "every ten": range(60, 301, 10)}
    for at_most in (0.02, 0.05):
        for name, sizes in plans.items():
            for right in (0.88, 0.95, 1 - 1.1 * at_most):
                order = "no idea which" if right == 1 - 1.1 * at_most else "calibrated"
                rng = np.random.default_rng([int(1000 * right), len(sizes)])
                wrong = mistakes_in_order(rng, right, order, runs)
                if order == "no idea which":  # just too many, in every run
                    wrong = draws(rng, int(at_most * ROWS) + 1, runs)
                turn = rng.permuted(np.tile(np.arange(ROWS), (runs, 1)), axis=1)
                done = broken = np.zeros(runs, dtype=bool)
                for labels in sizes:
                    surest, share = handed(OF_THESE, wrong, turn < labels, at_most, labels)
                    broken = broken | ((surest > 0) & ~done & (share > at_most + 1e-12))
                    done = done | (surest > 0)
                yield {
                    "table": "looks",
                    "looks": name,
                    "right": "just too few" if order == "no idea which" else right,
                    "at_most": at_most,
                    "runs": runs,
                    "broken": float(broken.mean()),
                }


def classes_said(
    rng: np.random.Generator, apart: float, too_sure: float, runs: int
) -> tuple[Array, Array]:
    """True classes (runs, ROWS), and probabilities (runs, ROWS, classes) of them."""
    y = rng.choice(len(SHARES), size=(runs, ROWS), p=SHARES)
    logits = apart * (rng.normal(size=(runs, ROWS, len(SHARES))) + apart * np.eye(len(SHARES))[y])
    logits = too_sure * (logits + np.log(SHARES))
    said = np.exp(logits - logits.max(-1, keepdims=True))
    return y, said / said.sum(-1, keepdims=True)


def apart_for(right: float) -> float:
    """How far apart classes must be for a model to be right so often."""
    low, high = 0.0, 8.0
    for _ in range(20):
        middle = (low + high) / 2
        y, said = classes_said(np.random.default_rng(0), middle, 1.0, 20)
        low, high = (middle, high) if (said.argmax(-1) == y).mean() < right else (low, middle)
    return low


def count_lines(
    y: Array, sums: Array, off: Array, seen: Array, labels: int, *, folds: int = 1, **cell: Any
) -> Iterator[Line]:
    """Coverage and width for each class, beside labels alone.

    `y` are shares (runs, classes), `sums` those of the predictions, `off` residuals (runs, classes,
    labels), and `seen` how many labels each class has.
    """
    _, *ends = powered(sums / ROWS, off, ROWS, one_more=1.0, folds=folds)
    low, high = (np.clip(end, seen / ROWS, 1.0) for end in ends)
    alone = [share_by_labels(count, labels) for count in range(labels + 1)]
    low_alone, high_alone = (
        np.array([getattr(each, end) for each in alone])[seen] for end in ("low", "high")
    )
    for place, share in enumerate(SHARES):
        truth, mine = y[:, place], (slice(None), place)
        yield {
            "table": "count",
            **cell,
            "labels": labels,
            "share": float(share),
            "runs": len(y),
            "covered": covered(low[mine], truth, high[mine]),
            "width": float((high - low)[mine].mean()),
            "covered_alone": covered(low_alone[mine], truth, high_alone[mine]),
            "width_alone": float((high_alone - low_alone)[mine].mean()),
        }


def covered(low: Array, truth: Array, high: Array) -> float:
    """How often the truth is within."""
    return float(((low <= truth + 1e-12) & (truth <= high + 1e-12)).mean())


def counts(runs: int) -> Iterator[Line]:
    """Coverage and width of shares by audits; `Said` is what a run knows of its predictions."""
    width, most = len(SHARES), max(LABELS)
    for right in COUNT_RIGHT:
        apart = apart_for(right)
        for too_sure in (1.0, 2.0):
            rng = np.random.default_rng([int(100 * right), int(too_sure)])
            shares, sums = np.empty((runs, width)), np.empty((runs, width))
            off, truth = np.empty((runs, width, most)), np.empty((runs, width, most))
            for run in range(runs):
                y, said = (each[0] for each in classes_said(rng, apart, too_sure, 1))
                known = Said(said.argmax(1), said.max(1), width)
                drawn = rng.permutation(ROWS)[:most]
                shares[run], sums[run] = np.bincount(y, minlength=width) / ROWS, known.sums
                truth[run] = np.eye(width)[y[drawn]].T
                off[run] = truth[run] - known.of_rows(drawn).T
            for labels in LABELS:
                yield from count_lines(
                    shares,
                    sums,
                    off[..., :labels],
                    truth[..., :labels].sum(-1).astype(int),
                    labels,
                    by="audits",
                    right=right,
                    probabilities="calibrated" if too_sure == 1 else "too sure",
                )


def cross_fitted_counts(runs: int) -> Iterator[Line]:
    """The same by labels that were trained on: nearest class means, by folds."""
    width = len(SHARES)
    for apart in (1.5, 2.5, 4.0):
        for labels in LABELS:
            rng = np.random.default_rng([int(10 * apart), labels])
            shares, sums = np.empty((runs, width)), np.zeros((runs, width))
            off, seen = np.empty((runs, width, labels)), np.empty((runs, width), dtype=int)
            right, fold = [], np.arange(labels) % FOLDS
            for run in range(runs):
                y = rng.choice(width, size=ROWS, p=SHARES)
                x = rng.normal(size=(ROWS, width)) + apart * np.eye(width)[y]
                drawn = rng.permutation(ROWS)[:labels]
                shares[run] = np.bincount(y, minlength=width) / ROWS
                seen[run] = np.bincount(y[drawn], minlength=width)
                for number in range(FOLDS):
                    mine = fold == number
                    said = nearest_means(x, x[drawn[~mine]], y[drawn[~mine]])
                    sums[run] += mine.mean() * said.sum(0)
                    off[run][:, mine] = (np.eye(width)[y[drawn[mine]]] - said[drawn[mine]]).T
                    right.append((said.argmax(1) == y).mean())
            mean_right = round(float(np.mean(right)), 3)
            yield from count_lines(
                shares,
                sums,
                off,
                seen,
                labels,
                folds=FOLDS,
                by="cross-fitting",
                right=mean_right,
                probabilities="learned",
            )


def nearest_means(x: Array, known: Array, y: Array) -> Array:
    """Probabilities by the distance to each class's mean, with a pull to the mean of all."""
    one_hot = np.eye(len(SHARES))[y]
    counts = one_hot.sum(0)
    means = (one_hot.T @ known + known.mean(0)) / (counts + 1)[:, None]
    logits = x @ means.T - (means**2).sum(1) / 2 + np.log(counts + 0.5)
    said = np.exp(logits - logits.max(1, keepdims=True))
    found: Array = said / said.sum(1, keepdims=True)
    return found


def means(runs: int) -> Iterator[Line]:
    """Coverage and width of the mean of values, whose noise is even or far to one side."""
    for explained in (0.5, 0.8, 0.95):
        for noise in ("normal", "skewed"):
            for labels in LABELS:
                rng = np.random.default_rng([int(100 * explained), len(noise), labels])
                f = rng.normal(size=(runs, ROWS)) * explained**0.5
                even = noise == "normal"
                e = rng.normal(size=f.shape) if even else rng.exponential(size=f.shape) - 1
                y = f + e * (1 - explained) ** 0.5
                mine = (slice(None), slice(labels))  # rows come in no order
                _, low, high = powered(f.mean(1), (y - f)[mine], ROWS)
                _, low_alone, high_alone = powered(0.0, y[mine], ROWS, one_more=0.0)
                yield {
                    "table": "mean",
                    "explained": explained,
                    "noise": noise,
                    "labels": labels,
                    "runs": runs,
                    "covered": covered(low, y.mean(1), high),
                    "width": float((high - low).mean()),
                    "width_alone": float((high_alone - low_alone).mean()),
                }


def of_table(lines: Iterable[Line], table: str, **wanted: Any) -> list[Line]:
    """The lines of one table with these values."""
    return [
        line
        for line in lines
        if line["table"] == table and all(line[name] == value for name, value in wanted.items())
    ]


def limit(runs: int, chance: float = 1 - CONFIDENCE) -> float:
    """What a frequency of so many runs may be at most: three standard errors above the chance."""
    return float(chance + 3 * (chance * (1 - chance) / runs) ** 0.5)


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def shown_tables(lines: Sequence[Line]) -> list[str]:
    """What the page shows: how often promises are broken, what is handed back, what is covered."""
    broken = [
        [
            rule,
            str(len(cells)),
            f"{100 * max(line['broken'] for line in cells):.1f} %",
            f"{100 * np.mean([line['broken'] for line in cells]):.1f} %",
            str(sum(line["broken"] > limit(line["runs"]) for line in cells)),
        ]
        for rule in (OF_THESE, REST_BY_HAND)
        for cells in [of_table(lines, "promise", rule=rule)]
    ]
    back = [
        [f"{100 * right:.0f} %", str(labels)]
        + [
            f"{100 * cell['handed_back']:.0f} %"
            for at_most in (0.02, 0.05, 0.1)
            for rule in (OF_THESE, REST_BY_HAND, ON_AVERAGE)
            for cell in of_table(
                lines,
                "promise",
                rule=rule,
                right=right,
                labels=labels,
                at_most=at_most,
                order="calibrated",
            )
        ]
        for right in (0.8, 0.88, 0.95, 0.98)
        for labels in (60, 150, 300)
    ]
    covered = []
    for by in ("audits", "cross-fitting"):
        for low, high in ((0.0, 0.84), (0.84, 0.93), (0.93, 1.0)):
            cells = [
                line for line in of_table(lines, "count", by=by) if low < line["right"] <= high
            ]
            if cells:
                ratios = [line["width"] / line["width_alone"] for line in cells]
                rights = [line["right"] for line in cells]
                covered.append(
                    [
                        f"{by}, {100 * min(rights):.0f} to {100 * max(rights):.0f} %",
                        str(len(cells)),
                        f"{100 * min(line['covered'] for line in cells):.1f} %",
                        f"{np.mean(ratios):.2f}",
                        f"{min(ratios):.2f} to {max(ratios):.2f}",
                    ]
                )
    each = [f"{rule} {e}" for e in ("2 %", "5 %", "10 %") for rule in ("these", "rest", "average")]
    return [
        table_of(["promise", "cells", "worst", "on average", "above the limit"], broken),
        table_of(["right", "audits", *each], back),
        table_of(
            ["by, model right", "cells", "least coverage", "width ratio", "from, to"], covered
        ),
    ]


def main() -> None:
    """Simulate everything that is not in the results yet, or show them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args()
    settings = {"rows": ROWS, "runs": asked.runs, "confidence": CONFIDENCE}
    if asked.out is not None:
        results = Results(asked.out, settings)
        results.begin(shlex.join(["python", "benchmarks/promises.py", *sys.argv[1:]]))
        for part in (promises, stand_in_promises, looks, counts, cross_fitted_counts, means):
            results.add(part(asked.runs))
            print(part.__name__, len(results.lines), flush=True)
    place = asked.show or asked.out
    if place is not None:
        print("\n\n".join(shown_tables(Results(place, settings).lines)))


if __name__ == "__main__":
    main()
