"""What was typed, taken apart and checked."""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Callable
from typing import Any

import typer

from labelgrad.nearest import did_you_mean

# What moves a cursor, clears a screen, turns the reading direction, or is half a character.
UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
MEMORY = "memory ran out; take fewer or smaller examples, a smaller model, or another machine."
NO_MEMORY = (
    "failed to map segment",
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "Cannot allocate memory",
)


def visible(text: str) -> str:
    r"""The text with every character that a terminal would obey spelled out.

    >>> visible("caf\u00e9 \x1b[2J"), visible("a\u202eb"), visible("two\nlines")
    ('café \\x1b[2J', 'a\\u202eb', 'two\nlines')
    """
    return UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(error: BaseException) -> str:
    """What an error says, on one line.

    >>> one_line(PermissionError(13, "Permission denied", "run/plan.json"))
    'run/plan.json cannot be read or written: Permission denied.'
    >>> one_line(MemoryError())[:14]
    'memory ran out'
    """
    said = " ".join(str(error).split())
    if isinstance(error, MemoryError) or any(sign in said for sign in NO_MEMORY):
        return MEMORY
    if isinstance(error, OSError) and error.filename is not None:
        where = error.filename if isinstance(error.filename, str) else repr(error.filename)
        return f"{where} cannot be read or written: {error.strerror}."
    return said


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


def rate_typed(fine_tune: bool, share: float | None) -> bool | float:
    """Whether the encoder is to be trained, and its learning rate where it was said.

    >>> rate_typed(True, None), rate_typed(True, 0.05)
    (True, 0.05)
    >>> rate_typed(False, 0.05)
    Traceback (most recent call last):
    ValueError: --encoder-rate is of an encoder that is trained; say --fine-tune, too.
    """
    if share is None:
        return fine_tune
    if not fine_tune:
        raise ValueError("--encoder-rate is of an encoder that is trained; say --fine-tune, too.")
    if not 0 < share <= 1:
        raise ValueError(f"--encoder-rate must be above 0 and at most 1, got {share:g}.")
    return share


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


def share_typed(name: str, given: str) -> float:
    """A part of all, as percent or as a number from 0 to 1; which parts will do, is not said here.

    >>> share_typed("--wrong-at-most", "2%"), share_typed("--confidence", "0.95")
    (0.02, 0.95)
    >>> share_typed("--wrong-at-most", "few")
    Traceback (most recent call last):
    ValueError: --wrong-at-most must be a share such as 2% or 0.02, got 'few'.
    """
    number, percent, rest = given.strip().partition("%")
    try:
        if rest:
            raise ValueError
        return float(number) / (100 if percent else 1)
    except ValueError:
        raise ValueError(f"{name} must be a share such as 2% or 0.02, got {given!r}.") from None


def typed() -> str:
    """The command as it was typed, for the record."""
    return shlex.join(["labelgrad", *sys.argv[1:]])
