"""CIFAR-10 (Krizhevsky, 2009), binary version: 60,000 colour pictures, 32×32, ten classes."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labelgrad.datasets.files import Progress, RemoteFile, check, contents, fetch

FOLDER = "cifar-10"
CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
PUBLISHED = RemoteFile(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "md5:c32a1d4ab5d03f1284b67883e8d87530",
    170_052_171,
)
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
BATCH = 10_000 * RECORD


def read(
    folder: Path, progress: Progress | None = None
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Pictures and classes for training, and those for the test; what is missing is downloaded."""
    found = _batches(folder / FOLDER, progress)
    parts = {name: records(data, name) for name, data in found}
    train = [parts[name] for name in CHECKSUMS if name != "test_batch.bin"]
    x, y = (torch.cat(pieces) for pieces in zip(*train, strict=True))
    return (x, y), parts["test_batch.bin"]


def records(data: bytes, name: str) -> tuple[Tensor, Tensor]:
    """The pictures and classes of one batch."""
    if not data or len(data) % RECORD:
        raise ValueError(
            f"{name} must be pictures of {RECORD:,} bytes each, got {len(data):,} bytes; "
            "delete it and try again."
        )
    rows = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    if (largest := int(rows[:, 0].max())) >= len(CLASSES):
        raise ValueError(f"{name} must have classes from 0 to 9, got {largest}.")
    x = torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy())
    return x, torch.from_numpy(rows[:, 0].astype(np.int64))


def _batches(home: Path, progress: Progress | None) -> Iterator[tuple[str, bytes]]:
    """Each batch's name and bytes: from files of their own, or else from the archive."""
    lacking = {place: _lacking(place) for place in (home, home / INNER)}
    place = min(lacking, key=lambda place: len(lacking[place]))
    if not lacking[place]:
        return ((name, contents(place / name, checksum)) for name, checksum in CHECKSUMS.items())
    try:
        fetch([PUBLISHED], home, progress)
    except OSError as error:
        raise OSError(f"{place} lacks {', '.join(lacking[place])}, and {error}") from None
    return _unpacked(home / PUBLISHED.name)


def _lacking(place: Path) -> list[str]:
    return [name for name in CHECKSUMS if not (place / name).exists()]


def _unpacked(path: Path) -> Iterator[tuple[str, bytes]]:
    """The batches by their exact names; nothing else in the archive is looked at or written."""
    missing = {f"{INNER}/{name}": name for name in CHECKSUMS}
    try:
        with tarfile.open(path, "r|gz") as archive:  # in one go: seeking back would unpack again
            for member in archive:
                wanted = member.name in missing and member.isfile()
                if wanted and (stream := archive.extractfile(member)) is not None:
                    name, data = missing.pop(member.name), stream.read(BATCH + 1)
                    check(data, CHECKSUMS[name], f"{name} in {path}")
                    yield name, data
    except (tarfile.TarError, EOFError, zlib.error):
        raise ValueError(f"{path} is cut off or damaged; delete it and try again.") from None
    if missing:
        raise ValueError(f"{path} has no {', '.join(missing)}; delete it and try again.")
