"""Tensors in one safetensors file: whole or not there at all, and never any code in it.

A file carries a digest of all it holds, so damage is found when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from labelgrad.files import replacing


def write_tensors(path: Path, tensors: Mapping[str, Tensor], info: Mapping[str, Any]) -> None:
    """Put tensors, and values that JSON can hold, where there is all of them or nothing.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "new" / "weights.safetensors"
    >>> write_tensors(path, {"w": torch.ones(2)}, {"step": 5})
    >>> read_tensors(path)
    ({'w': tensor([1., 1.])}, {'step': 5})
    """
    separate, text = unshared(tensors), json.dumps(info)
    try:
        with replacing(path) as half:
            save_file(separate, half, {"info": text, "digest": digest(separate, text)})
    except SafetensorError as error:
        raise OSError(str(error)) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What was written there; a ValueError says what is wrong with a file that is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    if digest(tensors, metadata.get("info", "")) != metadata.get("digest"):
        raise ValueError("its content does not match its digest")
    return tensors, json.loads(metadata["info"])


def digest(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """A short name for this content and no other.

    >>> digest({"w": torch.ones(2)}) == digest({"w": torch.ones(2)})
    True
    >>> digest({"w": torch.ones(2)}) == digest({"w": torch.ones(2, 1)})
    False
    """
    content = hashlib.blake2b(text.encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        content.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        content.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return content.hexdigest()


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, each with memory of its own: tied weights are written twice."""
    seen: set[int] = set()
    separate = {}
    for name, value in tensors.items():
        value = value.detach().cpu().contiguous()
        place = value.untyped_storage().data_ptr()
        separate[name] = value.clone() if place in seen else value
        seen.add(place)
    return separate
