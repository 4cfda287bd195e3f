"""Training anew beside the page: begun by a button, watched, and what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labelgrad.fitting.run_files import BEFORE
from labelgrad.fitting.source import Source, load_source
from labelgrad.review.run import NONE, FinishedRun, load_run

MOST_CHANGED = 200  # labels that are named


class Training:
    """At most one training at a time, in a process of its own."""

    def __init__(self, when_done: Callable[[], None], workers: int = 1):
        self._when_done, self._workers = when_done, workers
        self._process: subprocess.Popen[str] | None = None
        self._watching = threading.Thread()
        self._state: dict[str, Any] = {"state": "none"}

    @property
    def state(self) -> dict[str, Any]:
        """How far it is, or what came of the last one."""
        return dict(self._state)

    def begin(self, folder: Path, source: Source) -> None:
        """Begin one; a ValueError says why there can be none."""
        if self._state["state"] == "running":
            raise ValueError("A training is under way; wait for its end.")
        if source.data is None or source.in_memory:
            what = " and ".join(source.in_memory) or "data"
            raise ValueError(
                f"The run was fitted in Python with {what} in memory; train it anew there, by "
                f"labelgrad.fit(..., out={str(folder)!r}, resume=True)."
            )
        if not Path(source.data).exists():
            raise ValueError(f"The data are not at {source.data} any more; say where by --data.")
        self._state = {"state": "running", "name": "starting", "done": 0, "total": 1}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "labelgrad.review.train"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        asked = {"folder": str(folder), "data": source.data, "options": source.options}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked | {"workers": self._workers}) + "\n")
        self._process.stdin.flush()
        self._watching = threading.Thread(target=self._watch, args=(self._process, folder))
        self._watching.daemon = True
        self._watching.start()

    def _watch(self, process: subprocess.Popen[str], folder: Path) -> None:
        end: dict[str, Any] = {"error": "The training ended without a word; try labelgrad fit."}
        with process:  # closes what it was told and heard by
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line)
                if "name" in told:
                    self._state = {"state": "running"} | told
                else:
                    end = told
        try:
            if "error" not in end:
                self._when_done()
                end |= before_and_after(folder)
        except (OSError, ValueError) as error:
            end = {"error": str(error)}
        self._state = {"state": "failed" if "error" in end else "done"} | end

    def end(self) -> None:
        """Stop what is under way; its checkpoints stay."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._watching.join()


def source_of_run(run: FinishedRun, data: Path | None = None) -> Source:
    """Where the data are and how they were read; older runs say only a part of it."""
    found = load_source(run.folder)
    if found is None:
        options = {"target": run.preprocessing.get("target"), "task": run.task}
        options["size"] = run.preprocessing.get("size")
        place = Path(run.data).resolve()
        found = Source(str(place), {name: value for name, value in options.items() if value})
    if data is None:
        return found
    return Source(str(data.resolve()), found.options, found.in_memory)


def before_and_after(folder: Path) -> dict[str, Any]:
    """Error and loss on the given labels that both results had hidden, and the labels that changed.

    Each label was hidden from the pool that is judged by it. Labels that were decided in between
    are left out: they were chosen because they are hard. So few given labels show little; what is
    expected to be wrong of the labels that both have imputed, by their probabilities, shows more.
    """
    before, after = load_run(folder / BEFORE), load_run(folder)
    shared = np.intersect1d(before.held_out.rows, after.held_out.rows)
    was, now = (_judged(run, shared) for run in (before, after))
    both = (before.place != NONE) & (after.place != NONE)
    with np.errstate(invalid="ignore"):  # values change by a little always: by an error is news
        apart = abs(before.label - after.label) > ((was["error"] or 0.0) if before.is_value else 0)
    changed = np.flatnonzero(both & apart)
    for run, judged in ((before, was), (after, now)):
        known = both.any() and not run.is_value
        judged["expected_wrong"] = float(1 - run.probability[both].mean()) if known else None
    return {
        "judged": len(shared),
        "before": was,
        "after": now,
        "compared": int(both.sum()),
        "changed": len(changed),
        "examples": [
            [int(row), before.shown(before.label[row]), after.shown(after.label[row])]
            for row in changed[:MOST_CHANGED]
        ],
    }


def _judged(run: FinishedRun, rows: Any) -> dict[str, float | None]:
    held = run.held_out
    mine = np.isin(held.rows, rows)
    if not mine.any():
        return {"error": None, "loss": None}
    y, said = held.y[mine], held.said[mine]
    if run.is_value:
        return {"error": float(np.sqrt(((said - y) ** 2).mean())), "loss": None}
    return {
        "error": float((said.argmax(1) != y).mean()),
        "loss": float(-said[np.arange(len(y)), y].mean()),
    }
