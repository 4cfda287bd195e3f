"""Where tables come from: CSV, Parquet, JSON lines and Excel files, and data frames.

The columns of a text file are strings, unless plain numbers are to be parsed; all others have the
types they have.
"""

from __future__ import annotations

import csv
import gzip
import io
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import narwhals as nw
import numpy as np
import polars as pl

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.columns import holds_of, join_few
from labelgrad.auto.store import cache_folder

CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET, JSON, EXCEL = (".parquet", ".pq"), (".jsonl", ".ndjson"), (".xlsx", ".xls", ".ods")
SUFFIXES = (*CSV, *PARQUET, *JSON, *EXCEL)
LARGE = 2**29  # bytes of a file, or 8 for each cell: larger tables are not held in memory
SEPARATORS = ",;\t|"
FRAME = "The data frame"
USUAL_TARGETS = ("label", "target", "class", "y")
ENCODINGS = {  # by the byte order mark; the longer ones first
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\xef\xbb\xbf": "UTF-8-SIG",
}


@dataclass(frozen=True, eq=False)
class Source:
    """A table that is open: a frame in memory, or a lazy one of a large file."""

    name: str  # what sentences call it
    frame: pl.DataFrame | pl.LazyFrame
    is_file: bool = True
    separator: str = ","

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"{self.name} has no rows below its header.")

    @cached_property
    def schema(self) -> Mapping[str, pl.DataType]:
        """The type of each column."""
        return self.frame.collect_schema()

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        with readable(self.name, "a table"):
            return int(self.frame.lazy().select(pl.len()).collect().item())

    def column(self, name: str) -> pl.Series:
        """All cells of a column."""
        if isinstance(self.frame, pl.DataFrame):
            return self.frame[name]
        with readable(self.name, "a table"):
            return self.frame.select(name).collect(engine="streaming").to_series()

    def parts(self, names: Sequence[str], size: int) -> Iterator[pl.DataFrame]:
        """Some columns, at most `size` rows at a time."""
        if isinstance(self.frame, pl.DataFrame):
            yield from self.frame.select(names).iter_slices(size)
            return
        for batch in self.frame.select(names).collect_batches(chunk_size=size, maintain_order=True):
            yield from batch.iter_slices(size)


@contextmanager
def readable(name: str, what: str) -> Iterator[None]:
    """Make one sentence of whatever a decoder stumbles over."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
        raise ValueError(f"{name} cannot be read as {what}: {reason}.") from None


def suffix_of(path: Path) -> str:
    """The end of a file's name that says what is in it.

    >>> suffix_of(Path("a.b.CSV.gz")), suffix_of(Path("pets.parquet"))
    ('.csv.gz', '.parquet')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def open_source(data: Any, config: FitConfig, *, parse: bool = False) -> Source:
    """Open a path or a data frame; a CSV file may have columns of plain numbers parsed."""
    if not isinstance(data, Path):
        return Source(FRAME, _from_frame(data), is_file=False)
    suffix = suffix_of(data)
    if data.is_dir() or suffix in PARQUET:
        return _open_parquet(data)
    if suffix in CSV:
        return _open_csv(data, config, parse)
    with readable(data.name, "an Excel file" if suffix in EXCEL else "JSON lines"):
        if suffix in JSON:
            frame = pl.read_ndjson(data, infer_schema_length=None)
        else:
            frame = _read_excel(data)
    return Source(data.name, _with_names(frame.lazy(), data.name).collect())


def _with_names(frame: pl.LazyFrame, file: str, names: Sequence[str] | None = None) -> pl.LazyFrame:
    """The frame with its columns named alike, however they are written."""
    old = list(frame.collect_schema())
    new = [storable(name).strip() for name in names or old]
    twice = sorted(name for name, count in Counter(new).items() if count > 1)
    if twice:
        raise ValueError(
            f"{file} has two columns of one name: {join_few(twice)}; rename one of them."
        )
    return frame.rename(dict(zip(old, new, strict=True)))


def _read_excel(path: Path) -> pl.DataFrame:
    try:
        import fastexcel  # noqa: F401
    except ImportError:
        raise ValueError("it needs fastexcel: pip install 'labelgrad[excel]'") from None
    return pl.read_excel(path, infer_schema_length=None)


def _from_frame(data: Any) -> pl.DataFrame:
    try:
        frame = nw.from_native(data)
    except nw.exceptions.DuplicateError as error:
        twice = ", ".join(line.strip(" -") for line in str(error).splitlines()[1:])
        raise ValueError(
            f"{FRAME} has two columns of one name: {twice}; rename one of them."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(f"{FRAME} is lazy and must be collected first: data.collect().")
    columns = [from_narwhals(each).alias(str(i)) for i, each in enumerate(frame.iter_columns())]
    names = [str(name) for name in frame.columns]
    return _with_names(pl.LazyFrame(columns), FRAME, names).collect()


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


def parquet_files(path: Path) -> list[Path]:
    """The files of a table, in order; what is hidden or marked by an underscore is ignored."""
    if not path.is_dir():
        return [path]
    inside = [file for file in path.iterdir() if not file.name.startswith((".", "_"))]
    return sorted(inside) if all(suffix_of(file) in PARQUET for file in inside) else []


def _open_parquet(path: Path) -> Source:
    files = parquet_files(path)
    scans: list[pl.LazyFrame] = []
    first: dict[str, pl.DataType] = {}
    for file in files:
        with readable(file.name, "a Parquet file"):
            scan = pl.scan_parquet(file)
            schema = dict(scan.collect_schema())
        first = first or schema
        differing = [
            name
            for name in first | schema
            if name not in first
            or name not in schema
            or len({holds_of(each[name]) for each in (first, schema) if each[name] != pl.Null}) > 1
        ]
        if differing:
            raise ValueError(
                f"The files of {path.name} must have the same columns, and {join_few(differing)} "
                f"differ between {files[0].name} and {file.name}; make them alike."
            )
        scans.append(scan.select(list(first)))
    whole = _with_names(pl.concat(scans, how="vertical_relaxed"), path.name)
    with readable(path.name, "a Parquet file"):
        cells = len(first) * whole.select(pl.len()).collect().item()
        return Source(path.name, whole if 8 * cells >= LARGE else whole.collect())


def _open_csv(path: Path, config: FitConfig, parse: bool) -> Source:
    """A CSV file; a large one is copied to Parquet, so that columns can be read one by one."""
    content = _content(path)
    with _opened(content) as file:
        start = file.read(2**16)
    if b"\0" in start:
        line = start[: start.index(b"\0")].count(b"\n") + 1
        raise ValueError(f"{path.name} must be a text file, and line {line} has a zero byte in it.")
    separator = max(SEPARATORS, key=start.partition(b"\n")[0].decode(errors="replace").count)
    rows = _rows(content, separator, path.name)
    header = next((row for _, row in rows if row), None)
    if header is None:
        raise ValueError(f"{path.name} is empty: a table needs a header and rows below it.")
    is_large = isinstance(content, Path) and path.stat().st_size >= LARGE
    scan = partial(pl.scan_csv, content, infer_schema=False, separator=separator)
    with ExitStack() as stack:
        try:
            with readable(path.name, "a CSV file"):
                types = _number_types(content, separator, config) if parse else {}
                try:
                    copy = _copied(scan(schema_overrides=types), is_large, config, stack)
                except pl.exceptions.ComputeError:  # some cell below the first is no plain number
                    copy = _copied(scan(), is_large, config, stack)
        except ValueError:
            _blank_rows(rows, len(header), path.name)  # whatever is wrong has a line number
            raise
        frame = _with_names(copy, path.name, header)
        if _lacks_cells(frame, content, separator, header):
            blank = _blank_rows(rows, len(header), path.name)
            frame = frame.filter(~pl.int_range(pl.len()).is_in(blank))
        whole = frame if is_large else frame.collect()
        source = Source(path.name, whole, separator=separator)
        weakref.finalize(source, stack.pop_all().close)
    return source


def _content(path: Path) -> Path | bytes:
    """The path of a file in UTF-8, or the content of another as UTF-8."""
    is_gzip = path.name.lower().endswith(".gz")
    with path.open("rb") as file:
        start = file.read(2**16)
    has_returns = b"\r" in start and b"\n" not in start
    if not (is_gzip or has_returns or start.startswith(tuple(ENCODINGS))):
        return path
    with readable(path.name, "a compressed file"):
        content = gzip.decompress(path.read_bytes()) if is_gzip else path.read_bytes()
    encoding = next((name for mark, name in ENCODINGS.items() if content.startswith(mark)), None)
    if encoding is not None:
        try:
            content = content.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path.name} must be {encoding} text, as its first bytes say, and byte "
                f"{error.start + 1} is not; save it as UTF-8."
            ) from None
    if b"\r" in content[: 2**16] and b"\n" not in content[: 2**16]:
        content = content.replace(b"\r", b"\n")
    return content


def _opened(content: Path | bytes) -> BinaryIO:
    return content.open("rb") if isinstance(content, Path) else io.BytesIO(content)


def _number_types(content: Path | bytes, separator: str, config: FitConfig) -> dict[str, Any]:
    """The type of columns that begin with plain numbers; what people name themselves stays text."""
    named = (config.target, *config.text)
    return {
        name: pl.Float64
        for name, dtype in pl.scan_csv(content, separator=separator).collect_schema().items()
        if dtype.is_numeric() and name.strip() not in named and name.lower() not in USUAL_TARGETS
    }


def _copied(
    scan: pl.LazyFrame, is_large: bool, config: FitConfig, stack: ExitStack
) -> pl.LazyFrame:
    """The table in memory; a large one in a Parquet file that is there until the stack closes."""
    if not is_large:
        return scan.collect().lazy()
    cache = cache_folder(config.cache)
    cache.mkdir(parents=True, exist_ok=True)
    folder = stack.enter_context(TemporaryDirectory(dir=cache, prefix="table-"))
    copy = Path(folder, "table.parquet")
    scan.sink_parquet(copy, compression="lz4", row_group_size=2**17)
    return pl.scan_parquet(copy)


def _lacks_cells(
    frame: pl.LazyFrame, content: Path | bytes, separator: str, header: Sequence[str]
) -> bool:
    """Whether rows may have too few cells, or none: polars fills them with nulls.

    The number of separators in the file shows them.
    """
    found, has_quotes = 0, False
    with _opened(content) as file:
        while part := file.read(2**24):
            found += int((np.frombuffer(part, np.uint8) == ord(separator)).sum())
            has_quotes |= b'"' in part
    if has_quotes:
        inside = pl.col(pl.String).str.count_matches(separator, literal=True).sum()
        found -= sum(frame.select(inside).collect(engine="streaming").row(0))
        found -= sum(name.count(separator) for name in header)
    gaps, rows = len(header) - 1, frame.select(pl.len()).collect().item()
    return gaps == 0 or found < gaps * (rows + 1)


def _rows(content: Path | bytes, separator: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """The line and the cells of each row, slowly; one that is damaged raises a ValueError."""
    csv.field_size_limit(2**30)
    line = 1
    with _opened(content) as file:
        reader = csv.reader((each.decode() for each in file), delimiter=separator, strict=True)
        while True:
            try:
                row = next(reader, None)
            except UnicodeDecodeError:
                raise ValueError(
                    f"{name} must be UTF-8 text, and line {reader.line_num + 1} is not; save it as "
                    f"UTF-8."
                ) from None
            except csv.Error as error:
                is_return = "new-line" in str(error)
                why = "it has a carriage return outside of quotes" if is_return else error
                raise ValueError(
                    f"{name} is damaged in the row that begins on line {line}: {why}."
                ) from None
            if row is None:
                return
            yield line, row
            line = reader.line_num + 1


def _blank_rows(rows: Iterator[tuple[int, list[str]]], width: int, name: str) -> list[int]:
    """The positions of blank lines; a row with too few or too many cells raises a ValueError."""
    blank = []
    for place, (line, row) in enumerate(rows):
        if not row:
            blank.append(place)
        elif len(row) != width:
            raise ValueError(
                f"{name} is damaged on line {line}: it must have {width} cells like the first row, "
                f"got {len(row)}."
            )
    return blank
