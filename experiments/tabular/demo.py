"""`demo`: digits with few labels, the ensemble and its student beside scikit-learn and LGA alone.

All see the same rows. There is no validation part: of 50 labels none can be spared, and nothing is
chosen on the test rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from experiments.common import Line, Results, aligned, run_trials, table, with_spread
from experiments.figures import GREY, canvas, save
from experiments.figures import OURS as RED
from experiments.tabular.bench import scores
from experiments.tabular.data import Rows, scales
from experiments.tabular.methods import (
    FITS,
    Predictions,
    lga,
    predicted,
    predictions,
    stacked,
    supervised_network,
    undisturbed,
)

BASELINES = {"logistic-regression": "logistic regression", "label-spreading-knn": "label spreading"}
OURS = {
    "supervised-network": "supervised network",
    "lga": "LGA network",
    "pool": "ensemble",
    "student": "student",
}
TITLES = BASELINES | OURS
TEST_ROWS = 350
HEADS = ("", "error %", "loss", "labels right %", "confident %", "confident right %", "seconds")
LEGEND = (
    "Error and loss on test digits, mean ± standard deviation over the splits. Labels are those of "
    "the unlabeled digits, confident ones have a probability above 0.9. One fit gives the last "
    "two rows, and has their seconds."
)


def digits(labels: int, seed: int = 0) -> Rows:
    """The digits with as many labels of each class as of any other, the labeled ones first.

    >>> rows = digits(labels=50)
    >>> int(rows.given.sum()), len(rows.y), len(rows.y_test)
    (50, 1447, 350)
    """
    from sklearn.datasets import load_digits

    if labels % 10 or not 10 <= labels <= 1000:
        raise ValueError(f"`labels` must be a multiple of 10 from 10 to 1000, got {labels}.")
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    test, rest = order[:TEST_ROWS], order[TEST_ROWS:]
    chosen = np.concatenate([rest[y[rest] == digit][: labels // 10] for digit in range(10)])
    used = np.append(chosen, rest[~np.isin(rest, chosen)])
    x = (x / 16).astype(np.float32)
    return Rows(x[used], y[used], np.arange(len(used)) < labels, x[test], y[test])


def demo_trial(seed: int, labels: int = 50, steps: int | None = None) -> list[Line]:
    """All methods on one split; gives a line for each."""
    rows = digits(labels, seed)
    middle, scale = rows.x.mean(0), scales(rows.x)
    standard = replace(rows, x=(rows.x - middle) / scale, x_test=(rows.x_test - middle) / scale)
    fits = [partial(FITS[name], standard) for name in BASELINES]
    few = {} if steps is None else {"steps": steps}
    networks = (supervised_network, lga)  # a temperature would take four more trainings of each
    fits += [partial(fit, rows, calibrate=False, **few) for fit in networks]
    fits.append(partial(ensemble, rows, **few))
    lines = []
    for fit in fits:
        begin = time.perf_counter()
        with undisturbed():
            found = fit(seed)
        seconds = round(time.perf_counter() - begin, 2)
        lines += [{"method": one.method, "seconds": seconds} | scores(one, rows) for one in found]
    return [{"seed": seed} | line for line in lines]


def ensemble(rows: Rows, seed: int, **options: Any) -> list[Predictions]:
    """The ensemble and its student, the same whatever is installed."""
    from labelgrad.auto.base_models.registry import DEFAULT

    model, student = stacked(rows, seed, base_models=DEFAULT["classification"], **options)
    return [predicted("pool", model, rows), predictions("student", student, rows)]


def run_demo(*, seeds: int, labels: int, steps: int | None, workers: int, out: Path) -> None:
    """Fit the splits that are missing, then print the table and draw the figure."""
    rows = digits(labels)  # raises for a bad count
    parts = f"{len(rows.y) - labels} unlabeled, {len(rows.y_test)} for the test"
    print(f"Digits: {labels} labeled, {parts}; {seeds} splits, {len(TITLES)} methods.")
    folder = out / (f"{labels}-labels" + (f"-{steps}-steps" if steps else ""))
    results = Results(folder, {"labels": labels, "steps": steps})
    jobs = {
        f"split {seed + 1}": {"seed": seed, "labels": labels, "steps": steps}
        for seed in range(seeds)
        if not results.has(seed=seed)
    }
    run_trials(demo_trial, jobs, results, workers)
    lines = [line for line in results.lines if line["seed"] < seeds]
    print(aligned(results_table(lines)))
    print(LEGEND)
    for key in ("error", "loss"):
        print(conclusion(lines, key))
    draw_demo(lines, labels, out)


def results_table(lines: Sequence[Line]) -> str:
    """A row for each method."""
    rows = []
    for method, title in TITLES.items():
        mine = [line for line in lines if line["method"] == method]
        names = ("unlabeled", "right", "sure", "sure_right")
        unlabeled, right, sure, sure_right = (sum(line[name] for line in mine) for name in names)
        cells = [
            with_spread([100 * line["error"] for line in mine], 1),
            with_spread([line["loss"] for line in mine], 2),
            f"{100 * right / unlabeled:.1f}",
            f"{100 * sure / unlabeled:.0f}",
            f"{100 * sure_right / sure:.1f}" if sure else "–",
            f"{mean(line['seconds'] for line in mine):.1f}",
        ]
        rows.append([title, *cells])
    return table(HEADS, rows)


def conclusion(lines: Sequence[Line], key: str) -> str:
    """Which method has the lowest error or loss, and the best of the other side beside it.

    >>> errors = dict.fromkeys(TITLES, 0.2) | {"label-spreading-knn": 0.11, "pool": 0.1}
    >>> lines = [{"seed": 0, "method": name, "error": error} for name, error in errors.items()]
    >>> conclusion(lines, "error")
    'Lowest error: ensemble, 10.0 %; the best of scikit-learn is label spreading, 11.0 %.'
    """
    found = {name: mean(line[key] for line in lines if line["method"] == name) for name in TITLES}
    best = min(found, key=lambda name: found[name])
    others, side = (BASELINES, "scikit-learn") if best in OURS else (OURS, "ours")
    other = min(others, key=lambda name: found[name])
    low, beside = (
        f"{100 * found[name]:.1f} %" if key == "error" else f"{found[name]:.2f}"
        for name in (best, other)
    )
    return f"Lowest {key}: {TITLES[best]}, {low}; the best of {side} is {TITLES[other]}, {beside}."


def draw_demo(lines: Sequence[Line], labels: int, out: Path) -> None:
    """Error and loss: a row for each method, small dots for splits and a large one for the mean."""
    figure, panels = canvas(1, 2, (9.6, 4.0))
    quantities = (("error", "test error, %", 100, 1), ("loss", "test loss", 1, 2))
    for panel, (key, title, factor, places) in zip(panels, quantities, strict=True):
        for row, method in enumerate(TITLES):
            found = [factor * line[key] for line in lines if line["method"] == method]
            color = RED if method in OURS else GREY
            look: dict[str, Any] = {"color": color, "clip_on": False}
            panel.axhline(row, color="#e6e8ea", linewidth=1, zorder=0)
            panel.plot(found, [row + 0.24] * len(found), "o", alpha=0.45, markersize=4, **look)
            panel.plot(mean(found), row, "o", markersize=11, markeredgecolor="white", **look)
            text, place = f"{mean(found):.{places}f}", (mean(found), row - 0.25)
            panel.annotate(text, place, ha="center", va="bottom", fontsize=9, color=color)
        panel.set(xlim=(0, None), ylim=(len(TITLES) - 0.5, -0.6))
        panel.set_yticks(range(len(TITLES)), TITLES.values() if key == "error" else [])
        panel.set_title(title, loc="left", fontsize=10.5)
        panel.spines[["left", "bottom"]].set_visible(False)
        panel.tick_params(length=0, labelsize=9)
    figure.suptitle(f"Digits with {labels} labels; ours in red", fontsize=13, weight="bold")
    save(figure, out / "digits")
