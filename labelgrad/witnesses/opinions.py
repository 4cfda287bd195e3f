"""A file of opinions from elsewhere: a rule, another model, a language model, a crowd.

The first column says which example it is about. Then a column is a witness of its own, with a class
(or a value) in every cell it has an opinion about. Columns called `NAME:CLASS` are the
probabilities of one witness NAME; columns called by the classes themselves are those of one called
by the file.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labelgrad.inputs.base import join_few
from labelgrad.inputs.cells import LONGEST_CELL
from labelgrad.witnesses.base import (
    Array,
    Opinion,
    known_rows,
    log_probabilities,
    values_with_spread,
)
from labelgrad.witnesses.hearing import Rescaled

NO_OPINION = 1e6  # the spread of a value that nobody has named


@dataclass(frozen=True, eq=False)
class Said:
    """A witness that has spoken already: of some rows a class, probabilities, or a value.

    How far a class that was only named can be trusted is counted by the labels that may be known. A
    witness that is right less often than chance is not turned round: it is not believed.

    >>> named = np.array([0.0, 1.0, 1.0, np.nan])
    >>> (opinion,) = Said("rule", named).hear(np.zeros((4, 1)), [np.array([0, 1, -1, -1])], 2, 0)
    >>> np.exp(opinion.of_rows(np.arange(4))).round(2)
    array([[0.75, 0.25],
           [0.25, 0.75],
           [0.25, 0.75],
           [0.5 , 0.5 ]])
    """

    name: str
    said: Array  # (rows,) class indices or values, or (rows, classes) probabilities; NaN is silence
    sees_unlabeled: bool = True
    presumed: bool = False  # anybody can write a file: it must show what it adds

    def hear(self, x: Array, labels: Sequence[Array], classes: int, seed: int) -> Sequence[Opinion]:
        """One opinion for each version of the labels."""
        return [Spoken(self._of(version, classes), version, classes) for version in labels]

    def _of(self, labels: Array, classes: int) -> Array:
        known = known_rows(labels)
        if not classes:
            spoken = known[~np.isnan(self.said[known])]
            off = self.said[spoken] - labels[spoken]
            spread = np.sqrt(((off**2).sum() + 1) / (len(spoken) + 1))
            silent = np.isnan(self.said)
            return values_with_spread(
                np.where(silent, 0.0, self.said), np.where(silent, NO_OPINION, spread)
            )
        prior = _silence(labels, classes)
        if self.said.ndim == 2:
            complete = np.flatnonzero(~np.isnan(self.said).any(1))
            found = np.tile(prior, (len(labels), 1))
            found[complete] = log_probabilities(self.said[complete], np.arange(classes), classes)
            return found
        spoken = known[~np.isnan(self.said[known])]
        right = int((self.said[spoken] == labels[spoken]).sum())
        trust = (right + 1) / (len(spoken) + classes)
        found = np.tile(prior, (len(labels), 1))
        if trust <= 1 / classes:
            return found
        rows = np.flatnonzero(~np.isnan(self.said))
        each = np.full((len(rows), classes), (1 - trust) / max(1, classes - 1))
        each[np.arange(len(rows)), self.said[rows].astype(int)] = trust
        found[rows] = log_probabilities(each, np.arange(classes), classes)
        return found


def _silence(labels: Array, classes: int) -> Array:
    """Log-probabilities that move nothing in a pool: the classes' shares among the labels."""
    from labelgrad.witnesses.shares import label_shares

    found: Array = np.log(label_shares(labels[known_rows(labels)], classes))
    return found


@dataclass(frozen=True, eq=False)
class Spoken:
    """What a file says, row by row; of other examples it says nothing."""

    found: Array
    labels: Array
    classes: int

    def of_rows(self, rows: Array) -> Array:
        """About rows of the data."""
        return self.found[rows]

    def of_new(self, x: Array) -> Array:
        """Nothing."""
        if not self.classes:
            return np.tile([0.0, NO_OPINION], (len(x), 1))
        return np.tile(_silence(self.labels, self.classes), (len(x), 1))


def speaks_of_rows(opinion: Opinion) -> bool:
    """Whether an opinion is of the rows that it names, and of no others."""
    inner = opinion.opinion if isinstance(opinion, Rescaled) else opinion
    return isinstance(inner, Spoken)


def read_opinions(
    path: str | Path, names: Sequence[str], classes: Sequence[str], *, mean: float, spread: float
) -> list[Said]:
    """The witnesses of a CSV file; `names` are of the examples, in their order.

    Values are told in the units that `mean` and `spread` have.
    """
    place = Path(path)
    csv.field_size_limit(LONGEST_CELL)  # whatever was read before
    try:
        with place.open(newline="", encoding="utf-8-sig") as file:
            head, *rest = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"The opinions in {place} cannot be read ({error}); give a CSV file in UTF-8."
        ) from None
    head = [name.strip() for name in head]
    if len(head) < 2 or len(set(head)) < len(head) or not all(head[1:]):
        raise ValueError(
            f"The opinions in {place} need a first line with names of their own for an id and one "
            f"or more columns of opinions, got {join_few(head) or 'nothing'}."
        )
    wrong = [number for number, line in enumerate(rest, 2) if line and len(line) != len(head)]
    if wrong:
        raise ValueError(
            f"The opinions in {place} need {len(head)} cells in each line; of another number are "
            f"those of line {join_few(wrong, most=3)}."
        )
    lines = [line for line in rest if line]
    row_of = {name: row for row, name in enumerate(names)}
    unknown = [line[0] for line in lines if line[0] not in row_of]
    if unknown:
        raise ValueError(
            f"The opinions in {place} are about examples that are not in the data: "
            f"{join_few(unknown, most=3)}; the first column must be their row or file."
        )
    doubled = [name for name, times in Counter(line[0] for line in lines).items() if times > 1]
    if doubled:
        raise ValueError(
            f"The opinions in {place} name examples twice: {join_few(doubled, most=3)}; keep one "
            f"line of each."
        )
    rows = np.array([row_of[line[0]] for line in lines], dtype=int)
    columns = {name: [line[at].strip() for line in lines] for at, name in enumerate(head) if at}
    return [
        Said(name, _column(place, cells, rows, len(names), classes, mean, spread))
        for name, cells in _witnesses(place, columns, classes).items()
    ]


Cells = list[str] | list[list[str]]  # of one column, or of one for each class


def _witnesses(
    place: Path, columns: dict[str, list[str]], classes: Sequence[str]
) -> dict[str, Cells]:
    """Columns put together: those of probabilities by their witness, all others alone."""
    of_a_class = set(classes)
    found: dict[str, Cells] = {}
    parts: dict[str, dict[str, list[str]]] = {}
    for name, cells in columns.items():
        cuts = [at for at, letter in enumerate(name) if at and letter == ":"]
        cut = next((at for at in cuts if name[at + 1 :].strip() in of_a_class), None)
        if name not in of_a_class and cut is None:
            found[name] = cells
            continue
        witness, of = (place.stem, name) if cut is None else (name[:cut], name[cut + 1 :])
        probabilities = parts.setdefault(witness.strip(), {})
        if of.strip() in probabilities:
            raise ValueError(
                f"The opinions in {place} have two columns with the probabilities of "
                f"{witness.strip()!r} for {of.strip()!r}; keep one of them."
            )
        probabilities[of.strip()] = cells
    for witness, probabilities in parts.items():
        if witness in found:
            raise ValueError(
                f"The opinions in {place} have a column and probabilities of the same witness "
                f"{witness!r}; rename one of them."
            )
        lacking = [name for name in classes if name not in probabilities]
        if lacking:
            raise ValueError(
                f"The probabilities of {witness!r} in {place} need a column for every class; there "
                f"is none for {join_few(lacking, most=3)}."
            )
        found[witness] = [probabilities[name] for name in classes]
    return found


def _column(
    place: Path,
    cells: Cells,
    rows: Array,
    examples: int,
    classes: Sequence[str],
    mean: float,
    spread: float,
) -> Array:
    """One witness's cells as an array over all examples."""
    if cells and isinstance(cells[0], list):
        said = np.full((examples, len(classes)), np.nan)
        said[rows] = np.array([_numbers(place, column) for column in cells]).T
        beyond = said[(said < 0) | (said > 1)]
        if len(beyond):
            raise ValueError(
                f"The probabilities in {place} must be from 0 to 1, got "
                f"{join_few(beyond.tolist(), most=3)}."
            )
        total = said.sum(1, keepdims=True)
        return np.where(total > 0, said / np.where(total > 0, total, 1), np.nan)
    texts = [cell for cell in cells if isinstance(cell, str)]
    named: Array = np.full(examples, np.nan)
    if not classes:
        named[rows] = (_numbers(place, texts) - mean) / spread
        return named
    places = {name: at for at, name in enumerate(classes)}
    strangers = [cell for cell in texts if cell and cell not in places]
    if strangers:
        raise ValueError(
            f"The opinions in {place} name classes that no label has: "
            f"{join_few(list(dict.fromkeys(strangers)), most=3)}; there are {join_few(classes)}."
        )
    named[rows] = [places.get(cell, np.nan) for cell in texts]
    return named


def _numbers(place: Path, cells: Sequence[str]) -> Array:
    found = np.array([_number(cell) for cell in cells])
    wrong = [cell for cell, number in zip(cells, found, strict=True) if np.isinf(number)]
    if wrong:
        raise ValueError(
            f"The opinions in {place} must be finite numbers where they are probabilities or "
            f"values, got {join_few(wrong, most=3)}; leave a cell empty where there is none."
        )
    return found


def _number(cell: str) -> float:
    """A number, NaN of an empty cell, and infinity of what is no number."""
    try:
        return float(cell) if cell else np.nan
    except ValueError:
        return np.inf
