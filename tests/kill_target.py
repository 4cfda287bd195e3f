"""A real training job for `test_kill.py` to kill: python kill_target.py FOLDER memory|mapped."""

import sys
from pathlib import Path

import torch

from labelgrad import LGA, Run, Stream, Supervised, Trainer
from tests.conftest import WIDTH, ConvNet

STEPS, ROWS = 700, 300


def job(folder: Path, storage: str) -> Run:
    """Batch norm, dropout, a schedule-free sum of two terms, and frequent checkpoints."""
    torch.manual_seed(0)
    x, y = torch.randn(60 + ROWS, 1, 4, 4), torch.arange(60 + ROWS) % WIDTH
    x += y[:, None, None, None]
    table = None if storage == "memory" else folder / "table"
    trainer = Trainer(
        ConvNet(dropout=0.3),
        0.2 * Supervised() + LGA(ROWS, WIDTH, folder=table),
        Stream(x[:60], y[:60], batch_size=20),
        Stream(x[60:], batch_size=30),
    )
    examples = {"validation": (x[:60], y[:60])}
    return Run(
        trainer,
        steps=STEPS,
        folder=folder,
        examples=examples,
        truth=y[60:],
        evaluate_every=50,
        checkpoint_every=9,
    )


if __name__ == "__main__":
    run = job(Path(sys.argv[1]), sys.argv[2])
    print("ready", flush=True)  # noqa: T201
    run.finish()
