"""The command: help, errors in one line, a demo that resumes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command import COMMAND, hear_ctrl_c, labelgrad, labelgrad_here, one_sentence


def test_help_names_the_commands_and_shows_an_example():
    said = labelgrad("--help")
    assert said.returncode == 0
    assert "demo" in said.stdout
    assert "Example: labelgrad fit" in said.stdout
    assert len(said.stdout.splitlines()) < 50


def test_help_of_the_demo_fits_a_screen():
    said = labelgrad_here("demo", "--help")
    assert "--seeds" in said.stdout
    assert "Example:" in said.stdout
    assert len(said.stdout.splitlines()) < 40


def test_help_does_not_wait_for_pytorch():
    code = "import sys, labelgrad.cli.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_methods_lists_every_method_with_its_paper():
    said = labelgrad_here("methods")
    assert said.returncode == 0
    for word in ("lga", "vat", "mean-teacher", "softmatch", "Miyato", "passes", "settings"):
        assert word in said.stdout


def test_version():
    assert labelgrad("--version").stdout.startswith("labelgrad 0.")


def test_an_error_is_one_line_without_a_traceback():
    said = labelgrad_here("demo", "--labels", 55)
    assert said.returncode == 1
    assert said.stderr == "labelgrad: `labels` must be a multiple of 10 from 10 to 1000, got 55.\n"


def test_a_witness_that_cannot_be_stopped_does_not_crash_the_end():
    script = """
import atexit, sys, threading, time
from labelgrad.cli.app import main
from labelgrad.witnesses.hearing import LEFT_ALONE
if "left" in sys.argv:
    threading.Thread(target=time.sleep, args=(60,), name=LEFT_ALONE, daemon=True).start()
atexit.register(print, "taken down")
sys.argv = ["labelgrad", *sys.argv[2:]]
main()
"""
    for who, ends in (("left", False), ("nobody", True)):
        for arguments, code in ((("--version",), 0), (("predict", "nowhere", "nothing"), 1)):
            said = subprocess.run(
                [sys.executable, "-c", script, who, *arguments], capture_output=True, text=True
            )
            assert said.returncode == code
            assert ("taken down" in said.stdout) == ends
            assert (said.stdout if code == 0 else said.stderr).startswith("labelgrad")


def test_debug_shows_the_traceback():
    assert "Traceback" in labelgrad("--debug", "review", "nowhere").stderr  # without PyTorch


def test_an_unknown_option_is_a_usage_error():
    said = labelgrad("demo", "--sedes", 3)
    assert said.returncode == 2
    assert "--seeds" in said.stderr


@pytest.mark.slow
def test_the_demo_fits_draws_and_does_not_fit_again(tmp_path):
    order = ("demo", "--seeds", 1, "--labels", 10, "--steps", 5, "--workers", 1, "--out", "out")
    said = labelgrad_here(*order, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    for word in ("error %", "label spreading", "LGA network", "student", "has the lowest loss"):
        assert word in said.stdout
    assert str(Path("out") / "digits.png") in said.stdout
    assert (tmp_path / "out" / "digits.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "digits.svg").exists()
    results = tmp_path / "out" / "10-labels-5-steps" / "results.jsonl"
    lines = results.read_text()
    assert len(lines.splitlines()) == 6
    again = labelgrad_here(*order, cwd=tmp_path)
    assert "done" not in again.stdout
    assert "has the lowest loss" in again.stdout
    assert results.read_text() == lines


def gone(group, seconds=30):
    for _ in range(10 * seconds + 1):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def endless_demo(tmp_path):
    """A demo of more splits than anybody waits for, in a process group of its own."""
    arguments = ["demo", "--seeds", "1000", "--labels", "10", "--steps", "1", "--workers", "1"]
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )
    deadline = time.monotonic() + 120
    while not any(tmp_path.rglob("results.jsonl")):  # one split is done, so the next is under way
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield process
    if not gone(process.pid, seconds=0):
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_workers_do_not_outlive_a_killed_parent(endless_demo):
    endless_demo.kill()
    endless_demo.communicate()
    assert gone(endless_demo.pid)


@pytest.mark.slow
def test_ctrl_c_is_one_line_and_the_work_is_kept(endless_demo, tmp_path):
    process = endless_demo
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "labelgrad: stopped; the same command goes on from the last checkpoint.\n"
    assert gone(process.pid)  # nobody is left behind
    kept = next(tmp_path.rglob("results.jsonl")).read_text().splitlines()
    assert len(kept) >= 6
    assert len(kept) % 6 == 0  # whole splits


# What `fit` and `predict` take


def test_help_of_fit_names_who_is_heard():
    said = labelgrad_here("fit", "--help")
    for option in ("--witnesses", "--opinions", "--shares"):
        assert option in said.stdout
    assert "Example:" in said.stdout


def small_table(path, classes=2):
    lines = ["first,second,kind"]
    for row in range(4 * classes + 20):
        kind = f"kind-{row % classes:02}" if row < 4 * classes else ""
        lines.append(f"{row % classes + row / 100},{row * row % 7},{kind}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("option", "given", "sentence"),
    [
        (
            "--witnesses",
            "liner",
            "there is no witness 'liner'; did you mean 'linear'?",
        ),
        (
            "--shares",
            "cat=0.2,dog",
            "--shares must be classes with numbers above 0, such as cat=0.2,dog=0.8, got 'dog'.",
        ),
        ("--shares", "cat=1,cat=2", "--shares must name every class once, got 'cat' twice."),
        (
            "--shares",
            "kind-00=0.5",
            "`shares` needs a number above 0 for each of the classes 'kind-00', 'kind-01', "
            "got {'kind-00': 0.5}.",
        ),
    ],
)
def test_what_cannot_be_heard_is_one_sentence_and_leaves_no_run(tmp_path, option, given, sentence):
    small_table(tmp_path / "small.csv")
    said = labelgrad_here("fit", "small.csv", "--target", "kind", option, given, cwd=tmp_path)
    assert one_sentence(said) == f"labelgrad: {sentence}"
    assert not (tmp_path / "runs").exists()


def fit_small(folder, *options, classes=2):
    """A quick fit in this process, alone."""
    data = small_table(folder / "small.csv", classes)
    order = ("fit", data, "--target", "kind", "--steps", 5, "--out", "run", *options)
    said = labelgrad_here(*order, cwd=folder)
    assert said.returncode == 0, said.stderr
    return data, said.stdout


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr("labelgrad.cli.fit.usual_workers", lambda device: 1)


def test_witnesses_opinions_and_shares_by_options(tmp_path, alone):
    rule = "\n".join(["row,rule", *(f"{row},kind-{row % 2:02}" for row in range(1, 29))])
    (tmp_path / "rule.csv").write_text(rule + "\n")
    options = ("--witnesses", "linear, neighbours", "--opinions", "rule.csv")
    fit_small(tmp_path, *options, "--shares", "kind-00=0.7,kind-01=0.3")
    kept = json.loads((tmp_path / "run" / "result.json").read_text())
    heard = {row["name"] for row in kept["verdict"]["rows"]}
    assert {"linear", "neighbours", "rule"} < heard
    assert kept["plan"]["witnesses"] == "linear,neighbours"
    order = ("fit", "small.csv", "--target", "kind", "--out", "run", "--resume")
    other = labelgrad_here(*order, "--witnesses", "linear", cwd=tmp_path)
    assert "was begun with witnesses linear,neighbours, got linear" in one_sentence(other)


@pytest.mark.parametrize("nobody", ["none", ""])
def test_no_witnesses_but_the_networks(tmp_path, alone, nobody):
    fit_small(tmp_path, "--witnesses", nobody)
    kept = json.loads((tmp_path / "run" / "result.json").read_text())
    assert kept["plan"]["witnesses"] == ""
    again = ("fit", "small.csv", "--target", "kind", "--out", "run", "--resume")
    assert labelgrad_here(*again, "--witnesses", nobody, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("classes", "option", "columns"),
    [
        (2, [], 2),
        (2, ["--no-all-classes"], 0),
        (21, [], 0),
        (21, ["--all-classes"], 21),
    ],
)
def test_predictions_have_every_class_up_to_twenty(tmp_path, alone, classes, option, columns):
    data, _ = fit_small(tmp_path, "--witnesses", "none", classes=classes)
    said = labelgrad_here("predict", "run", data, "--out", "p.csv", *option, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    head = (tmp_path / "p.csv").read_text().splitlines()[0].split(",")
    assert head[:3] == ["row", "prediction", "probability"]
    assert len(head) == 3 + columns
