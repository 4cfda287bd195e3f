"""JSON lines, written as a run goes."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import labelgrad
from labelgrad.training.errors import CheckpointError


class Log:
    """One JSON object a line: first what the run is, then its records as they come.

    >>> log = Log(None)
    >>> log.begin({"seed": 0})
    >>> log.append({"step": 100})
    >>> log.records
    [{'step': 100}]
    """

    def __init__(self, path: Path | None):
        self.path, self.position = path, 0
        self.records: list[dict[str, Any]] = []

    def begin(self, head: dict[str, Any]) -> None:
        """Start the file with what the run is."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(b"")
        self._write(head)

    def append(self, record: dict[str, Any]) -> None:
        """Add one record."""
        self._write(record)
        self.records.append(record)

    def resume(self, position: int) -> None:
        """Go on from where a checkpoint left the file; what came after it will come again."""
        if self.path is None:
            return
        if not self.path.exists() or self.path.stat().st_size < position:
            raise CheckpointError(
                f"{self.path} must hold the first {position} bytes of this run's record, and does "
                f"not; put it back, or use another folder."
            )
        os.truncate(self.path, position)
        self.position = position
        lines = self.path.read_text().splitlines()[1:]
        self.records = [json.loads(line) for line in lines]

    def _write(self, record: dict[str, Any]) -> None:
        if self.path is None:
            return
        data = (json.dumps(record) + "\n").encode()
        try:
            with self.path.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise CheckpointError(
                f"{self.path} could not be written ({error}); make room and resume the run."
            ) from error
        self.position += len(data)


def revision() -> dict[str, str]:
    """Which code this is: the package's version, its git revision where it has one, PyTorch's."""
    here = Path(labelgrad.__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        commit = found.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        commit = "unknown"
    return {
        "labelgrad": labelgrad.__version__,
        "revision": commit,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
