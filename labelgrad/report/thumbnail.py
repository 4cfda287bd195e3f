"""A picture small enough to stand in a page by the hundred."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np

LARGEST = 96  # pixels of a side
TINY = 48  # below this, pixels are shown as squares


def thumbnail(picture: Any) -> str:
    """The picture as a PNG data URI, no side larger than 96 pixels.

    >>> thumbnail(np.zeros((8, 8), dtype=np.uint8))[:22]
    'data:image/png;base64,'
    """
    from PIL import Image

    image = Image.fromarray(_pixels(picture))
    image.thumbnail((LARGEST, LARGEST))
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _pixels(picture: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Pixels with their colours last, or without colours."""
    pixels = np.asarray(picture)
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3):
        pixels = np.moveaxis(pixels, 0, -1)
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    whole = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[-1] == 3)
    if pixels.dtype != np.uint8 or not whole or not pixels.size:
        raise ValueError(
            f"A picture must have 8-bit pixels, grey or in three colours, got {pixels.dtype} "
            f"numbers of the shape {pixels.shape}."
        )
    return np.ascontiguousarray(pixels)
