"""Cases in forked processes: milliseconds each, watched, and every finding with its seed."""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

LONGEST = 60.0  # seconds a case may take
PATIENCE = 5  # times as long, where a machine is so busy that a case got less than half of it
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.symlink", "os.link")


class Finding(AssertionError):  # noqa: N818 - what it is called in every count
    """Something that was promised, and did not hold."""


class Done(NamedTuple):
    """What came of a case: a word for the counts, and a finding if there is one."""

    seed: int
    outcome: str
    finding: str | None
    seconds: float
    megabytes: int


@dataclass(frozen=True)
class Part:
    """One kind of attack; `case` gets its seed, random numbers and a folder that is prepared.

    It gives a word for what came of it, or raises `Finding`.
    """

    name: str
    prepare: Callable[[Path], None]
    case: Callable[[int, random.Random, Path], str]
    folder: str = ""  # where it is prepared, if not in one of its own name
    batch: int = 100  # cases in one forked process
    share: float = 1.0  # of the time
    most_seconds: float = LONGEST
    most_megabytes: int | None = None


def run_cases(part: Part, place: Path, seeds: Sequence[int]) -> Iterator[Done]:
    """The cases of these seeds, one batch in one forked process; one that dies costs one case."""
    left = list(seeds)
    while left:
        batch, left = left[: part.batch], left[part.batch :]
        while batch:
            for done in _in_a_child(part, place, batch):
                yield done
                batch = batch[1:]


def _in_a_child(part: Part, place: Path, seeds: Sequence[int]) -> Iterator[Done]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setpgid(0, 0)
            _work(part, place, seeds, writing)
        finally:
            os._exit(0)
    os.close(writing)
    began = time.monotonic()
    try:
        with os.fdopen(reading, "rb") as lines:
            for seed in seeds:
                ready = _waited_for(lines, child, part.most_seconds)
                line = lines.readline() if ready else b""
                if not line:
                    said = "it ended all by itself" if ready else "it hung"
                    yield Done(seed, "lost", said, time.monotonic() - began, 0)
                    return
                yield Done(*json.loads(line))
                began = time.monotonic()
    finally:
        _kill_group(child)
        os.waitpid(child, 0)


def _waited_for(lines: Any, child: int, seconds: float) -> bool:
    """Whether a line came in time; a child that got no share of a busy machine may wait longer."""
    before = _worked(child)
    for _ in range(PATIENCE):
        if select.select([lines], [], [], seconds)[0]:
            return True
        if _worked(child) - before > seconds / 2:
            return False
    return False


def _worked(child: int) -> float:
    """The seconds of work of a child and of those that it waited for."""
    times = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def _kill_group(child: int) -> None:
    """End a child and what it has forked; it leads a group of its own."""
    for end in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            end(child, signal.SIGKILL)


def _work(part: Part, place: Path, seeds: Sequence[int], writing: int) -> None:
    with os.fdopen(writing, "wb", buffering=0) as lines:
        for seed in seeds:
            began, outcome, finding = time.monotonic(), "finding", None
            try:
                outcome = part.case(seed, random.Random(f"{part.name} {seed}"), place)
            except Finding as error:
                finding = str(error)
            except BaseException:
                finding = traceback.format_exc()
            seconds = time.monotonic() - began
            megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            if part.most_megabytes is not None and megabytes > part.most_megabytes:
                finding = finding or f"it took {megabytes} MB"
            done = Done(seed, outcome, finding, round(seconds, 3), megabytes)
            lines.write(json.dumps(done).encode() + b"\n")
            if part.most_megabytes is not None and megabytes > part.most_megabytes:
                return  # the next ones would be blamed for it


class Tally:
    """The counts of all runs so far, in a JSON file that every run adds to."""

    def __init__(self, path: Path):
        self.path = path
        self.parts: dict[str, dict[str, Any]] = {}
        self.findings: list[dict[str, Any]] = []
        self.minutes = 0.0
        if path.is_file():
            kept = json.loads(path.read_text())
            self.parts, self.findings = kept["parts"], kept["findings"]
            self.minutes = kept["minutes"]

    def next_seed(self, part: str) -> int:
        """The first seed that was not tried."""
        return int(self.parts.get(part, {}).get("cases", 0))

    def add(self, part: str, done: Done) -> None:
        """Count a case."""
        counts = self.parts.setdefault(part, {"cases": 0, "outcomes": {}, "findings": 0})
        counts["cases"] += 1
        counts["outcomes"][done.outcome] = counts["outcomes"].get(done.outcome, 0) + 1
        counts["longest"] = max(counts.get("longest", 0), round(done.seconds, 1))
        counts["megabytes"] = max(counts.get("megabytes", 0), done.megabytes)
        if done.finding is not None:
            counts["findings"] += 1
            self.findings.append({"part": part, "seed": done.seed, "said": done.finding})

    def save(self) -> None:
        """Write it down, whole."""
        half = self.path.with_suffix(".partial")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"minutes": self.minutes, "parts": self.parts, "findings": self.findings}
        half.write_text(json.dumps(kept, indent=1) + "\n")
        half.replace(self.path)

    def lines(self) -> list[str]:
        """The counts as a person reads them."""
        found = []
        for name, counts in self.parts.items():
            each = ", ".join(f"{word} {n}" for word, n in sorted(counts["outcomes"].items()))
            found.append(
                f"{name}: {counts['cases']} cases ({each}), {counts['findings']} findings, "
                f"longest {counts['longest']} s, at most {counts['megabytes']} MB"
            )
        return [*found, f"in all {self.minutes:.0f} minutes, {len(self.findings)} findings"]


def waited(child: int, seconds: float = LONGEST) -> int | None:
    """The exit code of a forked child, or none if it had to be killed."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


_inside: list[str] = []  # where a case may write; the hook cannot be taken away again
_outside: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _inside or not (event in CHANGES or event == "open"):
        return
    path = arguments[0]
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        if not (set(mode or "") & set("wax+") or (mode is None and flags & WRITES)):
            return
    if isinstance(path, str | bytes | os.PathLike):
        real = os.path.realpath(os.fsdecode(path))
        if not real.startswith((*_inside, "/dev/", "/proc/")):
            _outside.append(f"{event} {real}")


@contextmanager
def only_inside(place: Path) -> Iterator[None]:
    """A finding if anything is written, moved or removed outside of a folder."""
    if not getattr(_watch, "on", False):
        sys.addaudithook(_watch)
        _watch.on = True  # type: ignore[attr-defined]
    _inside.append(os.path.realpath(place))
    _outside.clear()
    try:
        yield
    finally:
        _inside.pop()
    if _outside:
        raise Finding(f"outside of the folder: {_outside[0]}")
