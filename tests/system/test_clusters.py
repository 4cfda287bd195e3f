"""Fits on a Dask cluster, whose workers die."""

import os
import signal
import threading
import time

import joblib
import pytest

import labelgrad
from tests.command import run_ok
from tests.system.test_table import write_customers

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow
OPTIONS = {"target": "stays", "base_models": "linear,extra trees,neighbours", "steps": 30}


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as local:
        yield local


def kill_one(local, after):
    """Kill a worker while the cluster works; its nanny starts another."""
    time.sleep(after)
    os.kill(next(iter(local.workers.values())).pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["fit", "compare"])
def test_a_worker_that_is_killed_changes_nothing(tmp_path, cluster, kind):
    write_customers(tmp_path / "customers.csv")
    data = tmp_path / "customers.csv"

    def work():
        if kind == "fit":
            return labelgrad.fit(data, **OPTIONS).labels
        models = OPTIONS["base_models"]
        table = labelgrad.compare(data, models=models, seeds=2, target="stays").table()
        return table.drop([name for name in table.columns if "second" in name])

    alone = work()
    killer = threading.Thread(target=kill_one, args=(cluster, 1.0))
    with distributed.Client(cluster), joblib.parallel_config(backend="dask"):
        killer.start()
        found = work()
        killer.join()
    assert found.equals(alone)


def test_the_command_fits_on_a_cluster(tmp_path, cluster):
    write_customers(tmp_path / "customers.csv")
    fit = ["fit", "customers.csv", "--target", "stays", "--steps", "30", "--base-models", "linear"]
    run_ok([*fit, "--out", "alone"], cwd=tmp_path)
    run_ok([*fit, "--out", "cluster", "--dask", cluster.scheduler_address], cwd=tmp_path)
    alone, found = ((tmp_path / n / "labels.csv").read_bytes() for n in ("alone", "cluster"))
    assert found == alone
