"""Examples that lie in a file: a tensor over it, which another process opens by its path.

Only what is looked at comes into memory, and the system may drop it again at any time. Few examples
are held in memory, and more than a limit are refused; environment variables say how many.
"""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from labelgrad.encoders.base import megabytes
from labelgrad.encoders.cache import SPARE

MEMORY, USUAL_MEMORY = "LABELGRAD_MEMORY", 200.0  # megabytes of examples; more of them are mapped
LIMIT, USUAL_LIMIT = "LABELGRAD_CACHE_LIMIT", 100.0  # gigabytes that one set of examples may take

_files: WeakIdKeyDictionary = WeakIdKeyDictionary()  # of each tensor over a file, where that is


@dataclass(frozen=True)
class MappedFile:
    """Where the numbers of a tensor lie, one after the other, and nothing else.

    `channels` is how many of the second dimension the tensor has, if not all of them.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp(), "rows.bin")
    >>> _ = path.write_bytes(bytes(range(6)))
    >>> x = MappedFile(path, "uint8", (2, 3)).tensor()
    >>> x
    tensor([[0, 1, 2],
            [3, 4, 5]], dtype=torch.uint8)
    >>> to_send(x).tensor().equal(x)
    True
    """

    path: Path
    dtype: str
    shape: tuple[int, ...]
    channels: int | None = None

    def tensor(self) -> Tensor:
        """The tensor over the file, which stays as it is whatever is done to the tensor."""
        try:
            array = np.memmap(self.path, self.dtype, "c", shape=self.shape)
        except (OSError, ValueError) as error:
            raise OSError(
                f"The examples in {self.path} are not there any more ({error}); start again."
            ) from None
        found = torch.from_numpy(array if self.channels is None else array[:, : self.channels])
        _files[found] = self
        return found


def to_send(x: Tensor, *, by_path: bool = True) -> Any:
    """What to hand to another process: the place of the file, or else an array of the numbers.

    An array is copied: PyTorch's shared memory is often too small. Without `by_path` it is always
    the numbers, as on another machine the file is not.
    """
    return (_files.get(x) if by_path else None) or x.numpy()


def received(sent: Any) -> Tensor:
    """The tensor that `to_send` was given.

    >>> received(to_send(torch.ones(2)))
    tensor([1., 1.])
    """
    return sent.tensor() if isinstance(sent, MappedFile) else torch.as_tensor(sent)


def roomy(shape: tuple[int, ...], dtype: Any, folder: Path) -> NDArray[Any]:
    """An array of zeros: in memory, or else, where it is large, in a file without a name.

    The file lies in `folder`, and is gone with the array.

    >>> roomy((2,), "float32", Path("kept"))
    array([0., 0.], dtype=float32)
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if fits_memory(size):
        return np.zeros(shape, dtype)
    check_room(f"Numbers of the shape {shape}", size, folder)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # a full disk is told now, and not by a signal later
            os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype, "w+", shape=shape)


def fits_memory(size: int) -> bool:
    """Whether examples of so many bytes are held in memory, as LABELGRAD_MEMORY has it.

    >>> fits_memory(10**6), fits_memory(10**12)
    (True, False)
    """
    return size <= 1e6 * _number(MEMORY, USUAL_MEMORY)


def check_room(what: str, size: int, folder: Path, *, there: int = 0) -> None:
    """Refuse what the disk has no room for, or what is above LABELGRAD_CACHE_LIMIT.

    Of `size` bytes so many are `there` already.

    >>> check_room("5 pictures of 8×8", 10**14, Path("kept"))
    Traceback (most recent call last):
    OSError: 5 pictures of 8×8 take 100000.0 GB in kept, and a cache may take 100.0 GB; allow more \
with LABELGRAD_CACHE_LIMIT (in GB), or take fewer or smaller ones.
    """
    limit, where = 1e9 * _number(LIMIT, USUAL_LIMIT), folder
    if size > limit:
        raise OSError(
            f"{what} take {megabytes(size)} in {folder}, and a cache may take {megabytes(limit)}; "
            f"allow more with {LIMIT} (in GB), or take fewer or smaller ones."
        )
    while not where.exists() and where != where.parent:
        where = where.parent
    free = shutil.disk_usage(where).free
    if size - there + SPARE > free:
        raise OSError(
            f"{what} take {megabytes(size - there)} in {folder}, and {megabytes(free)} of the disk "
            f"are free; make room, choose another folder with LABELGRAD_CACHE, or take fewer or "
            f"smaller ones."
        )


def _number(name: str, usual: float) -> float:
    said = os.environ.get(name, str(usual))
    try:
        number = float(said)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name} must be a number from 0 on, got {said!r}.")
    return number
