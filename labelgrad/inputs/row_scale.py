"""Tables as a network wants them: columns of one scale, rows of one length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROW_LENGTH = 3.0  # of a typical row, once scaled

Array = NDArray[Any]


def row_scale(x: Array) -> tuple[Array, Array]:
    """For each column what to subtract, and what to divide by.

    Columns are standardized. Where half of them span the range of the whole table, they are one
    kind of number, such as pixels, and share one scale: a pixel that is seldom lit should not be
    magnified. Then rows are brought to a common length, however many columns there are: a network
    learns the faster the longer its inputs, and must not outrun its labels.

    >>> mean, scale = row_scale(np.array([[0.0, 10.0], [2.0, 50.0]]))
    >>> mean, ((np.array([[2.0, 50.0]]) - mean) / scale).round(2)
    (array([ 1., 30.]), array([[2.12, 2.12]]))
    """
    mean, spread = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
    same_range = (x.min(0) == x.min()) & (x.max(0) == x.max())
    if len(spread) > 1 and same_range.mean() >= 0.5:
        spread = np.full_like(spread, np.sqrt(np.square(spread).mean()))
    return mean, np.where(spread > 0, spread, 1.0) * math.sqrt(x.shape[1]) / ROW_LENGTH
