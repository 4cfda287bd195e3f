"""Rows that are called by their numbers: a list of ten million texts would be half a gigabyte."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload


@dataclass(frozen=True, eq=False)
class RowNames(Sequence[str]):
    """The numbers of rows as texts, as a list would have them; each is made when it is asked for.

    >>> names = RowNames(3, first=1)
    >>> names, names[-1], names[1:], "3" in names, "03" in names, names.index("2")
    (RowNames(length=3, first=1), '3', RowNames(length=2, first=2), True, False, 1)
    >>> names == ["1", "2", "3"], list(names[::2])
    (True, ['1', '3'])
    """

    length: int
    first: int = 0

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...

    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        numbers = self._numbers[place]
        if isinstance(numbers, int):
            return str(numbers)
        if numbers.step == 1:
            return RowNames(len(numbers), numbers.start)
        return [str(number) for number in numbers]

    def __iter__(self) -> Iterator[str]:
        return map(str, self._numbers)

    def __contains__(self, name: object) -> bool:
        return self._place(name) is not None

    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        """The place of a name; a ValueError if it is not there."""
        place = self._place(name)
        if place is None or place not in range(self.length)[start:stop]:
            raise ValueError(f"{name!r} is none of the rows {self.first} to {self._numbers.stop}")
        return place

    def count(self, name: Any) -> int:
        """How often there is such a name: once or never."""
        return int(name in self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RowNames):
            return (self.length, self.first) == (other.length, other.first)
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    @property
    def _numbers(self) -> range:
        return range(self.first, self.first + self.length)

    def _place(self, name: object) -> int | None:
        if not isinstance(name, str) or not (name.isascii() and name.isdigit()):
            return None
        number = int(name) if len(name) <= 19 else -1
        return number - self.first if number in self._numbers and str(number) == name else None


def quickly_found(names: Sequence[str]) -> Collection[str]:
    """The names as something that tells at once whether one is among them."""
    return names if isinstance(names, RowNames) else set(names)


def places_of(names: Sequence[str], some: Collection[str]) -> dict[str, int]:
    """Where some of the names stand.

    >>> places_of(RowNames(5), ["3"]), places_of(["a", "b"], ["b", "c"])
    ({'3': 3}, {'b': 1})
    """
    if isinstance(names, RowNames):
        return {name: names.index(name) for name in some if name in names}
    wanted = set(some)
    return {name: place for place, name in enumerate(names) if name in wanted}
