"""Checkpoints: whole or not there at all, and never any code in them.

Each is one safetensors file named by its step, written beside its final name, forced to the disk
and then renamed. It carries a digest of all it holds, so damage is found when it is read, and the
one before it is kept for that case.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

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
        half = path.with_suffix(".partial")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(half, state)
            half.replace(path)
            _sync(self.folder)
        except (OSError, SafetensorError) as error:
            half.unlink(missing_ok=True)
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
                state = _read(path, device)
            except (OSError, SafetensorError, ValueError, KeyError) as error:
                damaged = f"the checkpoint {path} is damaged ({error})"
                warnings.warn(f"{damaged}; trying the one before it.", stacklevel=2)
            else:
                return state
        if damaged is not None:
            raise CheckpointError(f"{damaged} and no other is left; remove it to start anew.")
        return None

    def _what_is_left(self) -> str:
        whole = self.files()
        if not whole:
            return "there is no earlier one; make room and start again."
        return f"the one before it, {whole[-1].name}, is kept; make room and resume from there."


def _write(path: Path, state: State) -> None:
    tensors = _unshared(state.tensors)
    info = json.dumps(state.info)
    save_file(tensors, path, {"info": info, "digest": _digest(tensors, info)})
    _sync(path)


def _unshared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, each with memory of its own: tied weights are written twice."""
    seen: set[int] = set()
    separate = {}
    for name, value in tensors.items():
        value = value.detach().cpu().contiguous()
        place = value.untyped_storage().data_ptr()
        separate[name] = value.clone() if place in seen else value
        seen.add(place)
    return separate


def _read(path: Path, device: torch.device | str) -> State:
    with safe_open(path, framework="pt") as file:
        metadata: dict[str, Any] = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if _digest(tensors, metadata["info"]) != metadata["digest"]:
        raise ValueError("its content does not match its digest")
    moved = {name: value.to(device) for name, value in tensors.items()}
    return State(moved, json.loads(metadata["info"]))


def _digest(tensors: dict[str, Tensor], info: str) -> str:
    digest = hashlib.blake2b(info.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    """Wait until the file or folder is on the disk and not merely on its way there."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
