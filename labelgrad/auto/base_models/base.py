"""What a base model is.

A base model is fitted on all examples and a target in which some labels are missing. The one rule
for held-out examples: *a held-out example keeps its features and loses its label*. It is then an
unlabeled example like any other, for models that use unlabeled examples and for those that do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from labelgrad.auto.data.dataset import Examples
from labelgrad.auto.task import MIN_PROBABILITY, Array, Classification, Task


class FittedModel(Protocol):
    """A base model after fitting."""

    def predict(self, examples: Examples) -> Array:
        """A prediction (`labelgrad.auto.task`) for each example, known or new."""
        ...


class BaseModel(Protocol):
    """Anything that learns from few labels, and perhaps from unlabeled examples, too.

    Three more attributes are optional. `trusted`, true where it is missing, says whether stacking
    starts from an equal share for the model or from none: labels of unknown origin must prove
    themselves. `predicts_new`, true where it is missing, says whether it knows anything of examples
    it was not fitted on. `is_network`, false where it is missing, makes each fit a job of its own.
    """

    @property
    def name(self) -> str:
        """The name in the registry, on the leaderboard and in files."""
        ...

    @property
    def uses_unlabeled(self) -> bool:
        """Whether unlabeled examples change its predictions."""
        ...

    def fit(self, examples: Examples, y: Array, *, task: Task, seed: int) -> FittedModel:
        """Fit it; `y` is -1 or NaN where there is no label. Raises ValueError if it cannot."""
        ...


@dataclass(frozen=True, eq=False)
class OnView:
    """A base model that sees some columns of the features, from `start` to `stop`."""

    name: str
    model: BaseModel
    start: int
    stop: int

    @property
    def uses_unlabeled(self) -> bool:
        """Whether unlabeled examples change its predictions."""
        return self.model.uses_unlabeled

    def fit(self, examples: Examples, y: Array, *, task: Task, seed: int) -> FittedModel:
        """Fit the model on these columns."""
        seen = replace(examples, X=examples.X[:, self.start : self.stop])
        fitted = self.model.fit(seen, y, task=task, seed=seed)
        return FittedOnView(fitted, self.start, self.stop)


@dataclass(frozen=True, eq=False)
class FittedOnView:
    """A fitted model of some columns."""

    fitted: FittedModel
    start: int
    stop: int

    def predict(self, examples: Examples) -> Array:
        """A prediction for each example."""
        seen = replace(examples, X=examples.X[:, self.start : self.stop])
        return self.fitted.predict(seen)


def predict_in_parts(
    predict: Callable[[Examples], Array], examples: Examples, columns: int
) -> Array:
    """What `predict` gives for all examples, some thousand at a time; nothing for none.

    >>> examples = Examples(np.eye(3, dtype=np.float32))
    >>> predict_in_parts(lambda part: 2 * part.X[:, :2], examples, columns=2)
    array([[2., 0.],
           [0., 2.],
           [0., 0.]])
    """
    return np.concatenate([np.zeros((0, columns)), *map(predict, examples.parts())])


def log_probabilities(probabilities: Array, places: Array, task: Classification) -> Array:
    """Clipped log-probabilities of all classes from the probabilities of those at `places`.

    >>> task = Classification(("a", "b", "c"))
    >>> found = log_probabilities(np.array([[0.25, 0.75]]), np.array([0, 2]), task)
    >>> np.exp(found).round(2)
    array([[0.25, 0.  , 0.75]])
    """
    total = probabilities.sum(1)
    if (probabilities < 0).any() or (abs(total - 1) > 0.01).any():
        raise ValueError("its probabilities are negative or do not sum to 1")
    every = np.full((len(probabilities), task.columns), MIN_PROBABILITY)
    every[:, np.asarray(places, dtype=int)] = np.maximum(probabilities, MIN_PROBABILITY)
    every /= every.sum(1, keepdims=True)
    logs: Array = np.log(every)
    return logs


def fitted_positions(fitted_on: Array, examples: Examples) -> Array:
    """Where examples are among those that a model was fitted on, by their rows; -1 for new ones.

    `fitted_on` are the rows of the examples at fitting, in increasing order.

    >>> fitted_positions(np.array([2, 5]), Examples(np.zeros((2, 1)), rows=np.array([5, 3])))
    array([ 1, -1])
    """
    if examples.rows is None:
        return np.full(len(examples), -1)
    places = np.minimum(np.searchsorted(fitted_on, examples.rows), len(fitted_on) - 1)
    return np.where(fitted_on[places] == examples.rows, places, -1)


def rows_of(examples: Examples) -> Array:
    """The rows that identify examples at fitting; those without any are counted."""
    return np.arange(len(examples)) if examples.rows is None else examples.rows
