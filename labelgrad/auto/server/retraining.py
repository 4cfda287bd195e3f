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
import polars as pl

from labelgrad.auto.result import Result
from labelgrad.auto.task import Array

MAX_CHANGED = 200  # labels that are listed
COMMAND = [sys.executable, "-m", "labelgrad"]
ERROR = "labelgrad: "  # before the sentence of the command about its failure
PROGRESS = re.compile(r"(.+): (\d+) of (\d+)")


class Retraining:
    """At most one training at a time, watched by a thread."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"state": "none"}  # how far it is, or how the last one ended
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread()

    def start(self, folder: Path, data: str, finished: Callable[[], dict[str, Any]]) -> None:
        """Start one; `finished` is called after success, and gives what is told of it."""
        if self.state["state"] == "running":
            raise ValueError("A training is running; wait for its end.")
        self.state = {"state": "running", "stage": "starting", "done": 0, "total": 1}
        command = [*COMMAND, "fit", data, "--out", str(folder), "--resume"]
        self._thread = threading.Thread(target=self._run, args=(command, finished), daemon=True)
        self._thread.start()

    def _run(self, command: list[str], finished: Callable[[], dict[str, Any]]) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            error = "it has ended without a word"
            with self._process as process:
                for line in process.stdout or ():
                    if found := PROGRESS.fullmatch(line.strip()):
                        stage, done, total = found.groups()
                        self.state |= {"stage": stage, "done": int(done), "total": int(total)}
                    elif line.startswith(ERROR):
                        error = line.removeprefix(ERROR).strip()
            if process.returncode:
                raise ValueError(f"{error} (exit code {process.returncode})")
            self.state = {"state": "done", **finished()}
        except Exception as error:  # the page shows whatever went wrong
            self.state = {"state": "failed", "error": str(error)}

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
    imputed = [(one.labels["source"] == "imputed").to_numpy() for one in (before, after)]
    rows = np.flatnonzero(imputed[0] & imputed[1])
    scores = [_scores(one, shared, rows) for one in (before, after)]
    was, now = (one.labels["label"][rows] for one in (before, after))
    if before.task.classes:  # the later run may have more of them
        differs = was.cast(pl.String) != now.cast(pl.String)
    else:
        differs = (was - now).abs() > (scores[0]["error"] or 0.0)
    changed = differs.arg_true().to_list()
    return {
        "held_out": len(shared),
        "before": scores[0],
        "after": scores[1],
        "compared": len(rows),
        "changed": len(changed),
        "examples": [[int(rows[i]), was[i], now[i]] for i in changed[:MAX_CHANGED]],
    }


def _scores(result: Result, held_out: Array, imputed: Array) -> dict[str, float | None]:
    task, mine = result.task, np.isin(result.held_out.rows, held_out)
    found: dict[str, float | None] = dict.fromkeys(("error", "loss", "expected_error"))
    if mine.any():
        y = result.held_out.y[mine]
        predicted = result.held_out.predictions["ensemble"][mine].astype(float)
        found["error"] = task.error(predicted, y)
        found["loss"] = float(task.losses(predicted, y).mean()) if task.classes else None
    if task.classes and len(imputed):
        confidence = result.labels["confidence"].to_numpy()[imputed]
        found["expected_error"] = float(1 - confidence.mean() * result.held_out.support())
    return found
