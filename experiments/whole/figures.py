"""Figures and a table of finished trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from experiments.common import Line, table, with_spread
from experiments.datasets.image_sets import SETS
from experiments.figures import canvas, save
from experiments.whole.settings import Settings
from experiments.whole.trial import Trial
from labelgrad.labels.table import LabelTable

SHOWN = 8  # images of each class


def results_table(lines: Sequence[Line]) -> str:
    """Test error and loss of each method, at the steps that validation images chose.

    Examples
    --------
    >>> print(results_table([]))
    | method | width, visits | seeds | error % | loss | lowest loss | last error % | last loss |
    |---|---|---|---|---|---|---|---|

    """
    heads = ["method", "width, visits", "seeds", "error %", "loss", "lowest loss"]
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(_described(line, lines), []).append(line)
    rows = []
    for name, group in groups.items():
        width, visits = group[0]["settings"]["width"], group[0]["visits"]
        numbers = [
            with_spread([100 * line["test_error"] for line in group], 1),
            with_spread([line["test_loss"] for line in group], 2),
            with_spread([line["best_loss_test_loss"] for line in group], 2),
            with_spread([100 * line["last_test_error"] for line in group], 1),
            with_spread([line["last_test_loss"] for line in group], 2),
        ]
        rows.append([name, f"{width}, {visits:g}", str(len(group)), *numbers])
    return table([*heads, "last error %", "last loss"], rows)


def _described(line: Line, lines: Sequence[Line]) -> str:
    """The method, with those of its settings that differ between its lines."""
    usual = asdict(Settings())
    alike = [usual | other["settings"] for other in lines if other["method"] == line["method"]]
    varied = [name for name in usual if len({each[name] for each in alike}) > 1 and name != "seed"]
    settings = usual | line["settings"]
    return ", ".join([line["method"], *(f"{name} {settings[name]}" for name in varied)])


def draw_labels(lines: Sequence[Line], path: Path) -> None:
    """Draw, over visits: imputed labels right, the model's accuracy, and the gradients' cosine."""
    figure, (left, right) = canvas(1, 2, (9, 3.6))
    for place, line in enumerate(lines):
        curve, color = line["curve"], f"C{place}"
        visits = [step / line["steps"] * line["visits"] for step in curve["step"]]
        name = _described(line, lines).replace("_", " ")
        accuracy = [100 * (1 - error) for error in curve["validation_error"]]
        left.plot(visits, accuracy, color=color, linestyle="--")
        labels = [100 * value for value in curve["imputed_accuracy"]]
        left.plot(visits, labels, color=color, label=name)
        right.plot(visits, curve["lga/cosine"], color=color, label=name)
    left.set(xlabel="visits of each unlabeled image", ylim=(30, 90))
    left.set_ylabel("imputed labels right (%); dashed: the model")
    right.set(xlabel="visits of each unlabeled image", ylabel="cosine of $g_\\ell$ and $g_u$")
    right.axhline(0, color="grey", linewidth=0.5)
    for axes in (left, right):
        axes.legend(fontsize="x-small", frameon=False)
    save(figure, path)


def draw_wrong_labels(trial: Trial, path: Path) -> None:
    """Draw, for each class, the images whose imputed label is wrong and most certain."""
    (labels,) = (m for m in trial.run.trainer.objective.modules() if isinstance(m, LabelTable))
    rows, names = trial.task.unlabeled, SETS[trial.settings.data].CLASSES
    certainty, imputed = torch.cat([some for _, some in labels.parts()]).max(-1)
    true = trial.task.classes[rows]
    figure, panels = canvas(len(names), SHOWN, (SHOWN, 1.15 * len(names)))
    for panel in panels:
        panel.set_axis_off()
    for label, name in enumerate(names):
        mine = (true == label).nonzero()[:, 0]
        wrong = mine[imputed[mine] != label]
        right = 100 * (1 - len(wrong) / max(1, len(mine)))
        first = panels[label * SHOWN]
        first.text(-0.1, 0.5, f"{name}\n{right:.0f} % right", ha="right", transform=first.transAxes)
        most = wrong[certainty[wrong].argsort(descending=True)[:SHOWN]]
        for panel, place in zip(panels[label * SHOWN :], most.tolist(), strict=False):
            panel.imshow(
                trial.task.images[rows[place]].movedim(0, -1).squeeze(-1).numpy(), cmap="gray"
            )
            panel.set_title(f"{names[imputed[place]]} {certainty[place]:.2f}", fontsize=7)
    save(figure, path)
