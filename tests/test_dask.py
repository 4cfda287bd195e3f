"""Jobs by a Dask cluster: as by a pool, also when a worker dies, and refused clearly."""

import json
import os
import signal
import socket
import sys
import time
from threading import Thread
from threading import enumerate as enumerate_threads

import numpy as np
import pytest

from labelgrad import compare
from labelgrad.cli.cluster import check_versions
from labelgrad.paper.picture_task import Task
from labelgrad.paper.picture_trial import PictureTrial
from tests.command import labelgrad_here, one_sentence

FIT = ["--model", "mlp", "--steps", "30", "--witnesses", "none"]
REPRODUCE = ["reproduce", "digits", "--scale", "tiny", "--methods", "lga", "--seeds", "1"]


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
def test_jobs_by_two_workers_one_of_which_is_killed_are_those_of_here(data, tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs pip install 'labelgrad[dask]'")
    here = compare(data[0], methods=["supervised", "lga"], steps=100, out=tmp_path / "here")
    done_then = []

    def kill_one_at_work(watcher):
        while not lines(tmp_path / "dask"):
            time.sleep(0.02)
        at_work = [worker for worker, keys in watcher.processing().items() if keys]
        os.kill(watcher.run(os.getpid)[at_work[0]], signal.SIGKILL)
        done_then.append(len(lines(tmp_path / "dask")))

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as watcher,
    ):
        where = ["--dask", cluster.scheduler_address]
        killing = Thread(target=kill_one_at_work, args=(watcher,), daemon=True)
        killing.start()
        said = labelgrad_here("compare", *data, *where, "--out", tmp_path / "dask")
        killing.join()
        fitted = labelgrad_here("fit", data[0], *FIT, *where, "--out", tmp_path / "fit-dask")
        pictures = labelgrad_here(*REPRODUCE, *where, "--out", tmp_path / "pictures-dask")
        hide = "import sys; sys.modules['labelgrad'] = None"
        watcher.run(exec, hide, workers=list(watcher.run(os.getpid))[:1])
        without = one_sentence(labelgrad_here("compare", *data, *where))
    for each in (said, fitted, pictures):
        assert each.returncode == 0, each.stderr
    assert done_then[0] < 6, "it was killed in the middle"
    assert lines(tmp_path / "dask") == lines(tmp_path / "here")
    assert len((tmp_path / "dask" / "results.jsonl").read_text().splitlines()) == 6
    assert said.stdout.splitlines()[-3:-1] == [here.sentence, here.limits]
    assert "has none that can be imported" in without
    assert labelgrad_here("fit", data[0], *FIT, "--workers", 1, "--out", tmp_path / "fit").stdout
    assert (tmp_path / "fit-dask/labels.csv").read_bytes() == (
        tmp_path / "fit/labels.csv"
    ).read_bytes()
    trial = PictureTrial(Task("digits", "lga", 50, 0), scale="tiny")
    assert len(list(trial)) == trial.steps
    assert lines(tmp_path / "pictures-dask") == {("lga", 0): trial.history[0] | {"seconds": 0}}


def test_a_scheduler_that_does_not_answer_is_said(data, monkeypatch):
    pytest.importorskip("distributed", reason="needs pip install 'labelgrad[dask]'")
    monkeypatch.setattr("labelgrad.cli.cluster.ANSWER", 0.5)
    before = set(enumerate_threads())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the call, says nothing
        taken = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        for address in (f"tcp://127.0.0.1:{port}", taken, "nowhere", "http://127.0.0.1:1", ""):
            said = one_sentence(labelgrad_here("compare", *data, "--dask", address))
            assert f"and none answered at {address!r} within" in said
    for command in (["fit", data[0]], ["reproduce", "digits"], ["bench"], ["bench", "peers"]):
        said = one_sentence(labelgrad_here(*command, "--dask", "nowhere"))
        assert "and none answered at 'nowhere' within" in said
    # Such a thread is a client that waits to be collected, and may halt another's start.
    assert not [thread for thread in set(enumerate_threads()) - before if thread.name == "IO loop"]


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
