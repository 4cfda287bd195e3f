"""What a full-batch step of the synthetic experiment costs, against the two gradients in it.

The methods take turns in one run, several rounds, and the fastest step of each counts.

    python benchmarks/synthetic_cost.py [--rounds 8]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from labelgrad.datasets.shells import CLASSES
from labelgrad.paper.synthetic import SyntheticTrial


def steps() -> dict[str, Callable[[], object]]:
    """A step of each kind, ready to be called again and again."""
    torch.manual_seed(0)
    trials = {
        slope: SyntheticTrial("lga", seed=0, with_alignment=False, slope=slope)
        for slope in ("finite-difference", "forward-mode")
    }
    model, count = trials["forward-mode"].trainer.model, trials["forward-mode"].size
    batches = [
        (torch.randn(rows, count.dimension), torch.full((rows, CLASSES), 1 / CLASSES))
        for rows in (count.labeled, count.unlabeled)
    ]

    def two_gradients() -> None:
        for x, y in batches:
            torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))

    return {
        "two plain gradients": two_gradients,
        **{f"LGA, {slope}": trial.trainer.step for slope, trial in trials.items()},
    }


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kinds = steps()
    best = dict.fromkeys(kinds, float("inf"))
    for turn in range(options.rounds + 1):  # the first turn warms up
        for name, step in kinds.items():
            begin = time.perf_counter()
            step()
            if turn:
                best[name] = min(best[name], time.perf_counter() - begin)
    plain = best["two plain gradients"]
    print(f"{'one thread, fastest of ' + str(options.rounds):<26}{'s/step':>8}{'× plain':>9}")
    for name, seconds in best.items():
        print(f"{name:<26}{seconds:>8.3f}{seconds / plain:>9.2f}")


if __name__ == "__main__":
    main()
