"""What was typed, taken apart and checked."""

from __future__ import annotations

import shlex
import sys

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


def typed() -> str:
    """The command as it was typed, for the record."""
    return shlex.join(["labelgrad", *sys.argv[1:]])
