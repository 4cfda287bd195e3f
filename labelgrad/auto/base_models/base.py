"""What a base model is.

A base model is fitted on all examples and a target in which some labels are missing. The one rule
for held-out examples: *a held-out example keeps its features and loses its label*. It is then an
unlabeled example like any other, for models that use unlabeled examples and for those that do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from labelgrad.auto.data.dataset import PART, Examples
from labelgrad.auto.task import MIN_PROBABILITY, Array, Classification, Task

Predict = TypeVar("Predict", bound=Callable[..., Array])


class FittedModel(Protocol):
    """A base model after fitting."""

    def predict(self, examples: Examples) -> Array:
        """A prediction (`labelgrad.auto.task`) for each example, known or new."""


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

    @property
    def uses_unlabeled(self) -> bool:
        """Whether unlabeled examples change its predictions."""

    def fit(self, examples: Examples, y: Array, *, task: Task, seed: int) -> FittedModel:
        """Fit it; `y` is -1 or NaN where there is no label. Raises ValueError if it cannot."""


@dataclass(frozen=True, eq=False)
class OnView:
    """A base model, or a fitted one, that sees some columns of the features."""

    name: str
    model: Any
    start: int
    stop: int

    @property
    def uses_unlabeled(self) -> bool:
        """Whether unlabeled examples change its predictions."""
        return bool(self.model.uses_unlabeled)

    def fit(self, examples: Examples, y: Array, *, task: Task, seed: int) -> FittedModel:
        """Fit the model on these columns."""
        return replace(self, model=self.model.fit(self._seen(examples), y, task=task, seed=seed))

    def predict(self, examples: Examples) -> Array:
        """The fitted model's prediction for each example."""
        return np.asarray(self.model.predict(self._seen(examples)))

    def _seen(self, examples: Examples) -> Examples:
        return replace(examples, X=examples.X[:, self.start : self.stop])


def in_parts(predict: Predict) -> Predict:
    """A method `predict` that is shown some thousand examples at a time."""

    @wraps(predict)
    def whole(self: Any, examples: Examples, *more: Any) -> Array:
        starts = range(0, len(examples), PART)
        parts = [predict(self, examples[slice(at, at + PART)], *more) for at in starts]
        return np.concatenate([np.zeros((0, self.task.columns)), *parts])

    return cast(Predict, whole)


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
    return np.asarray(np.log(every))


def positions_of(fitted_on: Array, examples: Examples) -> Array:
    """Where examples are among those that a model was fitted on, by their rows; -1 for new ones.

    `fitted_on` are the rows of the examples at fitting, in increasing order.

    >>> positions_of(np.array([2, 5]), Examples(np.zeros((2, 1)), rows=np.array([5, 3])))
    array([ 1, -1])
    """
    if examples.rows is None:
        return np.full(len(examples), -1)
    places = np.minimum(np.searchsorted(fitted_on, examples.rows), len(fitted_on) - 1)
    return np.where(fitted_on[places] == examples.rows, places, -1)
