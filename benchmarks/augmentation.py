"""What random views cost: a batch at once against its pictures one by one, the same operations.

Both ways take turns in one run, several rounds, and the fastest of each counts. The clock is that
of the process, with one thread, so that others on the machine disturb little.

    python benchmarks/augmentation.py [--rounds 10]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from labelgrad.augment.rand_augment import rand_augment
from labelgrad.augment.views import Pictures, cutout, flip, translate

View = Callable[[Tensor], Tensor]
BATCHES = (50, 448)
VIEWS: dict[str, View] = {
    "flip": flip,
    "translate": translate,
    "cutout": cutout,
    "RandAugment": rand_augment,
    "weak": Pictures(0.0, 1.0).weak,
    "strong": Pictures(0.0, 1.0).strong,
}


def one_by_one(view: View, x: Tensor) -> Tensor:
    """The view of each picture drawn on its own."""
    return torch.cat([view(picture.unsqueeze(0)) for picture in x])


def fastest(view: View, x: Tensor, rounds: int) -> tuple[float, float]:
    """Seconds of the batch at once and of its pictures one by one, taking turns."""
    ways: tuple[View, View] = view, partial(one_by_one, view)
    best = [float("inf")] * 2
    for _ in range(rounds):
        for index, way in enumerate(ways):
            way(x)  # the other way has left the memory in pieces of its own size
            begin = time.process_time()
            way(x)
            best[index] = min(best[index], time.process_time() - begin)
    return best[0], best[1]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'view':<14}{'pictures':>9}{'ms at once':>12}{'ms one by one':>15}{'ratio':>8}")
    for count in BATCHES:
        x = torch.rand(count, 3, 32, 32)
        for name, view in VIEWS.items():
            together, apart = fastest(view, x, options.rounds)
            times = f"{1000 * together:>12.2f}{1000 * apart:>15.2f}{apart / together:>8.1f}"
            print(f"{name:<14}{count:>9}{times}", flush=True)


if __name__ == "__main__":
    main()
