"""Data frames of pandas, polars and others: their columns as cells, by the types they have."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from labelgrad.inputs.cells import Cells, Typed, number_text, storable

FRAME = "The data frame"  # what sentences call one


def is_frame(data: object) -> bool:
    """Whether this is a data frame of a library that narwhals knows.

    >>> import pandas
    >>> is_frame(pandas.DataFrame({"a": [1]})), is_frame([[1]])
    (True, False)
    """
    try:
        native = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        return True
    return isinstance(native, nw.DataFrame | nw.LazyFrame)


def frame_columns(data: Any) -> tuple[list[str], list[nw.Series[Any]]]:
    """The names of the columns, as texts, and the columns.

    >>> import polars
    >>> frame_columns(polars.DataFrame({"a": [1, 2]}))[0]
    ['a']
    """
    try:
        frame = nw.from_native(data)
    except nw.exceptions.DuplicateError:  # pandas and Arrow allow them; the names tell which
        return [storable(str(name)) for name in getattr(data, "column_names", data.columns)], []
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(f"{FRAME} is lazy, and must be collected first: data.collect().")
    return [storable(str(name)) for name in frame.columns], list(frame.iter_columns())


def series_cells(series: nw.Series[Any]) -> Cells:
    """The cells of a column: what its type says, or texts that may hold anything.

    >>> import pandas
    >>> column = pandas.Series(pandas.array([3, None], dtype="Int64"))
    >>> series_cells(nw.from_native(column, series_only=True))
    Typed(holds='numbers', values=array([ 3., nan]), format=None)
    """
    kind = series.dtype
    if series.null_count() == len(series):
        return Typed("numbers", np.full(len(series), np.nan))
    if kind.is_numeric():
        numbers = series.cast(nw.Float64).to_numpy()
        return Typed("numbers", np.asarray(numbers, dtype=np.float64))
    if kind == nw.Date or kind == nw.Datetime:
        if getattr(kind, "time_zone", None):  # a text of a zone is read in UTC, too
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        days, known = np.full(len(series), np.nan), ~series.is_null().to_numpy()
        micros = series.drop_nulls().to_numpy().astype("datetime64[us]").astype(np.int64)
        days[known] = micros / (24 * 60 * 60 * 10**6)
        return Typed("dates", days)
    if kind == nw.Boolean:
        texts = np.where(series.fill_null(False).to_numpy().astype(bool), "True", "False")
        return Typed("texts", np.where(series.is_null().to_numpy(), "", texts).tolist())
    if kind.is_nested():
        return Typed("objects", [""] * len(series))
    cells = object_texts(series.to_list())
    if kind == nw.Categorical or kind == nw.Enum:  # numbers, too, are meant as classes
        return Typed("texts", cells)
    return cells if kind == nw.String or any(cells) else Typed("objects", [""] * len(series))


def object_texts(cells: list[Any]) -> list[str]:
    """Python's own objects as texts; lists, bytes and the like are no cells, and come out empty.

    >>> object_texts([" a", 2, 2.0, None, float("nan"), [1], date(2020, 1, 1)])
    ['a', '2', '2', '', '', '', '2020-01-01']
    """
    return [
        ""
        if not is_cell(c)
        else number_text(c)
        if isinstance(c, float)
        else storable(str(c).strip())
        for c in cells
    ]


def is_cell(cell: Any) -> bool:
    """Whether this is a text, a number or a date, and not NaN.

    >>> is_cell("a"), is_cell(0), is_cell(float("nan")), is_cell([1])
    (True, True, False, False)
    """
    plain = isinstance(cell, str | int | float | np.number | np.bool_ | Decimal | date)
    return plain and bool(cell == cell)  # NaN is not itself, nor is NaT, which is a date


def as_series(data: Any) -> Any:
    """An array of pandas' own, such as a `Categorical`, as a series; all else as it is.

    >>> import pandas
    >>> type(as_series(pandas.Categorical(["a", None]))).__name__, as_series([1, 2])
    ('Series', [1, 2])
    """
    pandas = nw.dependencies.get_pandas()
    if pandas is not None and isinstance(data, pandas.api.extensions.ExtensionArray):
        return pandas.Series(data)
    return data


def is_missing(cell: Any) -> bool:
    """Whether this is None, NaN, or what pandas has in their place.

    >>> import pandas
    >>> is_missing(None), is_missing(pandas.NA), is_missing(pandas.NaT), is_missing("")
    (True, True, True, False)
    """
    try:
        return cell is None or bool(cell != cell)
    except (TypeError, ValueError):  # NA is neither equal to itself nor not
        return type(cell).__name__ == "NAType"
