"""How much memory a training takes whose data are larger than memory should hold.

Pictures of 3×32×32 bytes, 4 GB of them unless told otherwise, lie in a memory-mapped file of random
numbers. A small network is trained on them by LGA, with a folder, so that all of them are looked at
once for the fingerprint. What counts is anonymous memory, `RssAnon`: pages of the file itself can
be dropped at any time.

    python benchmarks/mapped_memory.py [--gigabytes 4] [--steps 200] [--folder /tmp]
"""

from __future__ import annotations

import argparse
import re
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from labelgrad import LGA, DatasetBatches, Evidence, Recipe, Supervised

SHAPE, CLASSES, LABELED, BATCH = (3, 32, 32), 10, 1000, 50


class Peak:
    """The most anonymous memory of this process between two looks, in megabytes."""

    def __init__(self) -> None:
        self.most, self._done = 0.0, False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """End the watch, and give the peak."""
        self._done = True
        self._thread.join()
        return self.most

    def _watch(self) -> None:
        while not self._done:
            self.most = max(self.most, anonymous())
            time.sleep(0.01)


def anonymous() -> float:
    """The anonymous memory of this process, in megabytes."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def write_pictures(path: Path, count: int) -> None:
    """Random pictures in a file, some at a time."""
    numbers = np.random.default_rng(0)
    pictures = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(count, *SHAPE))
    for start in range(0, count, 20_000):
        part = pictures[start : start + 20_000]
        part[:] = numbers.integers(256, size=part.shape, dtype=np.uint8)
    pictures.flush()


def network() -> nn.Module:
    """A convolution and a linear layer."""
    return nn.Sequential(nn.Conv2d(3, 16, 3, 4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(CLASSES))


def to_numbers(x: Tensor) -> Tensor:
    """Bytes from -1 to 1."""
    return x.float() * (2 / 255) - 1


def main() -> None:
    """Write, train, and print what was held."""
    options = argparse.ArgumentParser()
    options.add_argument("--gigabytes", type=float, default=4.0)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--folder", default=None)
    asked = options.parse_args()
    count = int(asked.gigabytes * 2**30 / np.prod(SHAPE))
    with tempfile.TemporaryDirectory(dir=asked.folder) as place:
        file = Path(place, "pictures.npy")
        write_pictures(file, count)
        pictures = np.load(file, mmap_mode="r")
        y = torch.arange(count) % CLASSES
        shared = {"batch_size": BATCH, "transform": to_numbers, "workers": asked.workers}
        first = network()
        first(torch.zeros(1, *SHAPE))  # the lazy layer learns its size
        before, watch, began = anonymous(), Peak(), time.perf_counter()
        recipe = Recipe(
            first,
            lambda: 0.1 * Supervised() + LGA(count - LABELED, CLASSES, rule=Evidence()),
            DatasetBatches(pictures, y, rows=torch.arange(LABELED), **shared),
            DatasetBatches(pictures, rows=torch.arange(LABELED, count), **shared),
            steps=asked.steps,
        )
        recipe.run(folder=Path(place, "run"), checkpoint_every=asked.steps).finish()
        peak = watch.stop()
    print(
        f"{file.stem}: {count:,} of {SHAPE}, {asked.gigabytes:g} GB; {asked.steps} steps in "
        f"{time.perf_counter() - began:.0f} s; anonymous memory {before:.0f} MB before, at most "
        f"{peak:.0f} MB."
    )


if __name__ == "__main__":
    main()
