"""CIFAR-10 (Krizhevsky, 2009), binary version: 60,000 colour images, 32×32, ten classes."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.datasets.files import check, contents, fetch

FOLDER = "cifar-10"
CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
INNER = "cifar-10-batches-bin"  # the folder inside the archive
CHECKSUMS = {
    "data_batch_1.bin": "sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
RECORD = 1 + 3 * 32 * 32  # the class, then red, green and blue, each row by row


def read(folder: Path) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training images with their classes, and test images; what is missing is downloaded."""
    home = folder / FOLDER
    for place in (home, home / INNER):
        if all((place / name).exists() for name in CHECKSUMS):
            found = {name: contents(place / name, given) for name, given in CHECKSUMS.items()}
            break
    else:
        fetch([URL], home)
        found = _unpacked(home / URL.rpartition("/")[2])
    parts = [records(found[name]) for name in CHECKSUMS]
    x, y = (torch.cat(pieces) for pieces in zip(*parts[:-1], strict=True))
    return (x, y), parts[-1]


def records(data: bytes) -> tuple[Tensor, Tensor]:
    """The images and classes of one batch."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    x = torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy())
    return x, torch.from_numpy(rows[:, 0].astype(np.int64))


def _unpacked(path: Path) -> dict[str, bytes]:
    """The batches by their exact names; nothing else in the archive is read or written."""
    found = {}
    try:
        with tarfile.open(path, "r|gz") as archive:  # one pass: seeking back would unpack again
            for member in archive:
                name = member.name.removeprefix(f"{INNER}/")
                wanted = name in CHECKSUMS and member.isfile()  # a link is not followed
                if wanted and (stream := archive.extractfile(member)) is not None:
                    found[name] = stream.read(10_000 * RECORD + 1)
                    check(found[name], CHECKSUMS[name], f"{name} in {path}")
    except (tarfile.TarError, EOFError, zlib.error):
        raise ValueError(f"{path} is cut off or damaged; delete it and try again.") from None
    if missing := CHECKSUMS.keys() - found:
        raise ValueError(f"{path} has no {', '.join(sorted(missing))}; delete it and try again.")
    return found
