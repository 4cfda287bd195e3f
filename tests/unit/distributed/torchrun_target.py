"""A training of one's own and a command, under torchrun: `python torchrun_target.py FOLDER N`.

Importing takes most of so short a run, so this process is torchrun, and forks its workers.
The training says nothing of processes. One of them is killed in the middle of its first life.
"""

import multiprocessing.process
import os
import signal
import sys
from pathlib import Path

from torch.distributed import run as torchrun

from labelgrad import fit  # noqa: F401
from labelgrad.auto.cli.app import main
from tests.unit.distributed.processes import job

FIT = "labelgrad fit pets.csv --target kind --steps 8 --base-models lga --workers 1 --out run"


def training(folder):
    return job(folder, steps=40, every=10)


def worker(folder):
    multiprocessing.process._parent_process = None  # as one that torchrun starts by a command
    for record in training(folder):
        lives = os.environ["TORCHELASTIC_RESTART_COUNT"]
        if record["step"] == 25 and (os.environ["RANK"], lives) == ("1", "0"):
            Path("was-killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    sys.argv = FIT.split()
    main()


if __name__ == "__main__":
    if "TORCHELASTIC_RUN_ID" in os.environ:
        worker(sys.argv[1])
    else:
        how = f"--nproc-per-node {sys.argv[2]} --max-restarts 1 --start-method fork --run-path"
        torchrun.main([*how.split(), __file__, sys.argv[1]])
