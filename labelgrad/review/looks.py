"""How an example looks, read from the data the run was made of, one at a time and when asked for.

Examples are asked for by their place in the run, never by a path. Pictures are decoded and encoded
again, so that no other file of the machine can be handed out, nor anything but a picture.
"""

from __future__ import annotations

import csv
import io
import os
import struct
import tempfile
import weakref
import zipfile
from array import array
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from labelgrad.inputs.cells import MARKS, csv_rows, csv_separator, number_text
from labelgrad.inputs.pixels import is_picture, whole_picture
from labelgrad.review.run import FinishedRun

MOST_TEXT = 20_000  # characters of one text
MOST_FOUND = 2_000  # examples of one search
PHOTO = 256  # pixels of a side; what is larger is sent as JPEG
TEXTS = (".txt", ".md", ".text")


class Look(NamedTuple):
    """One example as a person looks at it."""

    picture: bool = False
    cells: list[tuple[str, str]] = []  # column, cell  # noqa: RUF012
    text: str = ""


class Looks(Protocol):
    """The data of a run, as they are looked at."""

    def show(self, row: int) -> Look:
        """One example."""

    def picture(self, row: int, side: int) -> bytes | None:
        """A PNG or JPEG no larger than `side`; None if it is no picture."""

    def search(self, text: str) -> list[int]:
        """The examples that have the text in them, besides in their names."""


def open_looks(run: FinishedRun, path: Path) -> Looks:
    """The data at a path; a ValueError says why they are not those of the run."""
    if not path.exists():
        raise ValueError(
            f"The data are not at {path} any more; say where they are by --data, or decide by the "
            f"names."
        )
    if path.is_dir():
        return Files(path, run.names)
    if path.suffix.lower() == ".npz":
        return Arrays(path, run)
    found: Looks = (
        ParquetRows(path, run) if path.suffix.lower() in (".parquet", ".pq") else CsvRows(path, run)
    )
    return found


class Files:
    """A folder with a picture, or a text, for each example."""

    def __init__(self, folder: Path, names: list[str]):
        self.root, self.names = Path(os.path.realpath(folder)), names
        first = next(iter(names), None)
        if first is not None and _inside(self.root, first) is None:
            raise ValueError(
                f"{folder} does not have {first!r}, an example of the run: it may have been moved; "
                f"say where the data are by --data."
            )

    def show(self, row: int) -> Look:
        path = _inside(self.root, self.names[row])
        if path is None:
            return Look(text="The file is not there any more.")
        if path.suffix.lower() in TEXTS:
            with path.open(encoding="utf-8", errors="replace") as file:
                return Look(text=file.read(MOST_TEXT))
        return Look(picture=True)

    def picture(self, row: int, side: int) -> bytes | None:
        path = _inside(self.root, self.names[row])
        if path is None or path.suffix.lower() in TEXTS:
            return None
        return _picture(path, side)

    def search(self, text: str) -> list[int]:
        found = []
        for row, name in enumerate(self.names):
            if name.lower().endswith(TEXTS) and text in self.show(row).text.casefold():
                found.append(row)
            if len(found) >= MOST_FOUND:
                break
        return found


class Rows:
    """A table: the cells of a row but for its label, and the picture that one of them names."""

    def __init__(self, path: Path, run: FinishedRun):
        self.path, self.count = path, len(run.names)
        self.target = run.preprocessing.get("target")
        self.encoded = {block["column"] for block in run.preprocessing.get("blocks", [])}

    def cells(self, row: int) -> dict[str, str]:
        """The cells of a row by their columns."""
        raise NotImplementedError

    def texts(self) -> Iterator[str]:
        """All rows, each as one text."""
        raise NotImplementedError

    def show(self, row: int) -> Look:
        cells = self.cells(row)
        cells.pop(self.target or "", None)
        shown = [(column, cell[:MOST_TEXT]) for column, cell in cells.items()]
        return Look(picture=self._file(cells) is not None, cells=shown)

    def picture(self, row: int, side: int) -> bytes | None:
        path = self._file(self.cells(row))
        return None if path is None else _picture(path, side)

    def search(self, text: str) -> list[int]:
        found = []
        for row, cells in enumerate(self.texts()):
            if text in cells.casefold():
                found.append(row)
                if len(found) >= MOST_FOUND:
                    break
        return found

    def _file(self, cells: dict[str, str]) -> Path | None:
        """The picture that a cell names, if an encoder read its column and it lies beside."""
        root = Path(os.path.realpath(self.path.parent))
        for column in self.encoded & cells.keys():
            path = _inside(root, cells[column]) if is_picture(cells[column]) else None
            if path is not None:
                return path
        return None


class CsvRows(Rows):
    """A CSV file, of which only the places of its rows are kept."""

    @cached_property
    def _index(self) -> tuple[Path, list[str], array[int]]:
        """The file in UTF-8, its header, and the bytes that rows begin at and the last ends at."""
        source, lines = self._utf_8(), array("Q", [0])
        with source.open("rb") as file:
            for line in file:
                lines.append(lines[-1] + len(line))
        rows = csv_rows(source)
        header = next(rows)[1]
        starts = array("Q", (lines[line - 1] for line, _ in rows))
        _check_count(self.path, len(starts), self.count)
        starts.append(lines[-1])
        return source, header, starts

    def _utf_8(self) -> Path:
        """The file, or a copy of one that is in another encoding."""
        with self.path.open("rb") as file:
            begins = file.read(4)
        encoding = next((MARKS[mark] for mark in MARKS if begins.startswith(mark)), None)
        if encoding is None:
            return self.path
        handle, name = tempfile.mkstemp(suffix=".csv")
        copy = Path(name)
        weakref.finalize(self, copy.unlink, missing_ok=True)
        with open(handle, "wb") as file:
            file.write(self.path.read_text(encoding).encode())
        return copy

    def cells(self, row: int) -> dict[str, str]:
        source, header, starts = self._index
        with source.open("rb") as file:
            file.seek(starts[row])
            text = file.read(starts[row + 1] - starts[row]).decode("utf-8", "replace")
        cells = next(csv.reader(io.StringIO(text, newline=""), delimiter=csv_separator(source)))
        return dict(zip(header, (cell.strip() for cell in cells), strict=True))

    def texts(self) -> Iterator[str]:
        rows = csv_rows(self._index[0])
        next(rows)
        return (" ".join(cells) for _, cells in rows)


class ParquetRows(Rows):
    """A Parquet file, mapped into memory."""

    @cached_property
    def _table(self) -> Any:
        from pyarrow import parquet

        table = parquet.read_table(self.path, memory_map=True)
        _check_count(self.path, table.num_rows, self.count)
        return table

    def cells(self, row: int) -> dict[str, str]:
        found = self._table.slice(row, 1).to_pydict()
        return {name: "" if cell[0] is None else str(cell[0]) for name, cell in found.items()}

    def texts(self) -> Iterator[str]:
        batches = self._table.to_batches(max_chunksize=1000)
        return (" ".join(map(str, one.values())) for batch in batches for one in batch.to_pylist())


class Arrays:
    """The array `x` of an .npz file, mapped into memory; what is packed is unpacked once."""

    def __init__(self, path: Path, run: FinishedRun):
        self.path, self.count, self.settings = path, len(run.names), run.preprocessing

    @cached_property
    def _x(self) -> NDArray[Any]:
        x = _mapped(self.path, "x")
        _check_count(self.path, len(x), self.count)
        return x

    def show(self, row: int) -> Look:
        if self._x.ndim > 2:
            return Look(picture=True)
        cells = [number_text(float(value)) for value in self._x[row]]
        return Look(cells=[(str(column), cell) for column, cell in enumerate(cells)])

    def picture(self, row: int, side: int) -> bytes | None:
        if self._x.ndim < 3:
            return None
        from PIL import Image

        pixels = np.asarray(self._x[row])
        if pixels.ndim == 3 and not self.settings.get("channels_last"):
            pixels = np.moveaxis(pixels, 0, -1)
        if pixels.dtype != np.uint8:
            low, high = self.settings.get("low", 0.0), self.settings.get("high", 255.0)
            pixels = (255 * (pixels.astype(np.float64) - low) / max(high - low, 1e-12)).clip(0, 255)
        pixels = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[-1] == 1 else pixels
        image = Image.fromarray(np.ascontiguousarray(pixels.astype(np.uint8)))
        image.thumbnail((side, side))
        return _encoded(image)

    def search(self, text: str) -> list[int]:
        return []


def _inside(root: Path, name: str) -> Path | None:
    """The file of a name if it lies in the folder: names may come from anybody."""
    path = Path(os.path.realpath(root / name))
    return path if path.is_relative_to(root) and path.is_file() else None


def _picture(path: Path, side: int) -> bytes | None:
    try:
        return _encoded(whole_picture(path, side))
    except Exception:  # a damaged file stumbles anywhere in Pillow's decoders
        return None


def _check_count(path: Path, found: int, wanted: int) -> None:
    if found != wanted:
        raise ValueError(
            f"{path} has {found} rows and the run {wanted}: they are not the data it was made of; "
            f"say where those are by --data."
        )


def _encoded(image: Any) -> bytes:
    file = io.BytesIO()
    if max(image.size) > PHOTO:
        image.convert("RGB").save(file, "JPEG", quality=88)
    else:
        image.save(file, "PNG")
    return file.getvalue()


def _mapped(path: Path, name: str) -> NDArray[Any]:
    """An array of an .npz file without reading it whole; nothing in it is ever run."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(f"{name}.npy")
            if info.compress_type == zipfile.ZIP_STORED:
                with path.open("rb") as file:
                    file.seek(info.header_offset + 26)  # the lengths of the name and the extras
                    lengths = struct.unpack("<HH", file.read(4))
                    file.seek(info.header_offset + 30 + sum(lengths))
                    return _mapped_here(file, path)
            with tempfile.TemporaryFile() as file, archive.open(info) as packed:
                while block := packed.read(2**20):
                    file.write(block)
                file.seek(0)
                return _mapped_here(file, file)
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as the run's .npz file ({error}).") from None


def _mapped_here(file: Any, mapped: Any) -> NDArray[Any]:
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it has Python objects in it")
    place = {"offset": file.tell(), "shape": shape, "order": "F" if fortran else "C"}
    found: NDArray[Any] = np.memmap(mapped, dtype=dtype, mode="r", **place)
    return found
