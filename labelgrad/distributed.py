"""The processes that train one model together: what they average, gather and agree on.

A process that is alone has a group, too, `ALONE`, in which each of these is nothing to do. So there
is one code path: a step, an objective or a run does not care how many processes there are.

`torchrun` starts the processes; `current_group` joins them. Everything a training draws is a
function of the seed and the step, so each process knows the whole batch and takes its part of it
(`rows`): as many examples as any other, or those that it owns (`owned`), whose labels no other
process has.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from labelgrad.files import disable_writing

T = TypeVar("T")
TIMEOUT = "LABELGRAD_TIMEOUT"  # an environment variable: seconds that processes wait for each other
DEFAULT_TIMEOUT = 600.0
LONGEST = 30 * 24 * 3600.0  # seconds: the most for TIMEOUT, and for work of rank zero alone


class GroupError(RuntimeError):
    """The processes of a group lost each other."""


class Group:
    """One process: its average is its own value, and it is rank zero.

    >>> ALONE.rank, ALONE.size, ALONE.rows(10)
    (0, 1, slice(0, 10, None))
    >>> ALONE.on_rank_zero(lambda: 3)
    3
    """

    rank, size = 0, 1
    restarted = False  # whether torchrun has started these processes again

    def rows(self, count: int, rank: int | None = None) -> slice:
        """Which of `count` rows are one process's part: parts differ by at most one row."""
        rank = self.rank if rank is None else rank
        return slice(rank * count // self.size, (rank + 1) * count // self.size)

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
        """The values of all processes, of one shape: (processes, …); differentiable."""
        return values.unsqueeze(0)

    def gather_rows(self, own: Tensor, places: Sequence[Tensor]) -> Tensor:
        """The rows of a batch, of which each process has those at its places."""
        return own

    def broadcast(self, values: Tensor, source: int = 0) -> Tensor:
        """The values of the process `source`, where all have some of that shape."""
        return values

    def on_rank_zero(self, work: Callable[[], T]) -> T:
        """What `work` returns in rank zero; an error there is raised in all processes."""
        return work()

    def check_same(self, facts: Mapping[str, str]) -> None:
        """Raise `ValueError` where the facts of the processes differ."""


ALONE = Group()


class Torchrun(Group):
    """The processes that `torchrun` started, or whoever called `init_process_group`."""

    def __init__(self, seconds: float):
        self.rank, self.size, self._seconds = dist.get_rank(), dist.get_world_size(), seconds
        self.restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"

    def average(self, values: Tensor) -> Tensor:
        return self.sum(values).div_(self.size)

    def gather(self, values: Tensor) -> Tensor:
        gathered: Callable[..., Tensor] = _Gathered.apply
        return gathered(values, self)

    def gather_rows(self, own: Tensor, places: Sequence[Tensor]) -> Tensor:
        # Parts differ in size, so they are padded to the longest one.
        own, longest = own[: len(places[self.rank])], max(map(len, places))
        padding = own.new_zeros(longest - len(own), *own.shape[1:])
        parts = self.gather(torch.cat([own, padding]))
        found = torch.cat([part[: len(at)] for part, at in zip(parts, places, strict=True)])
        return found[torch.cat(list(places)).argsort().to(found.device)]

    def broadcast(self, values: Tensor, source: int = 0) -> Tensor:
        values = values.contiguous()
        with self._clear_errors():
            dist.broadcast(values, src=source)
        return values

    def on_rank_zero(self, work: Callable[[], T]) -> T:
        found: tuple[Any, BaseException | None] = None, None
        message = b""
        if self.rank == 0:
            try:
                found = work(), None
                message = pickle.dumps(found)
            except BaseException as error:
                found, message = (None, error), pickle.dumps((None, _picklable(error)))
        message = self._from_rank_zero(message)
        result, failure = pickle.loads(message) if self.rank else found
        if failure is not None:
            raise failure
        return result  # type: ignore[no-any-return]

    def _from_rank_zero(self, message: bytes) -> bytes:
        # Work of rank zero may take longer than a step: its size is waited for without a limit of
        # time. A process that ends is noticed at once. A second group with a long limit would wait
        # that long for a process which is killed while the group is formed.
        patient = dist.BroadcastOptions()
        patient.rootRank, patient.timeout = 0, timedelta(seconds=LONGEST)
        size = torch.tensor([len(message)])
        with self._clear_errors():
            dist.distributed_c10d._get_default_group().broadcast([size], patient).wait()
        content = torch.zeros(int(size), dtype=torch.uint8)
        if self.rank == 0:
            content = torch.frombuffer(bytearray(message), dtype=torch.uint8)
        return self.broadcast(content).numpy().tobytes()

    def check_same(self, facts: Mapping[str, str]) -> None:
        found: list[Any] = [None] * self.size
        with self._clear_errors():
            dist.all_gather_object(found, dict(facts))
        for rank, theirs in enumerate(found):
            for name, value in found[0].items():
                if theirs.get(name) != value:
                    raise ValueError(
                        f"All processes must have the same command, settings and data, and {name} "
                        f"is {value} in process 0 but {theirs.get(name)} in process {rank}."
                    )

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        with self._clear_errors():
            dist.all_reduce(values)
        return values

    def side_by_side(self, values: Tensor) -> Tensor:
        """`gather` without a derivative."""
        everybody = values.new_zeros(self.size, *values.shape)
        everybody[self.rank] = values
        return self.sum(everybody)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise GroupError(
                f"One of {self.size} processes did not answer process {self.rank}: it was ended, "
                f"cannot be reached, or took more than {self._seconds:g} s ({TIMEOUT}); start "
                f"again, and a run with a folder goes on from its last checkpoint."
            ) from error


class _Gathered(torch.autograd.Function):
    """The values of all processes; a gradient in them is summed over all processes."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Torchrun) -> Tensor:
        ctx.group = group
        return group.side_by_side(values)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return ctx.group.sum(slopes[0].clone())[ctx.group.rank], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        return ctx.group.side_by_side(tangents[0])  # type: ignore[no-any-return]


_current = ALONE


def current_group() -> Group:
    """The group of this process: all that `torchrun` started with it, or `ALONE`.

    The first call that finds others joins them. From then on only rank zero writes files.

    >>> current_group() is ALONE
    True
    """
    global _current
    # A process that a process of the group started (to train side by side) is not of the group.
    launched = "TORCHELASTIC_RUN_ID" in os.environ and multiprocessing.parent_process() is None
    started = dist.is_available() and (launched or dist.is_initialized())
    if _current is ALONE and started:
        _current = _join()
        if _current.rank:
            disable_writing()
    return _current


def _join() -> Group:
    seconds = _timeout()
    if not dist.is_initialized():
        limit = timedelta(seconds=seconds)
        backend = "gloo"
        if torch.cuda.is_available():
            backend = "cpu:gloo,cuda:nccl"
            torch.cuda.set_device(_own_gpu())
        store, rank, size = next(rendezvous("env://", timeout=limit))
        # On one machine torchrun's store still has what came before a restart. Several may not
        # agree on how often torchrun has restarted, and have a new store each time.
        one_machine = os.environ.get("GROUP_WORLD_SIZE") == "1"
        restarts = os.environ["TORCHELASTIC_RESTART_COUNT"] if one_machine else "0"
        store = dist.distributed_c10d.PrefixStore(f"labelgrad/{restarts}", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)
        atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())
    if dist.get_world_size() == 1:
        return ALONE
    group = Torchrun(seconds)
    group.sum(torch.zeros(1))  # whoever refuses its arguments leaves after all have met
    return group


def _own_gpu() -> int:
    own, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if own >= count:
        raise ValueError(
            f"Process {own} needs a GPU of its own; start torchrun with --nproc-per-node {count}."
        )
    return own


def _timeout() -> float:
    given = os.environ.get(TIMEOUT, str(DEFAULT_TIMEOUT))
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < LONGEST:
        raise ValueError(f"{TIMEOUT} must be a number of seconds above 0, got {given!r}.")
    return seconds


def _picklable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(str(error))
    return error
