"""A review session: everything the page asks for and sends, as plain values."""

from __future__ import annotations

import math
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from labelgrad.auto.annotations import AUDIT, HOW, Annotation, Label, Undo, audit_of, log_of
from labelgrad.auto.audits import draw_audit
from labelgrad.auto.data.views import ExampleView, ExampleViews, open_views
from labelgrad.auto.guarantee import GuaranteeFinder
from labelgrad.auto.guarantees.pac import CONFIDENCE, check_rate
from labelgrad.auto.queue import Query, ReviewQueue, annotated_rows, base_model_labels
from labelgrad.auto.result import Result
from labelgrad.auto.run import load
from labelgrad.auto.server.retraining import Retraining, compare_results
from labelgrad.auto.task import Array, log_normalize

MAX_ROWS = 500  # of one page, or annotated at once
PREVIEW, PREVIEW_CELLS = 240, 6  # characters of a text, and cells of a row, where many are shown
LONG_CELL = 90  # characters of a cell that is read as a text
NEWEST = 10  # annotations that are listed
SIDES = (96, 192, 1024)  # of images, in pixels


class ReviewSession:
    """A run under review: its queue, annotations, guarantee and retraining.

    Several pages may share a session, and several sessions a run folder. A ValueError is a sentence
    on a request that cannot be fulfilled.
    """

    def __init__(
        self, folder: str | Path, *, data: str | Path | None = None, max_error_rate: float = 0.02
    ):
        check_rate("max_error_rate", max_error_rate)
        self._lock = threading.RLock()
        self._given_data, self._goal = data, max_error_rate
        self.folder, self.retraining = Path(folder), Retraining()
        result = load(self.folder)
        self.log = log_of(result)
        self._use(result)

    def _use(self, result: Result) -> None:
        """Show a result, the first one or that of a retraining."""
        ids: list[str] = result.labels.to_series(0).to_list()
        data = result.about.data if self._given_data is None else self._given_data
        views: ExampleViews | None = None
        problem = "The run was fitted on data in memory: only ids can be shown."
        if data is not None:
            try:
                views = open_views(data, result.predictor.preprocessor, ids, result.config)
                problem = ""
            except (ValueError, OSError, ImportError) as error:
                problem = str(error)
        with self._lock:
            self.result, self.data, self._views, self._problem = result, data, views, problem
            self._ids, self._row = ids, {name: row for row, name in enumerate(ids)}
            self._queue = ReviewQueue(result)
            self._imputed = (result.labels["source"] == "imputed").to_numpy()
            self._revision = -1  # lines of the log that were read
            self._state: dict[str, Any] | None = None  # as long as it holds

    # What is shown

    def facts(self) -> dict[str, Any]:
        """What holds for the whole run."""
        result, queue, classes = self.result, self._queue, self.result.task.classes
        labels = queue.label[queue.imputed] if classes else np.zeros(0, int)
        return {
            "model": result.digest,
            "title": Path(self.data).name if self.data else result.about.kind,
            "id_name": result.id_name,
            "task": result.task.name,
            "classes": classes,
            "counts": np.bincount(labels, minlength=len(classes)).tolist(),
            "problem": self._problem,
        }

    def state(self) -> dict[str, Any]:
        """What changes with every annotation."""
        with self._lock:
            self._refresh()
            if self._state is None:
                queue, annotations = self._queue, self.log.annotations()
                is_open = ~self._annotated[queue.imputed]
                confidence = np.nan_to_num(queue.confidence[queue.imputed[is_open]].astype(float))
                wrong = None
                if queue.is_classification:
                    support = self.result.held_out.support()
                    wrong = float((1 - support * confidence).sum())
                self._state = {
                    "model": self.result.digest,
                    "revision": self._revision,
                    "annotated": int((~is_open).sum()),
                    "open": int(is_open.sum()),
                    "expected_errors": wrong,
                    "changed": sum(one.shown not in (None, one.label) for one in annotations),
                    "new": self._new_labels(),
                    "guarantee": self._guarantee() if queue.is_classification else None,
                    "newest": [self._told(one) for one in annotations[: -NEWEST - 1 : -1]],
                }
            return self._state | {"retraining": self.retraining.state}

    def queue(self, query: Query, start: int, count: int, previews: bool = False) -> dict[str, Any]:
        """A page of examples; with `previews` the beginning of those without an image."""
        if start < 0 or not 0 < count <= MAX_ROWS:
            raise ValueError(f"A page starts at 0 or later and has 1 to {MAX_ROWS} examples.")
        found = self._found(query.search) if query.search else None
        with self._lock:
            self._refresh()
            rows = self._queue.rows(query, self._annotated, found)
            page = rows[start : start + count].tolist()
            table = self.result.labels[page, [self.result.id_name, "label", "confidence"]].rows()
        cells = [
            [row, name, label, _rounded(confidence), self._preview(row) if previews else None]
            for row, (name, label, confidence) in zip(page, table, strict=True)
        ]
        return {"total": len(rows), "rows": cells}

    def example(self, row: int, *, blind: bool = False) -> dict[str, Any]:
        """One example with all predictions; `blind` without, for audits."""
        name = self._id(row)
        with self._lock:
            self.log.refresh()
            annotation = self.log.current(name)
        seen = annotation.line if annotation else 0
        shown = {"row": row, "id": name, **asdict(self._view(row)), "seen": seen}
        if blind:
            return shown | {"blind": True}
        shown["annotation"] = self._told(annotation) if annotation else None
        return shown | (self._imputed_label(row) if self._imputed[row] else self._given_label(row))

    def image(self, row: int, side: int) -> bytes:
        """The image of an example."""
        if self._views and row < len(self._ids) and side in SIDES:
            found = self._views.image(row, side)
            if found is not None:
                return found
        raise ValueError("There is no such image.")

    def draw(self) -> dict[str, Any]:
        """What is open of an audit; a new one has as many examples as the guarantee needs."""
        with self._lock:
            self.log.refresh()
            finder = GuaranteeFinder(self.result, self.log, look=False)
            audit = audit_of(self.log, self.result.digest)
            left = len(self._queue.imputed) - len(audit.drawn)
            if left and not audit.unanswered:
                needed = min(max(finder.more_audits(self._goal), 1), left)
                self._write(lambda: draw_audit(self.result, needed, log=self.log))
                audit = audit_of(self.log, self.result.digest)
            return {"rows": [self._row[name] for name in audit.unanswered]}

    # What is annotated

    def annotate(self, entries: Any, *, how: str, by: str) -> dict[str, Any]:
        """Add annotations; when this returns they are on the disk.

        Each entry has `row`, `label`, and `seen`: the line of the annotation that was shown, or 0.
        An example that somebody else annotated since is left out and reported.
        """
        _check_entries(entries)
        if how not in HOW:
            raise ValueError(f"Annotations are given by one of {', '.join(HOW)}.")
        with self._lock:
            self.log.refresh()
            new, conflicts = [], []
            for entry in entries:
                annotation = self._checked(entry, how, by)
                before = self.log.current(annotation.id)
                if (before.line if before else 0) != entry.get("seen", 0):
                    conflicts.append([entry["row"], before and self._told(before)])
                else:
                    new.append(annotation)
            self._write(lambda: self.log.add(new))
            added = [self._told(self.log.current(one.id) or one) for one in new]
            return {"added": added, "conflicts": conflicts, "state": self.state()}

    def undo(self, entries: Any, *, by: str) -> dict[str, Any]:
        """Withdraw annotations, if all of them are those that were shown."""
        _check_entries(entries)
        with self._lock:
            self.log.refresh()
            names = [self._id(entry.get("row")) for entry in entries]
            for name, entry in zip(names, entries, strict=True):
                annotation = self.log.current(name)
                if annotation is None or annotation.line != entry.get("seen"):
                    raise ValueError(f"Somebody else has annotated {name} since.")
            self._write(lambda: self.log.add([Undo(name, by) for name in names]))
            return {"state": self.state()}

    def retrain(self) -> dict[str, Any]:
        """Train again with all annotations, in another process."""
        with self._lock:
            if not self._new_labels():
                raise ValueError("There is no new annotation since the last training.")
            if self.data is None:
                again = f"labelgrad.fit(..., out={str(self.folder)!r}, resume=True)"
                raise ValueError(f"The data were in memory; train in Python with {again}.")
            before = self.result

            def finished() -> dict[str, Any]:
                after = load(self.folder)
                self._use(after)
                return compare_results(before, after)

            self.retraining.start(self.folder, str(self.data), finished)
            return {"state": self.state()}

    # Helpers

    def _write(self, write: Any) -> None:
        try:
            write()
        except OSError as error:
            reason = error.strerror if self.folder.is_dir() else "the run folder is missing"
            raise ValueError(
                f"{self.log.path} cannot be written ({reason or error}): earlier annotations are "
                f"kept, this one is not."
            ) from None

    def _checked(self, entry: dict[str, Any], how: str, by: str) -> Annotation:
        name, label = self._id(entry.get("row")), self._label(entry.get("label"))
        if how == AUDIT and name not in audit_of(self.log, self.result.digest).drawn:
            raise ValueError(f"{name} was not drawn for an audit of the present model.")
        shown = self.result.labels[self._row[name], ["label", "confidence"]].row(0)
        shown = (None, None) if how == AUDIT else shown  # predictions are hidden in audits
        return Annotation(name, label, how, self.result.digest, by, *shown)

    def _id(self, row: Any) -> str:
        if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row < len(self._ids):
            most = len(self._ids)
            raise ValueError(f"An example is a number below {most}, got {str(row)[:50]!r}.")
        return self._ids[row]

    def _label(self, label: Any) -> Label:
        if not self._queue.is_classification:
            is_number = isinstance(label, int | float) and not isinstance(label, bool)
            if not is_number or not math.isfinite(label):
                raise ValueError(f"A value must be a finite number, got {str(label)[:50]!r}.")
            return float(label)
        if not isinstance(label, str) or label not in self.result.task.classes:
            new = "new ones come with labels --corrections --new-classes"
            raise ValueError(f"The run has no class {str(label)[:50]!r}; {new}.")
        return label

    def _refresh(self) -> None:
        """Read the log; if it has changed, what was computed from it no longer holds."""
        if self.log.refresh() != self._revision:
            self._revision, self._annotated = self.log.lines, annotated_rows(self.result, self.log)
            self._state = None

    def _new_labels(self) -> int:
        """How many annotations the present model was not trained with."""
        labels, now = self.result.labels["label"], self.log.training_labels()
        rows = {row: now[name] for name in now if (row := self._row.get(name)) is not None}
        return sum(bool(self._imputed[row] or labels[row] != rows[row]) for row in rows)

    def _guarantee(self) -> dict[str, Any]:
        """What can be guaranteed now.

        Mistakes are shown when a draw is complete, which is a look. Whoever sees them earlier can
        stop at a pleasant moment.
        """
        audit = audit_of(self.log, self.result.digest)
        look = len(audit.labels) == len(audit.drawn)
        finder = GuaranteeFinder(self.result, self.log, look=look)
        known, rate = finder.evidence, self._goal
        found = finder.find(rate) if len(known.imputed) and len(known) else None
        needed = finder.more_audits(rate) if len(known.imputed) else 0
        return {
            "audits": len(known.audited),
            "gaps": known.gaps,
            "random": len(known.random),
            "discarded": known.discarded,
            "max_error_rate": rate,
            "confidence": CONFIDENCE,
            "mistakes": found.mistakes if found else 0,
            "bound": found.bound if found else 1.0,
            "selected": found.imputed if found else 0,
            "more": found.more_audits if found else needed,
        }

    def _imputed_label(self, row: int) -> dict[str, Any]:
        result, task = self.result, self.result.task
        known, of = result.base_model_predictions, result.labels.row(row, named=True)
        scale = getattr(task, "scale", 1.0)  # of deviations; confidences have none
        base = []
        for name, (label, part) in base_model_labels(result, row).items():
            code = np.array([int(label) if task.classes else label])
            base.append([name, task.display(code)[0], _rounded(part * scale)])
        confidence = _rounded(of["confidence"])
        others = {label: None for _, label, _ in base if label != of["label"]}
        near = known.nearest[known.rows == row].ravel().tolist()
        return {
            "label": of["label"],
            "confidence": confidence,
            "candidates": [(of["label"], confidence), *others.items()],
            "prediction": [of["prediction"], _rounded(of["prediction_confidence"])],
            "neighbours": [of["neighbours"], _rounded(of["neighbour_disagreement"])],
            "base_models": base,
            "near": [
                [one, self._ids[one], result.labels["label"][one], self._preview(one)]
                for one in near
            ],
        }

    def _given_label(self, row: int) -> dict[str, Any]:
        """A given label, and what the ensemble predicts of it out of fold."""
        held_out, task = self.result.held_out, self.result.task
        predicted = held_out.predictions["ensemble"][held_out.rows == row].astype(float)
        shown = {"given": self.result.labels["label"][row], "confidence": None}
        if not len(predicted):
            return shown
        shown |= {"held_out": True, "label": task.display(task.point(predicted))[0]}
        if not task.classes:
            return shown
        log_p = log_normalize(predicted)[0]
        order = np.argsort(-log_p, kind="stable")[:9].tolist()
        candidates = [[task.classes[code], _rounded(np.exp(log_p[code]))] for code in order]
        return shown | {"candidates": candidates, "confidence": candidates[0][1]}

    def _view(self, row: int) -> ExampleView:
        try:
            return ExampleView() if self._views is None else self._views.view(row)
        except (OSError, ValueError, IndexError, pl.exceptions.PolarsError) as error:
            return ExampleView(text=f"The example cannot be read ({error}).")

    def _preview(self, row: int) -> list[tuple[str, str]] | None:
        """The first cells, or the beginning of a text; None for an image."""
        view = self._view(row)
        if view.image:
            return None
        if view.text:
            return [("", view.text[:PREVIEW])]
        if not view.cells:
            return [("", self._ids[row])]
        long_first = sorted(view.cells, key=lambda pair: len(pair[1]) <= LONG_CELL)
        return [(column, cell[:PREVIEW]) for column, cell in long_first[:PREVIEW_CELLS]]

    def _found(self, search: str) -> Array:
        ids = self.result.labels.to_series(0).str.to_lowercase()
        found = ids.str.contains(search.lower(), literal=True).arg_true().to_list()
        return np.array([*found, *(self._views.search(search) if self._views else [])], dtype=int)

    def _told(self, one: Annotation) -> dict[str, Any]:
        """An annotation, with its row; `row` is None if the data do not have it."""
        return asdict(one) | {"row": self._row.get(one.id)}


def _check_entries(entries: Any) -> None:
    is_list = isinstance(entries, list) and all(isinstance(one, dict) for one in entries)
    if not is_list or not 0 < len(entries) <= MAX_ROWS:
        raise ValueError(f"A request must have a list of 1 to {MAX_ROWS} annotations.")


def _rounded(value: Any) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not math.isfinite(value) else round(float(value), 4)
