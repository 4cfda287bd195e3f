"""A real training job for `test_kill.py` to kill.

`python -m tests.unit.training.kill_target FOLDER memory|mapped` does it once. Without arguments it
is a nursery: PyTorch, which takes seconds to begin, is ready there, and for every line `FOLDER
memory|mapped` that comes in, a process is forked that does the job; it says its number, the nursery
how it ended.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from labelgrad import LGA, Run, Supervised, TensorBatches, Trainer
from tests.conftest import WIDTH, ConvNet

STEPS, ROWS = 280, 300


def job(folder: Path, storage: str) -> Run:
    """Batch norm, dropout, a schedule-free sum of two terms, and frequent checkpoints."""
    torch.set_num_threads(1)  # threads do not survive a fork
    torch.manual_seed(0)
    x, y = torch.randn(60 + ROWS, 1, 4, 4), torch.arange(60 + ROWS) % WIDTH
    x += y[:, None, None, None]
    table = None if storage == "memory" else folder / "table"
    trainer = Trainer(
        ConvNet(dropout=0.3),
        0.2 * Supervised() + LGA(ROWS, WIDTH, folder=table),
        TensorBatches(x[:60], y[:60], batch_size=20),
        TensorBatches(x[60:], batch_size=30),
    )
    examples = {"validation": (x[:60], y[:60])}
    return Run(
        trainer,
        steps=STEPS,
        folder=folder,
        examples=examples,
        truth=y[60:],
        evaluate_every=20,
        checkpoint_every=4,
    )


def live(folder: str, storage: str) -> None:
    run = job(Path(folder), storage)
    print(os.getpid(), flush=True)  # noqa: T201
    run.finish()


def nursery() -> None:
    with TemporaryDirectory() as folder:
        next(iter(job(Path(folder), "mapped")))  # what PyTorch imports on a first step
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            live(*line.split())
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201


if __name__ == "__main__":
    live(*sys.argv[1:]) if sys.argv[1:] else nursery()
