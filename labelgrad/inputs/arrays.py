"""NumPy arrays, in memory or in an .npz file: `x`, one row for each example, and `y`."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.inputs.base import (
    VERSION,
    Dataset,
    Defaults,
    Encoding,
    Inputs,
    InputType,
    Prepared,
    Reading,
    Scale,
    Shown,
    join_few,
)
from labelgrad.inputs.cells import Typed
from labelgrad.inputs.columns import Encoder, column_notes, fit_number
from labelgrad.inputs.images import ImageFolder
from labelgrad.inputs.row_names import RowNames
from labelgrad.inputs.spreads import spreads
from labelgrad.inputs.table import Table
from labelgrad.inputs.targets import label_cells, targets
from labelgrad.step import Views

Array = NDArray[Any]
LARGE, DENSE = 2**30, 100  # bytes, and how far real data shrink: beyond both a file is a trap


class Arrays:
    """An .npz file, or an array: a table if it has two dimensions, else pictures."""

    name = "arrays"
    what = "an .npz file"
    key = "row"
    options: tuple[str, ...] = ()

    def takes(self, data: object, *, new: bool = False) -> bool:
        if isinstance(data, Path):
            return data.is_file() and data.suffix.lower() == ".npz"
        return True  # the last of the kinds: what is no array is told by what it lacks

    def read(self, data: Any, reading: Reading) -> Dataset:
        """Examples and labels, which are -1 or NaN where there are none."""
        file, y = "memory", reading.y
        if isinstance(data, Path):
            file, arrays = data.name, load_arrays(data, ("x", "y"))
            data, y = arrays["x"], arrays["y"]
        elif y is None:
            raise ValueError("An array needs its labels: (x, y), with -1 or NaN where unlabeled.")
        x = _checked(data, file)
        cells, notes = label_cells(y, len(x), file)
        found = targets(cells, reading.task, f"`y` in {file}")
        if x.ndim == 2 and (x == x[:1]).all():
            raise ValueError(
                f"`x` in {file} has no column to learn from: each of them is always the same."
            )
        inputs = _fit(x, file)
        return Dataset(
            self.name,
            inputs.x,
            found.y,
            found.task,
            found.classes,
            RowNames(len(x)),
            notes=found.notes + notes + inputs.notes,
            preprocessing=found.preprocessing(self.name) | inputs.preprocessing,
        )

    def inputs(self, data: Any) -> Inputs:
        return _fit(_checked(data, "memory"), "memory")

    def prepare(
        self, preprocessing: dict[str, Any], data: Any, *, strict: bool, encoding: Encoding
    ) -> Prepared:
        """New rows of the shape the old ones had; `y` is not read."""
        file = "memory"
        if isinstance(data, Path):
            file, data = data.name, load_arrays(data, ("x",))["x"]
        x = _checked(data, file)
        wanted = tuple(preprocessing["shape"])
        if x.shape[1:] != wanted:
            raise ValueError(
                f"`x` in {file} must have rows of the shape {wanted}, as for training, got "
                f"{x.shape[1:]}."
            )
        if "columns" in preprocessing:
            tensor = Encoder.of(preprocessing).rows(_columns(x))
        else:
            tensor = _pictures(x, file, preprocessing["channels_last"], preprocessing["dtype"])
        return Prepared(tensor, RowNames(len(x)), [])

    def prepare_in_parts(
        self, preprocessing: dict[str, Any], data: Any, *, strict: bool, encoding: Encoding
    ) -> Iterator[Prepared]:
        """An array is in memory, or mapped there, as a whole: one part."""
        yield self.prepare(preprocessing, data, strict=strict, encoding=encoding)

    def defaults(self, shape: Sequence[int]) -> Defaults:
        return _alike(len(shape)).defaults(shape)

    def transform(self, preprocessing: dict[str, Any], x: Tensor) -> Scale:
        if x.ndim == 2 or x.dtype == torch.uint8:
            return _alike(x.ndim - 1).transform(preprocessing, x)
        low, high = preprocessing["low"], preprocessing["high"]
        factor = 2 / (high - low) if high > low else 1.0
        return Scale(factor, -1.0 - low * factor)

    def views(self, shape: Sequence[int], scale: Scale, mirror: bool) -> Views:
        return _alike(len(shape)).views(shape, scale, mirror)

    def columns(self, preprocessing: dict[str, Any]) -> list[str]:
        return TABLE.columns(preprocessing) if "columns" in preprocessing else []

    def show(self, preprocessing: dict[str, Any], row: NDArray[Any], original: Any = None) -> Shown:
        if "columns" in preprocessing:
            return TABLE.show(preprocessing, row, original)
        return Shown(row if row.dtype == np.uint8 else None, [])

    def near(self, x: Tensor, outputs: Tensor) -> Tensor:
        return _alike(x.ndim - 1).near(x, outputs)


TABLE, PICTURES = Table(), ImageFolder()


def _alike(dimensions: int) -> InputType:
    """The kind whose examples have as many dimensions: a network cannot tell them apart."""
    return TABLE if dimensions == 1 else PICTURES


def load_arrays(path: Path, names: tuple[str, ...]) -> dict[str, Array]:
    """The named arrays of an .npz file; nothing in it is ever run."""
    try:
        with zipfile.ZipFile(path) as archive:
            return unpacked(archive, names)
    except _Refused as error:
        raise ValueError(f"{path.name} {error}.") from None
    except PermissionError:
        raise
    except Exception as error:  # a damaged file stumbles anywhere in its decoder
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        reason = (said.splitlines() or [""])[0].rstrip(".") or type(error).__name__
        raise ValueError(f"{path.name} cannot be read as an .npz file: {reason}.") from None


def unpacked(
    archive: zipfile.ZipFile, names: tuple[str, ...] | None = None, *, large: int | None = None
) -> dict[str, Array]:
    """The named arrays of an archive, or all; one that unpacks to much more than it is, is none."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    absent = [name for name in names or () if name not in members]
    if absent:
        raise _Refused(f"has no array {join_few(absent)}; it has {join_few(members) or 'none'}")
    most = LARGE if large is None else large
    with warnings.catch_warnings(action="ignore"):  # headers that Python 2 wrote are good enough
        return {name: _load(archive, members[name], name, most) for name in names or members}


class _Refused(Exception):  # noqa: N818 - never leaves this file
    """What is wrong with a file that could be opened."""


def _load(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, large: int) -> Array:
    if info.file_size > large and info.file_size > DENSE * info.compress_size:
        raise _Refused(
            f"unpacks `{name}` from {info.compress_size} bytes to {info.file_size}: too much"
        )
    with archive.open(info) as file:
        shape, dtype = _header(file)
        if dtype.hasobject:
            raise _Refused(f"has Python objects in `{name}`; save numbers or text instead")
        if (
            min(shape, default=0) < 0
            or math.prod(shape) * dtype.itemsize + file.tell() != info.file_size
        ):
            raise _Refused(f"has an array `{name}` that does not have the size its header says")
    with archive.open(info) as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read(file)
    return shape, dtype


def _checked(data: Any, file: str) -> Array:
    x = np.asarray(data)
    if x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise ValueError(
            f"`x` in {file} must be (rows, columns), (rows, height, width) or (rows, channels, "
            f"height, width) and not empty, got the shape {x.shape}."
        )
    if x.dtype.kind not in "buif":
        raise ValueError(f"`x` in {file} must hold numbers, got {x.dtype}.")
    return x


def _fit(x: Array, file: str) -> Inputs:
    """Examples as they are stored, and what new ones need to be stored alike."""
    kept: dict[str, Any] = {
        "version": VERSION,
        "kind": Arrays.name,
        "shape": list(x.shape[1:]),
    }
    if x.ndim == 2:
        columns = [fit_number(str(i), column.astype(np.float64)) for i, column in enumerate(x.T)]
        encoder = Encoder.fit(columns, *spreads(x))
        notes = column_notes({column.name: column for column in columns})
        return Inputs(encoder.rows(_columns(x)), kept | encoder.described(), notes)
    last = _channels_last(x, file)
    whole = x.dtype.kind in "bui" and x.min() >= 0 and x.max() <= 255
    kept |= {"channels_last": last, "dtype": "uint8" if whole else "float32"}
    pixels = _pictures(x, file, last, kept["dtype"])
    if not whole:
        kept |= {"low": float(pixels.min()), "high": float(pixels.max())}
    notes = ["The channels of `x` are its last dimension, and become the second."] if last else []
    return Inputs(pixels, kept, notes)


def _columns(x: Array) -> Iterator[Typed]:
    """One column at a time: a copy of all in 64 bits may be large."""
    return (Typed("numbers", column.astype(np.float64)) for column in x.T)


def _channels_last(x: Array, file: str) -> bool:
    if x.ndim == 3 or x.shape[1] in (1, 3):
        return False
    if x.shape[3] in (1, 3):
        return True
    raise ValueError(
        f"`x` in {file} must have 1 or 3 channels in its second dimension, or in its last, got the "
        f"shape {x.shape}."
    )


def _pictures(x: Array, file: str, channels_last: bool, dtype: str) -> Tensor:
    if dtype == "uint8" and (x.dtype.kind == "f" or x.min() < 0 or x.max() > 255):
        raise ValueError(
            f"The pictures `x` in {file} must be whole numbers from 0 to 255, as for training, got "
            f"{x.dtype} from {x.min():g} to {x.max():g}."
        )
    x = x[:, None] if x.ndim == 3 else x
    moved = np.moveaxis(x, 3, 1) if channels_last else x
    with np.errstate(over="ignore"):  # infinity is refused
        pixels = np.ascontiguousarray(moved, dtype=dtype)
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        raise ValueError(
            f"The pictures `x` in {file} must be finite in 32 bits, got NaN or infinity."
        )
    return torch.from_numpy(pixels)
