"""Parquet files, one or a folder of them: columns one by one, or rows some at a time.

What comes of it is what reading one file as a data frame gives. A column of texts is held as one
text for each different one; a column of numbers lies wherever `Room` says, such as in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from labelgrad.inputs.arrow_csv import Texts, array_cells, plain_numbers
from labelgrad.inputs.base import join_few
from labelgrad.inputs.cells import MANY_TEXTS, MOST_DIFFERENT, Cells, PlainNumbers, Typed, storable
from labelgrad.inputs.frames import series_cells

SUFFIXES = (".parquet", ".pq")
ROWS_AT_ONCE = 2**16
BUFFER = 2**20  # bytes that are read at once
Room = Callable[[int], NDArray[np.float64]]  # for so many numbers


def is_parquet(path: Path) -> bool:
    """Whether a path is a Parquet file, by its name, or a folder with nothing else in it.

    What is hidden, or marked by an underscore, as Spark does with files of its own, is overlooked.

    >>> is_parquet(Path("pets.csv"))
    False
    """
    if path.is_dir():
        inside = [file for file in path.iterdir() if not file.name.startswith((".", "_"))]
        return bool(inside) and all(_is_file(file) for file in inside)
    return _is_file(path)


def _is_file(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file()


class ParquetTable:
    """The files of a table, which must have the same columns; rows are in the order of names."""

    def __init__(self, path: Path):
        try:
            from pyarrow import parquet
        except ImportError:
            raise ValueError(
                f"{path.name} needs pyarrow: pip install 'labelgrad[tables]', or save it as CSV."
            ) from None
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        self.path = path
        self.paths = [file for file in inside if _is_file(file) and file.name[0] not in "._"]
        self.files: list[Any] = []
        for place in self.paths:
            with _readable(place):
                # Buffered beforehand, the whole file would stay in memory to its end.
                buffers = {"pre_buffer": False, "buffer_size": BUFFER}
                self.files.append(parquet.ParquetFile(place, **buffers))
        first = self.files[0].schema_arrow
        self.stored: list[str] = list(first.names)  # as the files call their columns
        for place, file in zip(self.paths[1:], self.files[1:], strict=True):
            _check_alike(path, self.paths[0], first, place, file.schema_arrow)

    @property
    def rows(self) -> int:
        """How many rows all files have together."""
        return sum(file.metadata.num_rows for file in self.files)

    @property
    def names(self) -> list[str]:
        """The columns, as they can be written to a file."""
        return [storable(name) for name in self.stored]

    def cells(self, place: int, room: Room) -> Cells:
        """All cells of a column."""
        import pyarrow as pa

        name = self.stored[place]
        kinds = [file.schema_arrow.field(name).type for file in self.files]
        try:
            if all(pa.types.is_string(k) or pa.types.is_large_string(k) for k in kinds):
                return self._texts_or_numbers(name, room)
            return self._by_type(name, room)
        finally:
            pa.default_memory_pool().release_unused()

    def parts(self, names: Sequence[str]) -> Iterator[dict[str, Cells]]:
        """Some columns, by their names, some rows at a time."""
        stored = [self.stored[self.names.index(name)] for name in names]
        for place, file in zip(self.paths, self.files, strict=True):
            with _readable(place):
                for batch in file.iter_batches(ROWS_AT_ONCE, columns=stored):
                    arrays = (batch.column(name) for name in stored)
                    yield dict(zip(names, map(_array_cells, arrays), strict=True))

    def _arrays(self, name: str) -> Iterator[Any]:
        for place, file in zip(self.paths, self.files, strict=True):
            with _readable(place):
                for batch in file.iter_batches(ROWS_AT_ONCE, columns=[name]):
                    yield batch.column(0)

    def _texts_or_numbers(self, name: str, room: Room) -> Cells:
        """A column of texts, which may all be numbers."""
        numbers, row, known = room(self.rows), 0, 0
        for array in self._arrays(name):
            found = plain_numbers(array)
            if found is None:
                return self._texts(name)
            numbers[row : row + len(array)] = found
            row, known = row + len(array), known + len(array) - array.null_count
        if not known:
            return Typed("numbers", numbers)
        return PlainNumbers(numbers, partial(self._all_texts, name))

    def _texts(self, name: str) -> Cells:
        found = Texts()
        for array in self._arrays(name):
            found.add(array)
            if found.different > MOST_DIFFERENT:
                return Typed(MANY_TEXTS, [""] * self.rows)
        return found.cells()

    def _all_texts(self, name: str) -> list[str]:
        found = Texts()
        for array in self._arrays(name):
            found.add(array)
        return found.cells()

    def _by_type(self, name: str, room: Room) -> Cells:
        """A column of any other type: what `series_cells` makes of it, part by part."""
        numbers, texts, row = None, None, 0
        shared: dict[str, str] = {}
        holds, untyped = "numbers", False  # as of a column of nothing
        for array in self._arrays(name):
            found = _series_cells(array)
            mine = found if isinstance(found, list) else found.values
            rows, row = slice(row, row + len(array)), row + len(array)
            if isinstance(mine, list):
                texts = [""] * self.rows if texts is None else texts
                texts[rows] = [shared.setdefault(text, text) for text in mine]
                untyped = untyped or isinstance(found, list)
                if isinstance(found, Typed) and holds != "texts":
                    holds = found.holds
                continue
            if array.null_count < len(array):
                holds = found.holds if isinstance(found, Typed) else holds
            if numbers is None:
                numbers = room(self.rows)
                numbers[:] = np.nan
            numbers[rows] = mine
        if texts is not None:
            return texts if untyped else Typed(holds, texts)
        return Typed(holds, np.zeros(0) if numbers is None else numbers)


def _array_cells(array: Any) -> Cells:
    """The cells of some rows of a column, of which the whole may be of another type."""
    import pyarrow as pa

    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    return array_cells(array) if is_text else _series_cells(array)


def _series_cells(array: Any) -> Cells:
    import pyarrow as pa

    return series_cells(nw.from_native(pa.chunked_array([array]), series_only=True))


def _check_alike(folder: Path, one: Path, first: Any, two: Path, other: Any) -> None:
    """Refuse a file that has other columns than the first of its folder, or columns of others."""
    wanted = f"The files of {folder.name} must have the same columns"
    lacking = [name for name in first.names if name not in other.names]
    more = [name for name in other.names if name not in first.names]
    if lacking or more:
        has = f"lacks {join_few(lacking)}" if lacking else f"has {join_few(more)}, too"
        raise ValueError(f"{wanted}, and {two.name} {has}, unlike {one.name}; make them alike.")
    for name in first.names:
        types = first.field(name).type, other.field(name).type
        if len({_sort(each) for each in types} - {"null"}) > 1:
            raise ValueError(
                f"{wanted}, and {name!r} is {types[0]} in {one.name} and {types[1]} in {two.name}; "
                f"make them alike."
            )


def _sort(kind: Any) -> str:
    """What a type holds, as far as files of one table may differ."""
    import pyarrow as pa

    of = pa.types
    if of.is_integer(kind) or of.is_floating(kind) or of.is_decimal(kind):
        return "number"
    if of.is_date(kind) or of.is_timestamp(kind):
        return "date"
    if of.is_string(kind) or of.is_large_string(kind):
        return "text"
    return str(kind)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a damaged file stumbles anywhere in its decoder
        reason = (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
        raise ValueError(f"{path.name} cannot be read as a Parquet file: {reason}.") from None
