"""`python -m tests.adversarial --minutes 30`: all attacks in turn, counted.

`--part damage` does one of them, `--part damage=50` fifty cases of it, and `--part damage --seed 7`
does one case again, in this process, where its error can be looked at.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # threads do not survive a fork
os.environ["LABELGRAD_ENCODER"] = "none"  # an encoder keeps its features in a folder for all runs

from tests.adversarial import crafted, damage, faults, fuzz, kills, misuse  # noqa: E402
from tests.adversarial.cases import Part, Tally, run_cases  # noqa: E402
from tests.adversarial.targets import settle  # noqa: E402

PARTS = [
    damage.PART,
    crafted.PART,
    fuzz.PART,
    misuse.PART,
    *faults.PARTS,
    *kills.PARTS,
]


def attack(part: Part, place: Path, tally: Tally, *, cases: int, until: float) -> None:
    """Some cases of one part, with seeds that were not tried; as many as there is time for."""
    place.mkdir(parents=True, exist_ok=True)
    home = Path.cwd()
    part.prepare(place)
    os.chdir(home)
    first = tally.next_seed(part.name)
    for done in run_cases(part, place, range(first, first + cases)):
        tally.add(part.name, done)
        if done.finding is not None:
            print(f"FINDING {part.name} seed {done.seed}: {done.finding}", flush=True)
        if time.monotonic() > until:
            break


def main() -> int:
    """Go through the parts until the time is over, and say what was done."""
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--part", action="append", help="only this part; may be said again")
    parser.add_argument("--seed", type=int, help="the case of the part to replay")
    parser.add_argument("--counts", type=Path, default=Path("runs/torture.json"))
    given = parser.parse_args()
    asked = dict(part.partition("=")[::2] for part in given.part or [])
    strange = set(asked) - {part.name for part in PARTS}
    if strange:
        parser.error(f"--part is one of {', '.join(part.name for part in PARTS)}")
    parts = [part for part in PARTS if not asked or part.name in asked]
    settle()
    with tempfile.TemporaryDirectory(prefix="adversarial-") as folder:
        if given.seed is not None:
            return _replay(parts[0], Path(folder), given.seed)
        tally = Tally(given.counts.resolve())
        began, before = time.monotonic(), tally.minutes
        few = any(asked.values())
        ends = float("inf") if few else began + 60 * given.minutes
        for part in itertools.cycle(parts) if not few else parts:
            turn = min(ends, float("inf") if few else time.monotonic() + 60 * part.share)
            place = Path(folder) / (part.folder or part.name).replace(" ", "-")
            attack(part, place, tally, cases=int(asked.get(part.name) or 10**6), until=turn)
            tally.minutes = before + (time.monotonic() - began) / 60
            tally.save()
            print(next(line for line in tally.lines() if line.startswith(part.name)), flush=True)
            if time.monotonic() > ends:
                break
    print("\n".join(tally.lines()))
    return 1 if tally.findings else 0


def _replay(part: Part, place: Path, seed: int) -> int:
    home = Path.cwd()
    part.prepare(place)
    os.chdir(home)
    print(part.case(seed, random.Random(f"{part.name} {seed}"), place))
    return 0


if __name__ == "__main__":
    sys.exit(main())
