"""A witness that asks the neighbours: labels spread over a sparse graph of all rows.

Zhou et al., "Learning with local and global consistency" (2004), on a graph whose scale is found
from the data, row by row, as Zelnik-Manor & Perona (2004) do:

    W_ij = exp(−d_ij² / σ_i²)          for the k nearest, σ_i the distance of the k-th; then W ∪ Wᵀ
    S    = D^−½ W D^−½
    F    = (I − αS)⁻¹ Y                what arrives at each row of the labels Y

Features of an encoder tell things apart by their direction: of those the nearest are the rows of
the largest cosine, and W_ij is its third power.

Of classes F is brought to the masses the labels have (Zhu et al., 2003), so that a class with few
neighbours is not drowned. Of values F is divided by what arrives of a label at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from labelgrad.encoders.cache import cache_folder
from labelgrad.inputs.mapped import roomy
from labelgrad.witnesses.base import (
    AT_ONCE,
    Array,
    Opinion,
    known_rows,
    log_probabilities,
    values_with_spread,
)

NEIGHBOURS, NEIGHBOURS_OF_FEATURES = 10, 30
SPREAD = 0.9  # α: how much of a row's opinion comes from its neighbours
EXACT_UP_TO = 20_000  # rows; above them neighbours are found approximately, where a library is
# Rows; above them (I − αS)⁻¹ is applied step by step. Solving for 25,000 took more than 1.7 GB.
SOLVED_AT_ONCE = 20_000
STEPS, CLOSE = 100, 1e-6  # of it
PRIOR = 0.1  # labels of each class beside those there are


@dataclass(frozen=True)
class Neighbours:
    """What spreads from labeled rows over the graph of all rows.

    >>> x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> y = np.array([0, -1, -1, 1, -1, -1])
    >>> (opinion,) = Neighbours(neighbours=2).hear(x, [y], 2, seed=0)
    >>> opinion.of_rows(np.arange(6)).argmax(1)
    array([0, 0, 0, 1, 1, 1])
    """

    name: str = "neighbours"
    neighbours: int = NEIGHBOURS
    alpha: float = SPREAD
    sees_unlabeled: bool = True
    by_direction: bool = False  # nearest by cosine, from the mean of all

    def hear(self, x: Array, labels: Sequence[Array], classes: int, seed: int) -> Sequence[Opinion]:
        """One opinion for each version of the labels; the graph is made once."""
        graph = Graph(x, min(self.neighbours, len(x) - 1), seed, by_direction=self.by_direction)
        arriving = graph.spread(
            np.hstack([_sources(version, classes) for version in labels]), self.alpha
        )
        width = arriving.shape[1] // len(labels)
        parts = np.split(arriving, len(labels), axis=1) if width else []
        return [
            Spread(graph, part, *_prior_or_scale(version, part, classes), classes)
            for version, part in zip(labels, parts, strict=True)
        ]


def nearest_features() -> Neighbours:
    """Neighbours among features of an encoder: more of them, by direction."""
    return Neighbours("nearest features", NEIGHBOURS_OF_FEATURES, by_direction=True)


@dataclass(frozen=True, eq=False)
class Spread:
    """The opinion: what has arrived at each row, and how it is read."""

    graph: NearRows
    arrived: Array  # (rows, classes), or (rows, 2): of the values, and of a label at all
    factor: Array  # (classes,) to the labels' masses; of values their mean and their spread
    spread: float
    classes: int

    def of_rows(self, rows: Array) -> Array:
        """About rows of the graph."""
        return self._read(self.arrived[rows])

    def of_new(self, x: Array) -> Array:
        """About rows beside the graph: the mean of their neighbours in it."""
        if not len(x):  # which the search does not take
            return self._read(self.arrived[:0])
        places, weights = self.graph.near(x)
        shares = weights / weights.sum(1, keepdims=True)
        return self._read((shares[:, :, None] * self.arrived[places]).sum(1))

    @cached_property
    def _typical(self) -> float:
        """What arrives of a class at a row, on average."""
        return float((self.arrived * self.factor).mean())

    def _read(self, arrived: Array) -> Array:
        if self.classes:
            # Where little arrives, all classes are alike.
            mass = arrived * self.factor + 1e-6 * self._typical + 1e-300
            return log_probabilities(
                mass / mass.sum(1, keepdims=True), np.arange(self.classes), self.classes
            )
        weak = 1e-3 * self.arrived[:, 1].mean() + 1e-300  # where little arrives, the mean of all
        mean = (arrived[:, 0] + weak * self.factor[0]) / (arrived[:, 1] + weak)
        return values_with_spread(mean, self.spread)


class NearRows:
    """Rows among which the nearest of any other are found."""

    def __init__(self, x: Array, neighbours: int, seed: int, *, by_direction: bool = False):
        self.x, self.neighbours, self.seed = x, max(1, neighbours), seed
        self.by_direction = by_direction
        self.points = directions(x) if by_direction else x
        self.search = nearest_search(self.points, self.neighbours + 1, seed)
        self.weights = cosines_cubed if by_direction else falling

    def near(self, x: Array) -> tuple[Array, Array]:
        """For each of `x` its nearest rows, and their weights."""
        distances, places = self.search(directions(x) if self.by_direction else x)
        distances, places = distances[:, : self.neighbours], places[:, : self.neighbours]
        return places, self.weights(distances)


class Graph(NearRows):
    """Every row joined to its nearest ones, with weights that fall with the distance."""

    def __init__(self, x: Array, neighbours: int, seed: int, *, by_direction: bool = False):
        import scipy.sparse as sparse

        super().__init__(x, neighbours, seed, by_direction=by_direction)
        distances, places = self.search(self.points)
        itself = places == np.arange(len(x))[:, None]  # the first, but for rows that are alike
        itself[~itself.any(1), -1] = True
        distances = distances[~itself].reshape(len(x), -1)
        places = places[~itself].reshape(len(x), -1)
        rows = np.repeat(np.arange(len(x)), places.shape[1])
        weights = self.weights(distances).ravel()
        joined = sparse.csr_matrix((weights, (rows, places.ravel())), shape=(len(x), len(x)))
        joined = joined.maximum(joined.T)
        degree = np.maximum(np.asarray(joined.sum(1)).ravel(), 1e-12) ** -0.5
        self.smooth = (sparse.diags(degree) @ joined @ sparse.diags(degree)).tocsr()

    def spread(self, sources: Array, alpha: float) -> Array:
        """(I − αS)⁻¹ applied to the sources, a column each."""
        import scipy.sparse as sparse
        from scipy.sparse.linalg import splu

        rows = len(sources)
        if rows <= SOLVED_AT_ONCE:
            solved: Array = splu((sparse.identity(rows) - alpha * self.smooth).tocsc()).solve(
                sources
            )
            return np.maximum(solved, 0) if (sources >= 0).all() else solved
        arrived = sources.copy()
        for _ in range(STEPS):
            moved = alpha * (self.smooth @ arrived) + sources
            done = abs(moved - arrived).max() < CLOSE * abs(moved).max()
            arrived = moved
            if done:
                break
        return arrived


def falling(distances: Array) -> Array:
    """exp(−d²/σ²), σ the distance of the last one.

    >>> falling(np.array([[0.0, 1.0, 2.0]])).round(2)
    array([[1.  , 0.78, 0.37]])
    """
    found: Array = np.exp(-((distances / (distances[:, -1:] + 1e-12)) ** 2))
    return found


def cosines_cubed(distances: Array) -> Array:
    """cos³ of the angle between directions that are so far apart, 0 beyond a right one.

    >>> cosines_cubed(np.array([[0.0, 1.0, 2.0]])).round(3)
    array([[1.   , 0.125, 0.   ]])
    """
    found: Array = np.maximum(1 - distances**2 / 2, 1e-9) ** 3
    return found


def directions(x: Array) -> Array:
    """Rows of unit length; one without length stays as it is. Those of many lie in a file."""
    found = roomy(x.shape, str(np.result_type(x, np.float32)), cache_folder())
    for start in range(0, len(x), AT_ONCE):
        part = x[start : start + AT_ONCE]
        length = np.linalg.norm(part, axis=1, keepdims=True)
        found[start : start + AT_ONCE] = part / np.where(length > 0, length, 1)
    return found


def nearest_search(x: Array, neighbours: int, seed: int) -> Any:
    """A function that gives distances to, and places of, the nearest of `x`.

    Exact up to some tens of thousands of rows; above, approximate by pynndescent where it is
    installed.
    """
    from sklearn.neighbors import NearestNeighbors

    neighbours = min(neighbours, len(x))
    if len(x) > EXACT_UP_TO:
        try:
            from pynndescent import NNDescent
        except ImportError:
            pass
        else:
            return Approximate(x, NNDescent(x, n_neighbors=neighbours, random_state=seed))
    return NearestNeighbors(n_neighbors=neighbours).fit(x).kneighbors


@dataclass(frozen=True, eq=False)
class Approximate:
    """The search of an index by pynndescent; it can be pickled."""

    x: Array
    index: Any

    def __call__(self, new: Array) -> tuple[Array, Array]:
        places, distances = self.index.neighbor_graph
        if new is not self.x:
            places, distances = self.index.query(new, k=places.shape[1])
        return distances, places


def _sources(labels: Array, classes: int) -> Array:
    """What each row sends out: its class, or its value and a one."""
    rows = known_rows(labels)
    if classes:
        sent = np.zeros((len(labels), classes))
        sent[rows, labels[rows]] = 1
        return sent
    sent = np.zeros((len(labels), 2))
    sent[rows, 0], sent[rows, 1] = labels[rows], 1
    return sent


def _prior_or_scale(labels: Array, arrived: Array, classes: int) -> tuple[Array, float]:
    y = labels[known_rows(labels)]
    if classes:
        counts = np.bincount(y, minlength=classes) + PRIOR
        return counts / counts.sum() / np.maximum(arrived.sum(0), 1e-12), 0.0
    return np.array([y.mean()]), float(y.std())
