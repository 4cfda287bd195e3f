"""SVHN (Netzer et al., 2011): 99,289 colour images of house numbers' digits, 32×32."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.datasets.files import contents, fetch

FOLDER = "svhn"
CLASSES = tuple("0123456789")
HOST = "http://ufldl.stanford.edu/housenumbers"
CHECKSUMS = {
    "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
}
COUNTS = {  # how often each digit is in the authors' files
    "train_32x32.mat": (4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659),
    "test_32x32.mat": (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595),
}


def read(
    folder: Path, *, rebuilt: bool = False
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training images with their digits, and test images; missing files are downloaded.

    Files that were `rebuilt` from the published full numbers, in the folder `svhn-rebuilt`, are
    not the authors' bytes. They must have as many of each digit.
    """
    if not rebuilt:
        fetch([f"{HOST}/{name}" for name in CHECKSUMS], folder / FOLDER)
        train, test = (read_mat(folder / FOLDER / name, CHECKSUMS[name]) for name in CHECKSUMS)
        return train, test
    train, test = (read_mat(folder / f"{FOLDER}-rebuilt" / name) for name in CHECKSUMS)
    for (_, y), (name, counts) in zip((train, test), COUNTS.items(), strict=True):
        found = tuple(torch.bincount(y, minlength=10).tolist())
        if found != counts:
            raise ValueError(
                f"the rebuilt {name} must have each digit as often as the authors' file, "
                f"{counts}, got {found}; rebuild it from all of the full numbers."
            )
    return train, test


def read_mat(path: Path, checksum: str | None = None) -> tuple[Tensor, Tensor]:
    """The images and digits of a MATLAB file (version 5), where the class 10 is the digit 0."""
    from scipy.io import loadmat

    data = contents(path, checksum)
    try:
        variables = loadmat(BytesIO(data), variable_names=["X", "y"])
        x, y = variables["X"], variables["y"]
    except Exception:  # a bad file may end in any error of scipy's reader
        raise ValueError(
            f"{path} must be a MATLAB file of version 5 with the variables X and y; replace it."
        ) from None
    images = np.ascontiguousarray(x.transpose(3, 2, 0, 1))  # (count, channels, height, width)
    return torch.from_numpy(images), torch.from_numpy(y.ravel().astype(np.int64) % 10)
