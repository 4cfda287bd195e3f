"""Several runs side by side, each in a process of its own, with their progress in one place."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from queue import Empty, Queue
from typing import Any, cast

from labelgrad.cli.progress import Progress
from labelgrad.training.run import Run

Settings = dict[str, Any]
Told = tuple[str, int, int, float]
PAUSE = 0.1  # seconds between two looks at how far a run has come

_told: Queue[Told] | None = None  # in a worker: where it tells its progress


def finish_all(
    make: Callable[..., Run], jobs: Mapping[str, Settings], *, workers: int, progress: Progress
) -> dict[str, list[dict[str, Any]]]:
    """Run every job to its end; gives the history of each under its name."""
    context = get_context("spawn")  # a forked PyTorch can hang
    told = cast("Queue[Told]", context.Manager().Queue())
    count = min(workers, len(jobs))
    with progress, ProcessPoolExecutor(count, context, _begin, (told,)) as pool:
        futures = {
            pool.submit(_finish, name, make, settings): name for name, settings in jobs.items()
        }
        try:
            _watch(set(futures), told, progress)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return {name: future.result() for future, name in futures.items()}


def _watch(futures: set[Future[Any]], told: Queue[Told], progress: Progress) -> None:
    waiting = futures
    while waiting:
        done, waiting = wait(waiting, timeout=PAUSE)
        _pass_on(told, progress)
        for future in done:
            future.result()  # an error in a worker is an error here


def _pass_on(told: Queue[Told], progress: Progress) -> None:
    while True:
        try:
            progress.update(*told.get_nowait())
        except Empty:
            return


def _begin(told: Queue[Told]) -> None:
    import torch

    global _told
    _told = told
    torch.set_num_threads(1)  # the runs share the cores; their threads would only fight


def _finish(name: str, make: Callable[..., Run], settings: Settings) -> list[dict[str, Any]]:
    run, last = make(**settings), 0.0
    for record in run:
        if time.monotonic() - last > PAUSE or record["step"] == run.steps:
            last = time.monotonic()
            _tell(name, record["step"], run.steps, record["loss"])
    return run.history


def _tell(*what: Any) -> None:
    if _told is not None:
        _told.put(cast("Told", what))
