"""Large CSV files, read in columns by pyarrow: what `csv_rows` gives, sooner and in less memory.

Only files that pyarrow takes apart as `csv_rows` does are read so. Of the others, and of those with
anything wrong in them, nothing is said here: they are left to `csv_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgrad.inputs.cells import (
    MARKS,
    MISSING,
    Cells,
    PlainNumbers,
    csv_rows,
    csv_separator,
    number,
)

LARGE = 2**22  # bytes; smaller ones are read before pyarrow is imported
BLOCK, GLANCE = 2**24, 2**18  # bytes that are parsed at once, and looked at
ROWS_AT_ONCE = 2**14
UTF_8_MARK = b"\xef\xbb\xbf"
NEW_LINE, RETURN, QUOTE = ord("\n"), ord("\r"), ord('"')
# As tables mostly write them; other spellings are found cell by cell.
ABSENT = sorted({spelled for m in MISSING for spelled in (m, m.upper(), m.title(), "NaN", "NaT")})


@dataclass(frozen=True)
class Parts:
    """How a file is taken apart, as pyarrow is to be told."""

    path: Path
    separator: str
    width: int
    quotes: bool
    lines: int  # at least as many as rows

    def blocks(self, *columns: int) -> Iterator[Any]:
        """Some columns of the rows, as texts, null where empty; record batches one by one."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        names = [str(column) for column in range(self.width)]
        chosen = [names[column] for column in columns]
        with arrow.open_csv(
            self.path,
            arrow.ReadOptions(block_size=BLOCK, column_names=names, skip_rows_after_names=1),
            arrow.ParseOptions(
                delimiter=self.separator,
                quote_char='"' if self.quotes else False,
                newlines_in_values=self.quotes,
            ),
            arrow.ConvertOptions(
                include_columns=chosen,
                column_types=dict.fromkeys(chosen, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        ) as batches:
            yield from batches

    def texts(self, column: int) -> list[str]:
        """One column as `csv_rows` gives it."""
        found = Texts()
        for block in self.blocks(column):
            found.add(block.column(0))
        return found.cells()


class Texts:
    """Cells of a column, of which each different one is kept once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._codes: list[NDArray[np.int32]] = []

    def add(self, texts: Any) -> None:
        """Take the next cells, a string array."""
        different, codes = coded(texts)
        places = [self._places.setdefault(text, len(self._places)) for text in different]
        self._codes.append(np.array(places, dtype=np.int32)[codes])

    @property
    def different(self) -> int:
        """How many are kept."""
        return len(self._places)

    def cells(self) -> list[str]:
        """All cells; those that are alike are one object."""
        different = np.array([*self._places, None], dtype=object)[:-1]
        found: list[str] = different[np.concatenate(self._codes)].tolist()
        return found


def csv_columns(
    path: Path, room: Callable[[int], NDArray[np.float64]] = np.empty
) -> tuple[list[str], list[Cells]] | None:
    r"""The header and the cells of each column, or None where `csv_rows` has to read the file.

    Columns of plain numbers are such; all others are texts.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "pets.csv")
    >>> _ = file.write_text("weight,pet\n3.5,cat\nNA,dog\n")
    >>> csv_columns(file) is None  # a small one
    True
    >>> names, (weight, pet) = columns_by_arrow(file)
    >>> names, weight.values, pet
    (['weight', 'pet'], array([3.5, nan]), ['cat', 'dog'])
    """
    if path.stat().st_size < LARGE:
        return None
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return None
    return columns_by_arrow(path, room)


def columns_by_arrow(
    path: Path, room: Callable[[int], NDArray[np.float64]] = np.empty
) -> tuple[list[str], list[Cells]] | None:
    """The same of a file of any size."""
    import pyarrow as pa

    try:
        header, parts = taken_apart(path)
        return None if parts is None else (header, _columns(parts, room))
    except (ValueError, pa.ArrowException):  # `csv_rows` has the sentence
        return None
    finally:
        pa.default_memory_pool().release_unused()


def taken_apart(path: Path) -> tuple[list[str], Parts | None]:
    """The header of a file, and how pyarrow is to read it, if it can."""
    header = next(csv_rows(path), (0, []))[1]
    separator = csv_separator(path)
    found = quotes_and_lines(path, separator) if len(header) > 1 else None
    return header, None if found is None else Parts(path, separator, len(header), *found)


def csv_parts(path: Path, names: Sequence[str]) -> Iterator[dict[str, Cells]]:
    """Some columns of a large file, some rows at a time; by `csv_rows` from where pyarrow fails."""
    import pyarrow as pa

    header, parts = taken_apart(path)
    places, done = [header.index(name) for name in names], 0
    try:
        for block in parts.blocks(*places) if parts is not None else ():
            yield {name: array_cells(block.column(at)) for at, name in enumerate(names)}
            done += block.num_rows
    except pa.ArrowException:  # `csv_rows` has the sentence, if there is one
        pass
    else:
        if parts is not None:
            return
    rows = islice((row for _, row in csv_rows(path)), 1 + done, None)
    while some := list(islice(rows, ROWS_AT_ONCE)):
        columns = list(zip(*some, strict=True))
        yield {name: list(columns[at]) for name, at in zip(names, places, strict=True)}


def array_cells(texts: Any) -> Cells:
    """Some cells of a column, a string array: plain numbers, or texts, whatever the others are."""
    found = plain_numbers(texts)
    return _listed(texts) if found is None else PlainNumbers(found, partial(_listed, texts))


def _listed(texts: Any) -> list[str]:
    different, codes = coded(texts)
    return [different[code] for code in codes.tolist()]


def _columns(parts: Parts, room: Callable[[int], NDArray[np.float64]]) -> list[Cells]:
    # Room for all, of which the system gives what is written to.
    numbers = {column: room(parts.lines) for column in range(parts.width)}
    texts: dict[int, Texts] = {}
    rows = 0
    for block in parts.blocks(*range(parts.width)):
        for column in range(parts.width):
            cells = block.column(column)
            if column in numbers:
                found = plain_numbers(cells)
                if found is not None:
                    numbers[column][rows : rows + len(cells)] = found
                    continue
                del numbers[column]
                if rows == 0:
                    texts[column] = Texts()
            if column in texts:
                texts[column].add(cells)
        rows += block.num_rows
    if not rows:
        raise ValueError("there are no rows")
    columns: list[Cells] = []
    for column in range(parts.width):
        if column in numbers:
            columns.append(PlainNumbers(numbers[column][:rows], partial(parts.texts, column)))
        else:
            known = texts.pop(column, None)
            columns.append(parts.texts(column) if known is None else known.cells())
    return columns


def quotes_and_lines(path: Path, separator: str) -> tuple[bool, int] | None:
    r"""Whether there are quotes in a file, and the number of its lines; None if it is not plain.

    Plain is text in UTF-8, as far as marks and zero bytes tell, whose lines end in \n or \r\n, and
    whose quotes are about whole cells.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "pets.csv")
    >>> def of(content):
    ...     return file.write_bytes(content) and quotes_and_lines(file, ",")
    >>> of(b'a,b\n1,2\n'), of(b'a,b\n"1,5","a ""b"" c"\n'), of(b'a,b\n1,2"\n'), of(b'a,b\r1,2\r')
    ((False, 2), (True, 2), None, None)
    """
    may_open, may_close = np.zeros(256, dtype=bool), np.zeros(256, dtype=bool)
    may_open[[NEW_LINE, ord(separator), QUOTE]] = True  # beside another, a quote stands for itself
    may_close[[NEW_LINE, ord(separator), QUOTE, RETURN]] = True
    quotes, lines = 0, 0
    with path.open("rb") as file:
        begins = file.read(4)
        first = len(UTF_8_MARK) if begins.startswith(UTF_8_MARK) else 0
        if begins[first : first + 1] in (b"", b"\r", b"\n") or begins.startswith(tuple(MARKS)):
            return None
        file.seek(first)
        last, block = b"\n", file.read(GLANCE)
        while block:
            following = file.read(GLANCE)
            around = last + block + (following[:1] or b"\n")
            returns = around.count(b"\r", 0, -1)  # one that is last is looked at with the next
            if b"\0" in block or returns != around.count(b"\r\n"):
                return None
            if b'"' in block:
                signs = np.frombuffer(around, np.uint8)
                found = np.flatnonzero(signs[1:-1] == QUOTE) + 1
                opening, closing = found[quotes % 2 :: 2], found[1 - quotes % 2 :: 2]
                if not (may_open[signs[opening - 1]].all() and may_close[signs[closing + 1]].all()):
                    return None
                quotes += len(found)
            lines += block.count(b"\n")
            last, block = block[-1:], following
    return None if quotes % 2 else (quotes > 0, lines + (last != b"\n"))


def plain_numbers(cells: Any) -> NDArray[np.float64] | None:
    """What `number` makes of each cell of a string array, or None if one of them is no number.

    >>> import pyarrow
    >>> plain_numbers(pyarrow.array(["1.5", " 2", None, "N/A"]))
    array([1.5, 2. , nan, nan])
    >>> plain_numbers(pyarrow.array(["1.5", "two"]))
    """
    import pyarrow as pa
    from pyarrow import compute

    def trimmed() -> Any:
        texts = compute.ascii_trim_whitespace(cells)
        absent = compute.is_in(texts, value_set=pa.array(ABSENT))
        return compute.if_else(absent, pa.scalar(None, pa.string()), texts)

    for cleaned in (False, True):
        try:
            found = compute.cast(trimmed() if cleaned else cells, pa.float64())
        except pa.ArrowInvalid:
            continue
        # Finite ones are what Python makes of them; of "nan(1)" and the like it makes nothing.
        values: NDArray[np.float64] = found.to_numpy(zero_copy_only=False)
        if int(np.isfinite(values).sum()) == len(found) - found.null_count:
            return values
        break
    different, codes = coded(cells)
    try:
        known = np.array([number(text) for text in different], dtype=np.float64)
    except ValueError:
        return None
    return known[codes]


def coded(texts: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The different texts of a string array, stripped, and which of them each is; null is empty.

    >>> import pyarrow
    >>> coded(pyarrow.array([" a", "b", None, " a"]))
    (['a', 'b', ''], array([0, 1, 2, 0]))
    """
    found = texts.dictionary_encode(null_encoding="encode")
    different = [(text or "").strip() for text in found.dictionary.to_pylist()]
    return different, found.indices.to_numpy(zero_copy_only=False).astype(np.int64)
