"""Methods beside each other: the same labels judge them, and chance is not taken for a result."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
from scipy import stats

import labelgrad
from labelgrad import compare
from labelgrad.fitting.compare import Trial, ranking, trial_plans
from labelgrad.fitting.ranking import interval, rank
from labelgrad.inputs.kinds import read
from tests.command import COMMAND, labelgrad_here
from tests.command import labelgrad as command


def arrays(*, rows=60, labeled=20, values=False):
    x = np.random.default_rng(0).normal(size=(rows, 3))
    if values:
        return x, np.where(np.arange(rows) < labeled, x.sum(1), np.nan)
    return x, np.where(np.arange(rows) < labeled, x.sum(1) > 0, -1)


def lines_of(wrong):
    """Lines as trials give them, from a table (seeds, examples) for each method."""
    return [
        {
            "method": name,
            "seed": seed,
            "loss": float(np.mean(row)),
            "seconds": 1.0,
            "rows": list(range(len(row))),
            "wrong": list(row),
        }
        for name, table in wrong.items()
        for seed, row in enumerate(table)
    ]


# The interval


def test_without_chance_in_examples_it_is_the_paired_t_interval_over_seeds():
    seeds = np.array([0.1, 0.3, 0.2])
    found = interval(np.repeat(seeds[:, None], 1000, axis=1), 0.95)
    low, high = stats.t.interval(0.95, 2, seeds.mean(), stats.sem(seeds))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_without_chance_in_seeds_it_is_the_paired_t_interval_over_examples():
    examples = np.random.default_rng(0).normal(size=30)
    found = interval(np.tile(examples, (4, 1)), 0.9)
    low, high = stats.t.interval(0.9, 29, examples.mean(), stats.sem(examples))
    assert (found.low, found.high) == pytest.approx((low, high))


@pytest.mark.parametrize(("seed_noise", "example_noise"), [(0.05, 0.5), (0.3, 0.5), (0.0, 1.0)])
def test_the_interval_holds_the_truth_as_often_as_it_says(seed_noise, example_noise):
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        seeds, examples = rng.normal(size=(3, 1)), rng.normal(size=(1, 40))
        both = rng.normal(size=(3, 40))
        found = interval(0.1 + seed_noise * seeds + example_noise * examples + 0.3 * both, 0.95)
        hits += found.low <= 0.1 <= found.high
    assert hits / 400 > 0.95 - 2 * (0.95 * 0.05 / 400) ** 0.5


def test_examples_that_a_seed_did_not_hold_out_are_left_out():
    full = np.array([[1.0, 0.0, np.nan], [np.nan, 0.0, 1.0]])
    assert interval(full, 0.95).value == pytest.approx(0.5)


# The ranking


def test_a_clear_difference_is_told_from_one_that_may_be_chance():
    rng = np.random.default_rng(0)
    good = (rng.random((3, 200)) < 0.05).astype(float)
    near, bad = (rng.random((3, 200)) < 0.06), (rng.random((3, 200)) < 0.4)
    found = rank("classification", lines_of({"bad": bad, "good": good, "near": near}))
    assert found.best.method == "good"
    assert [scored.is_told_apart for scored in found.methods] == [True, False, False]
    assert found.sentence.startswith("good has the smallest error")
    assert "better than bad by more than chance" in found.sentence
    assert "difference from near may be chance" in found.sentence
    assert found.methods[0].error == bad.mean()
    assert found.methods[0].spread == pytest.approx(bad.mean(1).std(ddof=1))


def test_methods_of_the_same_error_are_said_to_be():
    wrong = (np.arange(150).reshape(3, 50) % 10 == 0).astype(float)
    found = rank("classification", lines_of({"a": wrong, "b": wrong}))
    assert found.sentence == "a has the smallest error, 10.0 %, and so has b at no smaller loss."
    others = {"a": wrong, "b": wrong, "c": wrong[:, ::-1], "d": 1 - wrong}
    said = rank("classification", lines_of(others)).sentence
    assert "and so have b and c at no smaller loss, and the difference from d is more" in said


def test_more_methods_make_wider_intervals():
    rng = np.random.default_rng(0)
    wrong = {"a": rng.random((3, 50)) < 0.1, "b": rng.random((3, 50)) < 0.5}
    two = rank("classification", lines_of(wrong)).methods[1].difference
    four = rank("classification", lines_of(wrong | {"c": wrong["b"], "d": wrong["b"]}))
    wider = four.methods[1].difference
    assert wider.value == two.value
    assert wider.high - wider.low > two.high - two.low


def test_equal_errors_are_decided_by_the_loss_and_said_to_be_equal():
    lines = lines_of({"a": np.eye(3), "b": np.eye(3)})
    lines[0]["loss"] += 1
    found = rank("classification", lines)
    assert found.best.method == "b"
    assert found.methods[0].difference.value == 0
    assert found.sentence.endswith("and so has a at no smaller loss.")


def test_errors_of_values_are_roots_of_mean_squares():
    rng = np.random.default_rng(0)
    squares = {"a": rng.normal(size=(3, 40)) ** 2, "b": (3 * rng.normal(size=(3, 40))) ** 2}
    found = rank("regression", lines_of(squares))
    for scored in found.methods:
        assert scored.error == pytest.approx(np.sqrt(squares[scored.method].mean()))
    assert found.methods[1].is_told_apart


def test_one_seed_says_what_it_cannot_tell():
    found = rank("classification", lines_of({"a": np.eye(1, 9), "b": np.zeros((1, 9))}))
    assert "nothing about the chance in training" in found.limits


# Trials


def test_all_methods_of_a_seed_are_judged_by_the_same_labels_and_none_is_seen():
    source = read(*arrays())
    plans = trial_plans(source, methods=["supervised", "lga"], seeds=2, steps=3)
    lines = []
    for plan in plans:
        trial = Trial(source, plan, only=plan.method)
        records = list(trial)
        assert records[-1]["step"] == trial.steps == 12, "four folds, and none on all labels"
        lines += trial.history
    by_seed = [[line["rows"] for line in lines if line["seed"] == seed] for seed in (0, 1)]
    assert by_seed[0][0] == by_seed[0][1]
    assert by_seed[1][0] == by_seed[1][1]
    assert by_seed[0][0] != by_seed[1][0], "another seed, other folds"
    assert sorted(by_seed[0][0]) == list(range(20))


def test_finished_trials_are_kept_and_give_the_same_ranking(tmp_path):
    source, seen = read(*arrays()), []
    options = {"methods": ["supervised", "lga"], "steps": 3}
    first = compare(source, seeds=1, out=tmp_path, **options)
    assert first == compare(
        source, seeds=1, out=tmp_path, on_progress=lambda *told: seen.append(told), **options
    )
    assert seen == []
    more = compare(
        source, seeds=2, out=tmp_path, on_progress=lambda *t: seen.append(t[0]), **options
    )
    assert set(seen) == {"supervised, seed 1", "lga, seed 1"}
    fresh = compare(source, seeds=2, **options)
    assert [s.error for s in more.methods] == [s.error for s in fresh.methods]
    assert more.sentence == fresh.sentence


def test_methods_are_in_the_order_asked_for_whichever_ended_first():
    source = read(*arrays())
    plans = trial_plans(source, methods=["lga", "supervised"], seeds=2, steps=3)
    lines = lines_of({"supervised": np.zeros((2, 20)), "lga": np.ones((2, 20))})
    for order in (lines, lines[::-1]):
        found = ranking(source.task, plans, order)
        assert [scored.method for scored in found.methods] == ["lga", "supervised"]
        assert found.best.method == "supervised"


def test_a_folder_is_of_one_data_set_and_one_plan(tmp_path):
    x, y = arrays()
    options = {"methods": ["supervised", "lga"], "seeds": 1, "out": tmp_path}
    compare(read(x, y), steps=2, **options)
    with pytest.raises(ValueError, match="steps = 2, and now it is 3"):
        compare(read(x, y), steps=3, **options)
    x[0, 0] += 1
    with pytest.raises(ValueError, match=r"holds results with data"):
        compare(read(x, y), steps=2, **options)


@pytest.mark.parametrize("text", ["{", "[]", '{"seed": 0}', "\\udcff"])
def test_damaged_results_are_one_sentence(tmp_path, text):
    (tmp_path / "results.jsonl").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match="damaged or of another kind"):
        compare(read(*arrays()), seeds=1, steps=2, out=tmp_path)


def test_values_can_be_compared():
    found = compare(read(*arrays(values=True)), seeds=2, steps=3)
    assert [scored.method for scored in found.methods] == ["supervised", "lga-evidence", "lga"]
    assert "%" not in found.sentence


def test_the_library_takes_what_fit_takes(tmp_path):
    x, y = arrays()
    np.savez(tmp_path / "data.npz", x=x, y=y)
    options = {"methods": ["supervised", "lga"], "seeds": 1, "steps": 3}
    found = labelgrad.compare(tmp_path / "data.npz", **options)
    errors = [scored.error for scored in found.methods]
    for other in (
        labelgrad.compare(x, y, **options),
        compare(read(x, y), **options),
    ):
        assert [scored.error for scored in other.methods] == errors
    with pytest.raises(ValueError, match="An array needs its labels"):
        labelgrad.compare(x)
    with pytest.raises(ValueError, match="A `Dataset` has its labels in it"):
        labelgrad.compare(read(x, y), y)


# The command


def test_the_command_prints_a_table_and_a_sentence_and_does_nothing_twice(tmp_path):
    x, y = arrays()
    np.savez(tmp_path / "data.npz", x=x, y=y)
    order = ("compare", "data.npz", "--methods", "supervised, lga", "--steps", 5, "--seeds", 2)
    order += ("--workers", 1)
    said = command(*order, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "smallest error" in said.stdout
    assert "above the best" in said.stdout
    kept = tmp_path / "runs" / "compare-data" / "results.jsonl"
    before = kept.read_bytes()
    assert len(before.splitlines()) == 4
    again = command(*order, cwd=tmp_path)
    assert kept.read_bytes() == before
    assert again.stdout.splitlines()[-4:] == said.stdout.splitlines()[-4:]
    found = compare(read(x, y), methods=["supervised", "lga"], seeds=2, steps=5)
    assert found.sentence in said.stdout


@pytest.mark.slow
def test_killed_it_goes_on_with_the_trials_that_are_not_done(tmp_path):
    x, y = arrays()
    np.savez(tmp_path / "data.npz", x=x, y=y)
    order = [*("compare", "data.npz", "--methods", "supervised,lga", "--steps", "60")]
    order += ["--seeds", "2", "--workers", "1", "--out", "found"]
    process = subprocess.Popen(
        [*COMMAND, *order], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    kept, ends = tmp_path / "found" / "results.jsonl", time.monotonic() + 120
    while not kept.exists():
        assert time.monotonic() < ends
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    first = kept.read_text().splitlines()
    assert 0 < len(first) < 4
    said = command(*order, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    lines = kept.read_text().splitlines()
    assert lines[: len(first)] == first
    done = [(line["method"], line["seed"]) for line in map(json.loads, lines)]
    assert sorted(done) == sorted((m, s) for m in ("supervised", "lga") for s in range(2))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "no file or folder nowhere"),
        (["data.npz", "--methods", "supervised"], "two or more methods"),
        (["data.npz", "--methods", "lga,lga"], "two or more methods, each once"),
        (["data.npz", "--methods", "supervised,lgaa"], "did you mean 'lga'?"),
        (["values.npz", "--methods", "supervised,vat"], "needs classes"),
        (["labeled.npz", "--methods", "supervised,lga"], "unlabeled examples"),
        (["single.npz"], "can be held out"),
        (["data.npz", "--device", "tpu"], "device"),
        (["data.npz", "--out", "data.npz"], "is a file"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, arguments, said):
    for name, (x, y) in {
        "data": arrays(),
        "values": arrays(values=True),
        "labeled": arrays(rows=20),
        "single": (np.eye(6), np.array([0, 1, -1, -1, -1, -1])),
    }.items():
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    found = labelgrad_here("compare", *arguments, cwd=tmp_path)
    assert found.returncode == 1, found.stderr
    assert "Traceback" not in found.stderr
    (line,) = found.stderr.strip().splitlines()
    assert line.startswith("labelgrad: ")
    assert said in line
    assert not (tmp_path / "runs").exists()


def test_help_fits_a_screen_and_shows_an_example(tmp_path):
    said = labelgrad_here("compare", "--help", cwd=tmp_path)
    assert "Example: labelgrad compare" in said.stdout
    assert len(said.stdout.splitlines()) < 60
