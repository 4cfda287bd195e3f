"""Features of encoders as numbers of a row: which encoder, what it gave, and how that is scaled."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.encoders.base import NONE, Encoder
from labelgrad.encoders.cache import Extracted, content_key, extract
from labelgrad.encoders.found import (
    Given,
    advice,
    automatic,
    encoder_for,
    kind_of,
    same_encoder,
    there,
)
from labelgrad.inputs.base import Encoding, join_few
from labelgrad.inputs.columns import ROW_LENGTH
from labelgrad.inputs.mapped import roomy
from labelgrad.inputs.pixels import load_picture

THUMBNAIL = 64  # pixels of a picture as the page shows it
AT_ONCE = 4096  # rows that are scaled at once
SAME = 1e-3  # rows of unit length that are no farther apart, in float32


@dataclass(frozen=True, eq=False)
class Block:
    """Numbers of a row that come out of one encoder, and how they are scaled.

    Rows are brought to unit length, centred and divided by one number: encoders tell things apart
    by the direction of their features, and how their axes are stretched is part of what they have
    learned. A row that is missing has zeros, which is the mean.

    >>> block = Block.fit("", {"name": "tiny"}, np.array([[2.0, 0.0], [0.0, 5.0]]), share=1.0)
    >>> block.rows(np.array([[1.0, 0.0]])).round(decimals=2)
    tensor([[ 2.1200, -2.1200]])
    """

    column: str  # of a table; empty where the examples are pictures
    record: dict[str, Any]  # of the encoder
    mean: NDArray[np.float64]  # (width,)
    scale: float

    @classmethod
    def fit(cls, column: str, record: dict[str, Any], features: Any, *, share: float) -> Block:
        """The scaling that gives these features their `share` of a row's squared length."""
        total, known = np.zeros(np.shape(features)[1]), 0
        for start in range(0, len(features), AT_ONCE):
            units = _units(features[start : start + AT_ONCE])
            total += units.sum(0, dtype=np.float64)
            known += int(units.any(1).sum())
        mean = total / max(known, 1)
        # Of rows of unit length, the mean squared distance from their mean is 1 - |mean|².
        spread = math.sqrt(max(1 - float(mean @ mean), 0.0)) if known else 0.0
        spread = spread if spread > SAME else 0.0
        return cls(column, record, mean, spread / (ROW_LENGTH * math.sqrt(share)))

    @property
    def all_the_same(self) -> bool:
        """Whether there is nothing to learn from: no row differs from another.

        >>> rows = np.array([[3.0, 0.0], [5.0, 0.0], [0.0, 0.0]])
        >>> Block.fit("", {}, rows, share=1.0).all_the_same
        True
        """
        return self.scale == 0

    def sharing(self, share: float) -> Block:
        """The same with this share of a row, if it had all of it before."""
        return replace(self, scale=self.scale / math.sqrt(share))

    @classmethod
    def of(cls, described: dict[str, Any]) -> Block:
        """The block that `described` has put into JSON."""
        mean = np.array(described["mean"])
        return cls(described["column"], described["encoder"], mean, described["scale"])

    def described(self) -> dict[str, Any]:
        """The block as plain values."""
        return {
            "column": self.column,
            "encoder": self.record,
            "mean": self.mean.tolist(),
            "scale": self.scale,
        }

    @property
    def width(self) -> int:
        """How many numbers of a row are this block's."""
        return len(self.mean)

    def rows(self, features: Any, folder: Path | None = None) -> Tensor:
        """(n, width) as a network sees them; many of them are in a file in the `folder`, if any."""
        shape = (len(features), self.width)
        filled = torch.from_numpy(
            np.zeros(shape, np.float32) if folder is None else roomy(shape, "float32", folder)
        )
        for start in range(0, len(features), AT_ONCE):
            scaled = _units(features[start : start + AT_ONCE])
            missing = ~scaled.any(1)
            scaled -= self.mean.astype(np.float32)
            scaled /= np.float32(self.scale)
            scaled[missing] = 0
            filled.numpy()[start : start + AT_ONCE] = scaled
        return filled


def _units(features: Any) -> NDArray[np.float32]:
    """Rows of unit length; what has no length, because it is not there, stays zero."""
    rows = np.asarray(features, dtype=np.float32)
    length = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64)).astype(np.float32)
    length[length == 0] = 1
    units: NDArray[np.float32] = rows / length[:, None]
    return units


def chosen_encoder(
    encoding: Encoding, kind: str, *, size: int | None = None, natural: int | None = None
) -> tuple[Encoder | None, list[str]]:
    """The encoder to use for pictures or for text, if any, and what there is to say about it."""
    asked = _asked(encoding, kind)
    if asked is not None and _is_none(asked):
        return None, []
    if asked is None:
        if not automatic():
            return None, []
        usual = there(kind)
        if not usual:
            return None, [advice(kind)]
        asked = usual[0]
    found = encoder_for(
        kind,
        asked,
        size=size,
        natural=natural,
        device=encoding.device,
        download=encoding.download,
        on_bytes=encoding.on_bytes,
    )
    return found, []


def _asked(encoding: Encoding, kind: str) -> Given | None:
    """What was asked for of this kind; a name that could be of either is of the kind needed."""
    several = encoding.encoders
    exactly = [one for one in several if _is_none(one) or kind_of(one) == kind]
    fits = exactly or [one for one in several if kind_of(one) is None]
    if len(fits) > 1:
        raise ValueError(
            f"One encoder of {kind} is needed, got {join_few(map(_shown, fits))}; leave others out."
        )
    return fits[0] if fits else None


def check_needed(encoding: Encoding, kinds: Collection[str]) -> None:
    """Refuse an encoder that the data have nothing for."""
    for one in encoding.encoders:
        kind = kind_of(one)
        if not _is_none(one) and (not kinds or (kind is not None and kind not in kinds)):
            raise ValueError(
                f"{_shown(one)!r} is an encoder of {kind or 'pictures or text'}, and the data have "
                f"{' and '.join(sorted(kinds)) or 'none of them'}; leave it out."
            )


def _is_none(given: Given) -> bool:
    return isinstance(given, str) and given == NONE


def _shown(given: Given) -> str:
    return given if isinstance(given, str) else str(getattr(given, "name", type(given).__name__))


def encoder_again(record: dict[str, Any], encoding: Encoding) -> Encoder:
    """The encoder that features were made with, to make more of them."""
    return same_encoder(record, _asked(encoding, record["kind"]), encoding.device)


def picture_features(
    encoder: Encoder, files: Sequence[Path], encoding: Encoding, column: str = ""
) -> Extracted:
    """The features of picture files; those that cannot be read are told."""
    size = int(encoder.settings["size"])
    keys: list[bytes] = []
    for path in files:
        try:
            keys.append(content_key(path.read_bytes()))
        except OSError:  # `load` will stumble over it again
            keys.append(content_key(os.fsencode(path)))
    return _extract(encoder, keys, lambda place: load_picture(files[place], size), encoding, column)


def text_features(
    encoder: Encoder, texts: Sequence[str], encoding: Encoding, column: str = ""
) -> Extracted:
    """The features of texts."""
    keys = [content_key(text.encode("utf-8", "replace")) for text in texts]
    return _extract(encoder, keys, texts.__getitem__, encoding, column)


def _extract(
    encoder: Encoder,
    keys: Sequence[bytes],
    load: Callable[[int], Any],
    encoding: Encoding,
    column: str,
) -> Extracted:
    tell = encoding.on_progress
    return extract(
        encoder,
        keys,
        load,
        folder=encoding.cache,
        on_begin=encoding.on_note,
        on_progress=None if tell is None else partial(tell, column),
    )


def encoder_note(encoder: Encoder, *, asked: bool) -> str:
    """Which encoder it is, and how to have another."""
    how = "as asked" if asked else "the usual one that is here; --encoder for another, or none"
    read = (
        f"made {encoder.settings['size']}×{encoder.settings['size']}, cut to their middle, and "
        if "size" in encoder.settings
        else ""
    )
    what = "Pictures are" if "size" in encoder.settings else "Texts are"
    return f"{what} {read}read by the encoder {encoder.name} ({how}): {encoder.width} features."


def thumbnail(path: Path) -> NDArray[Any]:
    """A picture as the page shows it, (3, 64, 64) in 8 bits; grey if it is not there any more."""
    try:
        return load_picture(path, THUMBNAIL)
    except Exception:  # it was read before; since then it may have been moved or changed
        return np.full((3, THUMBNAIL, THUMBNAIL), 128, np.uint8)
