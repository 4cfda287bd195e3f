"""A real process, killed at random moments, ends with the bytes of one that was left alone."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labelgrad.training.checkpoint import Checkpoints

ROOT = Path(__file__).parents[1]
KILLS = 10


def start(folder, storage):
    command = [sys.executable, "-m", "tests.kill_target", str(folder), storage]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with process.stdout as said:
        assert said.readline() == "ready\n"
    return process


def finish(folder, storage):
    process, began = start(folder, storage), time.monotonic()
    assert process.wait(timeout=300) == 0
    return time.monotonic() - began


def result(folder):
    """The bytes of model, optimizer, table and averages at the end, and the log without times."""
    state = Checkpoints(folder / "checkpoints").load()
    tensors = {name: value.numpy().tobytes() for name, value in state.tensors.items()}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()[1:]]
    table = folder / "table" / "table.npy"
    return (
        state.info["step"],
        tensors,
        table.read_bytes() if table.exists() else None,
        [{key: value for key, value in line.items() if key != "seconds"} for line in lines],
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("storage", ["memory", "mapped"])
def test_ten_kills_leave_no_trace_in_the_result(tmp_path, storage):
    # Ten lives of at most this long do not finish the work, however fast the machine is.
    longest = finish(tmp_path / "undisturbed", storage) / (KILLS + 1)
    moments = random.Random(storage)
    reached = []
    for _ in range(KILLS):
        process = start(tmp_path / "killed", storage)
        time.sleep(moments.uniform(0, longest))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was to be killed in the middle of its work"
        files = sorted((tmp_path / "killed" / "checkpoints").glob("step-*"))
        reached.append(files[-1].stem if files else "nothing")
    assert len(set(reached)) > 1, f"the kills should fall at different steps, got {reached}"
    finish(tmp_path / "killed", storage)
    assert result(tmp_path / "killed") == result(tmp_path / "undisturbed")
