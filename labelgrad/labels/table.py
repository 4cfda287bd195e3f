"""A soft label for every unlabeled example, learned for the price of a minibatch.

The paper's Adam moves the whole table at every step. A row that is not in the minibatch has a
zero gradient, so its moments only decay by β₁ and β₂, and it moves by what is left of them. All of
that can be caught up when the row is next drawn (`LazyAdam`), which gives dense Adam's numbers for
the price of the rows in the minibatch. How rows move is a rule; `SGD` and `Evidence` are others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from labelgrad.labels.lazy_adam import LazyAdam
from labelgrad.labels.storage import MappedRows
from labelgrad.losses import CrossEntropy, Loss

LAST_STEP, VISITS = 0, 1  # columns of `counts`
CHUNK = 2**21  # numbers a catch-up may hold at once


class Rule(Protocol):
    """How the labels of a table move; a row is three numbers for each column, the first is w."""

    metric_power: float  # of the gap's fourth moment: the metric that its slopes are best taken in

    def horizon(self, dtype: torch.dtype) -> int:
        """The most steps that a row can have to catch up with."""

    def step(self, values: Tensor, slope: Tensor, step: int, loss: Loss) -> None:
        """Move rows (n, 3, width) by their slopes (n, width), in place; steps count from 1."""

    def catch_up(self, values: Tensor, last: Tensor, now: int) -> None:
        """Work out, in place, the steps of zero slope from `last` (one for each row) to `now`."""


@dataclass
class Drawn:
    """Rows of the table at the moment they were drawn; `labels` has one row for each asked for."""

    labels: Tensor  # (asked, width)
    rows: Tensor  # (distinct,)
    place: Tensor  # (asked,): where in `rows` each one asked for is
    times: Tensor  # (distinct,): how often it was asked for
    values: Tensor  # (distinct, 3, width)
    counts: Tensor  # (distinct, 2)


class LabelTable(nn.Module):
    """The free numbers `w` behind the labels `y = f(w)`, with two more of each for their rule.

    `draw` gives the labels of some rows, `update` moves them by the slope in those labels, as the
    `rule` says: `LazyAdam(0.1)`, `SGD(1e-3)` or `Evidence()`. `labels`, `entropy` and `visits` are
    for looking. With a `folder` the table is a memory-mapped file there, and may be larger than
    memory.

    >>> table = LabelTable(rows=1000, width=3, rule=LazyAdam(0.1))
    >>> drawn = table.draw(torch.tensor([7, 8]))
    >>> table.update(drawn, slope=torch.tensor([[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    >>> table.labels(torch.tensor([7, 8]))
    tensor([[0.3792, 0.3104, 0.3104],
            [0.3333, 0.3333, 0.3333]])
    >>> table.visits(torch.tensor([7, 0]))
    tensor([1, 0])
    """

    values: Tensor  # (rows, 3, width): w, and what the rule keeps beside it
    counts: Tensor  # (rows, 2): the step up to which the row is worked out, times drawn
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
    ):
        super().__init__()
        if rows < 1 or width < 1:
            raise ValueError(f"a label table needs rows and columns, got {rows} × {width}.")
        self.rows, self.width, self.folder = rows, width, folder
        self.loss: Loss = CrossEntropy() if loss is None else loss
        self.rule: Rule = LazyAdam() if rule is None else rule
        self.register_buffer("clock", torch.zeros((), dtype=torch.long))
        self.file = None if folder is None else MappedRows(Path(folder), rows, width, dtype)
        if self.file is None:
            self.register_buffer("values", torch.zeros(rows, 3, width, dtype=dtype))
            self.register_buffer("counts", torch.zeros(rows, 2, dtype=torch.long))
        else:  # plain attributes: a file does not follow the module to a GPU or into a checkpoint
            self.values, self.counts = self.file.values, self.file.counts

    def draw(self, rows: Tensor) -> Drawn:
        """The given rows as they stand now, and their labels; the table is not changed."""
        here, place, times = self._check(rows).unique(return_inverse=True, return_counts=True)
        values, counts = self._caught_up(here)
        labels = self.loss.impute(values[place, 0]).to(rows.device)
        return Drawn(labels, here, place, times, values, counts)

    def update(self, drawn: Drawn, slope: Tensor) -> None:
        """Move what was drawn, given the slope of the objective in its labels.

        A row that was drawn twice gets the sum of its slopes, as it would in a dense table.
        """
        slope = self.loss.pull_back(slope.to(drawn.labels), drawn.labels).to(self.values)
        summed = torch.zeros_like(drawn.values[:, 0]).index_add_(0, drawn.place, slope)
        if self.file is not None:
            self.file.remember(int(self.clock), drawn.rows)
        self.clock += 1
        self.rule.step(drawn.values, summed, int(self.clock), self.loss)
        self.values[drawn.rows] = drawn.values
        visits = drawn.counts[:, VISITS] + drawn.times
        self.counts[drawn.rows] = torch.stack([self.clock.expand_as(visits), visits], 1)
        if self.file is not None:
            self.file.seal(drawn.rows)

    def labels(self, rows: Tensor | None = None) -> Tensor:
        """The soft label (or value, in regression) of the given rows, or of all."""
        rows = torch.arange(self.rows) if rows is None else rows
        here = self._check(rows)
        size = max(1, CHUNK // (self.rule.horizon(self.values.dtype) * self.width))
        free = [self._caught_up(part)[0][:, 0] for part in here.split(size)]
        return self.loss.impute(torch.cat(free)).to(rows.device)

    def entropy(self, rows: Tensor | None = None) -> Tensor:
        """How undecided the soft labels of the given rows are, in nats: 0 is sure."""
        if not isinstance(self.loss, CrossEntropy):
            raise ValueError("entropy needs labels that are distributions, and these are values.")
        terms: Tensor = torch.special.entr(self.labels(rows))
        return terms.sum(-1)

    def visits(self, rows: Tensor | None = None) -> Tensor:
        """How often each of the given rows was drawn for an update."""
        rows = torch.arange(self.rows) if rows is None else rows
        here = self._check(rows)
        if self.file is not None:
            for part in here.split(CHUNK // self.width):
                self.file.verify(part)
        return self.counts[here, VISITS].to(rows.device)

    def after_checkpoint(self) -> None:
        """A checkpoint of this moment is on disk: older undo records can go."""
        if self.file is not None:
            self.file.journal.begin(int(self.clock))

    def _caught_up(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The rows as a table that moves as a whole would have them now: a copy."""
        if self.file is not None:
            self.file.verify(rows)
        values, counts = self.values[rows], self.counts[rows]
        self.rule.catch_up(values, counts[:, LAST_STEP], int(self.clock))
        return values, counts

    def _check(self, rows: Tensor) -> Tensor:
        if rows.ndim != 1 or rows.dtype != torch.int64:
            raise ValueError(
                f"rows must be a vector of whole numbers in 64 bits, got {rows.dtype} of the shape "
                f"{tuple(rows.shape)}."
            )
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.rows:
            raise ValueError(
                f"rows must be from 0 to {self.rows - 1} in a label table of {self.rows} rows, "
                f"got {int(rows.min())} to {int(rows.max())}."
            )
        return rows.to(self.values.device)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        super()._load_from_state_dict(state, prefix, *others)
        if self.file is not None:
            self.file.roll_back(int(self.clock))

    def extra_repr(self) -> str:
        """Size and settings."""
        return f"rows={self.rows}, width={self.width}, rule={self.rule!r}"
