"""A few cases of the attacks; `make torture` goes on for as long as it is asked to."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adversarial.cases import Finding, Part, Tally, only_inside, run_cases

ROOT = Path(__file__).parents[1]
FEW = {
    "damage": 15,
    "crafted": 15,
    "fuzzed inputs": 100,
    "faults of a mapped table": 12,
    "kills of a mapped table": 2,
}


def torture(counts, *options):
    program = [sys.executable, "-m", "tests.adversarial", "--counts", str(counts), *options]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    return done, json.loads(counts.read_text())


@pytest.mark.slow
def test_nothing_is_found_in_a_few_cases_of_each_part(tmp_path):
    few = [word for part, count in FEW.items() for word in ("--part", f"{part}={count}")]
    done, counts = torture(tmp_path / "counts.json", *few)
    assert done.returncode == 0, done.stdout
    assert {part: found["cases"] for part, found in counts["parts"].items()} == FEW


# The harness itself must notice


def broken(seed, draw, place):
    if seed == 1:
        raise Finding("one")
    if seed == 2:
        os._exit(7)
    if seed == 3:
        while True:
            pass
    if seed == 4:
        raise KeyError("four")
    if seed == 5:
        with only_inside(place / "in"):
            (place / "out.txt").write_text("outside")
    return "fine" if draw.random() >= 0 else "never"


def test_a_finding_a_death_a_hang_an_error_and_a_file_outside_are_told_by_their_seeds(tmp_path):
    part = Part("broken", lambda place: None, broken, batch=4, most_seconds=0.3)
    done = list(run_cases(part, tmp_path, range(7)))
    assert [each.seed for each in done] == list(range(7))
    found = {each.seed: each.finding for each in done if each.finding}
    assert found.keys() == {1, 2, 3, 4, 5}
    words = {1: "one", 2: "ended", 3: "hung", 4: "KeyError", 5: "outside of the folder"}
    assert all(word in found[seed] for seed, word in words.items())


def test_counts_add_up_over_runs(tmp_path):
    part = Part("broken", lambda place: None, broken)
    for _ in range(2):
        tally = Tally(tmp_path / "counts.json")
        first = tally.next_seed("broken")
        for each in run_cases(part, tmp_path, range(first, first + 1)):
            tally.add("broken", each)
        tally.save()
    tally = Tally(tmp_path / "counts.json")
    assert tally.parts["broken"]["cases"] == 2
    assert [each["seed"] for each in tally.findings] == [1]
    assert random.Random("broken 1").random() == random.Random("broken 1").random()
