"""How much memory it takes to go through all labels of a large table, and how long.

A table of 1,000,000 rows of 100 lies in a file, every row of it once drawn and then left alone for
longer than its moves last, the slowest case. Its labels are gone through part by part, and written
as a `.npy` file. What counts is anonymous memory, `RssAnon`: pages of a file can be dropped.

    python benchmarks/label_parts.py [--rows 1000000] [--width 100] [--folder /tmp]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from mapped_memory import Peak, anonymous

from labelgrad import LabelTable


def filled(folder: Path, rows: int, width: int) -> LabelTable:
    """A table as after a training of 1,000 steps in which each row was drawn in the first 500."""
    table, numbers = LabelTable(rows, width, folder=folder), np.random.default_rng(0)
    assert table.file is not None
    for start in range(0, rows, 10_000):
        some = table.file.copied(start, min(start + 10_000, rows))
        some["values"] = numbers.normal(size=some["values"].shape)
        some["values"][:, 2] = some["values"][:, 2] ** 2
        some["counts"] = np.stack([numbers.integers(1, 500, len(some)), np.ones(len(some))], 1)
        table.file.put(start, some)
    table.clock.fill_(1000)
    return table


def main() -> None:
    """Fill a table, go through its labels, and print what was held."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=10**6)
    options.add_argument("--width", type=int, default=100)
    options.add_argument("--folder", default=None)
    asked = options.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=asked.folder) as place:
        table = filled(Path(place, "table"), asked.rows, asked.width)
        size = asked.rows, asked.width
        out = np.lib.format.open_memmap(Path(place, "labels.npy"), "w+", np.float32, size)
        before, watch, began = anonymous(), Peak(), time.process_time()
        for rows, labels in table.parts():
            out[rows] = labels.numpy()
        seconds, peak = time.process_time() - began, watch.stop()
        print(
            f"{asked.rows:,} labels of {asked.width}: {seconds:.0f} CPU seconds, anonymous memory "
            f"{before:.0f} MB before and at most {peak:.0f} MB."
        )


if __name__ == "__main__":
    main()
