"""Finished work as JSON lines: whole trials, added once, never run again.

Beside `results.jsonl` a folder holds `commands.jsonl`: for every call that trained something, the
exact command, the revision of the code, and the settings. A setting that was written down once can
not change within a folder; a new one may join it, such as those of one method more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from labelgrad.files import write_whole
from labelgrad.training.checkpoint import revision

Line = dict[str, Any]
RESULTS, COMMANDS = "results.jsonl", "commands.jsonl"


class Results:
    """The lines of a folder's `results.jsonl`, and a way to add to them.

    >>> from tempfile import mkdtemp
    >>> results = Results(mkdtemp(), {"steps": 10})
    >>> results.add([{"seed": 0, "loss": 1.5}])
    >>> results.lines, results.has(seed=0)
    ([{'seed': 0, 'loss': 1.5}], True)
    """

    def __init__(self, folder: str | Path, settings: Line):
        self.folder = Path(folder)
        self.settings: Line = json.loads(json.dumps(settings))  # as it will be read back
        self.path, self._begun = self.folder / RESULTS, self.folder / COMMANDS
        for earlier in _read(self._begun):
            self._check(earlier["settings"])
        self.lines = _read(self.path)

    def begin(self, command: str) -> None:
        """Write down which command of which revision is about to add lines."""
        call = {"command": command, **revision(), "settings": self.settings}
        _write(self._begun, [*_read(self._begun), call])

    def add(self, lines: Iterable[Line]) -> None:
        """Add all lines of a finished trial: after a kill at any moment, all are there or none."""
        self.lines = [*self.lines, *lines]
        _write(self.path, self.lines)

    def has(self, **wanted: Any) -> bool:
        """Whether a line with these values is there."""
        return any(wanted.items() <= line.items() for line in self.lines)

    def _check(self, earlier: Line) -> None:
        for name in sorted(earlier.keys() & self.settings.keys()):
            if earlier[name] != self.settings[name]:
                raise ValueError(
                    f"{self.folder} holds results with {name} = {earlier[name]}, and now it is "
                    f"{self.settings[name]}; use another folder with --out."
                )


def _read(path: Path) -> list[Line]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _write(path: Path, lines: Sequence[Line]) -> None:
    write_whole(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
