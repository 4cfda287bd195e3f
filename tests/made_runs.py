"""Runs made by hand, as `fit` would leave them, of which the truth is known."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from labelgrad.fitting.labels import Example, ImputedLabel
from labelgrad.fitting.provenance import UNKNOWN
from labelgrad.fitting.result import Result

CLASSES = ("cat", "cow", "dog")


def made_run(
    folder: Path | None = None,
    *,
    rows=1000,
    labels=80,
    right=0.9,
    origin=UNKNOWN,
    task="classification",
    seed=0,
):
    """A run of `rows` rows, the first `labels` of them given, and the truth of each by its name.

    What the pool says is right as often as it claims, on average `right`.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    sure = 1 - np.clip(rng.beta(0.5, 0.5 * right / (1 - right), rows), 0, 0.6)
    truth = rng.integers(0, 3, rows)
    said = np.where(rng.random(rows) < sure, truth, (truth + rng.integers(1, 3, rows)) % 3)
    names = [f"{row:04}.png" for row in range(rows)]
    is_value = task == "regression"
    values, off = rng.normal(5.0, 2.0, rows), rng.normal(0.0, 0.5, rows)
    others = (1 - sure)[:, None] / 2
    pool = np.where(np.eye(3)[said] > 0, sure[:, None], others)
    known = {
        name: float(value) if is_value else CLASSES[label]
        for name, label, value in zip(names, truth, values, strict=True)
    }
    imputed = [
        ImputedLabel(names[row], *(2 * (float(values[row] + off[row]), None)), True, None, None)
        if is_value
        else ImputedLabel(
            names[row], *(2 * (CLASSES[said[row]], float(sure[row]))), True, 0.1, None
        )
        for row in range(labels, rows)
    ]
    examples = [
        Example(
            name, known[name] if row < labels else None, origin=origin if row < labels else None
        )
        for row, name in enumerate(names)
    ]
    hidden = np.arange(labels)
    held_out = {
        "rows": hidden,
        "y": values[hidden] if is_value else truth[hidden],
        "said by pool": (values + off)[hidden, None] if is_value else np.log(pool[hidden]),
        "said by linear": (values + off)[hidden, None] if is_value else np.log(pool[hidden]),
        "fold": hidden % 4,
        "means by fold": np.tile(
            (values + off)[labels:].mean() if is_value else pool[labels:].mean(0), (4, 1)
        ).reshape(4, -1),
    }
    config = SimpleNamespace(key="file", classes=() if is_value else CLASSES, task=task)
    summary = SimpleNamespace(task=task, plan=SimpleNamespace(seed=0), learned_from=None)
    return Result(
        SimpleNamespace(config=config), summary, imputed, held_out, "", folder, examples
    ), known
