"""The mean and the spread of columns, and which columns share one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

SIDE_BY_SIDE = 4  # columns that are copied to one array at once
ROWS_AT_ONCE = 2**16  # of them


def spreads(x: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """The mean and the spread of each column; NaN and infinity are left out.

    Where half of the columns span the range of the whole table, they are one kind of number, such
    as pixels, and share one spread: a pixel that is seldom lit should not be magnified. A column
    that is always the same has the spread 1.

    >>> spreads(np.array([[1.0, 7.0], [np.nan, 7.0], [5.0, 7.0]]))
    (array([3., 7.]), array([2., 1.]))
    """
    return _shared([_moments(x, complete=bool(np.isfinite(x).all()))])


def column_spreads(columns: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """`spreads` of these columns side by side, without all of them copied there at once.

    >>> column_spreads([np.array([1.0, np.nan, 5.0]), np.array([7.0, 7.0, 7.0])])
    (array([3., 7.]), array([2., 1.]))
    """
    complete = all(bool(np.isfinite(column).all()) for column in columns)
    # One column alone would be summed in another order, and differ in the last digit.
    groups = np.array_split(np.arange(len(columns)), max(1, len(columns) // SIDE_BY_SIDE))
    chosen = ([columns[place] for place in group] for group in groups)
    return _shared([_moments_in_parts(some, complete=complete) for some in chosen])


Moments = tuple[Numbers, Numbers, NDArray[Any], NDArray[Any]]  # mean, spread, least and most


def _moments(x: NDArray[Any], *, complete: bool) -> Moments:
    """Of each column; `complete` says whether all numbers of the table are known."""
    x = np.ascontiguousarray(x)  # sums in another order would differ in the last digit
    known = np.isfinite(x)
    with np.errstate(over="ignore", invalid="ignore"):
        if complete:
            mean, spread = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
            low, high = x.min(0), x.max(0)
        else:
            count = np.maximum(known.sum(0), 1)  # a column of nothing has the mean 0
            mean = np.where(known, x, 0).sum(0, dtype=np.float64) / count
            square = np.square(np.where(known, x - mean, 0), dtype=np.float64)
            spread = np.sqrt(square.sum(0) / count)
            low, high = np.where(known, x, np.inf).min(0), np.where(known, x, -np.inf).max(0)
        for column in np.flatnonzero(~np.isfinite(mean) | ~np.isfinite(spread)):
            values = x[known[:, column], column].astype(np.float64)
            largest = np.abs(values).max()  # its square, or the sum, is beyond 64 bits
            mean[column] = (values / largest).mean() * largest
            spread[column] = (values / largest).std() * largest
    return mean, spread, low, high


def _moments_in_parts(columns: Sequence[Numbers], *, complete: bool) -> Moments:
    """`_moments` of columns side by side, to the last digit, with few rows of them copied at once.

    NumPy adds the rows of several columns one after another, so a sum can be gone on with.
    """
    if len(columns) < 2 or not len(columns[0]):  # one alone is added up in pairs
        return _moments(np.stack(columns, axis=1), complete=complete)
    parts = [
        slice(first, first + ROWS_AT_ONCE) for first in range(0, len(columns[0]), ROWS_AT_ONCE)
    ]

    def side_by_side(rows: slice) -> tuple[Numbers, NDArray[np.bool_]]:
        x = np.stack([column[rows] for column in columns], axis=1)
        return x, np.isfinite(x)

    def on_with(total: Numbers | None, x: Numbers) -> Numbers:
        found: Numbers = x.sum(0) if total is None else np.vstack([total[None], x]).sum(0)
        return found

    total, squares = None, None
    count = np.zeros(len(columns))
    low, high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in parts:
            x, known = side_by_side(rows)
            total = on_with(total, x if complete else np.where(known, x, 0))
            count += known.sum(0)
            low = np.minimum(low, np.where(known, x, np.inf).min(0))
            high = np.maximum(high, np.where(known, x, -np.inf).max(0))
        assert total is not None
        mean = total / np.maximum(count, 1)
        for rows in parts:
            x, known = side_by_side(rows)
            off = x - mean
            squares = on_with(squares, np.square(off if complete else np.where(known, off, 0)))
        spread = np.sqrt(squares / np.maximum(count, 1))
    for place in np.flatnonzero(~np.isfinite(mean) | ~np.isfinite(spread)):
        alone = _moments(columns[int(place)][:, None], complete=complete)
        mean[place], spread[place] = alone[0][0], alone[1][0]
    return mean, spread, low, high


def _shared(moments: Sequence[Moments]) -> tuple[Numbers, Numbers]:
    """The means, and the spreads, which are one if most columns span the range of all."""
    mean, spread, low, high = (np.concatenate(parts) for parts in zip(*moments, strict=True))
    with np.errstate(over="ignore", invalid="ignore"):
        same_range = (low == low.min()) & (high == high.max())
        if len(spread) > 1 and same_range.mean() >= 0.5:
            shared = np.sqrt(np.square(spread).mean())
            spread = np.full_like(spread, shared if np.isfinite(shared) else spread.max())
    return mean, np.where(spread > 0, spread, 1.0)
