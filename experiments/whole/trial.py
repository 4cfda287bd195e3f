"""One trial: the images by role, the training, and the line of results that it ends in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from experiments.common import Line, revision
from experiments.datasets.image_sets import load
from experiments.paper.splits import split_rows
from experiments.whole.methods import objective
from experiments.whole.network import FastNet, whitening_filters
from experiments.whole.settings import MIRRORED, VALIDATION, Settings
from labelgrad.augment.views import ImageViews
from labelgrad.training.batches import Examples, TensorBatches
from labelgrad.training.recipe import Recipe, Run

SAMPLE = 2_000  # images whose patches the stem whitens
CHECKPOINTS = 0.05  # fraction of the steps between two of them
MEASURES = ("error", "loss", "ece")


@dataclass(frozen=True)
class Triangle:
    """A learning rate that rises from near 0 to `top` over `warm_up` steps, then falls to 0.

    Examples
    --------
    >>> rate = Triangle(top=1.0, warm_up=10, steps=110)
    >>> [round(rate(step), 2) for step in (4, 9, 60, 109)]
    [0.5, 1.0, 0.5, 0.01]

    """

    top: float
    warm_up: float
    steps: int

    def __call__(self, step: int) -> float:
        rise = (step + 1) / max(1.0, self.warm_up)
        fall = (self.steps - step) / max(1.0, self.steps - self.warm_up)
        return self.top * min(rise, fall, 1.0)


@dataclass(frozen=True)
class HalfStrong:
    """Views of which half are strong: what supervised training gains by augmentation alone."""

    views: ImageViews

    def weak(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The first half of a batch as strong views, the rest as weak ones."""
        half = len(x) // 2
        strong, weak = self.views.strong(x[:half], generator), self.views.weak(x[half:], generator)
        return torch.cat([strong, weak])

    def strong(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Strong views."""
        return self.views.strong(x, generator)


@dataclass(frozen=True)
class Task:
    """The images of a trial by role, as bytes, and the labels that training may use."""

    images: Tensor  # all for training, validation included
    classes: Tensor
    targets: Tensor  # (images, classes), smoothed; read for labeled images alone
    labeled: Tensor
    unlabeled: Tensor
    validation: Tensor
    test: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, settings: Settings, folder: str | Path | None = None) -> Task:
        """The task of a trial: the split depends on the seed alone."""
        found = load(settings.data, folder, rebuilt=settings.data == "svhn")
        images, classes = found.train
        given = {"labels": settings.labels, "seed": settings.seed}
        rows = split_rows(classes, **given, validation=VALIDATION[settings.data])
        width, smoothing = len(found.classes), settings.label_smoothing
        targets = F.one_hot(classes, width) * (1 - smoothing) + smoothing / width
        parts = rows.labeled, rows.unlabeled, rows.validation
        return cls(images, classes, targets, *parts, found.test)


def as_inputs(images: Tensor) -> Tensor:
    """Bytes as numbers from −1 to 1, with the channels last in memory."""
    return (images.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)


def recipe(settings: Settings, task: Task, device: str = "cpu") -> Recipe:
    """The training of a trial."""
    steps = settings.steps(len(task.unlabeled))
    sample = as_inputs(task.images[task.unlabeled[:SAMPLE]])
    width = task.targets.shape[1]

    def network() -> torch.nn.Module:
        made = FastNet(whitening_filters(sample), width, settings.width)
        return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    draw = partial(TensorBatches, task.images, seed=settings.seed, transform=as_inputs)
    labeled = draw(task.targets, rows=task.labeled, batch_size=settings.labeled_batch)
    unlabeled = draw(rows=task.unlabeled, batch_size=settings.unlabeled_batch)
    views = ImageViews(mirror=settings.data in MIRRORED, pixels=settings.pixels)
    return Recipe(
        network,
        lambda: objective(settings, len(task.unlabeled), width),
        labeled,
        None if settings.method == "supervised" else unlabeled,
        steps=steps,
        learning_rate=Triangle(settings.learning_rate, settings.warm_up * steps, steps),
        optimizer=partial(torch.optim.AdamW, weight_decay=settings.weight_decay, fused=True),
        views=HalfStrong(views) if settings.half_strong else views,
        weight_average=settings.weight_average,
        autocast=torch.bfloat16 if settings.autocast else None,
        seed=settings.seed,
        device=device,
    )


class Trial:
    """A training with its folder; iterate for its evaluations, then read `line`.

    Validation images are evaluated in the course of training. With `test` the test images are
    evaluated beside them, and choose nothing.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        *,
        data: str | Path | None = None,
        test: bool = False,
        device: str = "cpu",
    ):
        task = Task.of(settings, data)
        rows = Examples(task.images, task.classes, task.validation, as_inputs)
        examples: dict[str, Any] = {"validation": rows}
        if test:
            examples["test"] = Examples(*task.test, transform=as_inputs)
        self.settings, self.task = settings, task
        made = recipe(settings, task, device)
        self.run: Run = made.run(
            folder=folder,
            examples=examples,
            truth=task.classes[task.unlabeled],
            evaluate_every=max(1, made.steps // settings.evaluations),
            checkpoint_every=max(1, round(CHECKPOINTS * made.steps)),
        )

    def __iter__(self) -> Iterator[Line]:
        began, first = time.monotonic(), self.run.trainer.index
        for record in self.run:
            if "validation_error" not in record:
                continue
            done = self.run.trainer.index - first
            left = (self.run.steps - self.run.trainer.index) / done * (time.monotonic() - began)
            yield record | {"visits": self.visits(record["step"]), "seconds_left": round(left)}

    def visits(self, step: int) -> float:
        """How often each unlabeled image was drawn up to a step."""
        return round(step * self.settings.unlabeled_batch / len(self.task.unlabeled), 2)

    @property
    def line(self) -> Line:
        """The finished trial in one line; steps are chosen by validation images alone."""
        seen = self.run.history
        chosen: dict[str, Callable[[Line], float]] = {
            "": lambda line: line["validation_error"],
            "best_loss_": lambda line: line["validation_loss"],
            "last_": lambda line: -line["step"],
        }
        found: Line = {}
        for prefix, key in chosen.items():
            best = min(seen, key=key)
            names = [f"{part}_{m}" for part in ("validation", "test") for m in MEASURES]
            found |= {f"{prefix}{n}": round(best[n], 5) for n in ("step", *names) if n in best}
        curve = ("step", "validation_error", "validation_loss", "imputed_accuracy", "lga/cosine")
        return {
            "scale": "whole",
            "method": self.settings.method,
            "labels": self.settings.labels,
            "seed": self.settings.seed,
            **found,
            "steps": self.run.steps,
            "visits": self.visits(self.run.steps),
            "seconds": round(self.run.seconds),
            "settings": asdict(self.settings),
            "curve": {n: [round(r[n], 5) for r in seen] for n in curve if n in seen[-1]},
            "revision": revision()["revision"],
        }
