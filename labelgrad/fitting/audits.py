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
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from labelgrad.files import append_lines, csv_bytes, write_whole
from labelgrad.nearest import did_you_mean

if TYPE_CHECKING:  # the page counts audits without PyTorch
    from labelgrad.fitting.result import Result

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
                    self._keep(found["name"], found["label"])
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

    def answer(self, labels: Mapping[str, str | None]) -> None:
        """Keep answers about rows that were drawn; when this returns they are on the disk.

        None takes an answer back.
        """
        strange = sorted(labels.keys() - set(self.drawn))
        if strange:
            raise ValueError(f"{strange[0]!r} was not drawn for an audit; labelgrad audit draws.")
        self._add([{"name": name, "label": label} for name, label in labels.items()])
        for name, label in labels.items():
            self._keep(name, label)

    def _keep(self, name: str, label: str | None) -> None:
        if label is None:
            self.answers.pop(name, None)
        else:
            self.answers[name] = label

    def _add(self, records: Sequence[Mapping[str, Any]]) -> None:
        lines = [json.dumps(each, ensure_ascii=False) for each in records]
        append_lines(self.folder / FILE, lines)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1] if path.is_file() else []


class Taken(NamedTuple):
    """What a filled-in audit brought, and where all audits of the run stand."""

    new: int
    looked_at: int
    gaps: int
    open: int
    new_classes: Sequence[str]


def draw_audit(result: Result, rows: int, *, seed: int | None = None) -> Draw:
    """Draw unlabeled rows of a run at random, none of them twice, and write them down in it.

    Without a `seed` it is that of the run.
    """
    names = [row.name for row in result.labels]
    return Audits(_folder(result)).draw(
        names, rows, seed=result.summary.plan.seed if seed is None else seed
    )


def save_audit(draw: Draw, key: str, path: str | Path) -> None:
    """Write the rows of a draw as CSV, with an empty column `label` and nothing of what is thought.

    They are to be looked at in their order.
    """
    write_whole(Path(path), csv_bytes([key, "label"], [[name, ""] for name in draw.names]))


def take_audit(result: Result, path: str | Path, *, new_classes: bool = False) -> Taken:
    """Take a filled-in audit back; a label that is no class of the run needs `new_classes`.

    An empty label is none yet.
    """
    from labelgrad.inputs.base import join_few
    from labelgrad.inputs.folder import listed_labels

    file, audits, key = Path(path), Audits(_folder(result)), result.predictor.config.key
    if not file.is_file():
        raise FileNotFoundError(f"There is no audit {file} to take; labelgrad audit draws one.")
    filled: dict[str, str] = {}
    for line, cell, label in listed_labels(file, [key], ["label"]):
        name = str(PurePosixPath(cell)) if key == "file" else cell
        if label and filled.setdefault(name, label) != label:
            raise ValueError(
                f"{file.name} gives {name!r} two labels: {filled[name]!r}, and {label!r} on line "
                f"{line}."
            )
    if not filled:
        raise ValueError(f"{file.name} has no label filled in; its column label is for them.")
    drawn = set(audits.drawn)
    strange = [name for name in filled if name not in drawn]
    if strange:
        known = {example.name for example in result.examples}
        chosen = "labels of rows somebody chose are corrections, labelgrad labels --corrections"
        what = chosen if strange[0] in known else "they are not in the data of the run"
        raise ValueError(
            f"{file.name} names {len(strange)} rows that were not drawn for an audit: "
            f"{join_few(strange)}; {what}."
        )
    added = _checked_labels(file.name, filled, result.predictor.config.classes, new_classes)
    new = {name: label for name, label in filled.items() if audits.answers.get(name) != label}
    if new:
        audits.answer(new)
    return Taken(len(new), len(audits.looked_at), len(audits.gaps), len(audits.open), added)


def _checked_labels(
    file: str, filled: Mapping[str, str], classes: Sequence[str], new_classes: bool
) -> list[str]:
    """The labels that are no class of the run, if they are wanted; values must be numbers."""
    from labelgrad.inputs.base import join_few

    if not classes:
        wrong = [label for label in filled.values() if not _is_finite(label)]
        if wrong:
            raise ValueError(f"{file} must have finite numbers as labels, got {join_few(wrong)}.")
        return []
    strange = sorted(set(filled.values()) - set(classes))
    if strange and not new_classes:
        otherwise = f"the classes are {join_few(classes)}."
        raise ValueError(
            f"{file} has {len(strange)} labels that are no class of the run: {join_few(strange)}; "
            f"--new-classes takes them, and {did_you_mean(strange[0], classes, otherwise)}"
        )
    return strange


def _is_finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _folder(result: Result) -> Path:
    if result.folder is None:
        raise ValueError("An audit needs a run folder to be kept in; fit with `out`.")
    return result.folder
