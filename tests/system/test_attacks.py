"""Some cases of every attack; `make torture` has as many as there is time for."""

import json
import subprocess
import sys

import pytest

from tests.command import ROOT

QUICK = ("fuzzed data", "damaged runs", "crafted runs", "crafted annotations", "misused commands")
QUICK += ("crafted encoders", "older folders", "requests")


def attacked(tmp_path, parts, cases):
    """The counts of some attacks, all of which must be survived."""
    chosen = [word for part in parts for word in ("--part", part)]
    counts = ["--cases", str(cases), "--counts", str(tmp_path / "counts.json")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.adversarial", *chosen, *counts],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((tmp_path / "counts.json").read_text())["parts"]


def test_one_case_of_each_attack_is_survived(tmp_path):
    found = attacked(tmp_path, QUICK, 1)
    assert {name: counts["cases"] for name, counts in found.items()} == dict.fromkeys(QUICK, 1)


@pytest.mark.slow
def test_six_kills_are_survived_to_the_same_bytes(tmp_path):
    assert attacked(tmp_path, ["kills"], 2)["kills"]["outcomes"] == {"3 kills": 2}


@pytest.mark.slow
def test_full_disks_and_crafted_state_are_survived(tmp_path):
    found = attacked(tmp_path, ["full disks", "crafted state"], 4)
    assert found["full disks"]["failures"] == 0
