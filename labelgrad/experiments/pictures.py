"""Pictures with few labels: the evaluation of the paper's Section 4, by the protocol's rules.

A trial is one method on one split. Reported is the test error at the step of the best validation
error; the last step's is kept beside it. The split, the network's first weights and the batches
depend on the seed alone, so every method of a seed starts from the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelgrad.data.picture_sets import PictureSet, load
from labelgrad.data.splits import Rows, split_rows
from labelgrad.data.stream import Stream, mixed_seed
from labelgrad.data.views import Pictures
from labelgrad.experiments.results import Line
from labelgrad.experiments.settings import Choice, choice
from labelgrad.functional import random_numbers
from labelgrad.methods import Problem, method
from labelgrad.models.wide_resnet import WideResNet
from labelgrad.schedules import Drop
from labelgrad.training.run import Run
from labelgrad.training.trainer import Trainer

BATCH = 50  # labeled, and again as many unlabeled
KNOWN = {"cifar10": (2, 3, 4, 5, 6, 7)}  # the animals, as the protocol has it; else the first six
VIEWS = {
    "cifar10": Pictures(),
    "svhn": Pictures(mirror=False),
    "fashion-mnist": Pictures(mirror=False),  # every shoe points to the left
    "digits": Pictures(mirror=False, pixels=1),
}
MEASURED = ("validation_error", "validation_loss", "test_error", "test_loss")


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


PROTOCOL = {"cifar10": 5000, "svhn": 7326, "fashion-mnist": 5000, "digits": 200}  # for validation
SIZES = {
    "paper": Size(28, 2, 1, 1e-3, None, PROTOCOL, None, 500_000, 5000),
    "laptop": Size(10, 1, 2, 1e-2, 5000, PROTOCOL, None, 4000, 400),
    "tiny": Size(10, 1, 2, 1e-1, 100, dict.fromkeys(PROTOCOL, 50), 100, 4, 2),
}


@dataclass(frozen=True)
class Task:
    """Which trial: every field stands in its line of the results.

    >>> Task("fashion-mnist", "lga", labels=250, seed=3).split
    'fashion-mnist.3@250'
    """

    data: str
    method: str
    labels: int
    seed: int
    imbalance: float = 1.0
    foreign: float | None = None

    @property
    def split(self) -> str:
        """The name of the split: data, seed and labels."""
        return f"{self.data}.{self.seed}@{self.labels}"


class PictureTrial:
    """One method on one split; iterate to train, then look at `history`, which is one line.

    With an `unfinished` folder the trial keeps its checkpoints there and goes on from them when it
    is built again; at its end the folder is removed. `settings` replace the method's own. Without
    `with_test` no test picture is looked at: a search for settings has no business with them.

    >>> task = Task("digits", "lga", labels=50, seed=0)
    >>> trial = PictureTrial(task, scale="tiny")
    >>> records = list(trial)
    >>> [trial.history[0][name] for name in ("split", "method", "last_step")]
    ['digits.0@50', 'lga', 4]
    """

    def __init__(
        self,
        task: Task,
        *,
        scale: str,
        data_folder: str | Path | None = None,
        unfinished: str | Path | None = None,
        settings: Choice | None = None,
        with_test: bool = True,
        device: str = "cpu",
    ):
        self.task, self.scale, self.steps = task, scale, SIZES[scale].steps
        self._unfinished = unfinished
        chosen = settings or choice(task.method, task.data, scale)
        pictures = load(task.data, data_folder)
        measured = ("validation", "test") if with_test else ("validation",)
        self.run = _prepare(task, SIZES[scale], chosen, pictures, unfinished, device, measured)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from self.run
        if self._unfinished is not None:
            shutil.rmtree(self._unfinished, ignore_errors=True)

    @property
    def history(self) -> list[Line]:
        """The one line of this trial."""
        seen = self.run.history
        best = self.run.best
        assert best is not None  # the last step is always evaluated
        chosen = next(line for line in seen if line["step"] == best.info["step"])
        head: Line = {"experiment": self.task.data, "scale": self.scale, "split": self.task.split}
        names = ["step", *(name for name in MEASURED if name in chosen)]
        curve = {name: [_rounded(line[name]) for line in seen] for name in names}
        return [
            {
                **head,
                **vars(self.task),
                **{name: _rounded(chosen[name]) for name in names},
                **{f"last_{name}": _rounded(seen[-1][name]) for name in names},
                **{k: _rounded(seen[-1][k]) for k in ("imputed_accuracy",) if k in seen[-1]},
                "seconds": round(self.run.seconds),
                "curve": curve,
            }
        ]


def scaled(x: Tensor) -> Tensor:
    """Bytes as numbers from -1 to 1."""
    return x.float() / 127.5 - 1


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(value, 5)


def _prepare(
    task: Task,
    size: Size,
    chosen: Choice,
    pictures: PictureSet,
    folder: str | Path | None,
    device: str,
    measured: tuple[str, ...],
) -> Run:
    known = _known(task, pictures)
    rows = _rows(task, size, pictures.train[1], known)
    examples = _examples(pictures, rows, known, size)
    model = _model(task, size, pictures, len(known)).to(device)
    streams = [
        Stream(*examples["labeled"], batch_size=min(BATCH, task.labels), seed=task.seed),
        Stream(examples["unlabeled"][0], batch_size=BATCH, seed=task.seed),
    ]
    problem = Problem(len(streams[1]), len(known), BATCH, size.steps)
    trainer = Trainer(
        model,
        method(task.method, problem, chosen.terms),
        *streams,
        learning_rate=Drop(chosen.learning_rate, at=0.8 * size.steps),
        views=VIEWS[task.data],
        seed=task.seed,
    )
    return Run(
        trainer,
        steps=size.steps,
        folder=folder,
        examples={name: examples[name] for name in measured},
        truth=examples["unlabeled"][1],
        evaluate_every=size.every,
        checkpoint_every=size.every,
    )


def _known(task: Task, pictures: PictureSet) -> tuple[int, ...]:
    """The classes that labels are of: all, or some where the others are foreign."""
    if task.foreign is None:
        return tuple(range(len(pictures.classes)))
    return KNOWN.get(task.data, tuple(range(6)))


def _rows(task: Task, size: Size, y: Tensor, known: tuple[int, ...]) -> Rows:
    validation = size.validation[task.data]
    enough = size.unlabeled is not None and size.unlabeled < len(y) - validation
    return split_rows(
        y,
        labels=task.labels,
        seed=task.seed,
        validation=validation,
        unlabeled=size.unlabeled if enough else None,
        imbalance=task.imbalance,
        known=known,
        foreign=task.foreign,
    )


def _examples(
    pictures: PictureSet, rows: Rows, known: tuple[int, ...], size: Size
) -> dict[str, tuple[Tensor, Tensor]]:
    """Pictures by role, their values from -1 to 1, and their classes, counted among the known."""
    place = torch.full((len(pictures.classes),), -1)
    place[list(known)] = torch.arange(len(known))
    x, y = pictures.train
    test = torch.isin(pictures.test[1], torch.tensor(known)).nonzero().squeeze(1)[: size.test]
    parts = {name: (x[mine], y[mine]) for name, mine in vars(rows).items()}
    parts["test"] = pictures.test[0][test], pictures.test[1][test]
    return {name: (scaled(x), place[y]) for name, (x, y) in parts.items()}


def _model(task: Task, size: Size, pictures: PictureSet, classes: int) -> WideResNet:
    with random_numbers(torch.device("cpu"), mixed_seed(task.seed, 2)):
        model = WideResNet(
            size.depth,
            size.width,
            classes=classes,
            channels=pictures.train[0].shape[1],
            stem_stride=size.stem_stride,
            momentum=size.momentum,
        )
    # Faster on a CPU and on a GPU; PyTorch's own annotations lack this form of the call.
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
