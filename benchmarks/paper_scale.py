"""Every method for some steps at the paper's scale: does it run, what does it cost.

WRN-28-2 on all of CIFAR-10, by the settings of `--scale paper`. Of each method: the loss of its
first step and of its last ones, seconds of CPU time for a step, the most memory of the process, and
the arithmetic and the operations of a step, counted by PyTorch. From these follow the hours that
500,000 steps would take on a GPU, whichever is more: to compute, or to be told each operation. A
line for each method is added to the file, and what stands there is not run again.

    python benchmarks/paper_scale.py --data data [--steps 200] [--methods lga,vat]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from experiments.paper.image_experiments import PAPER, RECENT
from experiments.paper.image_task import SIZES, Task, examples
from experiments.paper.image_trial import training
from experiments.paper.settings import choice
from labelgrad.methods import every_method

LABELS, STEPS = 1000, SIZES["paper"].steps
# Assumed of a GPU, and not measured here: a tenth of the arithmetic that an A100 can do in TF32,
# convolutions being so small, and the seconds until the next operation can begin.
ARITHMETIC, LAUNCH = 1.5e13, 1e-5


class Operations(TorchDispatchMode):
    """How many operations PyTorch carries out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def measured(method: str, steps: int, data: Path) -> dict[str, Any]:
    """One method's line."""
    task, size = Task("cifar10", method, LABELS, 0), SIZES["paper"]
    chosen = choice(method, "paper", "cifar10")
    trainer = training(task, size, chosen, examples(task, size, data)).trainer
    with FlopCounterMode(display=False) as counter:
        losses = [trainer.step()["loss"]]
    with Operations() as operations:
        losses.append(trainer.step()["loss"])
    begin = time.process_time()
    losses += [trainer.step()["loss"] for _ in range(2, steps)]
    seconds = (time.process_time() - begin) / max(1, steps - 2)
    arithmetic = counter.get_total_flops()
    a_step = max(arithmetic / ARITHMETIC, operations.count * LAUNCH)
    return {
        "method": method,
        "steps": steps,
        "first_loss": round(losses[0], 4),
        "last_loss": round(sum(losses[-20:]) / len(losses[-20:]), 4),
        "cpu_seconds": round(seconds, 3),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "teraflops": round(arithmetic / 1e12, 4),
        "operations": operations.count,
        "gpu_hours": round(STEPS * a_step / 3600, 1),
    }


def main() -> None:
    """Print and keep a line for each method, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument(
        "--methods", default=",".join(dict.fromkeys((*PAPER, *every_method(), *RECENT)))
    )
    parser.add_argument("--out", type=Path, default=Path("paper_scale.jsonl"))
    asked = parser.parse_args()
    kept = asked.out.read_text().splitlines() if asked.out.exists() else []
    known = {(line["method"], line["steps"]) for line in map(json.loads, kept)}
    for method in asked.methods.split(","):
        if (method, asked.steps) in known:
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # for its own peak of memory
            line = pool.apply(measured, (method, asked.steps, asked.data))
        with asked.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
