"""The tasks of the image experiments: which data, how much of it, which part for what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from experiments.datasets.files import data_folder
from experiments.datasets.image_sets import ImageSet, load
from experiments.datasets.whitening import fit_once, from_bytes
from experiments.paper.splits import Rows, split_rows
from labelgrad.augment.views import ImageViews
from labelgrad.methods import every_method, parts

VIEWS = {
    "cifar10": ImageViews(),
    "svhn": ImageViews(mirror=False),
    "fashion-mnist": ImageViews(mirror=False),  # every shoe points to the left
    "digits": ImageViews(mirror=False, pixels=1),
}
NOISE = 0.15  # of whitened images, as the protocol has it


@dataclass(frozen=True)
class Size:
    """The network, how much of the data is used, and for how long."""

    depth: int
    width: int
    stem_stride: int
    momentum: float  # of the batch norms
    unlabeled: int | None  # all that are left, where none is said or there are no more
    validation: dict[str, int]
    test: int | None
    steps: int
    every: int  # steps between two evaluations
    joint_pass: bool  # whether batch norm sees labeled and unlabeled images as one batch
    whiten: tuple[str, ...] = ()  # the data that are whitened; the others are scaled to [-1, 1]


PROTOCOL = {"cifar10": 5000, "svhn": 7326, "fashion-mnist": 5000, "digits": 200}  # for validation
SIZES = {
    "paper": Size(28, 2, 1, 1e-3, None, PROTOCOL, None, 500_000, 5000, True, ("cifar10",)),
    "laptop": Size(10, 1, 2, 1e-2, 5000, PROTOCOL, None, 1500, 250, False),
    "tiny": Size(10, 1, 2, 1e-1, 100, dict.fromkeys(PROTOCOL, 50), 100, 4, 2, False),
}


def sized(scale: str, steps: int | None = None) -> Size:
    """The size of a scale, with another number of steps if one is given.

    >>> sized("laptop").steps, sized("laptop", 6000).steps
    (1500, 6000)
    """
    return SIZES[scale] if steps is None else replace(SIZES[scale], steps=steps)


@dataclass(frozen=True)
class Task:
    """Which trial.

    >>> task = Task("fashion-mnist", "lga", labels=250, seed=3)
    >>> task.split, task.line["labels"]
    ('fashion-mnist.3@250', 250)
    """

    data: str
    method: str
    labels: int
    seed: int
    rebuilt: bool = False  # whether the data's files are not the authors' own

    @property
    def split(self) -> str:
        """The name of the split: data, seed and labels."""
        return f"{self.data}.{self.seed}@{self.labels}"

    @property
    def name(self) -> str:
        """The name of the trial."""
        rebuilt = ", rebuilt" if self.rebuilt else ""
        return f"{self.method}, {self.labels} labels, seed {self.seed}{rebuilt}"

    @property
    def line(self) -> dict[str, Any]:
        """What its line of the results says of it; `rebuilt` stands there where it is so."""
        return {name: value for name, value in vars(self).items() if name != "rebuilt" or value}


@dataclass(frozen=True)
class Examples:
    """Images by role, with their classes, and the random views that suit them."""

    labeled: tuple[Tensor, Tensor]
    unlabeled: tuple[Tensor, Tensor]  # the classes here are for measuring only
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    classes: int
    views: ImageViews


def examples(task: Task, size: Size, folder: str | Path | None = None) -> Examples:
    """The examples of a task, out of the data folder.

    >>> digits = examples(Task("digits", "lga", labels=50, seed=0), SIZES["tiny"])
    >>> [len(part[0]) for part in (digits.labeled, digits.unlabeled, digits.test)]
    [50, 100, 100]
    """
    images = load(task.data, folder, rebuilt=task.rebuilt)
    rows = task_rows(task, size, images)
    prepare, views = _preparation(task, size, images, data_folder(folder))
    (x, y), (test_x, test_y) = images.train, images.test
    by_role = {name: (prepare(x[which]), y[which]) for name, which in vars(rows).items()}
    test = prepare(test_x[: size.test]), test_y[: size.test]
    return Examples(**by_role, test=test, classes=len(images.classes), views=views)


def task_rows(task: Task, size: Size, images: ImageSet) -> Rows:
    """The rows of the training images by role."""
    y, validation = images.train[1], size.validation[task.data]
    given = {"labels": task.labels, "seed": task.seed}
    return split_rows(y, **given, validation=validation, unlabeled=size.unlabeled)


def _preparation(
    task: Task, size: Size, images: ImageSet, folder: Path
) -> tuple[Callable[[Tensor], Tensor], ImageViews]:
    """How bytes become numbers, and the random views of them.

    Strong views need numbers of a known range, so methods that use them get no whitened images.
    """
    strong = any(every_method()[part].strong_views for part in parts(task.method))
    if task.data not in size.whiten or strong:
        return from_bytes, VIEWS[task.data]
    whiten = fit_once(images.train[0], folder / "whitening")
    return whiten, replace(VIEWS[task.data], noise=NOISE)
