"""Where tables come from: CSV, Parquet, JSON lines and Excel files, and data frames.

The columns of a text file are strings; all others have the types they have.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.columns import holds_of, join_few
from labelgrad.auto.store import cache_folder
from labelgrad.reasons import reason_of

CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET, JSON, EXCEL = (".parquet", ".pq"), (".jsonl", ".ndjson"), (".xlsx", ".xls", ".ods")
SUFFIXES = (*CSV, *PARQUET, *JSON, *EXCEL)
logging.getLogger("fastexcel").setLevel(logging.ERROR)  # it warns of columns of several types
LARGE = 2**29  # bytes of a file, or 8 for each cell: larger tables are not held in memory
SEPARATORS = ",;\t|"
FRAME = "The data frame"
ENCODINGS = {  # by the byte order mark; the longer ones first
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\xef\xbb\xbf": "UTF-8-SIG",
}


@dataclass(eq=False)
class Source:
    """A table that is open, in memory or in a large file."""

    name: str  # what sentences call it
    frame: pl.LazyFrame
    data: Any = None  # the path or the data frame
    separator: str = ","
    below: Source | None = None  # the table whose rows follow
    schema: Mapping[str, pl.DataType] = field(init=False)  # the type of each column
    rows: int = field(init=False)
    is_large: bool = field(init=False)  # then its numbers are not held in memory

    def __post_init__(self) -> None:
        self.schema = self.frame.collect_schema()
        with readable(self.name, "a table"):
            self.rows = int(self.frame.select(pl.len()).collect().item())
        if not self.rows:
            raise ValueError(f"{self.name} has no rows below its header.")
        self.is_large = 8 * self.rows * len(self.schema) >= LARGE

    def column(self, name: str) -> pl.Series:
        """All cells of a column."""
        with readable(self.name, "a table"):
            return self.frame.select(name).collect().to_series()

    def parts(self, names: Sequence[str], size: int) -> Iterator[pl.DataFrame]:
        """Some columns, at most `size` rows at a time."""
        frame = self.frame.select(*dict.fromkeys(names))
        for batch in frame.collect_batches(chunk_size=size, maintain_order=True):
            yield from batch.iter_slices(size)


@contextmanager
def readable(name: str, what: str) -> Iterator[None]:
    """Make one sentence of whatever a decoder stumbles over."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{name} cannot be read as {what}: {reason_of(error)}.") from None


def open_source(data: Any, config: FitConfig) -> Source:
    """Open a path or a data frame."""
    if not isinstance(data, Path):
        return Source(FRAME, _from_frame(data), data)
    file = data.name.lower()
    if data.is_dir() or file.endswith(PARQUET):
        return _open_parquet(data)
    if file.endswith(CSV):
        return _open_csv(data, config)
    is_json = file.endswith(JSON)
    with readable(data.name, "JSON lines" if is_json else "an Excel file"):
        read: Any = pl.read_ndjson if is_json else pl.read_excel
        try:
            frame: pl.DataFrame = read(data, infer_schema_length=None)
        except ImportError:
            raise ValueError("it needs fastexcel: pip install 'labelgrad[excel]'") from None
    return Source(data.name, _with_names(frame.lazy(), data.name), data)


def with_unlabeled(source: Source, target: str | None, config: FitConfig) -> Source:
    """The table with the rows of the one that `unlabeled` names below, without their labels."""
    if config.unlabeled is None:
        return source
    if target is None:
        raise ValueError("`unlabeled` needs a table with a `target`; give `y` None there instead.")
    below, above = open_source(Path(config.unlabeled), config), source.schema
    names = [name for name in above if name != target]
    if wrong := [name for name in names if _differs(name, above, below.schema)]:
        raise ValueError(
            f"{below.name} must have the columns of {source.name}, and {wrong[0]!r} is "
            f"missing or of another type; write both tables in one format."
        )
    rows = below.frame.select(names).with_columns(pl.lit(None, above[target]).alias(target))
    whole = pl.concat([source.frame, rows.select(list(above))], how="vertical_relaxed")
    source.frame, source.below = whole, below
    source.__post_init__()
    return source


def _differs(name: str, *schemas: Mapping[str, pl.DataType]) -> bool:
    """Whether tables disagree on a column: one of them lacks it, or it holds something else."""
    types = [schema.get(name) for schema in schemas]
    return None in types or len({holds_of(each) for each in types if each and each != pl.Null}) > 1


def _with_names(frame: pl.LazyFrame, file: str, names: Sequence[str] | None = None) -> pl.LazyFrame:
    """The frame with its columns named alike, however they are written."""
    old = list(frame.collect_schema())
    new = [name.strip() for name in names or old]
    twice = sorted(name for name, count in Counter(new).items() if count > 1)
    if twice:
        raise ValueError(f"{file} has two columns of one name: {join_few(twice)}; rename one.")
    return frame.rename(dict(zip(old, new, strict=True)))


def _from_frame(data: Any) -> pl.LazyFrame:
    try:
        frame = nw.from_native(data)
    except nw.exceptions.DuplicateError as error:
        twice = ", ".join(line.strip(" -") for line in str(error).splitlines()[1:])
        raise ValueError(f"{FRAME} has two columns of one name: {twice}; rename one.") from None
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(f"{FRAME} is lazy and must be collected first: data.collect().")
    columns = [from_narwhals(each).alias(str(i)) for i, each in enumerate(frame.iter_columns())]
    return _with_names(pl.LazyFrame(columns), FRAME, [storable(str(n)) for n in frame.columns])


def from_narwhals(series: nw.Series[Any]) -> pl.Series:
    """A column of any data frame library as a polars series; what is no cell becomes null.

    >>> import pandas
    >>> column = pandas.Series([" a", 2, 2.0, None, [1]], dtype=object)
    >>> from_narwhals(nw.from_native(column, series_only=True)).to_list()
    ['a', '2', '2', None, None]
    """
    native, dtype = series.to_native(), series.dtype
    if isinstance(native, pl.Series) and native.dtype != pl.Object:
        return native
    if dtype.is_numeric():
        return pl.Series(series.to_numpy(), nan_to_null=True)
    if dtype in (nw.Date, nw.Datetime):  # NumPy has them in UTC
        return pl.Series(series.to_numpy().astype("datetime64[us]"))
    objects = [cell if is_cell(cell) else None for cell in series.to_list()]
    if dtype == nw.Boolean:
        return pl.Series(objects, dtype=pl.Boolean)
    cells = [None if cell is None else object_text(cell) for cell in objects]
    if dtype.is_nested() or (cells.count(None) == len(cells) > series.null_count()):
        return pl.Series([[]] * len(cells), dtype=pl.List(pl.Null))
    return pl.Series(cells, dtype=pl.String)


def storable(text: str) -> str:
    r"""The text with unpaired surrogates spelled out: UTF-8 cannot hold them.

    >>> storable("caf\u00e9"), storable("\ud800!")
    ('café', '\\ud800!')
    """
    return text.encode("utf-8", "backslashreplace").decode()


def object_text(cell: Any) -> str:
    """A Python object as the text of a cell.

    >>> object_text(2.0), object_text(" a")
    ('2', 'a')
    """
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return storable(str(cell).strip())


def is_cell(cell: Any) -> bool:
    """Whether this is a text, a number or a date, and not NaN.

    >>> is_cell("a"), is_cell(0), is_cell(float("nan")), is_cell([1])
    (True, True, False, False)
    """
    plain = isinstance(cell, str | int | float | np.number | np.bool_ | Decimal | date)
    return plain and bool(cell == cell)  # NaN and NaT differ from themselves


def table_files(path: Path) -> list[Path]:
    """The file of a table, or those of a folder of Parquet files, in order; none if it is no table.

    What is hidden or marked by an underscore is ignored.
    """
    if not path.is_dir():
        return [path] if suffix_of(path) else []
    inside = [file for file in path.iterdir() if not file.name.startswith((".", "_"))]
    return sorted(inside) if all(file.name.lower().endswith(PARQUET) for file in inside) else []


def _open_parquet(path: Path) -> Source:
    files = table_files(path)
    if not files:
        raise ValueError(f"{path.name} must be a table or a folder of Parquet files alone.")
    scans = []
    for file in files:
        with readable(file.name, "a Parquet file"):
            scans.append(pl.scan_parquet(file))
            first, last = (scans[place].collect_schema() for place in (0, -1))
        if differing := [name for name in first | last if _differs(name, first, last)]:
            which = f"{join_few(differing)} differ between {files[0].name} and {file.name}"
            raise ValueError(f"The files of {path.name} must have the same columns, and {which}.")
    with readable(path.name, "a Parquet file"):
        names = list(scans[0].collect_schema())
        whole = pl.concat([scan.select(names) for scan in scans], how="vertical_relaxed")
        cells = len(names) * whole.select(pl.len()).collect().item()
        whole = whole if 8 * cells >= LARGE else whole.collect().lazy()
    return Source(path.name, _with_names(whole, path.name), path)


def _open_csv(path: Path, config: FitConfig) -> Source:
    """A CSV file; a large one is copied to Parquet, so that columns can be read one by one."""
    content, separator = _content(path)
    rows = _rows(content, separator, path.name)
    header = next((row for _, row in rows if row), None)
    if header is None:
        raise ValueError(f"{path.name} is empty: a table needs a header and rows below it.")
    with ExitStack() as stack:
        try:
            with readable(path.name, "a CSV file"):
                frame = pl.scan_csv(content, infer_schema=False, separator=separator)
                if isinstance(content, Path) and path.stat().st_size >= LARGE:
                    copy = _temporary("table.parquet", config.cache, stack)
                    frame.sink_parquet(copy, compression="lz4", row_group_size=2**17)
                    frame = pl.scan_parquet(copy)
                else:
                    frame = frame.collect().lazy()
        except ValueError:
            _blank_rows(rows, len(header), path.name)  # whatever is wrong has a line number
            raise
        frame = _with_names(frame, path.name, header)
        if _lacks_cells(frame, content, separator, header):
            blank = _blank_rows(rows, len(header), path.name)
            frame = frame.filter(~pl.int_range(pl.len()).is_in(blank))
        source = Source(path.name, frame, path, separator)
        weakref.finalize(source, stack.pop_all().close)
    return source


def table_suffix(path: Path) -> str:
    """The ending of a file that holds a table in the format it came in, where we can write it.

    >>> table_suffix(Path("pets.TSV.gz")), table_suffix(Path("pets.pq"))
    ('.tsv.gz', '.pq')
    """
    found = PARQUET[0] if path.is_dir() else suffix_of(path)
    return (EXCEL[0] if find_spec("xlsxwriter") else CSV[0]) if found in EXCEL else found


def suffix_of(path: Path) -> str:
    """The ending of a table's file; empty if it is none."""
    return next((each for each in SUFFIXES if path.name.lower().endswith(each)), "")


def table_pieces(
    frame: pl.LazyFrame, suffix: str, separator: str, cache: str | None
) -> Iterator[bytes]:
    """A table as the content of a file; only an Excel file is made in memory."""
    if suffix not in (writable := (*CSV, *PARQUET, *JSON, EXCEL[0])):
        raise ValueError(f"The name of a table's file must end with {', '.join(writable)}.")
    if suffix in EXCEL and not find_spec("xlsxwriter"):
        raise ImportError("Excel files are written by xlsxwriter: pip install 'labelgrad[excel]'.")
    with ExitStack() as stack:
        path = _temporary(f"table{suffix}", cache, stack)
        if suffix in PARQUET:
            frame.sink_parquet(path)
        elif suffix in JSON:
            frame.sink_ndjson(path)
        elif suffix in EXCEL:
            frame.collect().write_excel(path)
        else:
            is_gzip = suffix.endswith(".gz")
            file: Any = gzip.GzipFile(path, "wb", mtime=0) if is_gzip else path.open("wb")
            with file:  # packed without the time: the same bytes each time
                frame.sink_csv(file, separator=separator)
        with path.open("rb") as file:
            yield from iter(lambda: file.read(2**20), b"")


def _temporary(name: str, cache: str | None, stack: ExitStack) -> Path:
    """A path in the cache, in a folder that is there until the stack closes."""
    folder = cache_folder(cache)
    folder.mkdir(parents=True, exist_ok=True)
    return Path(stack.enter_context(TemporaryDirectory(dir=folder, prefix="table-")), name)


def _content(path: Path) -> tuple[Path | bytes, str]:
    """The path of a CSV file in UTF-8, or the content of another as UTF-8; and its separator."""
    is_gzip = path.name.lower().endswith(".gz")
    with path.open("rb") as file:
        start = file.read(2**16)
    content: Path | bytes = path
    if is_gzip or start.startswith(tuple(ENCODINGS)):
        with readable(path.name, "a compressed file"):
            text = gzip.decompress(path.read_bytes()) if is_gzip else path.read_bytes()
        encoding = encoding_of(text)
        try:
            content = text if encoding == "UTF-8" else text.decode(encoding).encode()
        except UnicodeDecodeError as error:
            wrong = f"and byte {error.start + 1} is not; save it as UTF-8"
            raise ValueError(f"{path.name} begins as {encoding} text, {wrong}.") from None
        start = content[: 2**16]
    if b"\0" in start:
        line = start[: start.index(b"\0")].count(b"\n") + 1
        raise ValueError(f"{path.name} must be a text file, and line {line} has a zero byte in it.")
    return content, max(SEPARATORS, key=start.partition(b"\n")[0].decode(errors="replace").count)


def encoding_of(content: bytes) -> str:
    """The encoding of a text, by its byte order mark."""
    return next((name for mark, name in ENCODINGS.items() if content.startswith(mark)), "UTF-8")


def _lacks_cells(
    frame: pl.LazyFrame, content: Path | bytes, separator: str, header: Sequence[str]
) -> bool:
    """Whether rows may have too few cells, or none: polars fills them with nulls.

    The number of separators in the file shows them, if the last column has nulls.
    """
    rows, nulls = frame.select(pl.len(), pl.last().null_count().alias("nulls")).collect().row(0)
    if not nulls:
        return False
    found, has_quotes = 0, False
    with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as file:
        for part in iter(lambda: file.read(2**24), b""):
            found += part.count(separator.encode())
            has_quotes |= b'"' in part
    if has_quotes:
        inside = pl.col(pl.String).str.count_matches(separator, literal=True).sum()
        found -= sum(frame.select(inside).collect(engine="streaming").row(0))
        found -= sum(name.count(separator) for name in header)
    gaps = len(header) - 1
    return gaps == 0 or found < gaps * (rows + 1)


def _rows(content: Path | bytes, separator: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """The line and the cells of each row, slowly; one that is damaged raises a ValueError."""
    csv.field_size_limit(2**30)
    line = 1
    with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as file:
        reader = csv.reader((each.decode() for each in file), delimiter=separator, strict=True)
        try:
            for row in reader:
                yield line, row
                line = reader.line_num + 1
        except UnicodeDecodeError:
            bad = reader.line_num + 1
            why = f"must be UTF-8 text, and line {bad} is not; save it as UTF-8"
            raise ValueError(f"{name} {why}.") from None
        except csv.Error as error:
            is_return = "new-line" in str(error)
            why = "it has a carriage return outside of quotes" if is_return else str(error)
            where = f"is damaged in the row that begins on line {line}"
            raise ValueError(f"{name} {where}: {why}.") from None


def _blank_rows(rows: Iterable[tuple[int, list[str]]], width: int, name: str) -> list[int]:
    """The positions of blank lines; a row with too few or too many cells raises a ValueError."""
    blank = []
    for place, (line, row) in enumerate(rows):
        if not row:
            blank.append(place)
        elif len(row) != width:
            needed = f"it must have {width} cells like the first row, got {len(row)}"
            raise ValueError(f"{name} is damaged on line {line}: {needed}.")
    return blank


def read_pairs(
    path: Path, names: Sequence[str], values: Sequence[str], *, needs_header: bool = False
) -> list[tuple[int, str, str]]:
    r"""Line, name and value of every row of a CSV file that has a column for each.

    Parameters
    ----------
    path
        The delimiter is whichever of , ; tab and | the first line has most of. A file of exactly
        two columns needs no header, unless `needs_header`.
    names, values
        What the columns may be called, in lower case.

    Returns
    -------
    list of tuple

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "labels.csv")
    >>> _ = file.write_text("Label;file\ncat;tom.png\n")
    >>> read_pairs(file, ["file"], ["label"])
    [(2, 'tom.png', 'cat')]
    """
    content, separator = _content(path)
    found = _rows(content, separator, path.name)
    rows = [(line, [cell.strip() for cell in row]) for line, row in found if row]
    line, header = rows[0] if rows else (0, [])
    lower = [cell.casefold() for cell in header]
    columns = [next((lower.index(one) for one in n if one in lower), -1) for n in (names, values)]
    if -1 in columns:
        if len(header) != 2 or needs_header:
            got = ", ".join(map(repr, header[:5])) or "an empty file"
            needed = f"must have the columns {names[0]} and {values[0]}"
            raise ValueError(f"{path.name} {needed}, got {got}.")
        columns, rows = [0, 1], [(line, header), *rows]
    _blank_rows(rows, len(header), path.name)
    return [(line, row[columns[0]], row[columns[1]]) for line, row in rows[1:]]
