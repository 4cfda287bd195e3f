"""Several processes that train together, forked from one in which PyTorch has begun."""

import multiprocessing
import os
import pickle
import signal
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch._dynamo  # which every process would import by itself at its first optimizer
import torch.distributed as dist

from labelgrad import LGA, MLP, Evidence, Recipe, Supervised, TensorBatches
from labelgrad.augment.views import Noise
from labelgrad.distributed import Group, current_group

SECONDS = 60.0


def job(folder, group=None, steps=24, every=4, table=None):
    """A small training in single precision, with a validation set and checkpoints."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(90, 4, generator=generator), torch.arange(90) % 3
    x += y[:, None]
    recipe = Recipe(
        lambda: MLP(4, (8,), 3),
        lambda: 0.2 * Supervised() + LGA(60, 3, rule=Evidence(), folder=table),
        TensorBatches(x, y, rows=torch.arange(30), batch_size=10),
        TensorBatches(x, rows=torch.arange(30, 90), batch_size=12),
        steps=steps,
        views=Noise(),
    )
    return recipe.run(
        group=group,
        folder=folder,
        examples={"validation": (x[:30], y[:30])},
        truth=y[30:],
        evaluate_every=every,
        checkpoint_every=every,
    )


def together(size, work, *, seconds=SECONDS, kill=None):
    """What `work(group)` gives in each of so many processes, or the error that it ended with.

    `kill` is a rank and how many seconds after its birth it is killed; it gives "killed".
    """
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [context.Pipe(duplex=False) for _ in range(size)]
        processes = []
        for rank, (_, end) in enumerate(pipes):
            begins = [begin for begin, _ in pipes]
            life = (rank, size, work, folder, end, begins, seconds)
            processes.append(context.Process(target=_live, args=life))
            processes[-1].start()
            end.close()
        if kill is not None:
            time.sleep(kill[1])
            os.kill(processes[kill[0]].pid, signal.SIGKILL)
        found = [_received(begin) for begin, _ in pipes]
        for process in processes:
            process.join()
    return found


def _received(pipe):
    try:
        return pickle.loads(pipe.recv_bytes())
    except EOFError:
        return "killed"


def _live(rank, size, work, folder, end, begins, seconds):
    for begin in begins:
        begin.close()
    torch.set_num_threads(1)
    try:
        found = work(_joined(rank, size, folder, seconds) if size > 1 else Group())
    except Exception as error:
        found = error
    end.send_bytes(pickle.dumps(found))  # plain: PyTorch would hand over shared memory
    end.close()
    os._exit(0)


def _joined(rank, size, folder, seconds):
    os.environ["LABELGRAD_TIMEOUT"] = str(seconds)
    store, limit = dist.FileStore(str(Path(folder) / "store"), size), timedelta(seconds=seconds)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
    return current_group()
