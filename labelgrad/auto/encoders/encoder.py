"""What an encoder is: images or texts in, a row of features for each out."""

from __future__ import annotations

import json
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from labelgrad.files import digest_of, json_bytes

IMAGES, TEXTS = "images", "texts"  # the kinds
NONE = "none"  # the name that turns encoders off
OWN = "own "  # prefix of the name of a network that the user brings
EXTRAS = {IMAGES: "pip install 'labelgrad[images]'", TEXTS: "pip install 'labelgrad[text]'"}
MATTERS = ("kind", "settings", "width", "weights")  # what features depend on


@dataclass(frozen=True, eq=False)
class Encoder(ABC):
    """A network with fixed weights, and how its inputs are prepared.

    `settings` is what the preparation depends on, as JSON can hold it: the `size` of images, the
    number of `tokens` of texts. `weights` is a digest. A subclass has the network as `module`, for
    fine-tuning.
    """

    name: str
    settings: dict[str, Any]
    width: int  # features per example
    weights: str
    kind: ClassVar[str]  # IMAGES or TEXTS
    batch_size: ClassVar[int] = 64

    @abstractmethod
    def encode(self, batch: Sequence[Any]) -> Tensor:
        """Features (n, width) in float32 of n images (3, size, size) in 8 bits, or of n texts."""

    def describe(self) -> dict[str, Any]:
        """The name and everything that features depend on, as JSON can hold it."""
        return {key: getattr(self, key) for key in ("name", *MATTERS)}


def fingerprint(description: Mapping[str, Any]) -> str:
    """A digest of weights and settings, whatever the encoder's name.

    Examples
    --------
    >>> fingerprint({"name": "a", "width": 2}) == fingerprint({"width": 2, "name": "b"})
    True
    """
    same = {key: value for key, value in sorted(description.items()) if key != "name"}
    return digest_of(json_bytes(same))[:16]


def check_same(encoder: Encoder, description: Mapping[str, Any]) -> None:
    """Raise ValueError unless `encoder` is the one that `description` describes."""
    differs = [key for key in MATTERS if getattr(encoder, key) != description[key]]
    if differs:
        raise ValueError(
            f"The encoder {description['name']!r} differs in its {' and '.join(differs)} from the "
            f"one the model was fitted with; provide that one, or fit again."
        )


def pool_features(outputs: Tensor) -> Tensor:
    """The output of a network as (n, width) in float32; feature maps are averaged.

    Examples
    --------
    >>> import torch
    >>> pool_features(torch.ones(2, 5, 3, 3)).shape
    torch.Size([2, 5])
    """
    if outputs.ndim not in (2, 4):
        raise ValueError(
            f"An encoder must return features of the shape (n, width) or (n, width, height, "
            f"width), got {tuple(outputs.shape)}."
        )
    return (outputs.mean((2, 3)) if outputs.ndim == 4 else outputs).float()


def one_line(error: Exception) -> str:
    r"""The message of another library's error, short enough for a sentence.

    Examples
    --------
    >>> one_line(ValueError("no such file:\n  x.")), one_line(KeyError())
    ('no such file: x', 'KeyError')
    """
    return " ".join(str(error).split())[:200].rstrip(".:") or type(error).__name__


def read_settings(path: Path) -> dict[str, Any]:
    """The content of a JSON file; empty if the file is missing or damaged."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def check_safetensors(folder: Path, name: str, pattern: str = "**/*.safetensors") -> None:
    """Raise ValueError unless the weights in a folder are in a format that cannot contain code."""
    if not any(folder.glob(pattern)):
        raise ValueError(
            f"The encoder {name!r} needs its weights as safetensors in {folder}; other formats may "
            f"contain code and are not loaded."
        )


@contextmanager
def loading(name: str, path: Path) -> Iterator[None]:
    """Make one sentence of whatever libraries raise about damaged weights, and keep them quiet."""
    try:
        with quiet():
            yield
    except Exception as error:
        raise ValueError(
            f"The encoder {name!r} cannot be loaded from {path} ({one_line(error)}); get its "
            f"weights again."
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, logs and warnings of the libraries; errors are raised."""
    bars: Any = find_spec("transformers") and import_module("transformers.utils.logging")
    shown = bars and bars.is_progress_bar_enabled()
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    if shown:
        bars.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        if shown:
            bars.enable_progress_bar()
