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

from labelgrad.distributed import Group, current_group

SECONDS = 60.0


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
