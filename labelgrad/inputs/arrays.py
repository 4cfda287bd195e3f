"""NumPy arrays in an .npz file: `x`, one row for each example, and `y`."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.inputs.columns import Number, column_notes, fit_number, from_json, to_json
from labelgrad.inputs.dataset import Dataset, Prepared, join_few
from labelgrad.inputs.targets import targets

Array = NDArray[Any]
LARGE, DENSE = 2**30, 100  # bytes, and how far real data shrink: beyond both a file is a trap


def read_arrays(path: Path, *, task: str | None) -> Dataset:
    """Read `x` and `y`; a table if `x` has two dimensions, pictures if it has three or four."""
    arrays = load_arrays(path, ("x", "y"))
    return array_source(arrays["x"], arrays["y"], task=task, file=path.name)


def array_source(x: Array, y: Array, *, task: str | None = None, file: str = "memory") -> Dataset:
    """Arrays as `read_arrays` has them; `file` is where sentences say they are.

    >>> array_source(np.eye(3), np.array([0, 1, -1])).summary
    {'labeled': 2, 'unlabeled': 1, 'skipped': 0, 'classes': {'0': 1, '1': 1}}
    """
    _check_x(x, file)
    if y.shape not in ((len(x),), (len(x), 1)):
        raise ValueError(
            f"`y` in {file} must have one label for each of the {len(x)} rows of `x`, got the "
            f"shape {y.shape}."
        )
    cells, notes = _label_cells(y.reshape(-1), file)
    found = targets(cells, task, f"`y` in {file}")
    tensor, described, more = _fit_table(x, file) if x.ndim == 2 else _fit_pictures(x, file)
    preparation = found.preparation("arrays", shape=list(x.shape[1:]), **described)
    names = [str(row) for row in range(len(x))]
    notes = found.notes + notes + more
    return Dataset(
        "arrays",
        tensor,
        found.y,
        found.task,
        found.classes,
        names,
        notes=notes,
        preparation=preparation,
    )


def prepare_arrays(preparation: dict[str, Any], path: Path) -> Prepared:
    """New rows of the shape the old ones had; `y` is not read."""
    return prepare_array(preparation, load_arrays(path, ("x",))["x"], file=path.name)


def prepare_array(preparation: dict[str, Any], x: Array, *, file: str = "memory") -> Prepared:
    """The same for an array that is there already."""
    if preparation["kind"] != "arrays":
        raise ValueError(
            f"New data must be {preparation['kind']} like the training data: give their path, not "
            f"an array."
        )
    _check_x(x, file)
    wanted = tuple(preparation["shape"])
    if x.shape[1:] != wanted:
        raise ValueError(
            f"`x` in {file} must have rows of the shape {wanted}, as for training, got "
            f"{x.shape[1:]}."
        )
    if "columns" in preparation:
        tensor = _table(x, preparation["columns"])
    else:
        tensor = _pictures(x, file, preparation["channels_last"], preparation["dtype"])
    return Prepared(tensor, [str(row) for row in range(len(x))], [])


def load_arrays(path: Path, names: tuple[str, ...]) -> dict[str, Array]:
    """The named arrays of an .npz file; nothing in it is ever run."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            absent = [name for name in names if name not in members]
            if absent:
                raise _Refused(
                    f"has no array {join_few(absent)}; it has {join_few(members) or 'none'}"
                )
            return {name: _load(archive, members[name], name) for name in names}
    except _Refused as error:
        raise ValueError(f"{path.name} {error}.") from None
    except OSError:
        raise
    except Exception as error:  # a damaged file stumbles anywhere in its decoder
        reason = (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
        raise ValueError(f"{path.name} cannot be read as an .npz file: {reason}.") from None


class _Refused(Exception):  # noqa: N818 - never leaves this file
    """What is wrong with a file that could be opened."""


def _load(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Array:
    if info.file_size > LARGE and info.file_size > DENSE * info.compress_size:
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


def _check_x(x: Array, file: str) -> None:
    if x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise ValueError(
            f"`x` in {file} must be (rows, columns), (rows, height, width) or (rows, channels, "
            f"height, width) and not empty, got the shape {x.shape}."
        )
    if x.dtype.kind not in "buif":
        raise ValueError(f"`x` in {file} must hold numbers, got {x.dtype}.")


def _label_cells(y: Array, file: str) -> tuple[list[str], list[str]]:
    """Labels as text, empty where there is none, and how that was seen."""
    if y.dtype.kind not in "buifU":
        raise ValueError(f"`y` in {file} must hold numbers or text, got {y.dtype}.")
    if y.dtype.kind in "Ub":
        return [str(label).strip() for label in y], []
    if y.dtype.kind == "f" and np.isnan(y).any():
        return ["" if np.isnan(label) else repr(float(label)) for label in y], []
    others = y[y != -1]
    counts_classes = y.dtype.kind in "iu" or bool(
        ((others >= 0) & (others == np.floor(others))).all()
    )
    if not counts_classes or len(others) == len(y):
        return [str(label) for label in y.tolist()], []
    note = f"-1 in `y` means unlabeled: {len(y) - len(others)} rows."
    return ["" if label == -1 else str(label) for label in y.tolist()], [note]


def _fit_table(x: Array, file: str) -> tuple[Tensor, dict[str, Any], list[str]]:
    numbers = x.astype(np.float64)
    fitted = {str(i): fit_number(str(i), column) for i, column in enumerate(numbers.T)}
    columns = [to_json(column) for column in fitted.values() if not isinstance(column, str)]
    if not columns:
        raise ValueError(
            f"`x` in {file} has no column to learn from. {' '.join(column_notes(dict(fitted)))}"
        )
    return _table(x, columns), {"columns": columns}, column_notes(dict(fitted))


def _table(x: Array, described: list[dict[str, Any]]) -> Tensor:
    columns = [column for column in map(from_json, described) if isinstance(column, Number)]
    rows = [column.rows(x[:, int(column.name)].astype(np.float64)) for column in columns]
    return torch.from_numpy(np.hstack(rows))


def _fit_pictures(x: Array, file: str) -> tuple[Tensor, dict[str, Any], list[str]]:
    last = _channels_last(x, file)
    whole = x.dtype.kind in "bui"
    dtype = "uint8" if whole and x.min() >= 0 and x.max() <= 255 else "float32"
    notes = ["The channels of `x` are its last dimension, and become the second."] if last else []
    return _pictures(x, file, last, dtype), {"channels_last": last, "dtype": dtype}, notes


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
    if not np.isfinite(pixels).all():
        raise ValueError(
            f"The pictures `x` in {file} must be finite in 32 bits, got NaN or infinity."
        )
    return torch.from_numpy(pixels)
