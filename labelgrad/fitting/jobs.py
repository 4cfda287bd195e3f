"""The trainings of a fit as jobs for other processes, of this machine or of any other.

Processes of this machine leave what they learn in the run's folder. One that does not see that
folder gets along with its job what is there already, and gives back what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch
from torch import nn

from labelgrad.files import replace_all
from labelgrad.fitting.cross_validation import (
    FOLDS,
    CrossValidation,
    OnProgress,
    Record,
    share_of,
)
from labelgrad.fitting.plan import Plan
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.mapped import received, to_send
from labelgrad.training.parallel import History, finish_all

Files = dict[str, bytes]  # contents by their names in a folder


class TrainingJob:
    """A cross-validation, or a share of one, as work for another process."""

    def __init__(self, dataset: Dataset, plan: Plan, **options: Any):
        self.trained = CrossValidation(as_tensors(dataset), plan, **options)
        self.steps = self.trained.total

    def __iter__(self) -> Iterator[Record]:
        for record in self.trained.records():
            yield {"step": self.trained.done, "loss": record["loss"]}

    @property
    def history(self) -> History:
        """Nothing: what was learned is in the folder."""
        return []


class SentJob:
    """The same for a process that may not see the run's folder: `begun` is what is in it so far."""

    def __init__(self, dataset: Dataset, plan: Plan, *, begun: Files, **options: Any):
        self._begun, self._make = begun, partial(TrainingJob, dataset, plan, **options)
        self.steps, self.history = 0, History()

    def __iter__(self) -> Iterator[Record]:
        with TemporaryDirectory() as spare:
            folder = Path(spare)
            replace_all({folder / name: content for name, content in self._begun.items()})
            job = self._make(folder=folder)
            self.steps = job.steps
            yield from job
            found = files_in(folder)
        self.history = [{"file": name, "content": content} for name, content in found.items()]


def files_in(folder: Path, among: str = "*") -> Files:
    """What trainings have written, all or one of them; metrics come before checkpoints."""
    paths = [path for each in folder.glob(among) for path in sorted(each.rglob("*"), reverse=True)]
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in paths if path.is_file()
    }


def used_workers(workers: int, plan: Plan) -> int:
    """So many of the processes have a training to do.

    >>> used_workers(100, Plan("lga", "mlp", steps=10))
    6
    """
    return min(workers, most_workers(plan))


def most_workers(plan: Plan) -> int:
    """No more processes than this find a training to do."""
    return FOLDS + len(plan.methods)


def train_shares(
    dataset: Dataset,
    plan: Plan,
    model: nn.Module | None,
    folder: Path,
    device: str,
    workers: int,
    on_progress: OnProgress | None,
    executor: Executor | None = None,
) -> None:
    """Bring all trainings to their end in several processes; what they learned is in the folder.

    They are `workers` of this machine, or those of an `executor`, which are handed all they need.
    """
    workers = used_workers(workers, plan)
    handed = as_arrays(dataset, by_path=executor is None)
    same = {"dataset": handed, "plan": plan, "model": model, "device": device}
    jobs: dict[str, dict[str, Any]] = {
        f"training {index + 1}/{workers}": same | {"share": (index, workers)}
        for index in range(workers)
    }
    told = Callbacks(on_progress)
    if executor is None:
        for job in jobs.values():
            job["folder"] = folder
        finish_all(TrainingJob, jobs, workers=workers, progress=told)
        return
    for job in jobs.values():
        mine = [name for name, *_ in share_of(dataset, plan, job["share"])]
        job["begun"] = {k: v for name in mine for k, v in files_in(folder, name).items()}

    def keep(name: str, found: History) -> None:
        contents = {folder / each["file"]: each["content"] for each in found}
        replace_all(contents)
        for file in jobs[name]["begun"]:
            if folder / file not in contents:
                (folder / file).unlink()  # a checkpoint of before

    finish_all(SentJob, jobs, workers=workers, progress=told, when_done=keep, executor=executor)


def as_arrays(dataset: Dataset, *, by_path: bool = True) -> Dataset:
    """The dataset to hand to another process; what the examples looked like stays here.

    Of examples in a file only the path is sent, if `by_path` says that it is of this machine.
    """
    x: Any = to_send(dataset.x, by_path=by_path)
    y: Any = dataset.y.numpy()
    raw: Any = None if dataset.raw is None else to_send(dataset.raw, by_path=by_path)
    return replace(dataset, x=x, y=y, raw=raw, originals=None)


def as_tensors(dataset: Dataset) -> Dataset:
    """The dataset that another process handed over."""
    raw = None if dataset.raw is None else received(dataset.raw)
    return replace(dataset, x=received(dataset.x), y=torch.as_tensor(dataset.y), raw=raw)


class Callbacks:
    """What several processes tell (see `labelgrad.training.parallel.Progress`), passed on."""

    def __init__(
        self,
        on_progress: OnProgress | None,
        on_count: Callable[[int, int], None] | None = None,
    ):
        self.update = on_progress or (lambda name, done, total, loss: None)
        self.count = on_count or (lambda done, total: None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
