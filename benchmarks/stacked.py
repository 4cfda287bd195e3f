"""What trainings of a small perceptron cost that advance together, beside one that is stepped.

The network is 64-128-128-10, the batches are 50 labeled and 50 unlabeled rows. "stepped" is one
training by `Trainer.step`, which takes any model and any objective; "one" is the same training by
`advance`, and "many" are so many of them. They take turns in one run, several rounds, and the
fastest of each counts: machines are shared and noisy, and a ratio within one run is what can be
trusted. One thread; with `--cpu-time` only the seconds count in which the process had a core.

    python benchmarks/stacked.py [--rounds 8] [--many 10] [--only supervised lga] [--cpu-time]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from labelgrad import MLP, Supervised, TensorBatches, Trainer, methods
from labelgrad.training.stacked import advance

ROWS, LABELS, CLASSES, BATCH, STEPS = 1697, 100, 10, 50, 20
PROBLEM = methods.Problem(rows=ROWS, width=CLASSES, batch_size=BATCH, steps=5000)
METHODS = ("supervised", "lga-evidence", "lga")


def trainer(method: str) -> Trainer:
    """One training of a method, as `labelgrad.fit` would set it up."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(LABELS + ROWS, 64, generator=generator)
    y = torch.arange(LABELS + ROWS) % CLASSES
    return Trainer(
        MLP(64, (128, 128), CLASSES),
        Supervised() if method == "supervised" else methods.method(method, PROBLEM),
        TensorBatches(x, y, rows=torch.arange(LABELS), batch_size=BATCH),
        TensorBatches(x, rows=torch.arange(LABELS, LABELS + ROWS), batch_size=BATCH),
        learning_rate=2e-4,
    )


def step_by_step(one: Trainer) -> None:
    """Some steps by the trainer itself."""
    for _ in range(STEPS):
        one.step()


def together(trainers: list[Trainer]) -> None:
    """As many steps of all."""
    for _ in advance(trainers, STEPS):
        pass


def milliseconds(method: str, many: int, rounds: int, clock: Callable[[], float]) -> list[float]:
    """A step by itself, a step of one, and a step of many."""
    alone, one = trainer(method), [trainer(method)]
    all_of_them = [trainer(method) for _ in range(many)]
    works: list[Callable[[], None]] = [
        lambda: step_by_step(alone),
        lambda: together(one),
        lambda: together(all_of_them),
    ]
    found = [float("inf")] * len(works)
    for _ in range(rounds):
        for place, work in enumerate(works):
            began = clock()
            work()
            found[place] = min(found[place], 1000 * (clock() - began) / STEPS)
    return found


def main() -> None:
    """A line for each method."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--many", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=METHODS, default=METHODS)
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.process_time if options.cpu_time else time.perf_counter
    names = ("stepped", "one", "many", "one/stepped", "many/stepped", "many/one")
    print(f"{'':14}" + "".join(f"{name:>14}" for name in names))
    for method in options.only:
        stepped, one, many = milliseconds(method, options.many, options.rounds, clock)
        numbers = "".join(f"{value:11.2f} ms" for value in (stepped, one, many))
        ratios = "".join(f"{r:14.2f}" for r in (one / stepped, many / stepped, many / one))
        print(f"{method:14}{numbers}{ratios}", flush=True)


if __name__ == "__main__":
    main()
