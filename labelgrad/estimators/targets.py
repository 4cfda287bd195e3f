"""Labels as scikit-learn's estimators get them: which rows have one, and what it is."""

from __future__ import annotations

import warnings
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from labelgrad.inputs.frames import as_series, is_missing
from labelgrad.inputs.targets import check_spread

Array = NDArray[Any]

NEEDS_Y = (
    "this estimator requires y to be passed, but the target y is None: give one label for each "
    "row of X, with -1 (classes) or NaN (values) where there is none."
)


def known_classes(y: Any) -> tuple[Array, Array]:
    """The known labels, and which rows have one; -1 and what is missing are none.

    >>> known_classes(np.array([2, -1, 5]))
    (array([2, 5]), array([ True, False,  True]))
    """
    series = nw.from_native(as_series(y), series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        missing, known = series.is_null().to_numpy(), series.filter(~series.is_null())
        y = np.asarray(known.to_numpy())
        if y.dtype == object:  # texts, perhaps with -1 among them, or numbers of a nullable type
            y = np.empty(len(known), dtype=object)
            y[:] = known.to_list()
    else:
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f":
            check_array(y, ensure_2d=False, input_name="y")  # NaN is no class
        missing = np.zeros(len(y), dtype=bool)
        if y.dtype == object:
            missing = np.array([is_missing(label) for label in y], dtype=bool)
        y = y[~missing]
    is_label = np.array([label != -1 for label in y.tolist()], dtype=bool)  # texts always are
    labeled = ~missing
    labeled[labeled] = is_label
    labels = y[is_label]
    return np.asarray(labels.tolist()) if labels.dtype == object else labels, labeled


def known_values(y: Any) -> Array:
    """The values, NaN where there is none."""
    series = nw.from_native(as_series(y), series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        missing = series.is_null().to_numpy()
        y = np.full(len(missing), np.nan)
        y[~missing] = np.asarray(series.filter(~series.is_null()).to_list(), dtype=np.float64)
    values: Array = check_array(
        column_or_1d(y, warn=True),
        ensure_2d=False,
        ensure_all_finite="allow-nan",
        dtype=np.float64,
        input_name="y",
    )
    return values


def need_labels(labeled: Array) -> None:
    """Refuse labels of which there is none, and warn where no row lacks one."""
    if not labeled.any():
        raise ValueError(
            f"y needs at least one labeled row, got none: all {len(labeled)} are marked unlabeled."
        )
    if labeled.all():
        warnings.warn(
            "y has no unlabeled row (-1, or NaN in a regression): it is learned from labels alone.",
            stacklevel=4,
        )


def chosen_rows(chosen: Array, *arrays: Any) -> list[Any]:
    """Some rows of each array, whatever kind it is."""
    return [
        None if array is None else _safe_indexing(array, np.flatnonzero(chosen)) for array in arrays
    ]


def encoded_classes(x: Any, y: Any) -> tuple[Array, Array, Array]:
    """The classes, the index of each known label among them, and which rows of `x` have one.

    >>> encoded_classes([[0], [1], [2]], np.array([7, -1, 5]))
    (array([5, 7]), array([1, 0]), array([ True, False,  True]))
    """
    if y is None:
        raise ValueError(NEEDS_Y)
    targets, labeled = known_classes(y)
    check_consistent_length(x, labeled)
    need_labels(labeled)
    check_classification_targets(targets)
    classes, encoded = np.unique(targets, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y needs labels of at least two classes, got one class: {classes[0]}.")
    return classes, encoded, labeled


def checked_values(x: Any, y: Any) -> Array:
    """The values of the rows of `x`, NaN where there is none."""
    if y is None:
        raise ValueError(NEEDS_Y)
    values = known_values(y)
    check_consistent_length(x, values)
    need_labels(~np.isnan(values))
    check_spread(values[~np.isnan(values)], "y")
    return values


class PartlyClasses:
    """Accuracy on the rows that have a label."""

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on the rows that have a label; unlabeled ones are left out."""
        classes, labeled = known_classes(y)
        kept = chosen_rows(labeled, X, sample_weight)
        return float(super().score(kept[0], classes, kept[1]))  # type: ignore[misc]


class PartlyValues:
    """R² on the rows that have a value."""

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R² on the rows that have a value; unlabeled ones are left out."""
        values = known_values(y)
        kept = chosen_rows(~np.isnan(values), X, values, sample_weight)
        return float(super().score(*kept))  # type: ignore[misc]
