"""Image files as pixels: upright, square, of one size, in 8 bits.

An image is scaled until its shorter side fits, and cropped to its center. Padding would be the
other way, but a network learns classes from bars where all images of one class are upright. What is
transparent becomes white.
"""

from __future__ import annotations

import ctypes
import logging
import statistics
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from labelgrad.reasons import reason_of

Array = NDArray[Any]  # not labelgrad.auto.task's: processes that decode do without PyTorch

Image.init()
# Formats that Pillow decodes itself, if it was built so; EPS, for one, would start another program.
KNOWN = {"PNG", "JPEG", "MPO", "GIF", "BMP", "DIB", "TIFF", "WEBP", "PPM", "AVIF", "JPEG2000"}
KNOWN |= {"ICO", "TGA"}
FORMATS = sorted(KNOWN & {*Image.OPEN})
SUFFIXES = tuple(end for end, name in Image.registered_extensions().items() if name in KNOWN)
SIZE_SAMPLE = 200  # files whose size is measured
GREY_WEIGHTS = (19595, 38470, 7471)  # ITU-R 601, of 65536, so that grey stays as it is
logging.getLogger("PIL").addHandler(logging.NullHandler())  # errors are raised, not shown
with suppress(Exception):  # some builds link libtiff statically, which writes to the terminal
    library = ctypes.CDLL(import_module("PIL._imaging").__file__)
    library.TIFFSetErrorHandler(ctypes.c_void_p(None))
    library.TIFFSetWarningHandler(ctypes.c_void_p(None))


def is_image(name: str) -> bool:
    """Whether a file is an image, by its name.

    Examples
    --------
    >>> is_image("a/b.JPG"), is_image("notes.txt")
    (True, False)
    """
    return name.lower().endswith(SUFFIXES)


def load_image(path: Path, size: int) -> Array:
    """An image file as pixels (3, size, size) in 8 bits; grey images have three equal channels."""
    square = ImageOps.fit(_upright(path, size), (size, size), Image.Resampling.BICUBIC)
    return np.asarray(square).transpose(2, 0, 1)


def decode_batch(files: Sequence[Path], size: int) -> tuple[Array, dict[int, str]]:
    """The pixels of the images that can be read, in order, and why others cannot, by position."""
    pixels = np.empty((len(files), 3, size, size), np.uint8)
    reasons: dict[int, str] = {}
    for position, path in enumerate(files):
        try:
            pixels[position - len(reasons)] = load_image(path, size)
        except Exception as error:  # a damaged file may raise anything in its decoder
            reasons[position] = failure_reason(error)
    return pixels[: len(files) - len(reasons)], reasons


def whole_image(path: Path, largest: int) -> Image.Image:
    """An image file for people: upright, in color, uncropped, no side above `largest` pixels."""
    image = _upright(path, largest)
    image.thumbnail((largest, largest))
    return image


def failure_reason(error: Exception) -> str:
    """Why a file cannot be read, as the end of a sentence."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image of a known format"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"more than {Image.MAX_IMAGE_PIXELS:,} pixels, which may be meant to fill the memory"
    message = reason_of(error)
    return (
        message if isinstance(error, OSError | ValueError | SyntaxError) else f"damaged ({message})"
    )


def median_side(files: Sequence[Path]) -> int | None:
    """The median shorter side of a sample of images, in pixels; None if none can be read."""
    sides = []
    for path in files[:: -(-len(files) // SIZE_SAMPLE) or 1]:
        with suppress(Exception), _quiet(), Image.open(path, formats=FORMATS) as opened:
            sides.append(min(opened.size))
    return int(statistics.median(sides)) if sides else None


def is_grey(pixels: Array) -> bool:
    """Whether the three channels of images (n, 3, h, w) are equal everywhere."""
    return all(
        bool((part[:, :1] == part[:, 1:]).all())
        for part in (pixels[start : start + 1000] for start in range(0, len(pixels), 1000))
    )


def to_grey(pixels: Array) -> Array:
    """One channel of brightness; (n, 3, h, w) to (n, 1, h, w).

    Examples
    --------
    >>> to_grey(np.full((1, 3, 1, 1), 77, np.uint8)).ravel()
    array([77], dtype=uint8)
    """
    levels = np.einsum("nchw,c->nhw", pixels, np.array(GREY_WEIGHTS, np.uint32), dtype=np.uint32)
    grey: Array = ((levels[:, None] + 32768) >> 16).astype(np.uint8)
    return grey


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings about the insides of files, but a suspiciously large one is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _upright(path: Path, side: int) -> Image.Image:
    """An image in color; a large JPEG is decoded no finer than `side` needs."""
    with _quiet(), Image.open(path, formats=FORMATS) as opened:
        opened.draft(None, (2 * side, 2 * side))
        return _to_rgb(ImageOps.exif_transpose(opened))


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F" or image.mode.startswith("I"):
        levels = np.nan_to_num(np.asarray(image, dtype=np.float32))
        top = 65535.0 if image.mode != "F" else 1.0 if levels.max() <= 1 else 255.0
        image = Image.fromarray((255 * (levels / top).clip(0, 1)).round().astype(np.uint8))
    if not image.has_transparency_data:
        return image.convert("RGB")
    page = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(page, image.convert("RGBA")).convert("RGB")
