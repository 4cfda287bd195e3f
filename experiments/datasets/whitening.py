"""Images for the network: bytes scaled to [-1, 1], or whitened as Oliver et al. (2018) have it.

They whiten CIFAR-10. Each image gets mean 0 and length 55, and then all numbers of all training
images are made uncorrelated, with C their covariance and μ their mean:

    x ↦ (C + 0.1·I)^(-1/2) (x − μ)

The symmetric root (ZCA) leaves a image as much like itself as whitening can. In a direction where
the images had variance λ, they have λ / (λ + 0.1) after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from labelgrad.files import digest, read_tensors, write_tensors

LENGTH, SHORTEST = 55.0, 1e-10  # after, and the least that is divided by: of a image of one grey
PIECE = 1000  # images at a time: 50,000 of CIFAR-10 in double precision would be 1.2 GB


def from_bytes(x: Tensor) -> Tensor:
    """Bytes as numbers from -1 to 1.

    >>> from_bytes(torch.tensor([0, 51, 255], dtype=torch.uint8))
    tensor([-1.0000, -0.6000,  1.0000])
    """
    if x.dtype != torch.uint8:
        raise ValueError(f"`from_bytes` needs bytes (torch.uint8), got {x.dtype}.")
    return x / 127.5 - 1


def normalize_contrast(x: Tensor) -> Tensor:
    """Each image less its own mean, at length 55; bytes and numbers in [-1, 1] come out alike.

    >>> normalize_contrast(torch.tensor([[1, 4], [7, 7]], dtype=torch.uint8))
    tensor([[-38.8909,  38.8909],
            [  0.0000,   0.0000]])
    """
    flat = x.flatten(1).double()  # in single precision, a image of one grey may not end at 0
    flat = flat - flat.mean(1, keepdim=True)
    length: Tensor = flat.norm(dim=1, keepdim=True).clamp_min(SHORTEST)
    return (LENGTH / length * flat).float().view(x.shape)


@dataclass(frozen=True, eq=False)
class ZCA:
    """Contrast normalization, then whitening fitted to training images.

    >>> images = torch.randint(256, (500, 1, 4, 4), dtype=torch.uint8)
    >>> whiten = ZCA.fit(images)
    >>> whiten(images[:3]).shape
    torch.Size([3, 1, 4, 4])
    """

    mean: Tensor  # of the shape of a image
    matrix: Tensor  # (numbers of a image, numbers of a image), symmetric

    @classmethod
    def fit(cls, x: Tensor, regularizer: float = 0.1) -> ZCA:
        """Whitening for images like these (count, channels, height, width), on the CPU."""
        mean = torch.stack([piece.sum(0) for piece in _flat_pieces(x)]).sum(0) / len(x)
        covariance = torch.zeros(len(mean), len(mean), dtype=mean.dtype)
        for piece in _flat_pieces(x):
            centred = piece - mean
            covariance.addmm_(centred.T, centred, alpha=1 / (len(x) - 1))
        matrix = _inverse_root(covariance, regularizer)
        return cls(mean.float().view(x.shape[1:]), matrix.float())

    def __call__(self, x: Tensor) -> Tensor:
        """The images whitened, in single precision, where they are."""
        whitened = torch.empty(x.shape, device=x.device)
        mean, matrix = self.mean.to(x.device), self.matrix.to(x.device)
        for before, after in zip(x.split(PIECE), whitened.split(PIECE), strict=True):
            centred = normalize_contrast(before) - mean
            torch.mm(centred.flatten(1), matrix, out=after.flatten(1))
        return whitened

    def save(self, path: str | Path, of: str = "") -> None:
        """Write it to a safetensors file; `of` says what it was fitted to."""
        write_tensors(Path(path), {"mean": self.mean, "matrix": self.matrix}, {"of": of})

    @classmethod
    def load(cls, path: str | Path, of: str | None = None) -> ZCA:
        """Read it from a file, which must be `of` this data where that is given."""
        try:
            tensors, info = read_tensors(Path(path))
            if of is not None and info.get("of") != of:
                raise ValueError("it was fitted to other images")
            return cls(tensors["mean"], tensors["matrix"])
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"the whitening in {path} cannot be used ({error}); remove the file to fit it anew."
            ) from error


def fit_once(x: Tensor, folder: str | Path, regularizer: float = 0.1) -> ZCA:
    """The whitening for these images, from `folder` where an earlier run has left it there.

    A file is named by the digest of the images and of the settings. A damaged one is replaced.
    """
    of = digest({"x": x.cpu()}, f"length {LENGTH}, at least {SHORTEST}; ZCA + {regularizer}")
    path = Path(folder) / f"zca-{of}.safetensors"
    try:
        return ZCA.load(path, of)
    except (FileNotFoundError, ValueError):
        zca = ZCA.fit(x, regularizer)
    own = path.with_stem(f"{path.stem}-{os.getpid()}")  # others may be fitting side by side
    zca.save(own, of)
    own.replace(path)
    return zca


def _flat_pieces(x: Tensor) -> Iterator[Tensor]:
    """Some images at a time, as rows of doubles with the contrast they will be whitened with."""
    return (normalize_contrast(piece.cpu()).flatten(1).double() for piece in x.split(PIECE))


def _inverse_root(covariance: Tensor, regularizer: float) -> Tensor:
    """(C + r·I)^(-1/2), symmetric to the last bit."""
    from scipy.linalg import eigh

    # LAPACK's divide and conquer; at 3072 numbers the default driver took three times as long.
    values, vectors = map(torch.from_numpy, eigh(covariance.numpy(), driver="evd"))
    half = vectors * (values.clamp_min(0) + regularizer) ** -0.25
    root = half @ half.T
    return (root + root.T) / 2
