"""A training of one's own for torchrun: `torchrun … tests/torchrun_target.py FOLDER [DIES]`.

It says nothing of processes. With DIES one of them is killed in the middle of its first life.
"""

import os
import signal
import sys

import torch

from labelgrad import LGA, MLP, Evidence, Recipe, Supervised, TensorBatches


def main(folder, dies=""):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(90, 4, generator=generator), torch.arange(90) % 3
    x += y[:, None]
    run = Recipe(
        lambda: MLP(4, (8,), 3),
        lambda: 0.2 * Supervised() + LGA(60, 3, rule=Evidence()),
        TensorBatches(x, y, rows=torch.arange(30), batch_size=10),
        TensorBatches(x, rows=torch.arange(30, 90), batch_size=12),
        steps=40,
    ).run(folder=folder, evaluate_every=10, checkpoint_every=10)
    for record in run:
        lives = os.environ.get("TORCHELASTIC_RESTART_COUNT")
        if dies and record["step"] == 25 and (os.environ.get("RANK"), lives) == ("1", "0"):
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
