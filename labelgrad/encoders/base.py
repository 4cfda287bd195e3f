"""What an encoder is: pictures or texts in, a row of features for each out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from labelgrad.files import digest, unshared

PICTURES, TEXT = "pictures", "text"  # the kinds
NONE = "none"  # the name that asks for no encoder
OWN = "own "  # before the name of a network that a person brings
Record = Mapping[str, Any]  # of an encoder; plain values that JSON can hold


class Encoder(Protocol):
    """A network with fixed weights, and how examples are made ready for it.

    `settings` are what the making ready depends on, plain values that JSON can hold. `weights` is a
    digest: two encoders of one name with other weights are two encoders.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def kind(self) -> str:
        """PICTURES or TEXT."""
        ...

    @property
    def settings(self) -> dict[str, Any]:
        """How examples are made ready; pictures have their `size`, texts the `tokens` read."""
        ...

    @property
    def width(self) -> int:
        """Numbers for each example."""
        ...

    @property
    def weights(self) -> str:
        """A digest."""
        ...

    @property
    def at_once(self) -> int:
        """Examples in a batch."""
        ...

    @property
    def module(self) -> nn.Module:
        """The network: from pixels (n, 3, size, size), or from what a tokenizer gives."""
        ...

    def encode(self, batch: Sequence[Any]) -> Tensor:
        """(n, width) in float32, of n pictures (3, size, size) in 8 bits, or of n texts."""
        ...


def record_of(encoder: Encoder) -> dict[str, Any]:
    """What has to be the same for features to be the same.

    >>> from labelgrad.encoders.pictures import picture_encoder
    >>> halves = nn.Sequential(nn.AvgPool2d(4), nn.Flatten())
    >>> record = record_of(picture_encoder(halves, size=8))
    >>> record["name"], record["kind"], record["width"], record["settings"]["size"]
    ('own Sequential', 'pictures', 12, 8)
    """
    return {
        "name": encoder.name,
        "kind": encoder.kind,
        "settings": encoder.settings,
        "width": encoder.width,
        "weights": encoder.weights,
    }


def check_same(encoder: Encoder, record: Record) -> None:
    """Refuse an encoder that is not the one of the record, in a sentence that says what differs."""
    found = record_of(encoder)
    if found["weights"] != record["weights"]:
        raise ValueError(
            f"The encoder {record['name']!r} has other weights here than those the model was "
            f"trained with ({found['weights'][:8]}, and it needs {record['weights'][:8]}); bring "
            f"those weights, or fit again."
        )
    differs = [name for name in ("kind", "settings", "width") if found[name] != record[name]]
    if differs:
        raise ValueError(
            f"The encoder {record['name']!r} has another {' and '.join(differs)} here than the one "
            f"the model was trained with; bring that one, or fit again."
        )


def fingerprint(record: Record) -> str:
    """A short name for these weights with these settings, whatever they are called.

    >>> fingerprint({"name": "a", "width": 2}) == fingerprint({"width": 2, "name": "b"})
    True
    """
    same = {name: value for name, value in record.items() if name != "name"}
    text = json.dumps(same, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def weights_of(module: nn.Module, layers: str = "") -> str:
    """A digest of all numbers of a network, and of its layers where its name does not say them.

    >>> weights_of(nn.Flatten(), "flat") == weights_of(nn.Flatten(), "flatter")
    False
    """
    return digest(unshared(module.state_dict()), layers)


def features_of(outputs: Any) -> Tensor:
    """What a network gave, as (n, width) in float32: maps of features are averaged.

    >>> import torch
    >>> features_of(torch.ones(2, 5, 3, 3)).shape
    torch.Size([2, 5])
    """
    if not isinstance(outputs, Tensor) or outputs.ndim not in (2, 4):
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(
            f"An encoder must give a row of features for each example, (n, width) or (n, width, "
            f"height, width), got {got}."
        )
    return (outputs.mean((2, 3)) if outputs.ndim == 4 else outputs).float()


@dataclass(frozen=True)
class Download:
    """What would have to be fetched before an encoder can be used."""

    name: str
    where: str  # the page of its weights
    size: int  # bytes

    @property
    def sentence(self) -> str:
        """What it is and how to allow it.

        >>> Download("a/b", "https://hub/a/b", 17_000_000).sentence
        "The encoder 'a/b' is not on this machine: 17 MB from https://hub/a/b; allow it with \
--download, or bring it as a local folder."
        """
        return f"{self.what}; allow it with --download, or bring it as a local folder."

    @property
    def what(self) -> str:
        """What it is."""
        return (
            f"The encoder {self.name!r} is not on this machine: {megabytes(self.size)} from "
            f"{self.where}"
        )


def megabytes(size: float) -> str:
    """A number of bytes as people say it.

    >>> megabytes(17_234_567), megabytes(51_200), megabytes(3_100_000_000)
    ('17 MB', '0.1 MB', '3.1 GB')
    """
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.0f} MB" if size >= 1e7 else f"{max(size / 1e6, 0.1):.1f} MB"


def first_line(error: Exception) -> str:
    r"""What an error of another library says, short enough for a sentence of ours.

    >>> first_line(ValueError("no such file.\nmore")), first_line(KeyError())
    ('no such file', 'KeyError')
    """
    said = (str(error).strip().splitlines() or [""])[0].rstrip(".:")[:200]
    return said or type(error).__name__
