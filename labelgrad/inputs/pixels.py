"""Pictures made alike: upright, square, of one size, in 8 bits.

A picture is scaled until its shorter side fits, and the middle is cut out. Bars around a whole
picture would be the other way; but a network learns classes from bars where the pictures of one
class are all upright. What is transparent becomes white, the page it is seen on.
"""

from __future__ import annotations

import ctypes
import logging
import statistics
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

# Formats that Pillow decodes itself; EPS, for one, would start another program.
FORMATS = "PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "AVIF", "JPEG2000", "ICO", "TGA"
SUFFIXES = (
    *(".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".gif", ".bmp", ".dib", ".tif"),
    *(".tiff", ".webp", ".avif", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".ico", ".tga"),
)
SMALLEST, LARGEST = 8, 32  # of the sizes chosen without being asked
MEASURED = 20_000  # files, at most, whose size is looked at for that
Pixels = NDArray[np.uint8]
logging.getLogger("PIL").addHandler(logging.NullHandler())  # not to the screen; errors say it all
Paths = dict[str, Path]  # by name
Skipped = list[tuple[str, str]]


def is_picture(name: str) -> bool:
    """Whether a file is a picture, by its name.

    >>> is_picture("a/b.JPG"), is_picture("notes.txt")
    (True, False)
    """
    return name.lower().endswith(SUFFIXES)


def load_pictures(files: Paths, size: int, *, strict: bool) -> tuple[list[str], Pixels, Skipped]:
    """The names of the whole ones, their pixels (names, 3, size, size), and why others are not."""
    pixels = np.zeros((len(files), 3, size, size), dtype=np.uint8)
    names: list[str] = []
    skipped: Skipped = []
    for name, path in files.items():
        try:
            pixels[len(names)] = load_picture(path, size)
            names.append(name)
        except Exception as error:  # a damaged file stumbles anywhere in Pillow's decoders
            skipped.append((name, reason(error)))
            if strict:
                raise ValueError(f"{name} cannot be read as a picture: {reason(error)}.") from None
    return names, pixels[: len(names)], skipped


def reason(error: Exception) -> str:
    """Why a picture cannot be read, as the end of a sentence."""
    if isinstance(error, UnidentifiedImageError):
        return "not a picture of a known format"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"more than {Image.MAX_IMAGE_PIXELS:,} pixels, which may be meant to fill the memory"
    said = (str(error).splitlines() or ["damaged"])[0].rstrip(".")
    expected = isinstance(error, OSError | ValueError | SyntaxError)
    return said if expected else f"damaged ({type(error).__name__}: {said})"


def load_picture(path: Path, size: int) -> Pixels:
    """One picture as (3, size, size); a grey one has three channels alike."""
    with _quiet(), Image.open(path, formats=_formats()) as opened:
        opened.draft(None, (2 * size, 2 * size))  # a large JPEG is decoded no finer than needed
        upright = ImageOps.exif_transpose(opened)
        square = ImageOps.fit(_eight_bits(upright), (size, size), Image.Resampling.BICUBIC)
    return np.asarray(square).transpose(2, 0, 1)


def whole_picture(path: Path, largest: int) -> Image.Image:
    """One picture for a person to look at: upright, in colour, no side above `largest` pixels."""
    with _quiet(), Image.open(path, formats=_formats()) as opened:
        opened.draft(None, (2 * largest, 2 * largest))
        image = _eight_bits(ImageOps.exif_transpose(opened))
    image.thumbnail((largest, largest))
    return image


@cache
def _formats() -> list[str]:
    Image.init()
    _silence_tiff()
    return [name for name in FORMATS if name in Image.OPEN]  # some builds lack some


def _silence_tiff() -> None:
    """Have libtiff keep to itself what it would write to the screen; Pillow raises the errors."""
    with suppress(Exception):  # some builds have it inside, and then it cannot be told
        library = ctypes.CDLL(import_module("PIL._imaging").__file__)
        for handler in ("TIFFSetErrorHandler", "TIFFSetWarningHandler"):
            getattr(library, handler)(ctypes.c_void_p(None))


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings about the insides of files, but a suspiciously large one is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _eight_bits(image: Image.Image) -> Image.Image:
    """The picture in red, green and blue, on white where it is transparent."""
    if image.mode == "F":
        image = _from_levels(image, 1.0 if image.getextrema()[1] <= 1 else 255.0)  # type: ignore[operator]
    elif image.mode.startswith("I"):
        image = _from_levels(image, 65535.0)
    if not image.has_transparency_data:
        return image.convert("RGB")
    page = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(page, image.convert("RGBA")).convert("RGB")


def _from_levels(image: Image.Image, top: float) -> Image.Image:
    levels = np.nan_to_num(np.asarray(image, dtype=np.float32) / top).clip(0, 1)
    return Image.fromarray((255 * levels).round().astype(np.uint8))


def choose_size(files: Paths) -> int:
    """A side that most pictures have: a multiple of 4, for networks that halve twice, up to 32."""
    usual = usual_side(list(files.values())[:: -(-len(files) // MEASURED)]) or LARGEST
    return min(max(usual // 4 * 4, SMALLEST), LARGEST)


def usual_side(files: Sequence[Path]) -> int | None:
    """The shorter side that pictures usually have, in pixels, if any of them can be read."""
    sides = []
    for path in files:
        with suppress(Exception), _quiet(), Image.open(path, formats=_formats()) as opened:
            sides.append(min(opened.size))
    return int(statistics.median(sides)) if sides else None


def is_grey(pixels: Pixels) -> bool:
    """Whether all three channels are alike everywhere."""
    return bool((pixels[:, :1] == pixels[:, 1:]).all())


def to_grey(pixels: Pixels) -> Pixels:
    """One channel of brightness, by the weights of ITU-R 601; (n, 3, h, w) to (n, 1, h, w).

    >>> to_grey(np.full((1, 3, 1, 1), 77, np.uint8)).ravel()
    array([77], dtype=uint8)
    """
    weights = np.array([19595, 38470, 7471], dtype=np.uint32)  # of 65536, so grey stays as it is
    levels = np.einsum("nchw,c->nhw", pixels, weights, dtype=np.uint32)[:, None]
    grey: Pixels = ((levels + 32768) >> 16).astype(np.uint8)
    return grey
