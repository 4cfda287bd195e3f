"""Fashion-MNIST (Xiao et al., 2017): 70,000 grey pictures of clothes, 28×28, in ten classes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labelgrad.datasets.files import Progress, RemoteFile, contents, fetch

FOLDER = "fashion-mnist"
CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
HOST = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
PUBLISHED = tuple(
    RemoteFile(f"{HOST}/{name}.gz", f"md5:{digest}", size)
    for name, digest, size in (
        ("train-images-idx3-ubyte", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
        ("train-labels-idx1-ubyte", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
        ("t10k-images-idx3-ubyte", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
        ("t10k-labels-idx1-ubyte", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
    )
)
# Of the bytes inside the .gz: the same pictures are also handed on compressed in other ways.
CHECKSUMS = {
    "train-images-idx3-ubyte": "sha256:"
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "sha256:"
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "sha256:"
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "sha256:"
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
UNSIGNED_BYTE = 8  # the only kind of number in these files


def read(
    folder: Path, progress: Progress | None = None
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Pictures and classes for training, and those for the test; missing files are downloaded."""
    home = folder / FOLDER
    fetch([file for file in PUBLISHED if not (home / file.name[:-3]).exists()], home, progress)
    return _part(home, "train"), _part(home, "t10k")


def _part(home: Path, part: str) -> tuple[Tensor, Tensor]:
    pictures, classes = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
    x = read_idx(_place(home, pictures), CHECKSUMS[pictures])
    y = read_idx(_place(home, classes), CHECKSUMS[classes])
    return x.unsqueeze(1), y.long()


def _place(home: Path, name: str) -> Path:
    return home / name if (home / name).exists() else home / f"{name}.gz"


def read_idx(path: Path, checksum: str | None = None) -> Tensor:
    """The array in a file of MNIST's own format, compressed or not.

    Two zero bytes, the kind of number, how many axes; the length of each axis in four bytes; then
    the numbers, the last axis fastest.
    """
    data = contents(path, checksum)
    if len(data) < 4 or data[:3] != bytes([0, 0, UNSIGNED_BYTE]):
        raise ValueError(
            f"{path} must be an idx file of unsigned bytes, got one that begins {data[:4]!r}."
        )
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise ValueError(
            f"{path} ends before the lengths of its {data[3]} axes; delete it and try again."
        )
    shape = np.frombuffer(data[4:start], ">u4").tolist()
    if len(data) != start + math.prod(shape):
        raise ValueError(
            f"{path} must have {start + math.prod(shape):,} bytes for its {shape} numbers, "
            f"got {len(data):,}; delete it and try again."
        )
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy())
