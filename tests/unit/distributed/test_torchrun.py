"""A script of one's own and the commands, started by torchrun itself."""

import csv
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch

from labelgrad.training.checkpoint import Checkpoints
from tests.command import ROOT, run_ok
from tests.unit.distributed.torchrun_target import FIT, training


def started(*command, cwd, **environment):
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **environment},
    )


def table(path, rows=60):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 3, generator=generator)
    labels = ["yes" if row.sum() > 0 else "no" for row in x]
    with path.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "kind"])
        for number, row in enumerate(x.tolist()):
            writer.writerow([*row, labels[number] if number < 21 else ""])


@pytest.mark.slow
def test_who_dies_is_started_again_and_one_of_them_speaks(tmp_path):
    table(tmp_path / "pets.csv")
    target = ROOT / "tests/unit/distributed/torchrun_target.py"
    said = started(target, "killed", "4", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "was-killed").exists()
    assert "exitcode" in said.stderr  # of the killed process, or of one that lost its peer
    assert said.stdout.count("Labels: run/labels.csv") == 1
    run_ok([*FIT.split()[1:-1], "one"], cwd=tmp_path)
    several, one = (pl.read_csv(tmp_path / name / "labels.csv") for name in ("run", "one"))
    assert several.drop(pl.selectors.float()).equals(one.drop(pl.selectors.float()))
    for name in one.select(pl.selectors.float()).columns:
        np.testing.assert_allclose(several[name], one[name], atol=1e-3, err_msg=name)
    training(tmp_path / "alone").finish()
    killed, alone = (
        Checkpoints(tmp_path / folder / "checkpoints").load() for folder in ("killed", "alone")
    )
    assert killed.info["step"] == alone.info["step"] == 40
    for name, value in alone.tensors.items():
        found = killed.tensors[name]
        if name.endswith("table.values"):  # log-odds, and the labels that they are
            found, value = found[:, 0].softmax(-1), value[:, 0].softmax(-1)
        tolerance = 1e-4 if name.endswith("table.values") else 1e-5
        torch.testing.assert_close(found, value, rtol=0, atol=tolerance, msg=name)


def test_the_second_process_is_silent(tmp_path):
    here = {"cwd": tmp_path, "TORCHELASTIC_RUN_ID": "one"}
    assert started("-m", "labelgrad", "--help", RANK="0", **here).stdout
    assert not started("-m", "labelgrad", "--help", RANK="1", **here).stdout
