"""Results of experiments: whole trials or none, one setting per folder; trials in parallel."""

import json
import sys

import pytest

from experiments.common import Results, run_trials


def test_lines_are_there_again_for_whoever_comes_next(tmp_path):
    first = Results(tmp_path, {"steps": 3})
    first.begin()
    first.add([{"seed": 0, "step": 1}, {"seed": 0, "step": 2}])
    second = Results(tmp_path, {"steps": 3})
    assert second.lines == first.lines
    assert second.has(seed=0, step=2)
    assert not second.has(seed=0, step=3)
    second.add([{"seed": 1, "step": 1}])
    text = (tmp_path / "results.jsonl").read_text()
    assert [json.loads(line)["seed"] for line in text.splitlines()] == [0, 0, 1]


def test_the_command_and_the_revision_are_kept(tmp_path, monkeypatch):
    words = ["-m", "experiments.paper", "reproduce", "x", "--trials", "2"]
    monkeypatch.setattr(sys, "orig_argv", ["/usr/bin/python3", *words])
    Results(tmp_path, {"steps": 3}).begin()
    (call,) = map(json.loads, (tmp_path / "commands.jsonl").read_text().splitlines())
    assert call["command"] == "python -m experiments.paper reproduce x --trials 2"
    assert call["settings"] == {"steps": 3}
    assert {"revision", "torch", "labelgrad"} <= call.keys()


def test_a_setting_cannot_change_but_one_may_be_added(tmp_path):
    Results(tmp_path, {"steps": 3}).begin()
    with pytest.raises(ValueError, match=r"steps = 3, and now it is 4; use another folder"):
        Results(tmp_path, {"steps": 4})
    Results(tmp_path, {"steps": 3, "lga": {"rate": 1}}).begin()
    with pytest.raises(ValueError, match="lga"):
        Results(tmp_path, {"lga": {"rate": 2}})


def trial(seed, fail=False):
    if fail:
        raise ValueError(f"seed {seed} fails")
    return [{"seed": seed}]


@pytest.mark.parametrize("workers", [1, 2])
def test_trials_are_saved_as_they_end(tmp_path, workers, capsys):
    jobs = {f"seed {seed}": {"seed": seed} for seed in range(3)}
    results = Results(tmp_path, {})
    run_trials(trial, jobs, results, workers)
    assert sorted(line["seed"] for line in Results(tmp_path, {}).lines) == [0, 1, 2]
    assert "3 of 3 done" in capsys.readouterr().out


def test_what_ended_before_a_failure_is_kept(tmp_path):
    jobs = {"one": {"seed": 0}, "two": {"seed": 1, "fail": True}}
    with pytest.raises(ValueError, match="seed 1 fails"):
        run_trials(trial, jobs, Results(tmp_path, {}), 1)
    assert Results(tmp_path, {}).lines == [{"seed": 0}]
