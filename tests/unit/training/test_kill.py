"""A real process, killed at random moments, ends with the bytes of one that was left alone."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labelgrad.training.checkpoint import Checkpoints

ROOT = Path(__file__).parents[3]
TARGET = [sys.executable, "-m", "tests.unit.training.kill_target"]
KILLS = 10


@pytest.fixture(scope="module")
def nursery():
    """Where the processes to kill are forked; each begins in a moment."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(TARGET, cwd=ROOT, **pipes) as process:
        yield process
        process.stdin.close()


def start(nursery, folder, storage):
    nursery.stdin.write(f"{folder} {storage}\n")
    nursery.stdin.flush()
    return int(nursery.stdout.readline())


def undisturbed(folder, storage):
    """One life, in a process that was not forked, and how long it took."""
    command = [*TARGET, str(folder), storage]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        began = time.monotonic()
        assert process.wait(timeout=300) == 0
    return time.monotonic() - began


def result(folder):
    """The bytes of model, optimizer, table and averages at the end, and the log without times."""
    state = Checkpoints(folder / "checkpoints").load()
    tensors = {name: value.numpy().tobytes() for name, value in state.tensors.items()}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()[1:]]
    return (
        state.info["step"],
        tensors,
        [{key: value for key, value in line.items() if key != "seconds"} for line in lines],
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("storage", ["memory", "mapped"])
def test_ten_kills_leave_no_trace_in_the_result(tmp_path, storage, nursery):
    # Ten lives of at most this long do half of the work, however fast the machine is.
    longest = undisturbed(tmp_path / "undisturbed", storage) / (2 * KILLS)
    moments = random.Random(storage)
    reached = []
    for _ in range(KILLS):
        process = start(nursery, tmp_path / "killed", storage)
        time.sleep(moments.uniform(0, longest))
        os.kill(process, signal.SIGKILL)
        ended = int(nursery.stdout.readline())
        assert ended == -signal.SIGKILL, "it was to be killed in the middle of its work"
        files = sorted((tmp_path / "killed" / "checkpoints").glob("step-*"))
        reached.append(files[-1].stem if files else "nothing")
    assert len(set(reached)) > 1, f"the kills should fall at different steps, got {reached}"
    start(nursery, tmp_path / "killed", storage)
    assert nursery.stdout.readline() == "0\n"
    assert result(tmp_path / "killed") == result(tmp_path / "undisturbed")
