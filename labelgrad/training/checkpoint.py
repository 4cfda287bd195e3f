"""What a run writes into its folder: checkpoints, and the log of its evaluations.

A checkpoint is one file of named tensors and a little JSON, named by its step (`labelgrad.files`):
whole or absent, and never any code in it. Damage is found when it is read, and the checkpoint
before it is kept for that case. The log is JSON lines, written as the run goes.

A small label table is in the checkpoint itself. A larger one is in files beside it, of a range of
rows each, which it names by their digests. Rank zero writes: it receives the rows of other
processes some at a time, so that it never holds more of them than that, and no machine needs to
see another's disk. When a run resumes, rank zero reads, and each process takes its own rows.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelgrad.distributed import Group
from labelgrad.files import (
    append_lines,
    digest,
    digest_of,
    read_tensors,
    write_tensors,
    write_whole,
)
from labelgrad.labels.table import LabelTable

KEPT = 2  # checkpoints
ROWS_SIZE = 2**26  # bytes of rows that are held at once, and of a table that is small


class CheckpointError(RuntimeError):
    """A checkpoint could not be written, read, or used here."""


@dataclass
class State:
    """Tensors by dotted name, and values that JSON can hold.

    >>> State({"model.w": torch.zeros(1)}, {"step": 3}).part("model")
    {'w': tensor([0.])}
    """

    tensors: dict[str, Tensor]
    info: dict[str, Any] = field(default_factory=dict)

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors below a prefix, under the rest of their names."""
        start = prefix + "."
        return {k.removeprefix(start): v for k, v in self.tensors.items() if k.startswith(start)}


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimizer's state as named tensors and JSON."""
    state = optimizer.state_dict()
    plain = {f"{i}.{name}": v for i, own in state["state"].items() for name, v in own.items()}
    tensors = {name: plain.pop(name) for name in list(plain) if isinstance(plain[name], Tensor)}
    named = {f"optimizer.{name}": value for name, value in tensors.items()}
    return named, {"groups": state["param_groups"], "plain": plain}


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], info: dict[str, Any]
) -> None:
    """Put back what `pack_optimizer` gave."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **info["plain"]}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": info["groups"]})
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                # A fused optimizer takes for granted that state and parameter lie alike in memory.
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


class Checkpoints:
    """The last few checkpoints of a run, in a folder.

    Rows of a large table are in files of their own. The state that `collect_rows` made says of
    each to which table it belongs, by its name among the tensors, its file and the file's digest.

    >>> from tempfile import mkdtemp
    >>> checkpoints = Checkpoints(mkdtemp())
    >>> checkpoints.save(State({"w": torch.ones(2)}, {"step": 5}))
    >>> checkpoints.load().info
    {'step': 5}
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def files(self) -> list[Path]:
        """The checkpoint files, oldest first."""
        return sorted(self.folder.glob("step-*.safetensors"))

    def save(self, state: State) -> None:
        """Write a checkpoint, then drop those that are not needed any more."""
        step = state.info["step"]
        self._write(self.folder / f"step-{step:012d}.safetensors", state)
        for old in self.files()[:-KEPT]:
            old.unlink()
        steps = {path.stem.removeprefix("step-") for path in self.files()}
        for path in self.folder.glob("rows-*.safetensors"):
            if path.name.split("-")[1] not in steps:
                path.unlink()

    def save_rows(
        self, step: int, name: str, rows: slice, tensors: dict[str, Tensor]
    ) -> tuple[str, str, str]:
        """Write some rows of a table of that name beside a checkpoint that is to come."""
        file = f"rows-{step:012d}-{name}-{rows.start:012d}.safetensors"
        info = {"rows": [rows.start, rows.stop]}
        return name, file, self._write(self.folder / file, State(tensors, info))

    def load_rows(self, file: str, seal: str) -> tuple[slice, dict[str, Tensor]]:
        """The rows that were saved, and which they are; a ValueError if they are damaged."""
        tensors, info = read_tensors(self.folder / file)
        if digest(tensors, json.dumps(info)) != seal:
            raise ValueError(f"{file} is of another checkpoint")
        return slice(*info["rows"]), tensors

    def _write(self, path: Path, state: State) -> str:
        try:
            return write_tensors(path, state.tensors, state.info)
        except OSError as error:
            files = self.files()
            rest = (
                f"The last one, {files[-1].name}, is kept" if files else "There is no earlier one"
            )
            raise CheckpointError(f"the checkpoint {error} {rest}; make room and retry.") from error

    def load(self) -> State | None:
        """The newest whole checkpoint, or `None` where there is none; damage is warned of."""
        damaged = None
        for path in reversed(self.files()):
            try:
                tensors, info = read_tensors(path)
                for _, *saved in info.get("rows", ()):
                    self.load_rows(*saved)  # raises if damaged
            except (OSError, ValueError) as error:
                damaged = f"the checkpoint {path} is damaged ({error})"
                warnings.warn(f"{damaged}; trying the one before it.", stacklevel=2)
            else:
                return State(tensors, info)
        if damaged is not None:
            raise CheckpointError(f"{damaged} and no other is left; remove it to start again.")
        return None

    def collect_rows(self, state: State, tables: Mapping[str, LabelTable], group: Group) -> None:
        """Bring the rows of all processes into the state, or by rank zero into files beside it.

        >>> from labelgrad.distributed import ALONE
        >>> table = LabelTable(5, 2)
        >>> state = State({f"table.{name}": value for name, value in table.state_dict().items()})
        >>> Checkpoints("unused").collect_rows(state, {"table": table}, ALONE)
        >>> state.tensors["table.values"].shape
        torch.Size([5, 3, 2])
        """
        for name, table in tables.items():
            if table.nbytes <= ROWS_SIZE:
                parts = [part for _, part in table.row_parts(ROWS_SIZE)]
                for key in parts[0]:
                    state.tensors[f"{name}.{key}"] = torch.cat([part[key] for part in parts])
                continue
            del state.tensors[f"{name}.values"], state.tensors[f"{name}.counts"]
            for rows, part in table.row_parts(ROWS_SIZE):
                save = partial(self.save_rows, state.info["step"], name, rows, part)
                state.info.setdefault("rows", []).append(group.on_rank_zero(save))

    def restore_rows(
        self,
        state: State,
        tables: Mapping[str, LabelTable],
        load: Callable[[State], None],
        group: Group,
    ) -> None:
        """Load a state, and into its tables the rows in files beside it, each process its own."""
        files = state.info.get("rows", ())
        for name in {name for name, *_ in files}:  # rows as they are now, which files will replace
            state.tensors = {**tables[name].state_dict(prefix=f"{name}."), **state.tensors}
        load(state)
        for name, *saved in files:
            rows, part = group.on_rank_zero(partial(self.load_rows, *saved))
            tables[name].put_rows(rows, part)


class Log:
    """One JSON object a line: first what the run is, then its records as they come.

    >>> log = Log(None)
    >>> log.begin({"seed": 0})
    >>> log.append({"step": 100})
    >>> log.records
    [{'step': 100}]
    """

    def __init__(self, path: Path | None):
        self.path, self.content = path, b""  # all that was written so far
        self.records: list[dict[str, Any]] = []

    def begin(self, head: dict[str, Any]) -> None:
        """Start the file with what the run is."""
        if self.path is not None:
            write_whole(self.path, b"")
        self._write(head)

    def append(self, record: dict[str, Any]) -> None:
        """Add one record."""
        self._write(record)
        self.records.append(record)

    def resume(self, position: int, digest: str) -> list[dict[str, Any]]:
        """Go on from where a checkpoint left the file; what came after it will come again.

        Gives the records up to there.
        """
        if self.path is None:
            return self.records
        self.content = self.path.read_bytes()[:position] if self.path.is_file() else b""
        if digest_of(self.content) != digest:
            raise CheckpointError(
                f"{self.path} must hold the first {position} bytes of this run's record, and does "
                f"not; put it back, or remove {self.path.parent} to start again."
            )
        os.truncate(self.path, position)
        self.records = [json.loads(line) for line in self.content.splitlines()[1:]]
        return self.records

    def _write(self, record: dict[str, Any]) -> None:
        if self.path is None:
            return
        line = json.dumps(record)
        try:
            append_lines(self.path, [line])
        except OSError as error:
            advice = "make room and resume the run"
            raise CheckpointError(f"{self.path} was not written ({error}); {advice}.") from error
        self.content += f"{line}\n".encode()
