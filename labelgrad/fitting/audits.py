"""Audits of a run: rows drawn at random, and the labels a person gave them, in one file.

`audits.jsonl` has a line for every draw and for every answer, and is only ever added to. A draw
says which rows in which order, by which seed and out of how many. Of two answers about one row the
newer counts.

Whoever looks at the rows in their order and stops has looked at a random part of them. Whoever
leaves one out has not, if it was left out for what it is. So rows after the last answer of a draw
are not looked at yet, and one without an answer before it is a gap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labelgrad.files import write_whole

FILE = "audits.jsonl"


@dataclass(frozen=True)
class Draw:
    """Rows that were drawn at random, in the order they are to be looked at."""

    names: tuple[str, ...]
    seed: int
    out_of: int  # how many rows there were to draw from


@dataclass
class Audits:
    """The draws of a run and what was answered about them.

    >>> from tempfile import mkdtemp
    >>> audits = Audits(Path(mkdtemp()))
    >>> drawn = audits.draw(["1", "2", "3", "4"], 3, seed=0)
    >>> audits.answer({drawn.names[0]: "cat", drawn.names[2]: "dog"})
    >>> known = Audits(audits.folder)
    >>> len(known.looked_at), known.gaps == [drawn.names[1]], known.open
    (3, True, [])
    """

    folder: Path
    draws: list[Draw] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        path = self.folder / FILE
        for number, line in enumerate(_lines(path), 1):
            try:
                found = json.loads(line)
                if "draw" in found:
                    self.draws.append(Draw(tuple(found["draw"]), found["seed"], found["out_of"]))
                else:
                    self.answers[found["name"]] = found["label"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{path} is damaged in line {number} ({error}); put it right, or remove it "
                    f"and audit anew."
                ) from None

    @property
    def drawn(self) -> list[str]:
        """All rows that were ever drawn."""
        return [name for draw in self.draws for name in draw.names]

    @property
    def looked_at(self) -> dict[str, str | None]:
        """The rows up to the last answer of each draw, with the answer, or None for a gap."""
        found: dict[str, str | None] = {}
        for draw in self.draws:
            places = [place for place, name in enumerate(draw.names) if name in self.answers]
            for name in draw.names[: max(places, default=-1) + 1]:
                found[name] = self.answers.get(name)
        return found

    @property
    def gaps(self) -> list[str]:
        """The rows that were left out."""
        return [name for name, answer in self.looked_at.items() if answer is None]

    @property
    def open(self) -> list[str]:
        """The rows that were drawn and nobody has come to yet."""
        looked_at = self.looked_at
        return [name for name in self.drawn if name not in looked_at]

    def draw(self, names: Sequence[str], rows: int, *, seed: int) -> Draw:
        """Draw so many of `names` that were never drawn before, at random, and write it down."""
        before = set(self.drawn)
        left = [name for name in names if name not in before]
        if not 1 <= rows <= len(left):
            raise ValueError(
                f"An audit can draw from 1 to {len(left)} rows, as many as have no label and were "
                f"not drawn before, got {rows}."
                if left
                else f"There is no row left to audit, and {rows} were asked for."
            )
        generator = np.random.default_rng([seed, len(self.draws)])
        places = generator.permutation(len(left))[:rows].tolist()
        drawn = Draw(tuple(left[place] for place in places), seed, len(left))
        self._add([{"draw": drawn.names, "seed": seed, "out_of": len(left)}])
        self.draws.append(drawn)
        return drawn

    def answer(self, labels: Mapping[str, str]) -> None:
        """Keep answers about rows that were drawn; when this returns they are on the disk."""
        strange = sorted(labels.keys() - set(self.drawn))
        if strange:
            raise ValueError(f"{strange[0]!r} was not drawn for an audit; labelgrad audit draws.")
        self._add([{"name": name, "label": label} for name, label in labels.items()])
        self.answers |= labels

    def _add(self, records: Sequence[Mapping[str, Any]]) -> None:
        path = self.folder / FILE
        lines = [*_lines(path), *(json.dumps(each, ensure_ascii=False) for each in records)]
        write_whole(path, "".join(line + "\n" for line in lines).encode())


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1] if path.is_file() else []
