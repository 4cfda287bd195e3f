"""Labels spread over a sparse graph of all examples, labeled and unlabeled.

Zhou et al., "Learning with local and global consistency" (2004), with a local scale for each
example as in Zelnik-Manor & Perona (2004):

    W_ij = exp(−d_ij² / σ_i²)          for the k nearest, σ_i the distance of the k-th; then W ∪ Wᵀ
    S    = D^−½ W D^−½
    F    = (I − αS)⁻¹ Y                the mass that arrives at each example from the labels Y

Features of an encoder are compared by their direction: the nearest examples have the largest
cosine, and W_ij is its third power.

For classes, F is rescaled to the class frequencies of the labels (Zhu et al., 2003), so that a
class with few neighbours is not drowned. For regression, F is divided by the mass that arrives of
any label at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labelgrad.auto.base_models.base import FittedModel, log_probabilities, positions_of
from labelgrad.auto.data.dataset import Examples
from labelgrad.auto.task import Array, Classification, Task

ALPHA = 0.9  # share of an example's mass that comes from its neighbours
MAX_FACTORIZED = 20_000  # examples; above, (I − αS)⁻¹ is applied by iteration, in bounded memory
ITERATIONS, TOLERANCE = 100, 1e-6
CLASS_PRIOR = 0.1  # labels added to each class
PART = 20_000  # examples


@dataclass(eq=False)
class GraphModel:
    """Spreads labels over the graph of nearest neighbours; one graph serves all folds.

    >>> examples = Examples(np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]], np.float32))
    >>> y, task = np.array([0, -1, -1, 1, -1, -1]), Classification(("a", "b"))
    >>> GraphModel(neighbours=2).fit(examples, y, task=task, seed=0).predict(examples).argmax(1)
    array([0, 0, 0, 1, 1, 1])
    """

    name: str = "neighbours"
    neighbours: int = 10
    by_direction: bool = False
    uses_unlabeled: bool = True
    _graph: Graph | None = field(default=None, init=False, repr=False)

    def fit(self, examples: Examples, y: Array, *, task: Task, seed: int) -> FittedModel:
        """Spread the labels over the graph of all examples."""
        if self._graph is None or self._graph.X is not examples.X:
            neighbours = max(1, min(self.neighbours, len(examples) - 1))
            self._graph = Graph(examples.X, neighbours, by_direction=self.by_direction)
        known = np.flatnonzero(task.is_labeled(y))
        if isinstance(task, Classification):
            sources = np.zeros((len(y), task.columns))
            sources[known, y[known]] = 1
            mass = self._graph.spread(sources)
            counts = np.bincount(y[known], minlength=task.columns) + CLASS_PRIOR
            scale = counts / counts.sum() / np.maximum(mass.sum(0), 1e-12)
        else:
            sources = np.zeros((len(y), 2))
            sources[known, 0], sources[known, 1] = y[known], 1
            mass = self._graph.spread(sources)
            scale = np.array([y[known].mean(), y[known].std()])
        rows = np.arange(len(y)) if examples.rows is None else examples.rows
        return FittedGraph(self._graph, mass, scale, task, rows)


@dataclass(frozen=True, eq=False)
class FittedGraph:
    """The mass that has arrived at each example."""

    graph: Graph
    mass: Array  # (examples, classes), or (examples, 2): of the values, and of any label
    scale: Array  # (classes,) to the labels' frequencies; the mean and std of the values
    task: Task
    rows: Array

    def predict(self, examples: Examples) -> Array:
        """The mass of known examples, and the weighted mean of a new one's neighbours."""
        places = positions_of(self.rows, examples)
        mass = self.mass[places]
        new = np.flatnonzero(places < 0)
        if len(new):
            near, weights = self.graph.nearest(examples.X[new])
            shares = weights / weights.sum(1, keepdims=True)
            mass[new] = (shares[:, :, None] * self.mass[near]).sum(1)
        if isinstance(self.task, Classification):
            # Where little arrives, all classes become equal.
            typical = float((self.mass * self.scale).mean())
            share = mass * self.scale + 1e-6 * typical + 1e-300
            every = np.arange(self.task.columns)
            return log_probabilities(share / share.sum(1, keepdims=True), every, self.task)
        weak = 1e-3 * self.mass[:, 1].mean() + 1e-300  # where little arrives, the mean of all
        mean = (mass[:, 0] + weak * self.scale[0]) / (mass[:, 1] + weak)
        return self.task.from_outputs(mean, self.scale[1])


class Graph:
    """Every example joined to its nearest ones, with weights that fall with the distance."""

    def __init__(self, X: Array, neighbours: int, *, by_direction: bool):
        import scipy.sparse as sparse
        from sklearn.neighbors import NearestNeighbors

        self.X, self.neighbours, self.by_direction = X, neighbours, by_direction
        points = unit_length(X) if by_direction else X
        self.search = NearestNeighbors(n_neighbors=min(neighbours + 1, len(X))).fit(points)
        distances, places = self.search.kneighbors(points)
        itself = places == np.arange(len(X))[:, None]  # the first one, except among duplicates
        itself[~itself.any(1), -1] = True
        distances = distances[~itself].reshape(len(X), -1)
        places = places[~itself].reshape(len(X), -1)
        rows = np.repeat(np.arange(len(X)), places.shape[1])
        weights = self._weights(distances).ravel()
        joined = sparse.csr_matrix((weights, (rows, places.ravel())), shape=(len(X), len(X)))
        joined = joined.maximum(joined.T)
        degree = np.maximum(np.asarray(joined.sum(1)).ravel(), 1e-12) ** -0.5
        self.smooth = (sparse.diags(degree) @ joined @ sparse.diags(degree)).tocsr()
        self._solver: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_solver": None}  # a factorization cannot be pickled

    def nearest(self, X: Array) -> tuple[Array, Array]:
        """The places of the nearest examples of each row of `X`, and their weights."""
        distances, places = self.search.kneighbors(unit_length(X) if self.by_direction else X)
        return places[:, : self.neighbours], self._weights(distances[:, : self.neighbours])

    def spread(self, sources: Array) -> Array:
        """(I − αS)⁻¹ applied to the sources, a column each."""
        import scipy.sparse as sparse
        from scipy.sparse.linalg import splu

        n = len(sources)
        if n <= MAX_FACTORIZED:
            if self._solver is None:
                self._solver = splu((sparse.identity(n) - ALPHA * self.smooth).tocsc())
            solved: Array = self._solver.solve(sources)
            return np.maximum(solved, 0) if (sources >= 0).all() else solved
        mass = sources.copy()
        for _ in range(ITERATIONS):
            moved = ALPHA * (self.smooth @ mass) + sources
            converged = abs(moved - mass).max() < TOLERANCE * abs(moved).max()
            mass = moved
            if converged:
                break
        return mass

    def _weights(self, distances: Array) -> Array:
        if self.by_direction:
            return np.asarray(np.maximum(1 - distances**2 / 2, 1e-9) ** 3)  # of the cosine
        falling: Array = np.exp(-((distances / (distances[:, -1:] + 1e-12)) ** 2))
        return falling


def unit_length(X: Array) -> Array:
    """Rows scaled to length one; rows of zeros stay.

    >>> unit_length(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    scaled = np.empty(X.shape, np.result_type(X, np.float32))
    for start in range(0, len(X), PART):
        part = X[start : start + PART]
        length = np.linalg.norm(part, axis=1, keepdims=True)
        scaled[start : start + PART] = part / np.where(length > 0, length, 1)
    return scaled
