"""Tables as a network wants them: columns of one scale, rows of one length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROW_LENGTH = 3.0  # of a typical row, once scaled

Array = NDArray[Any]
Numbers = NDArray[np.float64]


def row_scale(x: Array) -> tuple[Numbers, Numbers]:
    """For each column what to subtract, and what to divide by.

    Columns are standardized by `spreads`. Then rows are brought to a common length, however many
    columns there are: a network learns the faster the longer its inputs, and must not outrun its
    labels.

    >>> mean, scale = row_scale(np.array([[0.0, 10.0], [2.0, 50.0]]))
    >>> mean, ((np.array([[2.0, 50.0]]) - mean) / scale).round(2)
    (array([ 1., 30.]), array([[2.12, 2.12]]))
    """
    mean, spread = spreads(x)
    return mean, to_length(spread, x.shape[1])


def to_length(spread: Numbers, width: int) -> Numbers:
    """What to divide by, so that a row of `width` numbers with these spreads has the length.

    >>> to_length(np.array([1.0, 6.0]), 9)
    array([1., 6.])
    """
    with np.errstate(over="ignore"):
        scale = spread * math.sqrt(width) / ROW_LENGTH
    return np.minimum(scale, np.finfo(np.float64).max)


def spreads(x: Array) -> tuple[Numbers, Numbers]:
    """The mean and the spread of each column; NaN and infinity are left out.

    Where half of the columns span the range of the whole table, they are one kind of number, such
    as pixels, and share one spread: a pixel that is seldom lit should not be magnified. A column
    that is always the same has the spread 1.

    >>> spreads(np.array([[1.0, 7.0], [np.nan, 7.0], [5.0, 7.0]]))
    (array([3., 7.]), array([2., 1.]))
    """
    x = np.ascontiguousarray(x)  # sums in another order would differ in the last digit
    known = np.isfinite(x)
    with np.errstate(over="ignore", invalid="ignore"):
        if known.all():
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
        same_range = (low == low.min()) & (high == high.max())
        if len(spread) > 1 and same_range.mean() >= 0.5:
            shared = np.sqrt(np.square(spread).mean())
            spread = np.full_like(spread, shared if np.isfinite(shared) else spread.max())
    return mean, np.where(spread > 0, spread, 1.0)
