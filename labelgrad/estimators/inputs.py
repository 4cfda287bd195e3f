"""X as scikit-learn's estimators get it, treated as `labelgrad.fit` treats a table."""

from __future__ import annotations

import warnings
from typing import Any

import narwhals as nw
import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names, _check_n_features, validate_data
from torch import Tensor

from labelgrad.estimators.targets import Array
from labelgrad.inputs.columns import to_length
from labelgrad.inputs.frames import frame_columns, is_frame
from labelgrad.inputs.kinds import prepare, read_inputs
from labelgrad.schedules import check_count


def as_seed(random_state: Any) -> int:
    """A number to begin from: itself, or drawn from what scikit-learn makes of it.

    >>> as_seed(3)
    3
    """
    if isinstance(random_state, int | np.integer):
        check_count("random_state", random_state, least=0, most=2**63 - 1)
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


class Inputs:
    """What all estimators do with X; `module` is a network of one's own, which takes any shape."""

    module: Any = None
    standardize = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self.module is None and self.standardize
        return tags

    def _read(self, X: Any) -> Tensor:
        """X of a fit as the network sees it; how new rows are treated alike is kept."""
        if self.module is not None:
            return torch.from_numpy(self._numbers(X, reset=True))
        if not self.standardize:
            return self._as_it_is(X, reset=True)
        if is_frame(X):
            _check_feature_names(self, X, reset=True)
            _check_n_features(self, X, reset=True)
            self.frames_: str | None = nw.get_native_namespace(X).__name__
            self.columns_ = frame_columns(X)[0]
        else:
            self.frames_, X = None, self._numbers(X, reset=True)
        found = read_inputs(X)
        for note in found.notes:
            if note.startswith("Left out"):
                warnings.warn(note, stacklevel=3)
        self.preprocessing_ = found.preprocessing
        return found.x

    def _prepare(self, X: Any) -> Tensor:
        """New rows as the network sees them."""
        if self.module is not None:
            return torch.from_numpy(self._numbers(X, reset=False))
        if not self.standardize:
            return self._as_it_is(X, reset=False)
        if self.frames_ is None or not is_frame(X):
            X = self._numbers(X, reset=False)
        else:
            _check_feature_names(self, X, reset=False)
            _check_n_features(self, X, reset=False)
        if self.frames_ is not None and not is_frame(X):  # columns by their places
            backend: Any = self.frames_
            columns = dict(zip(self.columns_, X.T, strict=True))
            X = nw.from_dict(columns, backend=backend).to_native()
        return prepare(self.preprocessing_, X).x

    def _as_it_is(self, X: Any, *, reset: bool) -> Tensor:
        """Columns that have unit spread already, in rows of the length a network wants."""
        numbers = self._numbers(X, reset=reset)
        if reset:
            self.frames_, self.preprocessing_ = None, {}
        return torch.from_numpy(numbers / to_length(np.ones(1), numbers.shape[1])).float()

    def _numbers(self, X: Any, *, reset: bool) -> Array:
        """X as an array of numbers: a table, or any shape when the network is the user's own."""
        own = self.module is not None
        try:
            checked: Array = validate_data(
                self,
                X,
                reset=reset,
                dtype=np.float32 if own else np.float64,
                allow_nd=own,
                ensure_2d=not own,
                ensure_all_finite="allow-nan" if not own and self.standardize else True,
            )
        except ValueError as error:  # scikit-learn's own have several lines
            raise ValueError(" ".join(str(error).split())) from error
        return checked
