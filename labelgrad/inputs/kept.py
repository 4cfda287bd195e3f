"""A preprocessing that comes out of a file, checked before new data are treated by it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelgrad.encoders.bag_of_words import NAME, BagOfWords
from labelgrad.inputs.base import VERSION
from labelgrad.inputs.columns import Category, Encoder, Number
from labelgrad.inputs.images import LARGEST_SIZE, ImageFolder
from labelgrad.inputs.kinds import kind_named
from labelgrad.plain_values import built

MOST_NUMBERS = 2**24  # of one example: 64 MB
DESCRIBED = {"number": Number, "category": Category}


def check_preprocessing(preprocessing: dict[str, Any], kind: str, shape: Sequence[int]) -> None:
    """Refuse a preprocessing that would not make examples of this shape out of such data.

    >>> pictures = {"version": VERSION, "kind": "pictures", "size": 8, "channels": 3}
    >>> check_preprocessing(pictures, "pictures", (3, 8, 8))
    >>> check_preprocessing(pictures, "pictures", (3, 16, 16))
    Traceback (most recent call last):
    ValueError: `preprocessing` makes examples of (3, 8, 8), and the network takes (3, 16, 16)
    """
    kind_named(kind)
    if preprocessing.get("version") != VERSION or preprocessing.get("kind") != kind:
        raise ValueError(f"`preprocessing` must be of version {VERSION} and of {kind}")
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"`shape` must be of at most {MOST_NUMBERS} numbers, got {tuple(shape)}")
    if "columns" in preprocessing or "blocks" in preprocessing:
        made: tuple[int, ...] = (_of_columns(preprocessing) + _of_blocks(preprocessing),)
    elif kind == ImageFolder.name:
        made = _of_pictures(preprocessing)
    elif "channels_last" in preprocessing:
        made = _of_arrays(preprocessing)
    else:
        return
    if made != tuple(shape):
        raise ValueError(
            f"`preprocessing` makes examples of {made}, and the network takes {tuple(shape)}"
        )


def _of_columns(preprocessing: dict[str, Any]) -> int:
    """How many numbers of a row are of plain columns."""
    described = preprocessing.get("columns", [])
    if not isinstance(described, list):
        raise ValueError("`preprocessing` must describe its columns")
    for column in described:
        if not isinstance(column, dict) or column.get("kind") not in DESCRIBED:
            raise ValueError("`preprocessing` must describe each of its columns")
        settings = {name: value for name, value in column.items() if name != "kind"}
        built(DESCRIBED[column["kind"]], settings, "a column")
    no_numbers: dict[str, Any] = {"columns": described, "mean": [], "scale": []}
    width = sum(column.width for column in Encoder.of(no_numbers).columns)
    for name in ("mean", "scale"):
        numbers = preprocessing.get(name, [])
        if not _are_numbers(numbers, width) or (name == "scale" and min(numbers, default=1) <= 0):
            raise ValueError(f"`preprocessing` must have {width} numbers as its {name}")
    return width


def _of_blocks(preprocessing: dict[str, Any]) -> int:
    """How many numbers of a row are of encoders."""
    described, width = preprocessing.get("blocks", []), 0
    if not isinstance(described, list):
        raise ValueError("`preprocessing` must describe its blocks")
    for block in described:
        kept = built(_Block, block, "a block")
        if not _are_numbers(kept.mean, len(kept.mean)) or kept.scale <= 0:
            raise ValueError("`preprocessing` must have numbers for each of its blocks")
        if kept.encoder.get("name") == NAME:
            _check_words(kept.encoder, len(kept.mean))
        else:
            known = {name: kept.encoder.get(name) for name in ("name", "kind", "settings")}
            built(_EncoderNamed, known, "an encoder")
        width += len(kept.mean)
    return width


@dataclass(frozen=True)
class _Block:
    column: str
    encoder: dict[str, Any]
    mean: list[float]
    scale: float


@dataclass(frozen=True)
class _EncoderNamed:
    name: str
    kind: str
    settings: dict[str, Any]


def _check_words(record: dict[str, Any], width: int) -> None:
    try:
        bag = BagOfWords.of(record)
        usable = bag.width == width and bag.idf.shape == (len(bag.words),)
        usable = usable and all(isinstance(word, str) for word in bag.words)
        usable = usable and len(set(bag.words)) == len(bag.words) > 0
        usable = usable and type(bag.by_letters) is bool and bool(np.isfinite(bag.idf).all())
        usable = usable and (bag.directions is None or bool(np.isfinite(bag.directions).all()))
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"`preprocessing` has no bag of words ({error})") from None
    if not usable:
        raise ValueError(f"`preprocessing` has no bag of words of {width} numbers")


def _of_pictures(preprocessing: dict[str, Any]) -> tuple[int, ...]:
    size, channels = preprocessing.get("size"), preprocessing.get("channels")
    if type(size) is not int or not 1 <= size <= LARGEST_SIZE or channels not in (1, 3):
        raise ValueError(
            f"`preprocessing` must make pictures of 1 to {LARGEST_SIZE} pixels in 1 or 3 channels"
        )
    return int(channels), size, size


def _of_arrays(preprocessing: dict[str, Any]) -> tuple[int, ...]:
    shape, dtype = preprocessing.get("shape"), preprocessing.get("dtype")
    last = preprocessing["channels_last"]
    sizes = shape if isinstance(shape, list) and all(type(s) is int for s in shape) else []
    if len(sizes) not in (2, 3) or dtype not in ("uint8", "float32") or type(last) is not bool:
        raise ValueError("`preprocessing` must say which pictures the arrays hold")
    if dtype == "float32" and not all(_is_number(preprocessing.get(n)) for n in ("low", "high")):
        raise ValueError("`preprocessing` must say how low and high the pixels were")
    if len(sizes) == 2:
        return (1, *sizes)
    return (sizes[2], *sizes[:2]) if last else tuple(sizes)


def _are_numbers(values: Any, count: int) -> bool:
    return isinstance(values, list) and len(values) == count and all(map(_is_number, values))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= np.finfo(np.float64).max
