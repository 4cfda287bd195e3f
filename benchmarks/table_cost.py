"""What a step of the label table costs, by its number of rows: it should not matter.

Tables take turns in one run, several rounds, and the fastest of each counts. Rows are drawn at
random, as a shuffled stream draws them. Tables in memory have been written through once, as after
an epoch; those in a file are new, so every row drawn is one the disk has yet to make room for.

    python benchmarks/table_cost.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import tempfile
import time

import torch

from labelgrad import LabelTable

WIDTH, BATCH, STEPS = 10, 50, 100
SIZES = (10**4, 10**5, 10**6, 10**7)


def seconds_a_step(table: LabelTable, generator: torch.Generator) -> float:
    """Mean seconds of a draw and an update, over a hundred of them."""
    rows = torch.randint(table.rows, (STEPS, BATCH), generator=generator)
    slope = torch.randn(BATCH, WIDTH, generator=generator)
    begin = time.perf_counter()
    for drawn in rows:
        table.update(table.draw(drawn), slope)
    return (time.perf_counter() - begin) / STEPS


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        tables = {f"{rows:,} in memory": LabelTable(rows, WIDTH) for rows in SIZES}
        for table in tables.values():
            table.values.zero_(), table.counts.zero_()
        for rows in (10**7, 10**8):
            tables[f"{rows:,} in a file"] = LabelTable(rows, WIDTH, folder=f"{folder}/{rows}")
        best = dict.fromkeys(tables, float("inf"))
        for turn in range(options.rounds + 3):
            for name, table in tables.items():
                seconds = seconds_a_step(table, generator)
                if turn >= 3:  # by then every row of the smallest table has a history
                    best[name] = min(best[name], seconds)
    first = next(iter(best.values()))
    print(f"{'rows':<24}{'ms/step':>9}{'ratio':>8}")
    for name, seconds in best.items():
        print(f"{name:<24}{1000 * seconds:>9.3f}{seconds / first:>8.2f}")


if __name__ == "__main__":
    main()
