"""The trainings of a fit, step by step: all at once or in turn, within a time, until Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import torch
from torch import nn

from labelgrad.fitting.cross_validation import CrossValidation, OnProgress, Record
from labelgrad.fitting.jobs import train_shares
from labelgrad.fitting.plan import HEAD, MOST_STEPS, Plan
from labelgrad.inputs.base import Dataset
from labelgrad.training.stackable import stacks
from labelgrad.training.stacked import advance
from labelgrad.training.trainer import Trainer

WARM_UP, MEASURED, LONGEST = 2, 20, 2.0  # steps, steps, seconds: to see how long a step takes
FOR_STEPS = 0.85  # of a time budget; the rest is for evaluation and files
TOGETHER = 0.85  # of their number is how much faster several processes are


def train(
    dataset: Dataset,
    plan: Plan,
    model: nn.Module | None,
    folder: Path | None,
    device: str,
    workers: int,
    on_progress: OnProgress | None,
    on_record: Callable[[Record], None] | None,
    executor: Executor | None = None,
) -> CrossValidation:
    """All trainings of a plan, as far as they came before somebody stopped them."""
    by_others = workers > 1 or executor is not None
    if by_others and plan.network != HEAD:  # linear heads are done before a process has begun
        with TemporaryDirectory() as spare:  # what processes learn, they hand over in a folder
            place = Path(spare) if folder is None else folder
            with suppress(KeyboardInterrupt):
                train_shares(dataset, plan, model, place, device, workers, on_progress, executor)
            return CrossValidation(dataset, plan, model=model, folder=place, device=device)
    trained = CrossValidation(dataset, plan, model=model, folder=folder, device=device)
    with stopping() as stopped:
        for record in trained.records():
            if on_record is not None and trained.group.rank == 0:
                on_record(record)
            if on_progress is not None:
                on_progress("training", trained.done, trained.total, record["loss"])
            if trained.group.any(stopped()):
                break
    return trained


def affordable_steps(
    dataset: Dataset,
    plan: Plan,
    model: nn.Module | None,
    device: str,
    minutes: float,
    *,
    workers: int = 1,
) -> int:
    """So many steps as fit into the time, judged by the first few, which are thrown away."""
    tried = CrossValidation(dataset, plan, model=model, device=device)
    longest, each = min(LONGEST, 60 * minutes / 20), 0.0
    for method in plan.methods:
        trainers = [t.run.trainer for t in tried.trainings if t.method == method]
        groups = [[trainers[place] for place in places] for places in stacks(trainers)]
        alone = [group for group in groups if len(group) == 1]
        each += sum(_seconds_a_step(group, longest) for group in groups if len(group) > 1)
        if alone:  # one of them tells for all
            each += len(alone) * _seconds_a_step(alone[-1], longest)
    side_by_side = 1 if workers == 1 else TOGETHER * workers
    steps = max(1, int(min(FOR_STEPS * 60 * minutes * side_by_side / each, MOST_STEPS)))
    return tried.group.first(lambda: steps)  # clocks differ


def _seconds_a_step(trainers: Sequence[Trainer], longest: float) -> float:
    """What a step of trainers that advance together takes."""
    moves = advance(trainers, WARM_UP + MEASURED)
    for _ in range(WARM_UP):
        next(moves)
    began, taken, group = time.perf_counter(), 0, trainers[0].group
    while taken < MEASURED:
        next(moves)
        taken += 1
        if group.any(time.perf_counter() - began >= longest):
            break
    return (time.perf_counter() - began) / taken


@contextmanager
def stopping(*, warn: str | None = None, pressed: bool = False) -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C a wish that can be asked for, and the second one the usual end.

    The first is answered by a warning, if there is one. It may have been `pressed` before.
    """
    asked = [signal.SIGINT] if pressed else []

    def ask(signum: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(signal.SIGINT)
        if warn is not None:
            warnings.warn(warn, stacklevel=1)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def one_thread(alone: bool) -> Iterator[None]:
    """Where processes share the cores, or products are too small for threads, one is enough."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if alone else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
