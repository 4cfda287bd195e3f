"""`label-rules`: how LGA's labels learn, at one rate, at a tuned rate and by evidence.

All train the same network on small data sets. Nothing is chosen: reported is the model of the last
step. The tuned rate of a data set is the one with the lowest mean test loss on it: an oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import torch

from experiments.common import Line, aligned, table
from experiments.figures import GREY, OURS, THEIRS, canvas, legend, save
from experiments.tabular.data import Rows, scales, stratified
from labelgrad.labels.rules import LEAD, SCALE, SUREST, Evidence, LazyAdam
from labelgrad.losses import CrossEntropy, Loss, SquaredError
from labelgrad.models.mlp import MLP
from labelgrad.objective import Objective
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.supervised import Supervised
from labelgrad.training.batches import TensorBatches
from labelgrad.training.recipe import Recipe

STEPS, BATCH, HIDDEN = 5000, 50, (128, 128)
LEARNING_RATE, SUPERVISED_WEIGHT = 2e-4, 0.1
SETTINGS = {  # what is kept beside the results, and the steps
    "batch_size": BATCH,
    "hidden": HIDDEN,
    "evidence": {**SCALE, "lead": LEAD, "surest": SUREST, "metric_power": Evidence.metric_power},
    "learning_rate": LEARNING_RATE,
    "labeled_weight": SUPERVISED_WEIGHT,
}
ROW_LENGTH = 3.0  # of a typical row, however many columns there are
RATES = (0.01, 0.03, 0.1)  # α_w of Algorithm 1
FIXED_RATE = 0.1  # LGA's default
TIMES = (1 / 3, 1.0, 3.0)  # the evidence's usual scale


class Method(NamedTuple):
    """A column: supervised, lga with a rate, or evidence with a factor."""

    kind: str
    setting: float = 1.0


SUPERVISED, FIXED, EVIDENCE = Method("supervised"), Method("lga", FIXED_RATE), Method("evidence")
METHODS = (
    *(SUPERVISED, *(Method("lga", rate) for rate in RATES), EVIDENCE),
    *(Method("evidence", times) for times in TIMES if times != 1),
)


def rule_trial(
    data: str, method: str, setting: float, *, seed: int, steps: int, folder: Path | None = None
) -> list[Line]:
    """Train one method on one split of one data set; gives one line.

    >>> (line,) = rule_trial("wine", "evidence", 1.0, seed=0, steps=5)
    >>> line["data"], line["labels"], line["step"]
    ('wine', 13, 5)
    """
    rows = stratified(data, seed, folder)
    loss: Loss = SquaredError() if rows.classes is None else CrossEntropy()
    x, y, x_test, y_test = _tensors(rows)
    known, width = torch.from_numpy(rows.given), rows.classes or 1
    given, others = known.nonzero().squeeze(1), (~known).nonzero().squeeze(1)

    def objective() -> Objective:
        if method == "supervised":
            return Supervised()
        scale = setting * SCALE["values" if rows.classes is None else "classes"]
        rule = LazyAdam(setting) if method == "lga" else Evidence(scale)
        return SUPERVISED_WEIGHT * Supervised() + LGA(len(others), width, loss=loss, rule=rule)

    recipe = Recipe(
        lambda: MLP(x.shape[1], HIDDEN, width),
        objective,
        TensorBatches(x, y, rows=given, batch_size=min(BATCH, len(given)), seed=seed),
        TensorBatches(x, rows=others, batch_size=min(BATCH, len(others)), seed=seed),
        steps=steps,
        learning_rate=LEARNING_RATE,
        loss=loss,
        seed=seed,
    )
    truth = None if method == "supervised" else y[others]
    run = recipe.run(examples={"test": (x_test, y_test)}, truth=truth, evaluate_every=steps)
    last = run.finish().history[-1]
    keys = ("test_error", "test_loss", "test_ece", "imputed_accuracy", "imputed_rmse")
    line: Line = {"experiment": "bench", "data": data, "method": method, "setting": setting}
    line |= {"labels": len(given), "seed": seed}
    line |= {key: round(last[key], 5) for key in keys if key in last}
    return [line | {"step": last["step"], "seconds": round(last["seconds"])}]


def _tensors(rows: Rows) -> tuple[torch.Tensor, ...]:
    """Inputs of unit variance, then of one length; values in standard deviations."""
    middle, spread = rows.x.mean(0), scales(rows.x) * rows.x.shape[1] ** 0.5 / ROW_LENGTH
    x, x_test = (torch.tensor((part - middle) / spread).float() for part in (rows.x, rows.x_test))
    y, y_test = torch.tensor(rows.y), torch.tensor(rows.y_test)
    if rows.classes is None:
        given = y[torch.from_numpy(rows.given)]
        middle, spread = given.mean(), given.std(correction=0)
        y, y_test = (((part - middle) / spread).float() for part in (y, y_test))
    return x, y, x_test, y_test


def show_label_rules(lines: Sequence[Line], out: Path) -> None:
    """Print the table and what it says of the rules, and draw the figure."""
    complete = complete_sets(lines)
    heads = ("set", "supervised", "tuned", f"rate {FIXED_RATE:g}", "evidence", "best")
    print(aligned(table(heads, (table_row(lines, name) for name in complete))))
    print("Test error in percent (of values the root mean square) / test loss, means over seeds.")
    for title, method in (("Evidence", EVIDENCE), ("LGA at one rate", FIXED)):
        ratio = mean(times_oracle(lines, name, method) for name in complete)
        print(f"{title}: {ratio:.3f} times the test loss of LGA at the tuned rate.")
    for times in (TIMES[0], TIMES[-1]):
        price = mean(price_of(lines, name, times) for name in complete)
        print(f"Evidence with {times:.2g} times its scale: test loss {price:+.1%}.")
    draw_label_rules(lines, out)


def values(lines: Sequence[Line], data: str, method: Method, quantity: str) -> list[float]:
    """One number for each seed, by seed."""
    wanted = {"data": data, "method": method.kind, "setting": method.setting}
    mine = [line for line in lines if wanted.items() <= line.items()]
    return [line[f"test_{quantity}"] for line in sorted(mine, key=lambda line: line["seed"])]


def oracle(lines: Sequence[Line], data: str) -> Method:
    """Algorithm 1 at the rate that is best on the test rows of this data set."""
    tried = (Method("lga", rate) for rate in RATES)
    return min(tried, key=lambda method: mean(values(lines, data, method, "loss")))


def times_oracle(lines: Sequence[Line], data: str, method: Method) -> float:
    """A method's mean test loss over the oracle's."""
    best = mean(values(lines, data, oracle(lines, data), "loss"))
    return mean(values(lines, data, method, "loss")) / best


def price_of(lines: Sequence[Line], data: str, times: float) -> float:
    """The relative change of the mean test loss by another scale of the evidence."""
    moved = values(lines, data, Method("evidence", times), "loss")
    return mean(moved) / mean(values(lines, data, EVIDENCE, "loss")[: len(moved)]) - 1


def excess(
    lines: Sequence[Line], data: str, method: Method, other: Method, quantity: str
) -> tuple[float, float]:
    """How much more a method has than another, seed by seed: the mean, and its standard error."""
    mine, theirs = (values(lines, data, one, quantity) for one in (method, other))
    more = [a - b for a, b in zip(mine, theirs, strict=True)]
    return mean(more), (stdev(more) / len(more) ** 0.5 if len(more) > 1 else 0.0)


def complete_sets(lines: Sequence[Line]) -> list[str]:
    """The data sets on which every method has a trial."""
    found: dict[str, set[tuple[str, float]]] = {}
    for line in lines:
        found.setdefault(line["data"], set()).add((line["method"], line["setting"]))
    return [data for data, methods in found.items() if len(methods) == len(METHODS)]


def table_row(lines: Sequence[Line], data: str) -> list[str]:
    """Error and loss of four methods on a data set, and the oracle's rate."""
    best = oracle(lines, data)
    classes = any("test_ece" in line for line in lines if line["data"] == data)
    cells = []
    for method in (SUPERVISED, best, FIXED, EVIDENCE):
        error, loss = (mean(values(lines, data, method, name)) for name in ("error", "loss"))
        shown = f"{100 * error:.1f}" if classes else f"{error:.3f}"
        cells.append(f"{shown} / {loss:.3f}")
    return [data, *cells, f"{best.setting:g}"]


def draw_label_rules(lines: Sequence[Line], out: Path) -> None:
    """Test loss by how far the one setting is from its usual value, a panel for each data set."""
    sets, columns = complete_sets(lines), 4
    height = ceil(len(sets) / columns)
    figure, panels = canvas(height, columns, (12, 0.8 + 2.5 * height))
    rates = {rate / FIXED_RATE: Method("lga", rate) for rate in RATES}
    evidence = {times: Method("evidence", times) for times in TIMES}
    usual = f"LGA, Algorithm 1 (usual rate {FIXED_RATE:g})"
    curves = ((THEIRS, usual, rates), (OURS, "LGA by evidence", evidence))
    for panel, data in zip(panels, sets, strict=False):
        found = {method: values(lines, data, method, "loss") for method in METHODS}
        # Means are of splits that every setting has: splits differ more than settings do.
        splits = min(map(len, found.values()))
        level = mean(found[SUPERVISED][:splits])
        panel.axhline(level, color=GREY, linestyle="--", label="supervised")
        for color, label, tried in curves:
            for place, method in tried.items():
                losses = found[method]
                panel.plot([place] * len(losses), losses, "o", color=color, alpha=0.3, markersize=3)
            means = [mean(found[method][:splits]) for method in tried.values()]
            panel.plot([*tried], means, "o-", color=color, linewidth=2, label=label)
        panel.set_xscale("log")
        panel.set_xticks([0.1, 1 / 3, 1.0, 3.0], ["÷ 10", "÷ 3", "1", "× 3"])
        panel.minorticks_off()
        panel.set_title(data, fontsize=10)
        panel.set_ylim(0, None)
    for panel in panels[len(sets) :]:
        panel.set_axis_off()
    legend(figure, panels[0], loc="outside lower center", ncols=3)
    figure.suptitle("Test loss, when the one setting is moved from its usual value")
    save(figure, out / "bench")
