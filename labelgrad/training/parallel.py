"""Several pieces of work side by side, each in a process of its own, their progress in one place.

Ctrl-C is the parent's affair: workers do not hear it, and are ended by the parent. What they have
written down by then is whole, because it is always written beside its final name or in one go.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from math import nan
from multiprocessing import active_children, get_context
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from threading import Lock
from types import TracebackType
from typing import Any, Protocol, Self, cast

from labelgrad.child import begin_child
from labelgrad.group import here

Settings = dict[str, Any]
History = list[dict[str, Any]]
Told = tuple[str, int, int, float]
PAUSE = 0.1  # seconds between two looks at how far the work has come
RETRIES = 2  # new pools in a row after a process died, with no job done between

_told: SimpleQueue[Told] | None = None  # in a worker: where it tells its progress
_in_turn = Lock()
_elsewhere = False  # whether a job of somebody else's executor is under way here


class Work(Protocol):
    """Something done in steps: iterating does it, with a record of `step` and `loss` for each."""

    steps: int

    def __iter__(self) -> Iterator[dict[str, Any]]: ...

    @property
    def history(self) -> History:
        """What was measured on the way."""


class Progress(Protocol):
    """Told of every piece of work by its name; shows it somehow."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def update(self, name: str, done: int, total: int, loss: float) -> None:
        """`name` has done so many of its steps, and its loss is this."""

    def count(self, done: int, total: int) -> None:
        """So many pieces of work are done, of so many."""


def finish_all(
    make: Callable[..., Work],
    jobs: Mapping[str, Settings],
    *,
    workers: int,
    progress: Progress,
    when_done: Callable[[str, History], None] = lambda name, history: None,
    executor: Executor | None = None,
) -> dict[str, History]:
    """Do every job to its end; gives the history of each under its name.

    `when_done` is called here, in the parent, as each job ends, so that it can be kept at once.
    The jobs go to so many `workers`, processes of this machine, or to an `executor`, which may have
    others. A process of ours that dies costs its jobs a new beginning; an executor has its own way.
    Under `torchrun` its processes do one job after the other, each of them together.
    """
    group = here()
    jobs = group.first(lambda: dict(jobs))
    if group.size > 1 and executor is not None:
        raise ValueError(
            f"The {group.size} processes of torchrun do every job together, and an executor was "
            f"given to do them; use one of the two."
        )
    if not jobs:
        return {}
    if group.size > 1:
        return _one_by_one(make, jobs, progress, when_done)
    found: dict[str, History] = {}

    def keep(name: str, history: History) -> None:
        found[name] = history
        when_done(name, history)
        progress.count(len(found), len(jobs))

    with progress:
        progress.count(0, len(jobs))
        if executor is not None:
            _by_executor(executor, make, jobs, progress, keep)
        else:
            _by_pools(make, jobs, workers, progress, keep)
    return {name: found[name] for name in jobs}


def _by_executor(
    executor: Executor,
    make: Callable[..., Work],
    jobs: Mapping[str, Settings],
    progress: Progress,
    keep: Callable[[str, History], None],
) -> None:
    """Nothing is heard of a job before its end: it may be on another machine."""

    def ended(name: str, history: History) -> None:
        progress.update(name, 1, 1, nan)
        keep(name, history)

    futures: dict[Future[History], str] = {}
    try:
        for name, settings in jobs.items():
            job = executor.submit(_finish_elsewhere, name, make, settings, socket.gethostname())
            futures[job] = name
        _watch(futures, ended)
    except BaseException as error:
        for future in futures:
            future.cancel()
        if isinstance(error, (BrokenExecutor, CancelledError)):
            raise RuntimeError(
                "the executor ended before its jobs were done; build a new one, and see why the "
                "processes or the scheduler behind it went away."
            ) from error
        raise


def _by_pools(
    make: Callable[..., Work],
    jobs: Mapping[str, Settings],
    workers: int,
    progress: Progress,
    keep: Callable[[str, History], None],
) -> None:
    """A process that is killed takes its pool along; what is left to do goes to a new one."""
    left, in_vain = dict(jobs), 0

    def kept(name: str, history: History) -> None:
        nonlocal in_vain
        del left[name]
        in_vain = 0
        keep(name, history)

    while left:
        began = get_context("spawn").Event()
        try:
            _by_one_pool(make, left, workers, progress, kept, began)
        except BrokenProcessPool as error:
            in_vain += 1
            if not began.is_set() or in_vain > RETRIES:
                raise RuntimeError(
                    "a process ended before its work was done: it was killed, memory ran out, or a "
                    "script that trains in several processes does so outside of "
                    "`if __name__ == '__main__':`, where each of them would start anew."
                ) from error


def _by_one_pool(
    make: Callable[..., Work],
    jobs: Mapping[str, Settings],
    workers: int,
    progress: Progress,
    keep: Callable[[str, History], None],
    began: Event,
) -> None:
    _keep_memory()
    context = get_context("spawn")  # a forked PyTorch can hang
    told: SimpleQueue[Told] = context.SimpleQueue()  # what is put there is there at once
    count = min(workers, len(jobs))
    with ProcessPoolExecutor(count, context, _begin, (told, began)) as pool:
        try:
            futures = {
                pool.submit(_finish, name, make, settings): name for name, settings in jobs.items()
            }
            _watch(futures, keep, lambda: _pass_on(told, progress))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise


def _one_by_one(
    make: Callable[..., Work],
    jobs: Mapping[str, Settings],
    progress: Progress,
    when_done: Callable[[str, History], None],
) -> dict[str, History]:
    found: dict[str, History] = {}
    with progress:
        progress.count(0, len(jobs))
        for name, settings in jobs.items():
            work = make(**settings)
            for record in work:
                progress.update(name, record["step"], work.steps, record["loss"])
            found[name] = work.history
            when_done(name, found[name])
            progress.count(len(found), len(jobs))
    return found


def _watch(
    futures: Mapping[Future[History], str],
    keep: Callable[[str, History], None],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=PAUSE)
        meanwhile()
        # Those with a result first: a process that dies makes errors of all others of its pool.
        for future in sorted(done, key=_is_without_result):
            keep(futures[future], future.result())  # an error in a worker is an error here


def _is_without_result(future: Future[History]) -> bool:
    return future.cancelled() or future.exception() is not None


def _pass_on(told: SimpleQueue[Told], progress: Progress) -> None:
    while not told.empty():
        progress.update(*told.get())


def _keep_memory() -> None:
    # Each step frees all of its activations. Given back to the system, every page of them would
    # have to be asked for again a moment later, which is a tenth of a large step.
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**31))
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**31))


def _begin(told: SimpleQueue[Told], began: Event) -> None:
    import torch

    global _told
    began.set()
    _told = told
    begin_child()
    torch.set_num_threads(1)  # the workers share the cores; their threads would only fight


def _finish(name: str, make: Callable[..., Work], settings: Settings) -> History:
    work, last = make(**settings), 0.0
    for record in work:
        if time.monotonic() - last > PAUSE or record["step"] == work.steps:
            last = time.monotonic()
            _tell(name, record["step"], work.steps, record["loss"])
    return work.history


def _finish_elsewhere(
    name: str, make: Callable[..., Work], settings: Settings, home: str
) -> History:
    """A job in a process that may have several threads, and belongs to somebody else.

    PyTorch's random numbers and forward mode are the process's, so its jobs take turns. One thread
    each, as in a pool of ours: another number of them would round otherwise. What another machine
    than `home` lacks is told with that machine's name.
    """
    import torch

    global _elsewhere
    with _in_turn:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        _elsewhere = True
        try:
            return _finish(name, make, settings)
        except (ValueError, OSError, ImportError) as error:
            if (host := socket.gethostname()) == home:
                raise
            raise RuntimeError(f"on {host}: {error}") from None
        finally:
            _elsewhere = False
            torch.set_num_threads(before)


def is_elsewhere() -> bool:
    """Whether this is a job that was handed to an executor, which may be of another machine.

    >>> is_elsewhere()
    False
    """
    return _elsewhere


def _tell(*what: Any) -> None:
    if _told is not None:
        _told.put(cast("Told", what))
