"""Objects out of plain values of JSON, each of the type that its field says.

A file may say anything, and a dataclass takes anything: a text where a number belongs would only
stumble later, far from the file it is from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Built = TypeVar("Built")


def built(kind: type[Built], value: Any, name: str = "it") -> Built:
    """An object of a dataclass, and of those within it, from what JSON held.

    >>> from labelgrad.training.evaluation import Bin
    >>> built(Bin, {"confidence": 0.5, "accuracy": 0, "count": 3})
    Bin(confidence=0.5, accuracy=0.0, count=3)
    >>> built(Bin, {"confidence": 0.5, "accuracy": "1", "count": 3})
    Traceback (most recent call last):
    ValueError: accuracy must be a number, got '1'
    """
    if not isinstance(value, dict):
        raise ValueError(f"{name} must have named values, got {_short(value)}")
    hints = get_type_hints(kind)
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    strange = [key for key in value if key not in known]
    absent = [
        key
        for key, each in known.items()
        if key not in value and each.default is MISSING and each.default_factory is MISSING
    ]
    if strange or absent:
        lacks = f"lacks {absent[0]!r}" if absent else f"has a strange {_short(strange[0])}"
        raise ValueError(f"{name} {lacks}")
    return kind(**{key: _as(hints[key], each, key) for key, each in value.items()})


def _as(kind: Any, value: Any, name: str) -> Any:
    """The value as a field of this type holds it."""
    if kind is Any:
        return value
    if is_dataclass(kind):
        return built(kind, value, name)  # type: ignore[arg-type]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _as_one_of(inner, value, name)
    if origin in (list, tuple, Sequence):
        return _as_list(origin, inner, value, name)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise ValueError(f"{name} must have named values, got {_short(value)}")
        return {key: _as(inner[1], each, f"{name} {key!r}") for key, each in value.items()}
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value, name)
    called = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    if kind is NoneType and value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} must be {called.get(kind, 'nothing')}, got {_short(value)}")
    return value


def _as_one_of(kinds: Sequence[Any], value: Any, name: str) -> Any:
    *others, last = sorted(kinds, key=lambda kind: kind is not NoneType)  # None first
    for kind in others:
        with suppress(ValueError):
            return _as(kind, value, name)
    return _as(last, value, name)


def _as_list(origin: Any, inner: Sequence[Any], value: Any, name: str) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {_short(value)}")
    alike = origin is not tuple or inner[-1] is ...
    of_each = [inner[0]] * len(value) if alike else list(inner)
    if len(of_each) != len(value):
        raise ValueError(f"{name} must have {len(of_each)} values, got {len(value)}")
    found = [_as(kind, each, name) for kind, each in zip(of_each, value, strict=True)]
    return tuple(found) if origin is tuple else found


def _finite(value: float, name: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {_short(value)}")
    return number


def _short(value: Any) -> str:
    try:
        said = repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits
        said = f"a {type(value).__name__}"
    return said if len(said) <= 60 else f"{said[:57]}…"
