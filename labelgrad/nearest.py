"""The name somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(given: str, names: Iterable[str], otherwise: str) -> str:
    """The end of a refusal: the nearest name as a question, or what to say where none is near.

    >>> did_you_mean("cifar-10", ["cifar10", "svhn"], "there are cifar10 and svhn.")
    "did you mean 'cifar10'?"
    >>> did_you_mean("mnist", ["cifar10", "svhn"], "there are cifar10 and svhn.")
    'there are cifar10 and svhn.'
    """
    by_case = {name.casefold(): name for name in names}
    near = get_close_matches(given.casefold(), by_case, n=1)
    return f"did you mean {by_case[near[0]]!r}?" if near else otherwise
