"""The trainings of a fit in several processes, each with its share of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from labelgrad.fitting.contest import Contest
from labelgrad.fitting.plan import Plan
from labelgrad.inputs.dataset import Dataset
from labelgrad.training.parallel import History, Progress, finish_all

MOST = 8


def usual_workers(device: str) -> int:
    """A process for each core, few enough to share the trainings; a GPU has one."""
    return min(MOST, os.cpu_count() or 1) if device == "cpu" else 1


def train_side_by_side(
    source: Dataset, plan: Plan, folder: Path, *, workers: int, progress: Progress
) -> None:
    """Bring all trainings to their end; what they learned is in the folder."""
    # As NumPy arrays the examples are copied: PyTorch's shared memory is often too small for them.
    arrays = replace(source, x=source.x.numpy(), y=source.y.numpy())  # type: ignore[arg-type]
    jobs = {
        f"training {index + 1}/{workers}": {
            "source": arrays,
            "plan": plan,
            "folder": folder,
            "share": (index, workers),
        }
        for index in range(workers)
    }
    finish_all(Share, jobs, workers=workers, progress=progress)


class Share:
    """Some of the trainings as one piece of work."""

    history: History = []  # noqa: RUF012 - each training keeps its own in the folder

    def __init__(self, source: Any, plan: Plan, folder: Path, share: tuple[int, int]):
        tensors = replace(source, x=torch.from_numpy(source.x), y=torch.from_numpy(source.y))
        self._contest = Contest(tensors, plan, folder=folder, share=share)
        self.steps = plan.steps * len(self._contest.trainings)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for loss in self._contest.losses():
            yield {"step": self._contest.done, "loss": loss}
