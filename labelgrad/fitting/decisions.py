"""What a person decided about examples, one line of a file each, on the disk before the next.

The file is only ever added to: another label for the same example is another line, and so is taking
one back. A last line that was cut off, because the process or the machine died, is ignored.
Several processes may write to one file and see what the others wrote.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labelgrad.files import append_lines
from labelgrad.fitting.provenance import AUDIT

FILE = "decisions.jsonl"
Label = str | float  # a class, or a value


@dataclass(frozen=True)
class Decision:
    """The label a person gave an example, and what the run had said when they did."""

    name: str
    label: Label
    how: str  # "accept", "choose", "page", "csv" or AUDIT
    said: Label | None = None  # the run's own label, and its probability
    probability: float | None = None
    run: str = ""  # the result it was said by: a digest of its summary
    by: str = ""  # who decided: one page, open in one browser
    time: float = 0.0  # seconds since 1970
    number: int = 0  # the line of the file


class Decisions:
    """The decisions in a file: those that stand, and all that led to them.

    >>> from tempfile import mkdtemp
    >>> kept = Decisions(Path(mkdtemp(), FILE))
    >>> _ = kept.add([Decision("1.png", "cat", "accept"), Decision("2.png", "dog", "choose")])
    >>> _ = kept.add([Decision("1.png", "cow", "choose")])
    >>> kept.labels()
    {'1.png': 'cow', '2.png': 'dog'}
    >>> _ = kept.take_back(["1.png"])
    >>> Decisions(kept.path).labels()
    {'1.png': 'cat', '2.png': 'dog'}
    """

    def __init__(self, path: Path):
        self.path = path
        self._read, self._lines = 0, 0  # bytes and lines that are known
        self._file: tuple[int, int] | None = None  # which file they are of
        self._of: dict[str, list[Decision]] = {}  # the newest of each example last
        self.refresh()

    def refresh(self) -> int:
        """Read what was added since, by whomever; how many lines there are now."""
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                if (found.st_dev, found.st_ino) != self._file or found.st_size < self._read:
                    self._read, self._lines, self._of = 0, 0, {}
                    self._file = found.st_dev, found.st_ino
                file.seek(self._read)
                whole = file.read()
        except FileNotFoundError:
            self._read, self._lines, self._of, self._file = 0, 0, {}, None
            return 0
        whole = whole[: whole.rfind(b"\n") + 1]  # what is cut off may yet be finished
        for line in whole.splitlines():
            self._lines += 1
            self._take(line)
        self._read += len(whole)
        return self._lines

    def _take(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            name = found["name"]
            if found.get("take_back"):
                standing = self._of.get(name, [])
                if standing:
                    standing.pop()
            else:
                decision = Decision(**found, number=self._lines)
                self._of.setdefault(decision.name, []).append(decision)
        except (ValueError, KeyError, TypeError):
            return  # of another version, or by another hand

    def add(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Write decisions; when this returns they are on the disk."""
        lines: list[dict[str, Any]] = []
        for decision in decisions:
            line = asdict(decision)
            del line["number"]
            line["time"] = decision.time or round(time.time(), 3)
            lines.append({key: value for key, value in line.items() if value not in (None, "")})
        self._append(lines)
        return [self._of[decision.name][-1] for decision in decisions]

    def take_back(self, names: Sequence[str], by: str = "") -> None:
        """Let the newest decision about each of these stand no more; the one before does again."""
        now = round(time.time(), 3)
        self._append([{"name": name, "take_back": True, "by": by, "time": now} for name in names])

    def _append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        append_lines(self.path, [json.dumps(line, ensure_ascii=False) for line in lines])
        self.refresh()

    def standing(self, name: str) -> Decision | None:
        """The newest decision about an example that was not taken back."""
        of = self._of.get(name)
        return of[-1] if of else None

    def all_standing(self) -> Iterator[Decision]:
        """The newest decision about each example that has one."""
        return (of[-1] for of in self._of.values() if of)

    def newest(self, most: int) -> list[Decision]:
        """The newest decisions that stand, the newest first."""
        return sorted(self.all_standing(), key=lambda one: -one.number)[:most]

    def labels(self) -> dict[str, Label]:
        """The label of each example that a decision stands about."""
        return {one.name: one.label for one in self.all_standing()}

    def corrections(self) -> dict[str, Label]:
        """Those to train with: audits are left out, so that they can go on judging."""
        return {one.name: one.label for one in self.all_standing() if one.how != AUDIT}

    def __len__(self) -> int:
        return sum(1 for _ in self.all_standing())
