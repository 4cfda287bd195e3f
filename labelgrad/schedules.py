"""Numbers that change over training: each schedule is a pure function of the step.

A schedule holds no state, so a resumed run needs none of it back, and its `repr` is its setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real

Schedule = Callable[[int], float]


class _OverSteps:
    """A schedule over some steps, of which there must be more than none."""

    steps: float

    def __post_init__(self) -> None:
        if not self.steps > 0:
            raise ValueError(f"{type(self).__name__} needs a positive `steps`, got {self.steps}.")


@dataclass(frozen=True)
class Ramp(_OverSteps):
    """Rise linearly from 0 to `top` over the first `steps` steps, then stay.

    >>> weight = Ramp(100, top=0.3)
    >>> [round(weight(step), 2) for step in (0, 50, 100, 500)]
    [0.0, 0.15, 0.3, 0.3]
    """

    steps: float
    top: float = 1.0

    def __call__(self, step: int) -> float:
        return self.top * min(1.0, step / self.steps)


@dataclass(frozen=True)
class SmoothRamp(_OverSteps):
    """Rise to `top` along exp(−5·(1 − t)²) over the first `steps` steps, then stay.

    The evaluation protocol of Oliver et al. gives consistency terms their weight this way.

    >>> weight = SmoothRamp(100)
    >>> [round(weight(step), 3) for step in (0, 50, 100, 500)]
    [0.007, 0.287, 1.0, 1.0]
    """

    steps: float
    top: float = 1.0

    def __call__(self, step: int) -> float:
        return self.top * math.exp(-5 * (1 - min(1.0, step / self.steps)) ** 2)


@dataclass(frozen=True)
class Drop:
    """Stay at `start` until step `at`, then at `start * factor`.

    >>> rate = Drop(3e-3, at=400, factor=0.2)
    >>> rate(399), round(rate(400), 6)
    (0.003, 0.0006)
    """

    start: float
    at: float
    factor: float = 0.2

    def __call__(self, step: int) -> float:
        return self.start * (self.factor if step >= self.at else 1.0)


@dataclass(frozen=True)
class Cosine(_OverSteps):
    """Fall from `start` to `end` along half a cosine over `steps` steps, then stay.

    >>> rate = Cosine(1.0, steps=100)
    >>> [round(rate(step), 2) for step in (0, 50, 100, 200)]
    [1.0, 0.5, 0.0, 0.0]
    """

    start: float
    steps: float
    end: float = 0.0

    def __call__(self, step: int) -> float:
        done = min(1.0, step / self.steps)
        return self.end + (self.start - self.end) * 0.5 * (1 + math.cos(math.pi * done))


def value_at(rate: float | Schedule, step: int) -> float:
    """The value of a number or schedule at `step`.

    >>> value_at(0.5, 7), value_at(Ramp(10), 5)
    (0.5, 0.5)
    """
    return rate(step) if callable(rate) else rate


def describe(rate: object) -> str:
    """A number, schedule or other setting as text that is the same in every process.

    >>> describe(0.1), describe(Ramp(10)), describe(math.sqrt)
    ('0.1', 'Ramp(steps=10, top=1.0)', 'sqrt')
    """
    return str(getattr(rate, "__qualname__", None) or repr(rate))


def check_rate(name: str, rate: float | Schedule) -> None:
    """Raise `ValueError` unless `rate` is a schedule or a finite number that is not negative."""
    if not callable(rate) and not (isinstance(rate, Real) and 0 <= float(rate) < math.inf):
        raise ValueError(f"`{name}` must be a finite number of at least 0, got {rate}.")


def check_count(name: str, count: object, *, least: int = 1, most: int | None = None) -> None:
    """Raise `ValueError` unless `count` is a whole number, not too small and not too large.

    >>> check_count("steps", 2.5)
    Traceback (most recent call last):
    ValueError: `steps` must be a whole number of at least 1, got 2.5.
    >>> check_count("steps", 0)
    Traceback (most recent call last):
    ValueError: `steps` must be at least 1, got 0.
    """
    if not isinstance(count, Integral) or isinstance(count, bool):
        raise ValueError(f"`{name}` must be a whole number of at least {least}, got {count!r}.")
    if int(count) < least:
        raise ValueError(f"`{name}` must be at least {least}, got {count}.")
    if most is not None and int(count) > most:
        raise ValueError(f"`{name}` must be at most {most:,}, got {count}.")
