"""Retraining beside the page: `labelgrad fit --resume` in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labelgrad.auto.queue import codes
from labelgrad.auto.result import Result
from labelgrad.auto.task import Array

MAX_CHANGED = 200  # labels that are listed
COMMAND = [sys.executable, "-m", "labelgrad"]
PROGRESS = re.compile(r"(.+): (\d+) of (\d+)")


class Retraining:
    """At most one training at a time, watched by a thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread()
        self._state: dict[str, Any] = {"state": "none"}

    @property
    def state(self) -> dict[str, Any]:
        """How far it is, or how the last one ended."""
        return dict(self._state)

    def start(self, folder: Path, data: str, finished: Callable[[], dict[str, Any]]) -> None:
        """Start one; `finished` is called after success, and gives what is told of it."""
        if self._state["state"] == "running":
            raise ValueError("A training is running; wait for its end.")
        self._state = {"state": "running", "stage": "starting", "done": 0, "total": 1}
        self._process = subprocess.Popen(
            [*COMMAND, "fit", data, "--out", str(folder), "--resume"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        watching = (self._process, finished)
        self._thread = threading.Thread(target=self._watch, args=watching, daemon=True)
        self._thread.start()

    def _watch(
        self, process: subprocess.Popen[str], finished: Callable[[], dict[str, Any]]
    ) -> None:
        errors: list[str] = []
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            reader = threading.Thread(target=errors.extend, args=(process.stderr,), daemon=True)
            reader.start()
            for line in process.stdout:
                if found := PROGRESS.fullmatch(line.strip()):
                    stage, done, total = found.groups()
                    self._state |= {"stage": stage, "done": int(done), "total": int(total)}
            reader.join()
        try:
            if process.returncode:
                reason = errors[-1].strip() if errors else f"exit code {process.returncode}"
                raise ValueError(reason.removeprefix("labelgrad: "))
            self._state = {"state": "done", **finished()}
        except Exception as error:  # the page shows whatever went wrong
            self._state = {"state": "failed", "error": str(error)}

    def stop(self) -> None:
        """End what is running; its checkpoints stay."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._thread.join()


def compare_results(before: Result, after: Result) -> dict[str, Any]:
    """Scores of both results on the labels that both held out, and the imputed labels that differ.

    Labels that were annotated in between are left out of the error and the loss: they were chosen
    because they are hard. Few given labels show little; the expected error rate of the labels that
    both have imputed, by their confidences, shows more.
    """
    shared = np.intersect1d(before.held_out.rows, after.held_out.rows)
    scores = [_scores(result, shared) for result in (before, after)]
    sources = [(one.labels["source"] == "imputed").to_numpy() for one in (before, after)]
    rows = np.flatnonzero(sources[0] & sources[1])
    was, now = ([*one.labels["label"][rows]] for one in (before, after))
    if before.task.classes:
        differs = np.array([a != b for a, b in zip(was, now, strict=True)], dtype=bool)
        for score, result in zip(scores, (before, after), strict=True):
            confidence = result.labels["confidence"].to_numpy()[rows]
            score["expected_error"] = float(1 - confidence.mean()) if len(rows) else None
    else:
        apart = codes(before.labels["label"])[rows] - codes(after.labels["label"])[rows]
        differs = np.abs(apart) > (scores[0]["error"] or 0.0)
    changed = np.flatnonzero(differs).tolist()
    return {
        "held_out": len(shared),
        "before": scores[0],
        "after": scores[1],
        "compared": len(rows),
        "changed": len(changed),
        "examples": [[int(rows[i]), was[i], now[i]] for i in changed[:MAX_CHANGED]],
    }


def _scores(result: Result, rows: Array) -> dict[str, float | None]:
    held_out, task = result.held_out, result.task
    mine = np.isin(held_out.rows, rows)
    found: dict[str, float | None] = dict.fromkeys(("error", "loss", "expected_error"))
    if mine.any():
        y, predicted = held_out.y[mine], held_out.predictions["ensemble"][mine].astype(float)
        found["error"] = task.error(predicted, y)
        if task.classes:
            found["loss"] = float(task.losses(predicted, y).mean())
    return found
