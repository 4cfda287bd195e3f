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
CALLED |= {tuple: "a list", dict: "named values"}


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
    hints, known = get_type_hints(kind), {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    if strange := value.keys() - known.keys():
        raise ValueError(f"{name} has a strange {short(min(strange))}")
    for key in known.keys() - value.keys():
        if known[key].default is known[key].default_factory is MISSING:
            raise ValueError(f"{name} lacks {key!r}")
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
    if origin is tuple and isinstance(value, list):
        kinds = inner[:1] * len(value) if inner[-1] is ... else inner
        if len(kinds) != len(value):
            raise ValueError(f"{name} must have {len(kinds)} values, got {len(value)}")
        return tuple(_as(of, each, name) for of, each in zip(kinds, value, strict=True))
    if origin is dict and isinstance(value, dict):
        return {key: _as(inner[1], each, f"{name} {key!r}") for key, each in value.items()}
    kind = origin or kind
    fits = isinstance(value, int | float if kind is float else kind)
    if not fits or isinstance(value, bool) != (kind is bool):
        raise ValueError(f"{name} must be {CALLED.get(kind, 'nothing')}, got {short(value)}")
    if kind is float and not abs(value) <= sys.float_info.max:
        raise ValueError(f"{name} must be a finite number, got {short(value)}")
    return float(value) if kind is float else value
