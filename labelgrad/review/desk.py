"""Everything the page asks for and hands in, as plain values: the server only carries them."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from labelgrad.fitting.audits import Audits
from labelgrad.fitting.decisions import FILE, Decision, Decisions, Label
from labelgrad.fitting.provenance import AUDIT
from labelgrad.guarantees.binomial import CONFIDENCE, audits_needed, check_share
from labelgrad.nearest import did_you_mean
from labelgrad.review.looks import Look, Looks, open_looks
from labelgrad.review.promise import AT_MOST, promise_state
from labelgrad.review.queue import Queue, Wanted
from labelgrad.review.run import NONE, Array, load_run
from labelgrad.review.training import Training, source_of_run

MOST_ROWS = 500  # of one page, or one decision about a page
GLANCE, FEW_CELLS = 240, 6  # characters of a text and cells of a row, where many are shown
LONG = 90  # characters of a cell that is read as a text
NEWEST = 10  # decisions that are listed to be changed
HOW = ("accept", "choose", "page", AUDIT)


class Refused(ValueError):  # noqa: N818 - it is told to a person, in one sentence
    """What cannot be done as things are, such as what somebody else was faster with."""


class Desk:
    """A run on somebody's desk: what to look at, what was decided, what is promised, trained anew.

    Several pages may work at one desk, and several desks in one run folder.
    """

    def __init__(
        self,
        folder: Path,
        *,
        data: Path | None = None,
        at_most: float = AT_MOST,
        confidence: float = CONFIDENCE,
        workers: int = 1,
    ):
        check_share("wrong_at_most", at_most)
        check_share("confidence", confidence)
        self._lock = threading.RLock()
        self._data, self._asked = data, (at_most, confidence)
        self.folder = folder
        self.training = Training(self._open, workers)
        self._open()
        self.decisions = Decisions(folder / FILE)

    def _open(self) -> None:
        """Read the run, at the beginning and after a training."""
        run = load_run(self.folder)
        source = source_of_run(run, self._data)
        looks: Looks | None = None
        problem = ""
        try:
            if source.data is None:
                raise ValueError("The run was fitted on arrays in memory, which are not kept.")
            looks = open_looks(run, Path(source.data))
            if run.names:
                looks.show(0)
        except (ValueError, OSError, ImportError) as error:
            looks, problem = None, str(error)
        with self._lock:
            self.run, self._source = run, source
            self._looks, self._problem = looks, problem
            self._queue = Queue(run)
            self._known: tuple[int, Array] | None = None
            self._promised: tuple[dict[str, str | None], dict[str, Any]] | None = None

    # What is shown

    def facts(self) -> dict[str, Any]:
        """What holds for the whole run."""
        run = self.run
        rows = run.unlabeled
        counts = [0] * len(run.classes)
        if not run.is_value:
            counts = np.bincount(run.label[rows], minlength=len(run.classes)).tolist()
        return {
            "run": run.digest,
            "title": Path(run.data).name or run.data,
            "folder": str(self.folder),
            "key": run.key,
            "task": run.task,
            "classes": list(run.classes),
            "counts": counts,
            "unlabeled": len(rows),
            "labeled": len(run.names) - len(rows),
            "witnesses": list(run.statements.witnesses) if run.statements else [],
            "problem": self._problem,
            "interrupted": run.interrupted,
        }

    def state(self) -> dict[str, Any]:
        """What changes with every decision."""
        with self._lock:
            run, revision, decided = self.run, *self._refreshed()
            open_rows = run.unlabeled[~decided[run.unlabeled]]
            sure = run.probability[open_rows].astype(np.float64)
            all_standing = list(self.decisions.all_standing())
            return {
                "run": run.digest,
                "revision": revision,
                "decided": int(decided[run.unlabeled].sum()),
                "open": len(open_rows),
                "expected_wrong": None if run.is_value else float((1 - sure).sum()),
                "decisions": len(all_standing),
                "changed": sum(
                    one.said is not None and one.label != one.said for one in all_standing
                ),
                "new": self._news(all_standing),
                "promise": None if run.is_value else self._promise(),
                "newest": [self._told(one) for one in self.decisions.newest(NEWEST)],
                "training": self.training.state,
            }

    def queue(
        self, wanted: Wanted, start: int, count: int, *, looks: bool = False
    ) -> dict[str, Any]:
        """A page of examples, by their places; with `looks` a glance at those without pictures."""
        if start < 0 or not 0 < count <= MOST_ROWS:
            raise ValueError(f"A page begins at 0 or later and has 1 to {MOST_ROWS} examples.")
        found = self._found(wanted.search) if wanted.search else None
        with self._lock:
            run, (_, decided) = self.run, self._refreshed()
            rows = self._queue.rows(wanted, decided, found)
            page = rows[start : start + count].tolist()
            told = [self._cell(row) for row in page]
        if looks:
            for cell, row in zip(told, page, strict=True):
                cell.append(self._glance(row))
        return {"run": run.digest, "total": len(rows), "rows": told}

    def to_audit(self) -> dict[str, Any]:
        """The rows that were drawn for an audit and have no answer, in the order of the draw."""
        with self._lock:
            return {"run": self.run.digest, "rows": self._unanswered()}

    def draw(self) -> dict[str, Any]:
        """Draw rows to audit if there is none left: as many as the promise needs at least."""
        with self._lock:
            if self.run.is_value:
                raise Refused("A promise counts wrong labels, and values are never quite right.")
            audits, run = Audits(self.folder), self.run
            if not self._unanswered():
                names = [run.names[row] for row in run.unlabeled.tolist()]
                left = len(set(names) - set(audits.drawn))
                if left:
                    most = audits_needed(self._asked[0], confidence=self._asked[1])
                    try:
                        audits.draw(names, min(most, left), seed=run.seed)
                    except OSError as error:
                        raise self._gone(error) from None
            return self.to_audit()

    def _unanswered(self) -> list[int]:
        run, audits = self.run, Audits(self.folder)
        rows = (run.where.get(name, NONE) for name in audits.drawn if name not in audits.answers)
        return [row for row in rows if row != NONE and run.place[row] != NONE]

    def _promise(self) -> dict[str, Any]:
        """What can be promised, worked out anew when an answer came."""
        looked_at = Audits(self.folder).looked_at
        if self._promised is None or self._promised[0] != looked_at:
            self._promised = looked_at, promise_state(self.run, looked_at, *self._asked)
        return self._promised[1]

    def _glance(self, row: int) -> list[tuple[str, str]] | None:
        """The first cells, or the beginning of a text; None of a picture."""
        look = self._look(row)
        if look.picture:
            return None
        if look.text:
            return [("", look.text[:GLANCE])]
        if not look.cells:
            return [("", self.run.names[row])]
        texts_first = sorted(look.cells, key=lambda pair: len(pair[1]) <= LONG)
        return [(column, cell[:GLANCE]) for column, cell in texts_first[:FEW_CELLS]]

    def _cell(self, row: int) -> list[Any]:
        """Place, name, label, probability, and the decision that stands: as little as will do."""
        run = self.run
        label = run.label[row] if run.place[row] != NONE else run.given[row]
        standing = self.decisions.standing(run.names[row])
        return [
            row,
            run.names[row],
            run.shown(label),
            _number(run.probability[row]),
            standing.label if standing else None,
            standing.number if standing else 0,
        ]

    def example(self, row: int, *, blind: bool = False) -> dict[str, Any]:
        """One example with what everybody says of it; `blind` without."""
        run = self.run
        if not 0 <= row < len(run.names):
            raise Refused(f"The run has {len(run.names)} examples, and none with the number {row}.")
        with self._lock:
            self.decisions.refresh()
            standing = self.decisions.standing(run.names[row])
        shown = {"row": row, "name": run.names[row], "run": run.digest} | self._look(row)._asdict()
        shown["seen"] = standing.number if standing else 0
        if blind:
            return shown | {"blind": True}
        shown["decision"] = self._told(standing) if standing else None
        shown["given"] = run.shown(run.given[row])
        if run.place[row] == NONE:
            return shown | self._out_of_fold(row)
        shown |= {
            "label": run.shown(run.label[row]),
            "probability": _number(run.probability[row]),
            "model": [run.shown(run.prediction[row]), _number(run.prediction_probability[row])],
            "neighbours": [run.shown(run.neighbours[row]), _number(run.apart[row])],
            "likely": [],
            "witnesses": [],
            "near": [],
        }
        said = run.statements
        if said is None:
            return shown
        at = run.place[row]
        pairs = zip(said.likely[at], said.probability[at], strict=True)
        voices = zip(said.witnesses, said.said[at], said.sure[at], strict=True)
        return shown | {
            "likely": [[run.shown(label), _number(p)] for label, p in pairs],
            "witnesses": [[name, run.shown(label), _number(p)] for name, label, p in voices],
            "near": [
                [one, run.names[one], run.shown(run.given[one])] for one in said.near[at].tolist()
            ],
        }

    def _out_of_fold(self, row: int) -> dict[str, Any]:
        """What the pool said of a given label that was hidden from it."""
        run, held = self.run, self.run.held_out
        at = np.flatnonzero(held.rows == row)
        if not len(at):
            return {"label": None, "probability": None, "likely": [], "witnesses": [], "near": []}
        said = held.said[at[0]]
        if run.is_value:
            likely, label, sure = [], float(said), None
        else:
            order = np.argsort(-said, kind="stable")[:9]
            likely = [[run.classes[k], float(np.exp(said[k]))] for k in order]
            label, sure = likely[0]
        hidden = {"label": label, "probability": sure, "likely": likely, "hidden": True}
        return hidden | {"witnesses": [], "near": []}

    def picture(self, row: int, side: int) -> bytes | None:
        """A picture, by the place of its example."""
        if self._looks is None or not 0 <= row < len(self.run.names):
            return None
        return self._looks.picture(row, side)

    def _look(self, row: int) -> Look:
        try:
            return Look() if self._looks is None else self._looks.show(row)
        except (OSError, ValueError, IndexError, StopIteration) as error:
            return Look(text=f"The example cannot be read ({error}).")

    def _found(self, search: str) -> Array:
        text = search.casefold()
        found = {row for row, name in enumerate(self.run.names) if text in name.casefold()}
        if self._looks is not None:
            found.update(self._looks.search(text))
        return np.fromiter(found, dtype=np.int64)

    # What is decided

    def decide(self, entries: Sequence[dict[str, Any]], *, how: str, by: str) -> dict[str, Any]:
        """Keep decisions; the answer comes when they are on the disk.

        Each entry has `row`, `label`, and `seen`: the decision that stood when it was looked at.
        One that somebody else has decided meanwhile is not taken, and told.
        """
        if how not in HOW or not 0 < len(entries) <= MOST_ROWS:
            raise ValueError(f"Decisions are 1 to {MOST_ROWS}, by one of {', '.join(HOW)}.")
        with self._lock:
            self.decisions.refresh()
            taken, others = [], []
            for entry in entries:
                decision = self._checked(entry, how, by)
                standing = self.decisions.standing(decision.name)
                if (standing.number if standing else 0) != entry.get("seen", 0):
                    others.append((entry["row"], standing))
                else:
                    taken.append(decision)
            if taken:
                self._write(taken, audit=how == AUDIT)
            return {
                "taken": [self._told(one) for one in taken and self._standing(taken)],
                "others": [[row, one and self._told(one)] for row, one in others],
                "state": self.state(),
            }

    def take_back(self, entries: Sequence[dict[str, Any]], *, by: str) -> dict[str, Any]:
        """Let decisions stand no more, if all of them are still those that were seen."""
        if not 0 < len(entries) <= MOST_ROWS:
            raise ValueError(f"1 to {MOST_ROWS} decisions can be taken back at once.")
        with self._lock:
            self.decisions.refresh()
            names = [self._name(entry.get("row")) for entry in entries]
            for name, entry in zip(names, entries, strict=True):
                standing = self.decisions.standing(name)
                if standing is None or standing.number != entry.get("seen"):
                    raise Refused(f"Somebody else has decided about {name} meanwhile.")
            standing_now = [self.decisions.standing(name) for name in names]
            audited = [one.name for one in standing_now if one is not None and one.how == AUDIT]
            try:
                if audited:
                    Audits(self.folder).answer(dict.fromkeys(audited))
                self.decisions.take_back(names, by)
            except OSError as error:
                raise self._gone(error) from None
            return {"state": self.state()}

    def begin_training(self) -> dict[str, Any]:
        """Train anew with all that was decided."""
        with self._lock:
            if not self.folder.is_dir():
                raise Refused(f"The run folder {self.folder} is gone; put it back.")
            if not self.run.interrupted and not self._news(list(self.decisions.all_standing())):
                raise Refused("Nothing was decided since the last training.")
            try:
                self.training.begin(self.folder, self._source)
            except ValueError as error:
                raise Refused(str(error)) from None
            return {"state": self.state()}

    def _write(self, taken: list[Decision], *, audit: bool) -> None:
        if not self.folder.is_dir():
            raise Refused(f"The run folder {self.folder} is gone: nothing was written.")
        try:
            if audit:
                Audits(self.folder).answer({one.name: str(one.label) for one in taken})
            self.decisions.add(taken)
        except OSError as error:
            raise self._gone(error) from None

    def _gone(self, error: OSError) -> Refused:
        return Refused(
            f"{self.decisions.path} could not be written ({error.strerror or error}): what was "
            f"decided before is kept, this is not."
        )

    def _checked(self, entry: dict[str, Any], how: str, by: str) -> Decision:
        run, row = self.run, entry.get("row")
        name, label = self._name(row), self._label(entry.get("label"))
        unlabeled = run.place[row] != NONE
        said = run.shown(run.label[row] if unlabeled else run.given[row])
        sure = _number(run.probability[row])
        return Decision(name, label, how, said, sure, run.digest, by)

    def _name(self, row: Any) -> str:
        if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row < len(self.run.names):
            raise ValueError(f"An example is a number below {len(self.run.names)}, got {row!r}.")
        return self.run.names[row]

    def _label(self, label: Any) -> Label:
        classes = self.run.classes
        if self.run.is_value:
            if isinstance(label, bool) or not isinstance(label, int | float):
                raise ValueError(f"A value must be a number, got {label!r}.")
            if not math.isfinite(label):
                raise ValueError(f"A value must be finite, got {label!r}.")
            return float(label)
        if not isinstance(label, str) or label not in classes:
            others = "a new class needs labels in the data and a new run."
            hint = did_you_mean(str(label), classes, others)
            raise ValueError(f"The run has no class {label!r}; {hint}")
        return label

    # What follows from it

    def _refreshed(self) -> tuple[int, Array]:
        """The number of lines, and which examples are decided about."""
        revision = self.decisions.refresh()
        if self._known is None or self._known[0] != revision:
            decided = np.zeros(len(self.run.names), dtype=bool)
            rows = (self.run.where.get(one.name) for one in self.decisions.all_standing())
            decided[[row for row in rows if row is not None]] = True
            self._known = revision, decided
        return self._known

    def _news(self, standing: Sequence[Decision]) -> int:
        """How many decisions the run was not trained with."""
        run = self.run
        return sum(
            run.shown(run.given[run.where[one.name]]) != one.label
            for one in standing
            if one.name in run.where and one.how != AUDIT
        )

    def _standing(self, taken: Sequence[Decision]) -> list[Decision]:
        found = (self.decisions.standing(one.name) for one in taken)
        return [one for one in found if one is not None]

    def _told(self, one: Decision) -> dict[str, Any]:
        found = {k: v for k, v in asdict(one).items() if k != "run"}
        return found | {"row": self.run.where.get(one.name)}


def _number(value: Any) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not math.isfinite(value) else round(float(value), 4)
