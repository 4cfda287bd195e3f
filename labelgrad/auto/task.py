"""What is predicted: classes, or values.

A *target* `y` is an array with one entry per example: a class index, -1 where there is no label; or
a standardized value, NaN where there is none. A *prediction* is an array with one row per example:
log-probabilities (n, classes); or the mean and the standard deviation of the value (n, 2), in
standardized units. A task knows everything that differs between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labelgrad.losses import CrossEntropy, Loss, SquaredError

Array = NDArray[Any]
MIN_PROBABILITY = 1e-4  # a class that is ruled out and true should not cost everything
MIN_STD, LOG_STD = 1e-3, 7.0  # of a standardized value; at most, up or down


def log_normalize(logits: Array) -> Array:
    """Log-probabilities from logits, row by row.

    >>> np.exp(log_normalize(np.array([[7.0, 7.0]])))
    array([[0.5, 0.5]])
    """
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def clip_confidence(log_probabilities: Array, least: float | Array = MIN_PROBABILITY) -> Array:
    """Log-probabilities none of which is below `least`.

    >>> np.exp(clip_confidence(np.log([[0.9999, 0.0001]]), 0.01)).round(2)
    array([[0.99, 0.01]])
    """
    return log_normalize(np.maximum(log_probabilities, np.log(least)))


@dataclass(frozen=True)
class Classification:
    """Examples belong to one of several classes.

    >>> task = Classification(("cat", "dog"))
    >>> task.is_labeled(np.array([0, -1, 1]))
    array([ True, False,  True])
    >>> prediction = np.log([[0.9, 0.1], [0.4, 0.6]])
    >>> task.display(task.point(prediction))
    ['cat', 'dog']
    >>> task.error(prediction, np.array([0, 0]))
    0.5
    """

    classes: tuple[str, ...]
    name: ClassVar[str] = "classification"
    loss: ClassVar[Loss] = CrossEntropy()  # what a network minimizes
    error_name: ClassVar[str] = "error rate"

    @property
    def columns(self) -> int:
        """How many columns a prediction has."""
        return len(self.classes)

    outputs = columns

    def unlabeled(self, n: int) -> Array:
        """A target of `n` examples without a label."""
        return np.full(n, -1, dtype=np.int64)

    def is_labeled(self, y: Array) -> Array:
        """Which examples have a label."""
        return np.asarray(y >= 0)

    def from_outputs(self, outputs: Array, std: float = 1.0) -> Array:
        """The prediction that a network's outputs (n, `outputs`) stand for."""
        del std
        return clip_confidence(log_normalize(np.asarray(outputs, dtype=float)))

    def point(self, prediction: Array) -> Array:
        """The most probable target."""
        return np.asarray(prediction.argmax(1))

    def losses(self, prediction: Array, y: Array) -> Array:
        """The log loss of each example."""
        return -prediction[np.arange(len(y)), y]

    def mistakes(self, prediction: Array, y: Array) -> Array:
        """1 for each wrong prediction, and 0 for the others."""
        return np.asarray((self.point(prediction) != y).astype(int))

    def error(self, prediction: Array, y: Array, weight: Array | None = None) -> float:
        """The share of wrong predictions."""
        return float(np.average(self.point(prediction) != y, weights=weight))

    def display(self, y: Array) -> list[Any]:
        """Targets as people write them; None where there is no label."""
        return [self.classes[index] if index >= 0 else None for index in y.tolist()]

    def encode(self, labels: Sequence[Any]) -> Array:
        """Targets from labels as people write them; None becomes -1, an unknown class raises."""
        index = {name: place for place, name in enumerate(self.classes)}
        return np.array([-1 if x is None else index[str(x)] for x in labels], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """The task as JSON can hold it."""
        return {"name": self.name, "classes": list(self.classes)}


@dataclass(frozen=True)
class Regression:
    """Examples have a value; `y` is (value - mean) / scale.

    >>> task = Regression(mean=10.0, scale=2.0)
    >>> task.display(np.array([0.5, np.nan]))
    [11.0, None]
    >>> task.error(np.array([[0.0, 1.0]]), np.array([1.0]))
    2.0
    """

    mean: float = 0.0
    scale: float = 1.0
    outputs: int = field(default=1, repr=False)  # of a network; the second is a log of the std
    name: ClassVar[str] = "regression"
    error_name: ClassVar[str] = "root mean squared error"
    classes: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[int] = 2
    loss: ClassVar[Loss] = SquaredError()

    def unlabeled(self, n: int) -> Array:
        """A target of `n` examples without a label."""
        return np.full(n, np.nan)

    def is_labeled(self, y: Array) -> Array:
        """Which examples have a label."""
        return ~np.isnan(y)

    def from_outputs(self, outputs: Array, std: float | Array = 1.0) -> Array:
        """The prediction that outputs (n, `outputs`) stand for; `std` is a factor of the second."""
        columns = np.asarray(outputs, dtype=float).reshape(len(outputs), self.outputs)
        each = np.exp(columns[:, 1:].clip(-LOG_STD, LOG_STD)).prod(1)  # 1 where there is no second
        return np.stack([columns[:, 0], np.maximum(std * each, MIN_STD)], axis=1)

    def to_outputs(self, prediction: Array) -> Array:
        """What a network's outputs should be for these predictions."""
        return np.stack([prediction[:, 0], np.log(prediction[:, 1])], axis=1)[:, : self.outputs]

    def point(self, prediction: Array) -> Array:
        """The expected target."""
        return prediction[:, 0]

    def losses(self, prediction: Array, y: Array) -> Array:
        """The negative log likelihood of each value, without its constant."""
        mean, std = prediction.T
        return np.asarray(np.log(std) + ((y - mean) / std) ** 2 / 2)

    def mistakes(self, prediction: Array, y: Array) -> Array:
        """The squared error of each value, in the target's own units."""
        return np.asarray((self.scale * (prediction[:, 0] - y)) ** 2)

    def error(self, prediction: Array, y: Array, weight: Array | None = None) -> float:
        """The root mean squared error, in the target's own units."""
        squares = (prediction[:, 0] - y) ** 2
        return float(self.scale * np.sqrt(np.average(squares, weights=weight)))

    def display(self, y: Array) -> list[Any]:
        """Targets in their own units; None where there is no label."""
        return [None if np.isnan(x) else self.mean + self.scale * x for x in y.tolist()]

    def encode(self, labels: Sequence[Any]) -> Array:
        """Targets from values in their own units; None becomes NaN."""
        values = np.array([np.nan if x is None else float(x) for x in labels])
        return (values - self.mean) / self.scale

    def to_dict(self) -> dict[str, Any]:
        """The task as JSON can hold it."""
        return {"name": self.name, **asdict(self)}


Task = Classification | Regression


def task_from_dict(saved: Mapping[str, Any]) -> Task:
    """The task that `to_dict` wrote down.

    >>> task_from_dict(Classification(("a", "b")).to_dict())
    Classification(classes=('a', 'b'))
    """
    if saved["name"] == Classification.name:
        return Classification(tuple(str(name) for name in saved["classes"]))
    return Regression(float(saved["mean"]), float(saved["scale"]), int(saved["outputs"]))
