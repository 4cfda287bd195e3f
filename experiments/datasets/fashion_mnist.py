"""Fashion-MNIST (Xiao et al., 2017): 70,000 grey images of clothes, 28×28, in ten classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.datasets.files import contents, fetch

FOLDER = "fashion-mnist"
CLASSES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
HOST = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
# Of the bytes inside the .gz: the same images are also handed on compressed in other ways.
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


def read(folder: Path) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training images with their classes, and test images; missing files are downloaded."""
    home = folder / FOLDER
    fetch([f"{HOST}/{name}.gz" for name in CHECKSUMS if not (home / name).exists()], home)
    return _part(home, "train"), _part(home, "t10k")


def _part(home: Path, part: str) -> tuple[Tensor, Tensor]:
    names = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
    x, y = (read_idx(_place(home, name), CHECKSUMS[name]) for name in names)
    return x.unsqueeze(1), y.long()


def _place(home: Path, name: str) -> Path:
    return home / name if (home / name).exists() else home / f"{name}.gz"


def read_idx(path: Path, checksum: str) -> Tensor:
    """The array in a file of MNIST's own format, compressed or not.

    Two zero bytes, the kind of number (unsigned bytes here), how many axes; the length of each axis
    in four bytes; then the numbers, the last axis fastest.
    """
    data = contents(path, checksum)
    start = 4 + 4 * data[3]
    shape = np.frombuffer(data[4:start], ">u4").tolist()
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy())
