"""A soft label for every unlabeled example, learned for the price of a minibatch.

The paper's Adam moves the whole table at every step. A row that is not in the minibatch has a
zero gradient, so its moments only decay by β₁ and β₂, and it moves by what is left of them. All of
that can be caught up when the row is next drawn (`LazyAdam`), which gives dense Adam's numbers for
the price of the rows in the minibatch. How rows move is a rule; `SGD` and `Evidence` are others.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from labelgrad.distributed import ALONE, Group
from labelgrad.labels.rules import LazyAdam, Rule
from labelgrad.losses import CrossEntropy, Loss

LAST_STEP, VISITS = 0, 1  # columns of `counts`
CHUNK = 2**21  # numbers a catch-up may hold at once
PART = 2**22  # numbers of labels at a time, of all rows


@dataclass
class Drawn:
    """Rows of the table at the moment they were drawn; `labels` has one row for each request."""

    labels: Tensor  # (requested, width)
    rows: Tensor  # (distinct,)
    place: Tensor  # (requested,): where in `rows` each one is
    times: Tensor  # (distinct,): how often it was requested
    values: Tensor  # (distinct, 3, width)
    counts: Tensor  # (distinct, 2)


class LabelTable(nn.Module):
    """The free numbers `w` behind the labels `y = f(w)`, with two more of each for their rule.

    `draw` gives the labels of some rows, `update` moves them by the slope in those labels, as the
    `rule` says: `LazyAdam(0.1)`, `SGD(1e-3)` or `Evidence()`. `labels`, `entropy` and `visits` are
    for looking, and `parts` gives the labels of all rows some at a time.

    With a `folder` the table is memory-mapped from an unnamed file there and may be larger than
    memory. That file is working space, which the system frees when the process ends. A checkpoint
    of a `Run` writes all rows, as it does for a table in memory, so the disk holds three tables:
    this one and two checkpoints.

    In a `group` of processes each has the rows that it owns (`Group.rows`), and draws and moves
    those alone. A call about other rows, or about all, must be made by all processes together.

    >>> table = LabelTable(rows=1000, width=3, rule=LazyAdam(0.1))
    >>> drawn = table.draw(torch.tensor([7, 8]))
    >>> table.update(drawn, slope=torch.tensor([[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    >>> table.labels(torch.tensor([7, 8]))
    tensor([[0.3792, 0.3104, 0.3104],
            [0.3333, 0.3333, 0.3333]])
    >>> table.visits(torch.tensor([7, 0]))
    tensor([1, 0])
    """

    values: Tensor  # (own rows, 3, width): w, and what the rule keeps beside it
    counts: Tensor  # (own rows, 2): the step up to which the row is worked out, times drawn
    clock: Tensor  # (): steps taken

    def __init__(
        self,
        rows: int,
        width: int,
        *,
        loss: Loss | None = None,
        rule: Rule | None = None,
        folder: str | Path | None = None,
        dtype: torch.dtype = torch.float32,
        group: Group = ALONE,
    ):
        super().__init__()
        if rows < 1 or width < 1:
            raise ValueError(f"a label table needs rows and columns, got {rows} × {width}.")
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"`dtype` must be torch.float32 or torch.float64, got {dtype}.")
        self.rows, self.width = rows, width
        self.folder = None if folder is None else Path(folder)
        self.loss: Loss = CrossEntropy() if loss is None else loss
        self.rule: Rule = LazyAdam() if rule is None else rule
        self.register_buffer("clock", torch.zeros((), dtype=torch.long))
        self._allocate(group, dtype)

    def _allocate(self, group: Group, dtype: torch.dtype) -> None:
        """All rows that are this process's, at zero."""
        self.group, self.own = group, group.rows(self.rows)
        count, device = self.own.stop - self.own.start, self.clock.device
        values = _untouched_zeros((count, 3, self.width), dtype, self.folder)
        counts = _untouched_zeros((count, 2), torch.long, self.folder)
        self.register_buffer("values", values.to(device))
        self.register_buffer("counts", counts.to(device))

    def _apply(self, move: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # A mapped file does not follow the module to a GPU.
        if self.folder is None:
            super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        return self

    def join(self, group: Group) -> None:
        """Have, from now on, the rows that are this process's in a group."""
        if (group.rank, group.size) == (self.group.rank, self.group.size):
            self.group = group
            return
        if self.group.size > 1 and int(self.clock):
            raise ValueError("a label table is divided before its first step; build a new one.")
        whole = {"values": self.values, "counts": self.counts} if self.group.size == 1 else None
        self._allocate(group, self.values.dtype)
        if whole is not None and (self.folder is None or int(self.clock)):
            self.put_rows(slice(0, self.rows), whole)

    def draw(self, rows: Tensor) -> Drawn:
        """The given rows as they stand now, and their labels; the table is not changed."""
        self._check(rows, self.own)
        here, place, times = self._here(rows).unique(return_inverse=True, return_counts=True)
        values, counts = self._caught_up(here)
        labels = self.loss.impute(values[place, 0]).to(rows.device)
        return Drawn(labels, here, place, times, values, counts)

    def update(self, drawn: Drawn, slope: Tensor) -> None:
        """Move what was drawn, given the slope of the objective in its labels.

        A row that was drawn twice gets the sum of its slopes, as it would in a dense table.
        """
        slope = self.loss.pull_back(slope.to(drawn.labels), drawn.labels).to(self.values)
        summed = torch.zeros_like(drawn.values[:, 0]).index_add_(0, drawn.place, slope)
        before = int(self.clock)
        self.rule.step(drawn.values, summed, before + 1, self.loss)
        visits = drawn.counts[:, VISITS] + drawn.times
        counts = torch.stack([torch.full_like(visits, before + 1), visits], 1)
        self.values[drawn.rows], self.counts[drawn.rows] = drawn.values, counts
        self.clock += 1

    def labels(self, rows: Tensor | None = None) -> Tensor:
        """The soft label (or value, in regression) of the given rows, or of all."""
        if rows is None:
            found = torch.empty(self.rows, self.width, dtype=self.values.dtype)
            for some, labels in self.parts():
                found[some] = labels
            return found
        return self._of_all(rows, self._labels_of)

    def parts(self, *, own: bool = False) -> Iterator[tuple[slice, Tensor]]:
        """The labels of all rows, some at a time and in their order, with which rows they are.

        Of several processes each gets them all, or with `own` those of its own rows.

        >>> table = LabelTable(5, 2)
        >>> [(rows, labels.shape) for rows, labels in table.parts()]
        [(slice(0, 5, None), torch.Size([5, 2]))]
        """
        # Whole catch-ups: what a row's comes to depends, in the last digit, on those beside it.
        at_once = max(1, PART // self.width // self._catch_up_size()) * self._catch_up_size()
        for rank, rows in self._slices(at_once):
            if rank == self.group.rank:
                labels = self._labels_of(torch.arange(rows.start, rows.stop) - self.own.start)
            else:
                labels = self.values.new_empty(rows.stop - rows.start, self.width)
            if not own:
                yield rows, self.group.broadcast(labels, rank)
            elif rank == self.group.rank:
                yield rows, labels

    def _slices(self, size: int) -> Iterator[tuple[int, slice]]:
        """All rows, at most so many at a time, with the process whose they are."""
        for rank in range(self.group.size):
            theirs = self.group.rows(self.rows, rank)
            for start in range(theirs.start, theirs.stop, size):
                yield rank, slice(start, min(start + size, theirs.stop))

    def _catch_up_size(self) -> int:
        return max(1, CHUNK // (self.rule.horizon(self.values.dtype) * self.width))

    def _labels_of(self, here: Tensor) -> Tensor:
        parts = here.split(self._catch_up_size())
        return torch.cat([self.loss.impute(self._caught_up(part)[0][:, 0]) for part in parts])

    def entropy(self, rows: Tensor | None = None) -> Tensor:
        """How undecided the soft labels of the given rows are, in nats: 0 is sure."""
        if not isinstance(self.loss, CrossEntropy):
            raise ValueError("entropy needs labels that are distributions, and these are values.")
        parts = [self.labels(rows)] if rows is not None else (p.cpu() for _, p in self.parts())
        return torch.cat([torch.special.entr(part).sum(-1) for part in parts])

    def visits(self, rows: Tensor | None = None) -> Tensor:
        """How often each of the given rows was drawn for an update."""
        rows = torch.arange(self.rows) if rows is None else rows
        return self._of_all(rows, lambda here: self.counts[here, VISITS])

    def _of_all(self, rows: Tensor, look: Callable[[Tensor], Tensor]) -> Tensor:
        """What each process finds of those of the rows that it owns, in the order of the rows."""
        self._check(rows, slice(0, self.rows))
        places = self.group.owned(rows.cpu(), self.rows)
        mine = look(self._here(rows.cpu()[places[self.group.rank]])).to(rows.device)
        return self.group.gather_rows(mine, places)

    @property
    def nbytes(self) -> int:
        """What the rows of all processes take."""
        return self.rows * (3 * self.width * self.values.itemsize + 2 * self.counts.itemsize)

    def row_parts(self, size: int) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """All that a checkpoint holds of the rows, at most `size` bytes at a time."""
        many = max(1, size * self.rows // self.nbytes)
        for rank, rows in self._slices(many):
            parts = {}
            for name, whole in (("values", self.values), ("counts", self.counts)):
                part = whole.new_empty(rows.stop - rows.start, *whole.shape[1:])
                if rank == self.group.rank:
                    part = whole[rows.start - self.own.start : rows.stop - self.own.start]
                parts[name] = self.group.broadcast(part, rank)
            yield rows, parts

    def put_rows(self, rows: slice, saved: dict[str, Tensor]) -> None:
        """Take, of what `row_parts` gave, the rows that are this process's."""
        start, stop = max(rows.start, self.own.start), min(rows.stop, self.own.stop)
        if start < stop:
            here = slice(start - self.own.start, stop - self.own.start)
            there = slice(start - rows.start, stop - rows.start)
            self.values[here], self.counts[here] = saved["values"][there], saved["counts"][there]

    def _caught_up(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The rows as a table that moves as a whole would have them now: a copy."""
        values, counts = self.values[rows], self.counts[rows]
        self.rule.catch_up(values, counts[:, LAST_STEP], int(self.clock))
        return values, counts

    def _here(self, rows: Tensor) -> Tensor:
        rows = rows.to(self.values.device)
        return rows - self.own.start if self.own.start else rows

    def _check(self, rows: Tensor, allowed: slice) -> None:
        """Refuse what are no numbers of allowed rows: of all, or of those that a process owns."""
        if rows.ndim != 1 or rows.dtype != torch.int64:
            shape = tuple(rows.shape)
            raise ValueError(f"rows must be a vector of torch.int64, got {rows.dtype} of {shape}.")
        if len(rows) and not allowed.start <= int(rows.min()) <= int(rows.max()) < allowed.stop:
            raise ValueError(
                f"rows must be from {allowed.start} to {allowed.stop - 1} in a label table of "
                f"{self.rows} rows, got {int(rows.min())} to {int(rows.max())}."
            )

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        for name in ("values", "counts"):
            saved = state.get(prefix + name)
            if isinstance(saved, Tensor) and len(saved) == self.rows:
                state[prefix + name] = saved[self.own]
        super()._load_from_state_dict(state, prefix, *others)

    def extra_repr(self) -> str:
        """Size and settings."""
        return f"rows={self.rows}, width={self.width}, rule={self.rule!r}"


def _untouched_zeros(shape: tuple[int, ...], dtype: torch.dtype, folder: Path | None) -> Tensor:
    """Zeros that take no space before they are written to, in memory or in an unnamed file."""
    size = math.prod(shape) * dtype.itemsize
    if folder is None:
        content = np.zeros(size, np.uint8)  # PyTorch would write them
    else:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            file.truncate(max(1, size))
            space = mmap.mmap(file.fileno(), max(1, size))
        if hasattr(mmap, "MADV_RANDOM"):  # rows are drawn at random: reading ahead is in vain
            space.madvise(mmap.MADV_RANDOM)
        content = np.frombuffer(space, np.uint8, size)
    return torch.from_numpy(content).view(dtype).view(shape)
