"""Checkpoints: whole or not there at all, and never any code in them.

Each is one file named by its step (see `labelgrad.tensor_file`). Damage is found when it is read,
and the one before it is kept for that case.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from labelgrad.tensor_file import read_tensors, write_tensors
from labelgrad.training.errors import CheckpointError
from labelgrad.training.state import State


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
        path = self.folder / f"step-{state.info['step']:012d}.safetensors"
        try:
            write_tensors(path, state.tensors, state.info)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint {path} could not be written ({error}); {self._what_is_left()}"
            ) from error
        for old in self.files()[: -self.keep]:
            old.unlink()

    def load(self, device: torch.device | str = "cpu") -> State | None:
        """The newest whole checkpoint, or `None` where there is none; damage is warned of."""
        damaged = None
        for path in reversed(self.files()):
            try:
                tensors, info = read_tensors(path)
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
