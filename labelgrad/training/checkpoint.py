"""What a run keeps in its folder: checkpoints, and the record of its evaluations.

A checkpoint is one file of named tensors and a little JSON, named by its step (`labelgrad.files`):
whole or not there at all, and never any code in it. Damage is found when it is read, and the one
before it is kept for that case. Rows of a label table that are too many for one file lie beside it
in files of a range each, which it names by their digests. The record is JSON lines, written as the
run goes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import labelgrad
from labelgrad.files import digest, read_tensors, write_tensors
from labelgrad.training.errors import CheckpointError


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


def pack_optimizer(
    optimizer: torch.optim.Optimizer,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimizer's state as named tensors and JSON."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for index, values in state["state"].items():
        for name, value in values.items():
            (tensors if isinstance(value, Tensor) else plain)[f"{index}.{name}"] = value
    named = {f"optimizer.{name}": value for name, value in tensors.items()}
    return named, {"groups": state["param_groups"], "plain": plain}


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], info: dict[str, Any]
) -> None:
    """Put back what `pack_optimizer` gave."""
    _check_groups(info["groups"], optimizer.state_dict()["param_groups"])
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **info["plain"]}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": info["groups"]})
    names = {tuple(sorted(values)) for values in optimizer.state.values() if values}
    if len(names) > 1:
        raise ValueError("the optimizer's state lacks a part of some parameters")
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                raise ValueError(f"the optimizer's {name} has the shape {tuple(value.shape)}")
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                # A fused optimizer takes for granted that state and parameter lie alike in memory.
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def _check_groups(saved: Any, wanted: list[dict[str, Any]]) -> None:
    """Refuse groups of parameters that this optimizer could not have written."""
    alike = len(saved) == len(wanted) and all(
        mine.keys() == group.keys()
        and mine["params"] == group["params"]
        and all(_kind(mine[name]) == _kind(value) for name, value in group.items())
        for mine, group in zip(saved, wanted, strict=True)
    )
    if not alike:
        raise ValueError("the optimizer's settings are not such as it has")


def _kind(value: Any) -> Any:
    """What sort of plain value it is; JSON makes lists of tuples, and whole numbers are numbers."""
    if isinstance(value, list | tuple):
        return [_kind(each) for each in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float if is_number else type(value)


class RowFile(NamedTuple):
    """Where some rows of a table are: its name among the tensors, the file, the file's digest."""

    table: str
    file: str
    digest: str


class Checkpoints:
    """The last few checkpoints of a run, in a folder.

    >>> from tempfile import mkdtemp
    >>> checkpoints = Checkpoints(mkdtemp())
    >>> checkpoints.save(State({"w": torch.ones(2)}, {"step": 5}))
    >>> checkpoints.load().info
    {'step': 5}
    """

    def __init__(self, folder: str | Path, *, keep: int = 2):
        self.folder, self.keep = Path(folder), keep

    def files(self) -> list[Path]:
        """The checkpoint files, oldest first."""
        return sorted(self.folder.glob("step-*.safetensors"))

    def save(self, state: State) -> None:
        """Write a checkpoint, then drop those that are not needed any more."""
        step = state.info["step"]
        self._write(self.folder / f"step-{step:012d}.safetensors", state)
        for old in self.files()[: -self.keep]:
            old.unlink()
        steps = {path.stem.removeprefix("step-") for path in self.files()}
        for path in self.folder.glob("rows-*.safetensors"):
            if path.name.split("-")[1] not in steps:
                path.unlink()

    def save_rows(self, step: int, name: str, rows: slice, tensors: dict[str, Tensor]) -> RowFile:
        """Write some rows of a table of that name beside a checkpoint that is to come."""
        file = f"rows-{step:012d}-{name}-{rows.start:012d}.safetensors"
        digest = self._write(self.folder / file, State(tensors, {"rows": [rows.start, rows.stop]}))
        return RowFile(name, file, digest)

    def load_rows(self, kept: RowFile) -> tuple[slice, dict[str, Tensor]]:
        """The rows that were saved, and which they are; a ValueError if they are damaged."""
        tensors, info = read_tensors(self.folder / kept.file)
        if digest(tensors, json.dumps(info)) != kept.digest:
            raise ValueError(f"{kept.file} is of another checkpoint")
        return slice(*info["rows"]), tensors

    def _write(self, path: Path, state: State) -> str:
        try:
            return write_tensors(path, state.tensors, state.info)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint {path} could not be written ({error}); {self._what_is_left()}"
            ) from error

    def load(self, device: torch.device | str = "cpu") -> State | None:
        """The newest whole checkpoint, or `None` where there is none; damage is warned of."""
        damaged = None
        for path in reversed(self.files()):
            try:
                tensors, info = read_tensors(path)
                for kept in info.get("rows", ()):
                    self.load_rows(RowFile(*kept))  # whole, too?
            except (OSError, ValueError) as error:
                damaged = f"the checkpoint {path} is damaged ({error})"
                warnings.warn(f"{damaged}; trying the one before it.", stacklevel=2)
            else:
                return State({name: t.to(device) for name, t in tensors.items()}, info)
        if damaged is not None:
            raise CheckpointError(f"{damaged} and no other is left; remove it to start anew.")
        return None

    def _what_is_left(self) -> str:
        whole = self.files()
        if not whole:
            return "there is no earlier one; make room and start again."
        return f"the one before it, {whole[-1].name}, is kept; make room and resume from there."


class Log:
    """One JSON object a line: first what the run is, then its records as they come.

    >>> log = Log(None)
    >>> log.begin({"seed": 0})
    >>> log.append({"step": 100})
    >>> log.records
    [{'step': 100}]
    """

    def __init__(self, path: Path | None):
        self.path, self.position = path, 0
        self.records: list[dict[str, Any]] = []
        self._content = hashlib.blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """A short name for all that was written so far."""
        return self._content.hexdigest()

    def begin(self, head: dict[str, Any]) -> None:
        """Start the file with what the run is."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(b"")
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
        content = self.path.read_bytes()[:position] if self.path.is_file() else b""
        self._content.update(content)
        if self.digest != digest:
            raise CheckpointError(
                f"{self.path} must hold the first {position} bytes of this run's record, and does "
                f"not; put it back, or remove {self.path.parent} to train that anew."
            )
        os.truncate(self.path, position)
        self.position = position
        self.records = [json.loads(line) for line in content.splitlines()[1:]]
        return self.records

    def _write(self, record: dict[str, Any]) -> None:
        if self.path is None:
            return
        data = (json.dumps(record) + "\n").encode()
        try:
            with self.path.open("ab") as file:
                file.write(data)
        except OSError as error:
            with suppress(OSError):  # half a line would stand before all that comes
                os.truncate(self.path, self.position)
            raise CheckpointError(
                f"{self.path} could not be written ({error}); make room and resume the run."
            ) from error
        self.position += len(data)
        self._content.update(data)


@cache
def revision() -> dict[str, str | None]:
    """Which code this is: the package's version, its own git revision or none, PyTorch's."""
    return {
        "labelgrad": labelgrad.__version__,
        "revision": _own_commit(Path(labelgrad.__file__).parent),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _own_commit(package: Path) -> str | None:
    """The commit of the repository whose top folder holds the package, and which tracks it.

    Installed below somebody else's repository, their commit says nothing about this code.
    """

    def git(*words: str) -> str:
        command = ["git", "-C", str(package), *words]
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return found.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        if Path(git("rev-parse", "--show-toplevel")).resolve() != package.parent.resolve():
            return None
        return git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return None
