"""JSON lines, written as a run goes."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from functools import cache
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


@cache
def revision() -> dict[str, str | None]:
    """Which code this is: the package's version, its own git revision or none, PyTorch's."""
    return {
        "labelgrad": labelgrad.__version__,
        "revision": _own_commit(Path(labelgrad.__file__).parent),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _own_commit(package: Path) -> str | None:
    """The commit of the repository whose top folder holds the package, and which tracks it.

    Installed below somebody else's repository, their commit says nothing about this code.
    """

    def git(*words: str) -> str:
        command = ["git", "-C", str(package), *words]
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return found.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        if Path(git("rev-parse", "--show-toplevel")).resolve() != package.parent.resolve():
            return None
        return git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return None
