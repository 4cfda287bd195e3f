"""A comparison by a Dask cluster: as by a pool, also when a worker dies, and refused clearly."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from labelgrad.cli.cluster import check_versions
from tests.command import COMMAND, labelgrad, labelgrad_here, one_sentence


@pytest.fixture
def data(tmp_path):
    """A file of 60 examples with 20 labels, and the command that compares two methods on it."""
    x = np.random.default_rng(0).normal(size=(60, 3))
    np.savez(tmp_path / "data.npz", x=x, y=np.where(np.arange(60) < 20, x.sum(1) > 0, -1))
    return [tmp_path / "data.npz", "--methods", "supervised,lga", "--steps", "100"]


def lines(folder):
    """What came of each trial, but how long it took."""
    kept = folder / "results.jsonl"
    found = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    return {(line["method"], line["seed"]): line | {"seconds": 0} for line in found}


@pytest.mark.slow
def test_a_comparison_by_two_workers_one_of_which_is_killed_is_that_of_the_pool(data, tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs pip install 'labelgrad[dask]'")
    said = labelgrad("compare", *data, "--workers", 2, "--out", tmp_path / "pool")
    assert said.returncode == 0, said.stderr
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as watcher,
    ):
        address = cluster.scheduler_address
        command = [*COMMAND, "compare", *data, "--dask", address, "--out", tmp_path / "dask"]
        process = subprocess.Popen(
            [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while not lines(tmp_path / "dask"):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        at_work = [worker for worker, keys in watcher.processing().items() if keys]
        pids = watcher.run(os.getpid)
        os.kill(pids[at_work[0]], signal.SIGKILL)
        done_then = len(lines(tmp_path / "dask"))
        out, err = process.communicate(timeout=300)
        hide = "import sys; sys.modules['labelgrad'] = None"
        watcher.run(exec, hide, workers=list(watcher.run(os.getpid))[:1])
        without = one_sentence(labelgrad_here("compare", *data, "--dask", address))
    assert process.returncode == 0, err
    assert done_then < 6, "it was killed in the middle"
    assert lines(tmp_path / "dask") == lines(tmp_path / "pool")
    assert len((tmp_path / "dask" / "results.jsonl").read_text().splitlines()) == 6
    by_pool, by_dask = ([*text.splitlines()] for text in (said.stdout, out))
    assert "has none that can be imported" in without
    assert by_pool[-3:-1] == by_dask[-3:-1], "the same sentences"


def test_a_scheduler_that_does_not_answer_is_said(data, monkeypatch):
    pytest.importorskip("distributed", reason="needs pip install 'labelgrad[dask]'")
    monkeypatch.setattr("labelgrad.cli.cluster.ANSWER", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (f"tcp://127.0.0.1:{port}", "nowhere", "http://127.0.0.1:1", ""):
        said = one_sentence(labelgrad_here("compare", *data, "--dask", address))
        assert f"and none answered at {address!r} within" in said


def test_without_dask_the_extra_is_named(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = one_sentence(labelgrad_here("compare", *data, "--dask", "tcp://127.0.0.1:1"))
    assert said.endswith("pip install 'labelgrad[dask]'.")


def test_a_cluster_without_workers_or_labelgrad_is_refused():
    with pytest.raises(ValueError, match="tcp://a:1 has none; start some with `dask worker tcp://"):
        check_versions("tcp://a:1", {}, "0.1.0")
    missing = {"tcp://b:2": "0.1.0", "tcp://c:3": ModuleNotFoundError("No module named 'x'")}
    with pytest.raises(ValueError, match=r"and tcp://c:3 has none that can be imported \(No mod"):
        check_versions("tcp://a:1", missing, "0.1.0")
