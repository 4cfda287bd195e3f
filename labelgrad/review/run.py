"""What the page needs of a run folder, in columns: some hundred bytes for each example.

`fitting.result.load` gives the same as objects, with the model and PyTorch, which takes more memory
than a page beside other work should.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgrad.files import digest_of
from labelgrad.fitting.provenance import RANDOM
from labelgrad.fitting.run_files import (
    BEFORE,
    CONFIG,
    EXAMPLES,
    HALF,
    HELD_OUT,
    LABELS,
    SAID_BY,
    SUMMARY,
)
from labelgrad.fitting.run_folder import Digests, known_digests
from labelgrad.fitting.statements import Statements, read_statements

Array = NDArray[Any]
NONE = -1  # the class of an example that has none
POOL = "pool"


class HeldOut(NamedTuple):
    """What the pool says of given labels that were hidden from it."""

    rows: Array  # of all examples
    y: Array  # classes, or values
    said: Array  # log-probabilities (rows, classes), or values (rows,)


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A finished run; columns have an entry for every example, in the order of the data.

    Labels are places in `classes`, NONE where there is none; or values, NaN where there is none.
    """

    folder: Path  # the run's own, where decisions go
    digest: str  # of its summary: another one is another result
    data: str
    kind: str
    task: str
    key: str
    classes: tuple[str, ...]
    preprocessing: dict[str, Any]
    names: list[str]
    where: dict[str, int]  # the place of each name
    given: Array
    is_random: Array  # whether it was given in a random draw
    label: Array  # imputed, for those that were given none
    probability: Array
    prediction: Array  # of the kept model
    prediction_probability: Array
    neighbours: Array
    apart: Array  # the share of neighbours with another label; of values, in typical errors
    place: Array  # which row of `labels.csv` and of the statements it is, NONE if it has a label
    statements: Statements | None
    held_out: HeldOut
    seed: int
    interrupted: bool  # a training anew was begun and not finished: this is the result before it

    @property
    def is_value(self) -> bool:
        """Whether labels are values."""
        return self.task == "regression"

    @property
    def unlabeled(self) -> Array:
        """The examples that were given no label."""
        return np.flatnonzero(self.place != NONE)

    def shown(self, label: Any) -> str | float | None:
        """A label as a person says it: the class, or the value."""
        if self.is_value:
            return None if np.isnan(label) else float(label)
        return None if label == NONE else self.classes[int(label)]


def load_run(folder: Path) -> FinishedRun:
    """The result in a run folder, or the one before if a training anew did not come to its end."""
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no run folder {folder}.")
    kept = (CONFIG, SUMMARY, LABELS, EXAMPLES, HELD_OUT)
    for place in (folder, folder / HALF, folder / BEFORE):
        if all((place / name).is_file() for name in (kept if place != folder else (CONFIG,))):
            break
    else:
        raise FileNotFoundError(
            f"{folder} holds no finished run: it has no {CONFIG}; go on with labelgrad fit."
        )
    digests = known_digests(place)  # of a result that is being put aside they may be missing
    for name in (CONFIG, SUMMARY, EXAMPLES, HELD_OUT) if digests.of else ():
        digests.read(name)
    try:
        return _read(folder, place, digests, interrupted=place != folder)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"The run folder {place} is damaged ({error}); fit again.") from None


def _read(folder: Path, place: Path, digests: Digests, *, interrupted: bool) -> FinishedRun:
    config = json.loads((place / CONFIG).read_bytes())
    summarized = (place / SUMMARY).read_bytes()
    summary = json.loads(summarized)
    task, classes = config["task"], tuple(config["classes"])
    code = _coder(classes)
    found = _examples(place / EXAMPLES, code)
    names, given = found.names, found.given
    where = {name: row for row, name in enumerate(names)}
    n, is_value = len(names), task == "regression"
    label, prediction = (np.full(n, np.nan if is_value else NONE, given.dtype) for _ in range(2))
    sure, model_sure = (np.full(n, np.nan, np.float32) for _ in range(2))
    rank = np.full(n, NONE, np.int32)
    labels = _columns(place / LABELS)
    next(labels)
    for number, (name, said, p, model, q, *_) in enumerate(labels):
        row = where[name]
        rank[row], label[row], prediction[row] = number, code(said), code(model)
        sure[row], model_sure[row] = _number(p), _number(q)
    statements = read_statements(digests)
    if statements is not None and len(statements.near) != (rank != NONE).sum():
        statements = None  # of another result: the process died between two files
    return FinishedRun(
        folder=folder,
        digest=digest_of(summarized),
        data=summary["data"],
        kind=config["kind"],
        task=task,
        key=found.key,
        classes=classes,
        preprocessing=config["preprocessing"],
        names=names,
        where=where,
        given=given,
        is_random=found.is_random,
        label=label,
        probability=sure,
        prediction=prediction,
        prediction_probability=model_sure,
        neighbours=found.neighbours,
        apart=found.apart,
        place=rank,
        statements=statements,
        held_out=_held_out(place, is_value=is_value),
        seed=int(summary["plan"]["seed"]),
        interrupted=interrupted,
    )


def _held_out(folder: Path, *, is_value: bool) -> HeldOut:
    """What the pool said of labels that were hidden from it."""
    with np.load(folder / HELD_OUT, allow_pickle=False) as arrays:
        rows, y = arrays["rows"], arrays["y"]
        said = arrays.get(SAID_BY + POOL, np.zeros((len(y), 1))).astype(np.float64)
    if is_value:
        return HeldOut(rows, y, said.reshape(len(y), -1)[:, 0])
    said -= said.max(1, keepdims=True, initial=-np.inf)
    return HeldOut(rows, y, said - np.log(np.exp(said).sum(1, keepdims=True)))


class Examples(NamedTuple):
    """The columns of `examples.csv` that are shown."""

    key: str
    names: list[str]
    given: Array
    neighbours: Array
    apart: Array
    is_random: Array


def _examples(path: Path, code: Callable[[str], float]) -> Examples:
    lines = _columns(path)
    header = next(lines)
    given, around, apart, origin = (
        header.index(name) if name in header else 0
        for name in ("given", "neighbours", "apart", "origin")
    )
    rows = [
        (row[0], code(row[given]), code(row[around]), _number(row[apart]), row[origin] == RANDOM)
        for row in lines
    ]
    names, labels, near, shares, is_random = zip(*rows, strict=True) if rows else ((),) * 5
    dtype = np.int32 if code("") == NONE else np.float64
    return Examples(
        header[0],
        list(names),
        np.array(labels, dtype),
        np.array(near, dtype),
        np.array(shares, np.float32),
        np.array(is_random, bool),
    )


def _columns(path: Path) -> Iterator[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        width = 0
        for row in csv.reader(file):
            width = width or len(row)
            if len(row) != width:
                raise ValueError(f"{path.name} has a row of {len(row)} cells in place of {width}")
            yield row


def _coder(classes: tuple[str, ...]) -> Callable[[str], float]:
    """What turns a cell into a class's place, or into a value."""
    if not classes:
        return _number
    places = {name: place for place, name in enumerate(classes)} | {"": NONE}
    return places.__getitem__


def _number(cell: str) -> float:
    return float(cell) if cell else np.nan
