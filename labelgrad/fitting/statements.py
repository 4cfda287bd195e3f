"""What each witness says of each unlabeled example, kept small: its likeliest class and how sure.

Whole distributions of a thousand classes, ten witnesses and 10⁵ examples would be gigabytes; this
is some hundred bytes an example. It is read without PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgrad.fitting.run_folder import AGAIN, Digests

FILE = "statements.safetensors"
LIKELY = 9  # classes of the pool: as many as there are keys to choose one by
NEAR = 6  # labeled examples


@dataclass(frozen=True, eq=False)
class Statements:
    """A row for each unlabeled example, in the order of `labels.csv`; a column for each witness.

    >>> said = {"linear": np.log([[0.75, 0.25]]), "trees": np.log([[0.4, 0.6]])}
    >>> found = of_classes(said, np.array([[0.6, 0.4]]), np.array([[3]]))
    >>> found.said, found.sure.round(2)
    (array([[0, 1]], dtype=int32), array([[0.75, 0.6 ]], dtype=float16))
    """

    witnesses: tuple[str, ...]
    said: NDArray[Any]  # (n, witnesses): the likeliest class, or the value
    sure: NDArray[Any]  # (n, witnesses): its probability, or how far off values usually are
    likely: NDArray[Any]  # (n, LIKELY or fewer): the pool's likeliest classes; none of values
    probability: NDArray[Any]  # of them
    near: NDArray[Any]  # (n, NEAR or fewer): the labeled examples most like it, as rows of all

    def content(self) -> bytes:
        """What its file holds."""
        from safetensors.numpy import save

        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "witnesses"}
        plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return save(plain, {"witnesses": json.dumps(self.witnesses)})


def of_classes(
    said: Mapping[str, NDArray[Any]], pool: NDArray[Any], near: NDArray[Any]
) -> Statements:
    """Out of log-probabilities (n, classes) by each, and the pool's probabilities."""
    each = list(said.values())
    n = len(pool)
    classes = [log.argmax(1) for log in each]
    sure = [np.exp(log[np.arange(n), top]) for log, top in zip(each, classes, strict=True)]
    likely = np.argsort(-pool, axis=1, kind="stable")[:, :LIKELY]
    return Statements(
        tuple(said),
        _beside(classes, n, np.int32),
        _beside(sure, n, np.float16),
        likely.astype(np.int32),
        np.take_along_axis(pool, likely, 1).astype(np.float16),
        near[:, :NEAR].astype(np.int32),
    )


def of_values(
    said: Mapping[str, NDArray[Any]], mean: float, spread: float, near: NDArray[Any]
) -> Statements:
    """Out of means and spreads (n, 2) by each, in units of the labels' spread around their mean."""
    each, n = list(said.values()), len(near)
    none = np.zeros((n, 0))
    return Statements(
        tuple(said),
        _beside([mean + spread * means_spreads[:, 0] for means_spreads in each], n, np.float32),
        _beside([spread * means_spreads[:, 1] for means_spreads in each], n, np.float32),
        none.astype(np.int32),
        none.astype(np.float16),
        near[:, :NEAR].astype(np.int32),
    )


def read_statements(digests: Digests) -> Statements | None:
    """What a run folder keeps, if it keeps it; a ValueError if that is damaged."""
    from safetensors import SafetensorError, safe_open

    if FILE not in digests.of:
        return None
    digests.read(FILE)
    path = digests.folder / FILE
    try:
        with safe_open(path, framework="np") as file:
            witnesses = tuple(json.loads(file.metadata()["witnesses"]))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Statements(witnesses, **arrays)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be used ({error}); {AGAIN}.") from None


def _beside(columns: list[NDArray[Any]], n: int, dtype: Any) -> NDArray[Any]:
    found = np.stack(columns, axis=1) if columns else np.zeros((n, 0))
    return found.astype(dtype)
