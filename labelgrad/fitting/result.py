"""What a fit gives back, and the folder it is kept in."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from labelgrad.files import write_whole
from labelgrad.fitting.files import csv_bytes, json_bytes
from labelgrad.fitting.labels import COLUMNS, Row, csv_cells, rows_of
from labelgrad.fitting.predictor import Predictions, Predictor, load_predictor
from labelgrad.fitting.wording import shown_error
from labelgrad.inputs.kinds import prepare

FACTS, LABELS, HELD_OUT, METRICS = "result.json", "labels.csv", "held_out.npz", "metrics.jsonl"
REPORT, EXAMPLES = "report.html", "examples.csv"


@dataclass(frozen=True, eq=False)
class Result:
    """A model, a label for every unlabeled example, and what was found on the way.

    `labels` has a dictionary for each unlabeled example, `examples` one for every example with
    its given label, or with what its neighbours say; `summary` is what `result.json` holds.
    """

    predictor: Predictor
    summary: dict[str, Any]
    labels: list[Row]
    held_out: dict[str, NDArray[Any]]
    page: str  # the report
    folder: Path | None = None
    examples: list[Row] = field(default_factory=list)

    def predict(self, data: str | Path | ArrayLike, *, strict: bool = False) -> Predictions:
        """Predictions for new data of the kind the model was trained on: a path, or an array."""
        preparation = self.predictor.config.preparation
        return self.predictor.predictions(*prepare(preparation, data, strict=strict))

    def report(self, path: str | Path = REPORT) -> Path:
        """Write the report, one page that needs nothing else, and say where it is."""
        write_whole(Path(path), self.page.encode())
        return Path(path)

    @property
    def verdict(self) -> str:
        """Whether the unlabeled data helped, in one plain sentence."""
        sentence: str = self.summary["verdict"]["sentence"]
        return sentence

    def save(self, folder: str | Path) -> None:
        """Write everything into a run folder; the model comes last, so it is never without it."""
        place = Path(folder)
        names = [self.predictor.config.key, *COLUMNS]
        write_whole(place / LABELS, csv_bytes(names, map(csv_cells, self.labels)))
        columns = list(self.examples[0]) if self.examples else []
        write_whole(place / EXAMPLES, csv_bytes(columns, map(csv_cells, self.examples)))
        curves = "".join(json.dumps(line) + "\n" for line in self.summary["curves"])
        write_whole(place / METRICS, curves.encode())
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **self.held_out)
        write_whole(place / HELD_OUT, packed.getvalue())
        write_whole(place / FACTS, json_bytes(self.summary))
        self.report(place / REPORT)
        self.predictor.save(place)

    def __str__(self) -> str:
        return self.verdict

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        rows = "".join(map(self._html_row, self.summary["verdict"]["errors"].items()))
        head = "<tr><th></th><th>held-out error</th><th>95 % interval</th></tr>"
        return f"<p>{escape(self.verdict)}</p><table>{head}{rows}</table>"

    def _html_row(self, error: tuple[str, list[float]]) -> str:
        value, low, high = (shown_error(number, self.summary["task"]) for number in error[1])
        return f"<tr><td>{escape(error[0])}</td><td>{value}</td><td>{low} to {high}</td></tr>"


def load(folder: str | Path, model: nn.Module | None = None) -> Result:
    """The result of a run folder; a network of one's own is given as `model`, untrained."""
    place = Path(folder)
    predictor = load_predictor(place, model)
    try:
        summary = json.loads((place / FACTS).read_bytes())
        labels = rows_of((place / LABELS).read_bytes(), predictor.config.task)
        examples = _examples(place / EXAMPLES, predictor.config.task)
        with np.load(place / HELD_OUT, allow_pickle=False) as arrays:
            held_out = dict(arrays)
        page = (place / REPORT).read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"The run folder {place} is damaged ({error}); fit again.") from None
    return Result(predictor, summary, labels, held_out, page, place, examples)


def every_example(result: Result) -> list[Row]:
    """The examples of a result; one of an older version has none."""
    if not result.examples:
        raise ValueError(
            f"The run in {result.folder} has no {EXAMPLES}, which older versions did not write; "
            f"go on with it by fit --resume."
        )
    return result.examples


def _examples(path: Path, task: str) -> list[Row]:
    """None if the run is older than the file."""
    rows = rows_of(path.read_bytes(), task) if path.exists() else []
    return [row | {"given": row["given"] if row["given"] != "" else None} for row in rows]
