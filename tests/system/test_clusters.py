"""Fits on several processes and machines: Dask workers that die, and torchrun."""

import os
import signal
import subprocess
import sys
import threading
import time

import joblib
import numpy as np
import polars as pl
import pytest

import labelgrad
from tests.command import ROOT, run_ok
from tests.system.test_images import write_images
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
            return labelgrad.fit(data, workers=2, **OPTIONS).labels
        models = OPTIONS["base_models"]
        table = labelgrad.compare(data, models=models, seeds=2, target="stays", workers=2).table()
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


@pytest.mark.parametrize("processes", [1, 3])
def test_torchrun_gives_the_labels_of_one_process(tmp_path, processes):
    write_images(tmp_path / "photos")
    fit = ["fit", "photos", "--base-models", "lga", "--steps", "20", "--workers", "1"]
    run_ok([*fit, "--out", "alone"], cwd=tmp_path)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*torchrun, f"--nproc-per-node={processes}", "-m", "labelgrad", *fit, "--out", "several"],
        cwd=tmp_path,
        check=True,
        timeout=500,
        capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )
    alone, found = (pl.read_csv(tmp_path / name / "labels.csv") for name in ("alone", "several"))
    assert found.drop(pl.selectors.float()).equals(alone.drop(pl.selectors.float()))
    for name in alone.select(pl.selectors.float()).columns:
        np.testing.assert_allclose(found[name], alone[name], atol=1e-3, err_msg=name)
