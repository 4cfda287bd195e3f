"""Results of experiments: whole trials or none, one setting a folder, ours beside the paper's."""

import json
from math import sqrt

import pytest

from labelgrad.paper.comparison import differences, our_curve
from labelgrad.paper.numbers import paper_curve
from labelgrad.training import results as module
from labelgrad.training.results import Results


def test_lines_are_there_again_for_whoever_comes_next(tmp_path):
    first = Results(tmp_path, {"steps": 3})
    first.begin("labelgrad reproduce x")
    first.add([{"seed": 0, "step": 1}, {"seed": 0, "step": 2}])
    second = Results(tmp_path, {"steps": 3})
    assert second.lines == first.lines
    assert second.has(seed=0, step=2)
    assert not second.has(seed=0, step=3)
    second.add([{"seed": 1, "step": 1}])
    text = (tmp_path / "results.jsonl").read_text()
    assert [json.loads(line)["seed"] for line in text.splitlines()] == [0, 0, 1]


def test_the_command_and_the_revision_are_kept(tmp_path):
    Results(tmp_path, {"steps": 3}).begin("labelgrad reproduce x --trials 2")
    (call,) = map(json.loads, (tmp_path / "commands.jsonl").read_text().splitlines())
    assert call["command"] == "labelgrad reproduce x --trials 2"
    assert call["settings"] == {"steps": 3}
    assert {"revision", "torch", "labelgrad"} <= call.keys()


def test_a_setting_cannot_change_but_one_may_be_added(tmp_path):
    Results(tmp_path, {"steps": 3}).begin("first")
    with pytest.raises(ValueError, match=r"steps = 3, and now it is 4; use another folder"):
        Results(tmp_path, {"steps": 4})
    Results(tmp_path, {"steps": 3, "lga": {"rate": 1}}).begin("second")
    with pytest.raises(ValueError, match="lga"):
        Results(tmp_path, {"lga": {"rate": 2}})


def test_a_failure_in_the_middle_of_writing_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    results = Results(tmp_path, {})
    results.add([{"seed": 0}])
    before = (tmp_path / "results.jsonl").read_bytes()

    def torn(self, target):
        raise OSError("no space left")

    monkeypatch.setattr(module.Path, "replace", torn)
    with pytest.raises(OSError, match="no space left"):
        results.add([{"seed": 1}])
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_the_paper_s_numbers_are_in_the_package():
    accuracy, loss = (paper_curve(f"synthetic_{name}", "lga") for name in ("accuracy", "loss"))
    assert accuracy.at(575)[0] == pytest.approx(0.742, abs=5e-4)
    assert min(loss.mean) == pytest.approx(0.568, abs=5e-4)
    assert paper_curve("synthetic_loss", "supervised").at(575)[0] == pytest.approx(0.751, abs=5e-4)
    assert len(accuracy.x) == len(accuracy.mean) == len(accuracy.std) == 24
    # Every mean accuracy is a whole number of right answers over 25 trials of 25,000 points.
    right = [mean * 25 * 25_000 for mean in accuracy.mean]
    assert right == pytest.approx([round(count) for count in right], abs=0.02)


def test_differences_are_in_the_paper_s_own_deviations():
    mean, std = paper_curve("synthetic_loss", "lga").at(300)
    lines = [
        {"method": "lga", "step": 300, "loss": mean + 2 * std + shift} for shift in (-0.1, 0.1)
    ]
    (found,) = differences(lines, "lga", "loss", theirs="lga")
    assert found.deviations == pytest.approx(2)
    assert our_curve(lines, "lga", "loss").std == [pytest.approx(0.1 * sqrt(2))]
