"""The commands of the paper's analysis, on a tiny size: files, figures, resuming, errors."""

import json
import multiprocessing
import time
from collections import Counter
from dataclasses import replace

import pytest

from experiments.paper import synthetic
from tests.experiments.command import experiment

ONE = ["--workers", "1"]  # process: each takes seconds to begin


def lines(folder, name="results.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_the_list_says_what_there_is_and_what_it_costs():
    said = experiment("reproduce", "--list")
    assert said.returncode == 0
    for name in ("learning-speeds", "synthetic-data", "synthetic", "cost"):
        assert name in said.stdout


def test_synthetic_data_is_a_picture(tmp_path):
    said = experiment("reproduce", "synthetic-data", "--out", tmp_path)
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "synthetic-data.png").stat().st_size > 20_000
    assert "<svg" in (tmp_path / "synthetic-data.svg").read_text()[:1000]


@pytest.mark.slow
def test_learning_speeds_trains_checks_the_propositions_and_draws(tmp_path):
    said = experiment("reproduce", "learning-speeds", "--scale", "tiny", *ONE, "--out", tmp_path)
    assert said.returncode == 0, said.stderr
    for number in (1, 2, 3):
        assert f"Proposition {number}:" in said.stdout
    found = lines(tmp_path)
    assert {line["method"] for line in found} == {"lga", "gradient descent"}
    assert {"experiment", "seed", "step", "accuracy", "loss", "c"} <= found[0].keys()
    assert (tmp_path / "learning-speeds.png").exists()
    assert (tmp_path / "learning-speeds.svg").exists()


@pytest.mark.slow
def test_synthetic_is_resumed_by_the_trial_and_redrawn_without_training(tmp_path):
    command = ["reproduce", "synthetic", "--scale", "tiny", *ONE, "--out", tmp_path]
    said = experiment(*command, "--trials", 1, "--methods", "supervised, lga")
    assert said.returncode == 0, said.stderr
    first = lines(tmp_path)
    wanted = {"experiment", "method", "seed", "step", "accuracy", "loss", "alignment", "seconds"}
    assert all(wanted <= line.keys() for line in first)
    assert {line["method"] for line in first} == {"supervised", "lga"}
    said = experiment(*command, "--trials", 2)
    assert "lga, seed 0" not in said.stdout
    assert lines(tmp_path)[: len(first)] == first
    assert len(lines(tmp_path)) == 2 * 3 * 3  # trials, methods, measurements
    assert len(lines(tmp_path, "commands.jsonl")) == 2
    (tmp_path / "synthetic.png").unlink()
    (tmp_path / "synthetic.svg").unlink()
    said = experiment(*command, "--trials", 2)
    assert "done" not in said.stdout
    assert "in paper's std" in said.stdout
    assert (tmp_path / "synthetic.png").exists()
    assert (tmp_path / "synthetic.svg").exists()
    assert len(lines(tmp_path, "commands.jsonl")) == 2


@pytest.mark.slow
def test_a_killed_search_goes_on_with_what_is_not_finished(tmp_path, monkeypatch):
    fewer = replace(synthetic.SIZES["tiny"], steps=11)
    monkeypatch.setitem(synthetic.SIZES, "tiny", fewer)
    command = ["tune", "synthetic", "--scale", "tiny", "--trials", "3", "--workers", "1"]
    command += ["--out", str(tmp_path)]
    process = multiprocessing.get_context("fork").Process(target=experiment, args=command)
    process.start()
    results, deadline = tmp_path / "results.jsonl", time.monotonic() + 120
    while not (results.exists() and len(lines(tmp_path)) >= 4):
        assert process.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.join()
    before = lines(tmp_path)
    said = experiment(*command)
    assert said.returncode == 0, said.stderr
    after = lines(tmp_path)
    assert after[: len(before)] == before
    keys = [(line["stage"], str(line["settings"]), line["seed"]) for line in after]
    assert len(keys) == len(set(keys))
    stages = Counter(line["stage"] for line in after)
    assert (stages["search"], stages["finer"]) == (3, 8)
    assert stages["around nearest"] == stages["around best"] == 17
    assert stages["again"] in (2 * count for count in range(2, 5))
    assert "Nearest to the paper" in said.stdout
    assert (tmp_path / "tuning.png").exists()
