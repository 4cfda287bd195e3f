"""What a step costs in a label table of 100,000,000 rows in a file, once its rows have been drawn.

Beside it a table of 10,000 rows in memory. They take turns in one run, several rounds; of each the
fastest round counts. The file is sparse: only rows that were drawn take space. First, 20,000 of its
rows, anywhere in it, are drawn for the first time; from then on these are drawn again, so every one
is in memory and has space on the disk. A round is a hundred steps of 50 rows.

    python benchmarks/warm_table.py [--rows 100000000] [--rounds 30] [--folder /tmp]
"""

from __future__ import annotations

import argparse
import tempfile
import time

import torch
from torch import Tensor

from labelgrad import LabelTable

WIDTH, BATCH, STEPS, SMALL, DRAWN = 3, 50, 100, 10**4, 2 * 10**4


def seconds_a_step(table: LabelTable, batches: Tensor, slope: Tensor) -> float:
    """Mean seconds of a draw and an update."""
    begin = time.perf_counter()
    for rows in batches:
        table.update(table.draw(rows), slope)
    return (time.perf_counter() - begin) / len(batches)


def main() -> None:
    """Measure, and print a line for each table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    slope = torch.randn(BATCH, WIDTH, generator=generator)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        tables = {
            f"{SMALL:,} in memory": LabelTable(SMALL, WIDTH),
            f"{options.rows:,} in a file": LabelTable(options.rows, WIDTH, folder=folder),
        }
        pools = [torch.arange(SMALL), torch.randint(options.rows, (DRAWN,), generator=generator)]
        best = dict.fromkeys(tables, float("inf"))
        for (name, table), pool in zip(tables.items(), pools, strict=True):
            first = seconds_a_step(table, pool.view(-1, BATCH), slope)
            print(f"{name:<26}{1000 * first:9.3f} ms a step the first time")
        for _ in range(options.rounds):
            for (name, table), pool in zip(tables.items(), pools, strict=True):
                drawn = pool[torch.randint(len(pool), (STEPS, BATCH), generator=generator)]
                best[name] = min(best[name], seconds_a_step(table, drawn, slope))
    least = min(best.values())
    for name, seconds in best.items():
        print(f"{name:<26}{1000 * seconds:9.3f} ms a step, {seconds / least:.2f} ×")


if __name__ == "__main__":
    main()
