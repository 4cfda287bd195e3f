"""What one slope says of a label, measured with a network that is half trained.

The slope of label i is J_i D (g_ℓ − g_u). With y = p (the label is the model's own prediction) and
without g_ℓ nothing is left; with other labels g_u holds example i itself, which pulls y_i towards
p_i. What the true labels add is the difference that g_ℓ makes, by how many labeled images it is
the mean of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.whole.settings import Settings
from experiments.whole.trial import Task, as_inputs, recipe
from labelgrad import CrossEntropy
from labelgrad.functional import flat_gradient
from labelgrad.labels.alignment import Gap, forward_mode
from labelgrad.step import Batch, Step

BATCH, BATCHES = 150, 6
POWERS = (0.0, 0.25, 0.5)


def slope_accuracy(settings: Settings, data: str | Path | None = None) -> list[dict[str, Any]]:
    """How often the class that a slope raises most is right, for labels and gradients of each kind.

    Parameters
    ----------
    settings : Settings
        The supervised training that makes the network.
    data : str, optional
        Folder of the data sets.

    Returns
    -------
    list of dict
        One for each kind of label, labeled gradient and metric: `right`, the share of images
        whose true class the slope raises most, and `right_where_wrong`, the same among images
        that the model gets wrong. A class drawn at random would be right 0.10 and about 0.11.

    """
    settings = replace(settings, method="supervised", autocast=False)
    task = Task.of(settings, data)
    trainer = recipe(settings, task).trainer()
    for _ in range(settings.steps(len(task.unlabeled))):
        trainer.step()
    hidden = task.unlabeled[~torch.isin(task.unlabeled, task.labeled)]
    generator = torch.Generator().manual_seed(settings.seed)
    order = hidden[torch.randperm(len(hidden), generator=generator)]
    few = task.labeled[torch.randperm(len(task.labeled), generator=generator)]
    model = trainer.model
    gradients = {
        "none": 0 * _gradient(model, task, few[:50]),
        "50 labels": _gradient(model, task, few[:50]),
        f"{len(few)} labels": _gradient(model, task, few),
    }
    found: dict[tuple[str, str, float], list[Tensor]] = {}
    for rows in order[: BATCH * BATCHES].split(BATCH):
        for key, right, wrong in _answers(model, task, rows, gradients):
            found.setdefault(key, []).append(torch.stack([right, right & wrong, wrong]).sum(1))
    totals = {key: torch.stack(counts).sum(0).tolist() for key, counts in found.items()}
    return [
        {
            "labels": labels,
            "gradient": gradient,
            "power": power,
            "right": round(right / (BATCH * BATCHES), 4),
            "right_where_wrong": round(both / wrong, 4),
            "model_right": round(1 - wrong / (BATCH * BATCHES), 4),
        }
        for (labels, gradient, power), (right, both, wrong) in totals.items()
    ]


def _gradient(model: nn.Module, task: Task, rows: Tensor) -> Tensor:
    """The mean gradient of the labeled loss on these images."""
    params = {name: p for name, p in model.named_parameters() if p.requires_grad}
    parts = []
    for some in rows.split(500):
        loss = CrossEntropy()(model(as_inputs(task.images[some])), task.classes[some])
        parts.append(flat_gradient(loss, params, keep_graph=False) * len(some) / len(rows))
    return torch.stack(parts).sum(0)


def _answers(
    model: nn.Module, task: Task, rows: Tensor, gradients: dict[str, Tensor]
) -> Iterator[tuple[tuple[str, str, float], Tensor, Tensor]]:
    """For each kind: where the slope raises the true class most, and where the model is wrong."""
    batch = Batch(as_inputs(task.images[rows]), None, rows)
    true = task.classes[rows]
    step = Step(model, batch, batch)
    predicted = step.unlabeled_outputs.detach().softmax(-1)
    wrong = predicted.argmax(-1) != true
    uniform = torch.full_like(predicted, 1 / predicted.shape[1])
    for kind, labels in (("uniform", uniform), ("prediction", predicted)):
        pull = step.gradient(step.loss(step.unlabeled_outputs, labels))
        for name, gradient in gradients.items():
            for power in POWERS:
                # `Gap` needs a g_ℓ; both averages are of one value here.
                gap = Gap(gradient_decay=0, moment_decay=0, epsilon=1e-12, power=power)
                slope = forward_mode(step, gap(gradient, pull)[1])
                yield (kind, name, power), (-slope).argmax(-1) == true, wrong
