"""The processes that train one model together: what they average, gather and agree on.

A process that is alone has a group, too, `ALONE`, in which each of these is nothing to do. So there
is one code path: a step, an objective or a run asks its group and does not care how many there are.

`torchrun` starts the processes; `here` joins them. Everything a training draws is a function of the
seed and the step, so each process knows the whole batch and takes its part of it (`rows`): so many
examples as any other, or those that it owns (`owned`), whose labels no other process has.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from labelgrad.files import leave_writing_to_another

T = TypeVar("T")
TIMEOUT = "LABELGRAD_TIMEOUT"  # an environment variable: seconds that processes wait for each other
USUAL_TIMEOUT = 600.0
LONGEST = 30 * 24 * 3600.0  # seconds that may be asked for
SIGNS, PAUSE = 10, 0.05  # signs of life in that time, and seconds between two looks for them
GRACE = 3.0  # seconds for all who still can to say that they wait


def block(count: int, rank: int, size: int) -> slice:
    """Which of so many rows are one process's of several: parts differ by at most one row.

    >>> [block(10, rank, 3) for rank in range(3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    return slice(rank * count // size, (rank + 1) * count // size)


class GroupError(RuntimeError):
    """The processes of a group lost each other."""


class Group:
    """One process: its average is its own value, and it is the first.

    >>> ALONE.rank, ALONE.size, ALONE.rows(10)
    (0, 1, slice(0, 10, None))
    >>> ALONE.first(lambda: 3)
    3
    """

    rank, size = 0, 1
    restarted = False  # whether an earlier life of these processes has ended before its work did

    def rows(self, count: int, rank: int | None = None) -> slice:
        """Which of so many rows are this process's part: parts differ by at most one row."""
        return block(count, self.rank if rank is None else rank, self.size)

    def owned(self, rows: Tensor, count: int) -> list[Tensor]:
        """For each process, the places among `rows` of those that it owns of `count` rows.

        >>> ALONE.owned(torch.tensor([7, 2]), count=10)
        [tensor([0, 1])]
        """
        starts = torch.tensor([self.rows(count, rank).start for rank in range(1, self.size)])
        owner = torch.bucketize(rows, starts.long(), right=True)
        return [(owner == rank).nonzero().squeeze(1) for rank in range(self.size)]

    def average(self, values: Tensor) -> Tensor:
        """The mean over all processes, in place."""
        return values

    def gather(self, values: Tensor) -> Tensor:
        """The values of all processes, of one shape: (processes, …); can be differentiated."""
        return values.unsqueeze(0)

    def gather_rows(self, mine: Tensor, places: Sequence[Tensor]) -> Tensor:
        """The rows of a batch, of which each process has those at its places; `mine` are here."""
        return mine

    def given_by(self, rank: int, values: Tensor) -> Tensor:
        """The values of one process, where all have some of that shape."""
        return values

    def any(self, flag: bool) -> bool:
        """Whether it is so in any process."""
        return flag

    def first(self, work: Callable[[], T]) -> T:
        """What `work` gives in the first process; an error there is everybody's."""
        return work()

    def in_turn(self, work: Callable[[], T]) -> T:
        """`work` in the first process and then in the others, which find what it has fetched."""
        found: list[T] = []
        self.first(lambda: found.append(work()))
        return found[0] if found else work()

    def agree(self, facts: Mapping[str, str]) -> None:
        """Refuse to go on where the processes' facts differ."""


ALONE = Group()


class Torchrun(Group):
    """The processes that `torchrun` started, or whoever called `init_process_group`."""

    def __init__(self, store: Any, seconds: float):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._store, self._seconds, self._asked = store, seconds, 0
        self.restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"

    def average(self, values: Tensor) -> Tensor:
        return self._sum(values).div_(self.size)

    def gather(self, values: Tensor) -> Tensor:
        gathered: Callable[..., Tensor] = _Gathered.apply
        return gathered(values, self)

    def gather_rows(self, mine: Tensor, places: Sequence[Tensor]) -> Tensor:
        # Parts differ in size, so they are gathered as parts of the longest one's.
        mine, longest = mine[: len(places[self.rank])], max(map(len, places))
        padding = mine.new_zeros(longest - len(mine), *mine.shape[1:])
        parts = self.gather(torch.cat([mine, padding]))
        found = torch.cat([part[: len(at)] for part, at in zip(parts, places, strict=True)])
        return found[torch.cat(list(places)).argsort().to(found.device)]

    def given_by(self, rank: int, values: Tensor) -> Tensor:
        values = values.contiguous()
        with self._named_errors():
            dist.broadcast(values, src=rank)
        return values

    def any(self, flag: bool) -> bool:
        return bool(self._sum(torch.tensor(float(flag))))

    def first(self, work: Callable[[], T]) -> T:
        self._asked += 1
        key, given, failure = f"labelgrad/first-{self._asked}", None, None
        box: list[Any] = [None]
        if self.rank == 0:
            try:
                with self._alive(key):
                    given = work()
                box[0] = pickle.dumps((given, None))
            except BaseException as error:
                failure, box[0] = error, pickle.dumps((None, _picklable(error)))
        with self._named_errors():
            if self.rank == 0:
                self._asked_store("set", key, b"done")
            else:
                self._wait_while_alive(key)
            dist.broadcast_object_list(box, src=0)
        if self.rank:
            given, failure = pickle.loads(box[0])
        if failure is not None:
            raise _common(failure, self.rank)
        return given  # type: ignore[return-value]

    def agree(self, facts: Mapping[str, str]) -> None:
        said: list[Any] = [None] * self.size
        with self._named_errors():
            dist.all_gather_object(said, dict(facts))
        for rank, theirs in enumerate(said):
            for name in said[0]:
                if theirs.get(name) != said[0][name]:
                    error = ValueError(
                        f"All processes must train the same, and {name} is {said[0][name]} in "
                        f"process 0 but {theirs.get(name)} in process {rank}; start all of them "
                        f"with the same command, settings and data."
                    )
                    raise _common(error, self.rank)

    def _sum(self, values: Tensor) -> Tensor:
        with self._named_errors():
            dist.all_reduce(values)
        return values

    def _gather(self, values: Tensor) -> Tensor:
        everybody = values.new_zeros(self.size, *values.shape)
        everybody[self.rank] = values
        return self._sum(everybody)

    @contextmanager
    def _alive(self, key: str) -> Iterator[None]:
        """Signs of life while the first process works alone, which may take as long as it likes."""
        done = threading.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # whoever had the store is gone: the others notice, too
                while not done.wait(self._seconds / SIGNS):
                    self._store.add(f"{key}-alive", 1)

        telling = threading.Thread(target=tell, daemon=True)
        telling.start()
        try:
            yield
        finally:
            done.set()
            telling.join()

    def _wait_while_alive(self, key: str) -> None:
        """Wait for a key for as long as there are new signs of life."""
        signs, since = 0, time.monotonic()
        while not self._asked_store("check", [key]):
            time.sleep(min(self._seconds, PAUSE))
            now = self._asked_store("add", f"{key}-alive", 0)
            if now != signs:
                signs, since = now, time.monotonic()
            elif time.monotonic() - since > self._seconds:
                raise RuntimeError("the first process gave no sign of life")

    def _asked_store(self, what: str, *about: Any) -> Any:
        """What the store says, within the time that processes wait for each other.

        It would be waited for without end where the network is gone.
        """
        said: list[Any] = []

        def ask() -> None:
            with suppress(RuntimeError):
                said.append(getattr(self._store, what)(*about))

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(self._seconds)
        if not said:
            raise RuntimeError("the store cannot be reached")
        return said[0]

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Say who it was that did not answer."""
        try:
            yield
        except RuntimeError as error:
            raise GroupError(self._who_is_missing()) from error

    def _who_is_missing(self) -> str:
        gone: list[str] = []
        keys = {rank: f"labelgrad/waits-{rank}" for rank in range(self.size)}
        with suppress(RuntimeError):  # the store may be gone with the process that had it
            self._asked_store("set", keys[self.rank], b"yes")
            time.sleep(GRACE)  # whoever is there finds out within moments
            gone = [
                str(rank) for rank, key in keys.items() if not self._asked_store("check", [key])
            ]
        who = f"process {' and '.join(gone)} of {self.size}" if gone else "one of them"
        return (
            f"The processes of a training wait for each other, and {who} did not answer: it was "
            f"ended, cannot be reached, or took more than {self._seconds:g} s ({TIMEOUT}); start "
            f"again, and a run with a folder goes on from its last checkpoint."
        )


class _Gathered(torch.autograd.Function):
    """Values of all processes side by side: what pulls on them anywhere pulls on them here."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Torchrun) -> Tensor:
        ctx.group = group
        return group._gather(values)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return ctx.group._sum(slopes[0].clone())[ctx.group.rank], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        return ctx.group._gather(tangents[0])  # type: ignore[no-any-return]


_joined: Group | None = None


def here() -> Group:
    """The group of this process: all that `torchrun` started with it, or `ALONE`.

    The first call joins them. From then on only the first process writes files.

    >>> here() is ALONE
    True
    """
    global _joined
    if _joined is None:
        _joined = _join()
        if _joined.rank:
            leave_writing_to_another()
    return _joined


def _join() -> Group:
    # A process that a process of the group started (to train side by side) is not of the group.
    launched = "TORCHELASTIC_RUN_ID" in os.environ and multiprocessing.parent_process() is None
    if not dist.is_available() or not (launched or dist.is_initialized()):
        return ALONE
    seconds = _timeout()
    if not dist.is_initialized():
        limit = timedelta(seconds=seconds)
        backend = "gloo"
        if torch.cuda.is_available():
            backend = "cpu:gloo,cuda:nccl"
            torch.cuda.set_device(_own_gpu())
        store, rank, size = next(rendezvous("env://", timeout=limit))
        store = dist.distributed_c10d.PrefixStore(f"labelgrad/{_restarts()}", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)
        dist.all_reduce(torch.zeros(1))  # whoever is refused at once leaves after all have met
        atexit.register(_leave)
    if dist.get_world_size() == 1:
        return ALONE
    return Torchrun(dist.distributed_c10d._get_default_store(), seconds)


def _restarts() -> str:
    """How often torchrun has begun anew: on one machine its store still has what came before.

    On several machines they may not agree on the number, and have a new store each time.
    """
    alone = os.environ.get("GROUP_WORLD_SIZE") == "1"
    return os.environ["TORCHELASTIC_RESTART_COUNT"] if alone else "0"


def _own_gpu() -> int:
    mine, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if mine >= count:
        raise ValueError(
            f"Each process needs a GPU of its own, and this machine has {count}, too few for "
            f"process {mine}; start torchrun with --nproc-per-node {count}."
        )
    return mine


def _timeout() -> float:
    said = os.environ.get(TIMEOUT, str(USUAL_TIMEOUT))
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < LONGEST:
        raise ValueError(f"{TIMEOUT} must be a number of seconds above 0, got {said!r}.")
    return seconds


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _picklable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(str(error))
    return error


def _common(error: BaseException, rank: int) -> BaseException:
    """An error that every process has: the first one tells it."""
    error.told_by_another = rank > 0  # type: ignore[attr-defined]
    return error
