"""Objects out of plain values of JSON, each of the type that its field says.

A file may say anything, and a dataclass takes anything: a text where a number belongs would only
stumble later, far from the file it is from.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from reprlib import repr as short
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Built = TypeVar("Built")
CALLED = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


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
        raise ValueError(f"{name} must have named values, got {short(value)}")
    hints, known = get_type_hints(kind), fields(kind)  # type: ignore[arg-type]
    for each in known:
        is_needed = each.default is MISSING and each.default_factory is MISSING
        if is_needed and each.name not in value:
            raise ValueError(f"{name} lacks {each.name!r}")
    if strange := value.keys() - {each.name for each in known}:
        raise ValueError(f"{name} has a strange {short(min(strange))}")
    return kind(**{key: _as(hints[key], each, key) for key, each in value.items()})


def _as(kind: Any, value: Any, name: str) -> Any:
    """The value as a field of this type holds it."""
    if is_dataclass(kind):
        return built(kind, value, name)  # type: ignore[arg-type]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        *others, last = sorted(inner, key=lambda each: each is not NoneType)  # None first
        for each in others:
            with suppress(ValueError):
                return _as(each, value, name)
        return _as(last, value, name)
    if origin is tuple:
        return _as_tuple(inner, value, name)
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{name} must have named values, got {short(value)}")
        return {key: _as(inner[1], each, f"{name} {key!r}") for key, each in value.items()}
    fits = isinstance(value, int | float if kind is float else kind)
    if not fits or isinstance(value, bool) != (kind is bool):
        raise ValueError(f"{name} must be {CALLED.get(kind, 'nothing')}, got {short(value)}")
    if kind is float and not abs(value) <= sys.float_info.max:
        raise ValueError(f"{name} must be a finite number, got {short(value)}")
    return float(value) if kind is float else value


def _as_tuple(kinds: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {short(value)}")
    of_each = kinds[:1] * len(value) if kinds[-1] is ... else kinds
    if len(of_each) != len(value):
        raise ValueError(f"{name} must have {len(of_each)} values, got {len(value)}")
    return tuple(_as(kind, each, name) for kind, each in zip(of_each, value, strict=True))
