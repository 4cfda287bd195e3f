"""SVHN (Netzer et al., 2011): 99,289 colour pictures of house numbers' digits, 32×32."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelgrad.datasets.files import Progress, RemoteFile, contents, fetch

FOLDER = "svhn"
CLASSES = tuple("0123456789")
HOST = "http://ufldl.stanford.edu/housenumbers"
TRAIN = RemoteFile(f"{HOST}/train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373", 182_040_794)
TEST = RemoteFile(f"{HOST}/test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3", 64_275_384)
COUNTS = {  # how often each digit is in the authors' files
    "train": (4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659),
    "test": (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595),
}
HDF5 = b"\x89HDF\r\n"  # how MATLAB's files begin since 7.3, after a header of half a kilobyte


def read(
    folder: Path, progress: Progress | None = None, *, rebuilt: bool = False
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Pictures and digits for training, and those for the test; missing files are downloaded.

    Files that somebody `rebuilt` from the published full numbers, in the folder `svhn-rebuilt`, are
    not the authors' bytes. They must have as many of each digit.
    """
    if not rebuilt:
        home = folder / FOLDER
        fetch([TRAIN, TEST], home, progress)
        train, test = (read_mat(home / file.name, file.checksum) for file in (TRAIN, TEST))
        return train, test
    home = folder / f"{FOLDER}-rebuilt"
    for file in (TRAIN, TEST):
        if not (home / file.name).is_file():
            raise FileNotFoundError(f"there is no rebuilt file {home / file.name}; put it there.")
    parts = {"train": read_mat(home / TRAIN.name), "test": read_mat(home / TEST.name)}
    for part, (_, y) in parts.items():
        found = tuple(torch.bincount(y, minlength=10).tolist())
        if found != COUNTS[part]:
            raise ValueError(
                f"the rebuilt {part} file must have each digit as often as the authors' has, "
                f"{COUNTS[part]}, got {found}; rebuild it from all of the full numbers."
            )
    return parts["train"], parts["test"]


def read_mat(path: Path, checksum: str | None = None) -> tuple[Tensor, Tensor]:
    """The pictures and digits of a MATLAB file, where the class 10 is the digit 0."""
    variables = _variables(path, contents(path, checksum))
    if missing := {"X", "y"} - set(variables):
        raise ValueError(f"{path} must have the variables X and y, got no {min(missing)}.")
    x, y = variables["X"], variables["y"]
    if x.dtype != np.uint8 or x.shape[:3] != (32, 32, 3) or x.shape[3:] != (y.size,):
        raise ValueError(
            f"{path} must have an X of 32×32×3×count bytes and a y for each, got {x.shape} of "
            f"{x.dtype} and {y.shape}."
        )
    if not np.isin(y, np.arange(1, 11)).all():
        raise ValueError(f"{path} must have classes from 1 to 10, got {y.min()} to {y.max()}.")
    pictures = np.ascontiguousarray(x.transpose(3, 2, 0, 1))  # (count, channels, height, width)
    return torch.from_numpy(pictures), torch.from_numpy(y.ravel().astype(np.int64) % 10)


def _variables(path: Path, data: bytes) -> dict[str, Any]:
    from scipy.io import loadmat

    if HDF5 in data[:1024]:
        raise ValueError(
            f"{path} must be a MATLAB file of version 5, got version 7.3 (HDF5); "
            "save it again in MATLAB with -v7, or delete it and try again."
        )
    try:
        variables: dict[str, Any] = loadmat(BytesIO(data), variable_names=["X", "y"])
    except Exception:  # a bad file may end in any error of scipy's reader
        raise ValueError(
            f"{path} is cut off, damaged or no MATLAB file of version 5; delete it and try again."
        ) from None
    return variables
