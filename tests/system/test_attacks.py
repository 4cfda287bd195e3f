"""Two cases of every attack; `make torture` has as many as there is time for."""

import json
import subprocess
import sys

import pytest

from tests.command import ROOT


@pytest.mark.slow
def test_two_cases_of_each_attack_and_six_kills_are_survived(tmp_path):
    counts = tmp_path / "counts.json"
    order = [sys.executable, "-m", "tests.adversarial", "--cases", "2", "--counts", str(counts)]
    done = subprocess.run(order, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(counts.read_text())["parts"]
    assert len(found) == 13
    assert {part["cases"] for part in found.values()} == {2}
    assert {part["failures"] for part in found.values()} == {0}
    assert found["kills"]["outcomes"] == {"3 kills": 2}
