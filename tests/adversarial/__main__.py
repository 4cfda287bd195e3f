"""`python -m tests.adversarial --minutes 30`: all attacks in turn, counted in runs/torture.json.

`--part kills` does one of them, and `--part kills --seed 7` repeats one case.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # threads do not survive a fork
os.environ |= {"LABELGRAD_ENCODER": "none", "COLUMNS": "200"}

from tests.adversarial import folders, histories, http, kills, misuse, tables  # noqa: E402
from tests.adversarial.cases import Done, Part, prepare, run_case  # noqa: E402

PARTS = [*tables.PARTS, *folders.PARTS, *misuse.PARTS, *histories.PARTS, *kills.PARTS, *http.PARTS]
TURN = 60.0  # seconds for each part, again and again


def count(counts: dict[str, object], done: Done) -> None:
    """Add a case to the counts of its part."""
    words = counts.setdefault("outcomes", {})
    words[done.outcome] = words.get(done.outcome, 0) + 1
    counts["cases"] = counts.get("cases", 0) + 1
    counts["seconds"] = round(max(counts.get("seconds", 0.0), done.seconds), 1)
    counts["megabytes"] = max(counts.get("megabytes", 0), done.megabytes)
    counts["failures"] = counts.get("failures", 0) + (done.failure is not None)


def attack(part: Part, place: Path, saved: dict, until: float, most: int) -> int:
    """Cases of one part with seeds that were not tried, for some time; the number of failures."""
    counts, failures = saved["parts"].setdefault(part.name, {}), 0
    first = counts.get("cases", 0)
    for seed in itertools.count(first):
        done = run_case(part, seed, place)
        count(counts, done)
        saved["minutes"] += done.seconds / 60
        if done.failure is not None:
            failures += 1
            saved["failures"].append([part.name, seed, done.failure])
            print(f"FAILURE {part.name} --seed {seed}: {done.failure}", flush=True)
        if time.monotonic() > until or seed + 1 == first + most:
            break
    print(f"{part.name}: {counts}", flush=True)
    return failures


def main() -> int:
    """Go through the parts until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--part", action="append", choices=[part.name for part in PARTS])
    parser.add_argument("--seed", type=int, help="the case of the part to repeat")
    parser.add_argument("--cases", type=int, help="so many of each part, instead of minutes")
    parser.add_argument("--counts", type=Path, default=Path("runs/torture.json"))
    given = parser.parse_args()
    parts = [part for part in PARTS if not given.part or part.name in given.part]
    saved = {"minutes": 0.0, "parts": {}, "failures": []}
    if given.counts.is_file():
        saved = json.loads(given.counts.read_text())
    given.counts.parent.mkdir(parents=True, exist_ok=True)
    failures, ends = 0, time.monotonic() + 60 * given.minutes
    turn = min(TURN, 60 * given.minutes / len(parts))
    with tempfile.TemporaryDirectory(prefix="adversarial-") as folder:
        for part in itertools.cycle(parts) if given.cases is None else parts:
            place = Path(folder) / part.prepare.__name__
            if not place.exists():
                prepare(part, place)
            if given.seed is not None:
                print(run_case(part, given.seed, place))
                return 0
            until = math.inf if given.cases else min(ends, time.monotonic() + turn)
            failures += attack(part, place, saved, until, given.cases or 0)
            given.counts.write_text(json.dumps(saved, indent=1) + "\n")
            if given.cases is None and time.monotonic() >= ends:
                break
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
