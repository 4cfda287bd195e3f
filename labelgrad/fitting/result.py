"""What a fit gives back, and the folder it is kept in."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

import labelgrad
from labelgrad.files import json_bytes, write_whole
from labelgrad.fitting.cross_validation import CurvePoint
from labelgrad.fitting.kept_pool import KeptPool, load_pool
from labelgrad.fitting.labels import (
    Example,
    ImputedLabel,
    examples_csv,
    labels_csv,
    read_examples,
    read_labels,
)
from labelgrad.fitting.plan import Plan
from labelgrad.fitting.pooling import Pooled
from labelgrad.fitting.predictor import FORMAT, Predictions, Predictor, load_predictor
from labelgrad.fitting.run_files import EXAMPLES, HELD_OUT, LABELS, METRICS, REPORT, SUMMARY
from labelgrad.fitting.statements import Statements, read_statements
from labelgrad.fitting.verdict import Calibration, Verdict, shown_error
from labelgrad.inputs.base import Encoding
from labelgrad.inputs.kinds import prepare
from labelgrad.report.data import Estimate, Judged


@dataclass(frozen=True)
class Counts:
    """How many examples of each kind there were, and how many labels of each class."""

    labeled: int
    unlabeled: int
    skipped: int
    classes: dict[str, int] = field(default_factory=dict)  # none where labels are values


@dataclass(frozen=True)
class Summary:
    """What was done, and what came of it: the content of `result.json`."""

    data: str  # the path, or the kind of what was handed over
    kind: str
    task: str
    counts: Counts
    skipped: Sequence[tuple[str, str]]  # name, reason
    notes: Sequence[str]
    plan: Plan
    folds: int
    step: int  # that every training reached
    seconds: float
    stopped: bool  # before its end
    verdict: Verdict
    calibration: Calibration | None
    curves: Sequence[CurvePoint]
    version: str = labelgrad.__version__

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        found: dict[str, Any] = {"format": FORMAT, "labelgrad": self.version} | asdict(self)
        del found["version"]
        if not self.counts.classes:
            del found["counts"]["classes"]
        found["verdict"] |= {"sentence": self.verdict.sentence}
        found["curves"] = [point_to_json(point) for point in self.curves]
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Summary:
        """The summary that `to_json` made these values of."""
        judged = {k: v for k, v in found["verdict"].items() if k != "sentence"}
        judged["rows"] = [
            Judged(**row | {"error": None if row["error"] is None else Estimate(**row["error"])})
            for row in judged["rows"]
        ]
        for name in ("difference", "student_behind"):
            if judged[name] is not None:
                judged[name] = Estimate(**judged[name])
        own = {k: v for k, v in found.items() if k not in ("format", "labelgrad")}
        own |= {
            "counts": Counts(**found["counts"]),
            "skipped": [(name, reason) for name, reason in found["skipped"]],
            "plan": Plan(**found["plan"]),
            "verdict": Verdict(**judged),
            "curves": [CurvePoint(**point) for point in found["curves"]],
        }
        if found["calibration"] is not None:
            own["calibration"] = Calibration(**found["calibration"])
        return cls(version=found["labelgrad"], **own)


@dataclass(frozen=True, eq=False)
class Result:
    """A model, a label for every unlabeled example, and what was found on the way.

    `labels` has a row for each unlabeled example, `examples` one for every example with its given
    label, or with what its neighbours say. Both go into a table as they are, such as
    `pandas.DataFrame(result.labels)`.
    """

    predictor: Predictor
    summary: Summary
    labels: list[ImputedLabel]
    held_out: dict[str, NDArray[Any]]  # rows, labels, and outputs by method
    page: str  # the report
    folder: Path | None = None
    examples: list[Example] = field(default_factory=list)
    pooled: Pooled | None = None  # the witnesses themselves; a loaded run has them no more
    statements: Statements | None = None  # what each witness says of each row of `labels`

    def predict(
        self,
        data: str | Path | ArrayLike,
        *,
        strict: bool = False,
        pool: bool = False,
        encoding: Encoding | None = None,
    ) -> Predictions:
        """Predictions for new data of the kind the model was trained on: a path, or an array.

        `encoding` says where an encoder and its cache are, if they are elsewhere than they were.

        With `pool` they are the pool's in place of the student's; a run that is loaded has it if
        it was fitted with `keep_pool`.
        """
        config = self.predictor.config
        x, names, skipped = prepare(config.preprocessing, data, strict=strict, encoding=encoding)
        said = self._said_by_pool(x) if pool else self.predictor(x)
        return config.predictions(said, names, skipped)

    def _said_by_pool(self, x: Tensor) -> Tensor:
        """The pool's probabilities, or its values in their own units."""
        config, said = self.predictor.config, torch.from_numpy(self._pool.of_new(x))
        return said.exp() if config.classes else said[:, 0] * config.spread + config.mean

    @cached_property
    def _pool(self) -> Pooled | KeptPool:
        """The pool of this process, or that of the folder, which is read when it is needed."""
        if self.pooled is not None:
            return self.pooled
        if self.folder is None:
            raise ValueError("This result has no pool and no folder; load a run that keeps one.")
        return load_pool(self.folder, self.predictor)

    def report(self, path: str | Path = REPORT) -> Path:
        """Write the report, one page that needs nothing else, and say where it is."""
        write_whole(Path(path), self.page.encode())
        return Path(path)

    @property
    def verdict(self) -> str:
        """Whether the unlabeled data helped, in one plain sentence."""
        return self.summary.verdict.sentence

    def save(self, folder: str | Path) -> None:
        """Write everything into a run folder; the model comes last, so it is never without it."""
        place, key = Path(folder), self.predictor.config.key
        write_whole(place / LABELS, labels_csv(self.labels, key))
        write_whole(place / EXAMPLES, examples_csv(self.examples, key))
        curves = [json.dumps(point_to_json(point)) + "\n" for point in self.summary.curves]
        write_whole(place / METRICS, "".join(curves).encode())
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **self.held_out)
        write_whole(place / HELD_OUT, packed.getvalue())
        if self.statements is not None:
            self.statements.save(place)
        write_whole(place / SUMMARY, json_bytes(self.summary.to_json()))
        self.report(place / REPORT)
        self.predictor.save(place)

    def __str__(self) -> str:
        return self.verdict

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        rows = ""
        for row in self.summary.verdict.rows:
            if row.error is None:
                continue
            value, low, high = (
                shown_error(number, self.summary.task)
                for number in (row.error.value, row.error.low, row.error.high)
            )
            rows += f"<tr><td>{escape(row.name)}</td><td>{value}</td><td>{low} to {high}</td></tr>"
        head = "<tr><th></th><th>held-out error</th><th>95 % interval</th></tr>"
        return f"<p>{escape(self.verdict)}</p><table>{head}{rows}</table>"


def load(folder: str | Path, model: nn.Module | None = None) -> Result:
    """The result of a run folder; a network of one's own is given as `model`, untrained."""
    place = Path(folder)
    predictor = load_predictor(place, model)
    task = predictor.config.task
    try:
        summary = Summary.from_json(json.loads((place / SUMMARY).read_bytes()))
        labels = read_labels((place / LABELS).read_bytes(), task)
        examples = read_examples((place / EXAMPLES).read_bytes(), task)
        with np.load(place / HELD_OUT, allow_pickle=False) as arrays:
            held_out = dict(arrays)
        page = (place / REPORT).read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"The run folder {place} is damaged ({error}); fit again.") from None
    said = read_statements(place)
    return Result(predictor, summary, labels, held_out, page, place, examples, statements=said)


def point_to_json(point: CurvePoint) -> dict[str, Any]:
    """What a point has, without what it has not."""
    return {name: value for name, value in asdict(point).items() if value is not None}
