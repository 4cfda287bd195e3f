"""What was typed, taken apart and checked."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable
from typing import Any

import typer

from labelgrad.nearest import did_you_mean


def check_choice(name: str, given: str, choices: list[str]) -> None:
    """Refuse a word that is none of the choices, with the nearest of them.

    >>> check_choice("NAME", "syntetic", ["synthetic", "svhn"])
    Traceback (most recent call last):
    ValueError: NAME must be one of synthetic, svhn, got 'syntetic'; did you mean 'synthetic'?
    """
    if given not in choices:
        hint = did_you_mean(given, choices, "choose one of them.")
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {given!r}; {hint}")


def listed(given: str) -> tuple[str, ...]:
    """Words with commas between.

    >>> listed("lga, vat,")
    ('lga', 'vat')
    """
    return tuple(part.strip() for part in given.split(",") if part.strip())


def counts(given: str) -> tuple[int, ...]:
    """Whole numbers with commas between.

    >>> counts("50,100")
    (50, 100)
    """
    words = listed(given)
    if not all(word.isdigit() for word in words):
        raise ValueError(f"--labels must be whole numbers with commas between, got {given!r}.")
    return tuple(int(word) for word in words)


def names_or_none(given: str | None) -> str | None:
    """Names with commas between as they were typed; "none" is none of them.

    >>> names_or_none("linear,neighbours"), names_or_none("none"), names_or_none(None)
    ('linear,neighbours', '', None)
    """
    return "" if given is not None and given.strip().lower() == "none" else given


def shares_typed(given: str | None) -> dict[str, float] | None:
    """Shares by class; a class may have '=' in its name, so the last one counts.

    >>> shares_typed("cat=0.2, x=1=0.8")
    {'cat': 0.2, 'x=1': 0.8}
    >>> shares_typed("cat=0.2,dog")
    Traceback (most recent call last):
    ValueError: --shares must be classes with numbers above 0, such as cat=0.2,dog=0.8, got 'dog'.
    """
    if given is None:
        return None
    found: dict[str, float] = {}
    for word in listed(given):
        name, _, number = (part.strip() for part in word.rpartition("="))
        if not name or not _is_positive(number):
            raise ValueError(
                f"--shares must be classes with numbers above 0, such as cat=0.2,dog=0.8, "
                f"got {word!r}."
            )
        if name in found:
            raise ValueError(f"--shares must name every class once, got {name!r} twice.")
        found[name] = float(number)
    return found


def share_typed(given: str) -> float:
    """A share, in percent or as a part of 1.

    >>> share_typed("2%"), share_typed("0.05")
    (0.02, 0.05)
    >>> share_typed("0%")
    Traceback (most recent call last):
    ValueError: A share must be above 0 % and below 100 %, such as 2%, got '0%'.
    """
    number, percent, rest = given.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = math.nan
    if rest.strip() or not 0 < share < 1:
        raise ValueError(f"A share must be above 0 % and below 100 %, such as 2%, got {given!r}.")
    return share


def _is_positive(number: str) -> bool:
    try:
        return 0 < float(number) < math.inf
    except ValueError:
        return False


def asking() -> Callable[[Any], bool] | bool:
    """Who says whether something may be downloaded: the person at the terminal, if there is one."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return lambda download: typer.confirm(f"{download.what}. Fetch it?", default=False)


def typed() -> str:
    """The command as it was typed, for the record."""
    return shlex.join(["labelgrad", *sys.argv[1:]])
