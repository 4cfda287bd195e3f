"""One training on two machines with addresses of their own, of which one is cut off for a while."""

import time

import pytest
import torch

from labelgrad.training.checkpoint import Checkpoints
from tests.unit.distributed import machines
from tests.unit.distributed.torchrun_target import training


def started(both, folder, monkeypatch, seconds):
    monkeypatch.setenv("LABELGRAD_TIMEOUT", str(seconds))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", machines.CABLE)
    how = "--nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --start-method fork --run-path"
    lives = []
    for place, (machine, address) in enumerate(zip(both, machines.ADDRESSES, strict=True)):
        where = f"--local-addr {address} --rdzv-endpoint {machines.ADDRESSES[0]}:29400"
        host = f"--rdzv-conf is_host={int(place == 0)},read_timeout=10"
        words = [*where.split(), *host.split(), *how.split(), machines.WORKER, folder]
        lives.append(machine.torchrun(folder / f"log-{place}", *words))
    return lives


def logs(folder):
    return [path.read_text() for path in sorted(folder.glob("log-*"))]


@pytest.mark.slow
def test_a_machine_that_is_cut_off_ends_with_a_sentence_and_the_run_goes_on(tmp_path, monkeypatch):
    lacking = machines.missing()
    if lacking is not None:
        pytest.skip(f"Two machines cannot be made here: it {lacking}.")
    with machines.machines() as both:
        lives = started(both, tmp_path, monkeypatch, 6)
        limit = time.monotonic() + 120
        while sum("ended: " in log for log in logs(tmp_path)) < 2 and time.monotonic() < limit:
            time.sleep(0.2)
        both[1].do("ip", "link", "set", machines.CABLE, "up")
        for life in lives:
            life.join(120)
        assert [life.exitcode for life in lives] == [1, 1]
        first, second = logs(tmp_path)
        assert "processes did not answer process 0: it was ended, cannot be reached" in first
        assert "processes did not answer process 1: it was ended, cannot be reached" in second
        assert Checkpoints(tmp_path / "run" / "checkpoints").load().info["step"] == 20
        again = started(both, tmp_path, monkeypatch, 60)
        for life in again:
            life.join(120)
        assert [life.exitcode for life in again] == [0, 0], logs(tmp_path)
    training(tmp_path / "alone").finish()
    found, alone = (
        Checkpoints(tmp_path / name / "checkpoints").load() for name in ("run", "alone")
    )
    assert found.info["step"] == alone.info["step"] == 40
    for name, value in alone.tensors.items():
        if not name.endswith("table.values"):
            torch.testing.assert_close(found.tensors[name], value, rtol=0, atol=1e-5, msg=name)
