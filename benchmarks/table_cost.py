"""What a step of the label table costs, by its number of rows: it should not matter.

Tables take turns in one run, several rounds, and the fastest of each counts. Rows are drawn at
random, as a shuffled stream draws them. Tables in memory have been written through once, as after
an epoch. Of a table in a file either all rows are drawn, so that nearly every one is new and the
disk has yet to make room for it, or a few again and again.

    python benchmarks/table_cost.py [--rounds 7] [--folder /tmp]
"""

from __future__ import annotations

import argparse
import tempfile
import time

import torch

from labelgrad import LabelTable

WIDTH, BATCH, STEPS = 10, 50, 100
FEW = 2000  # rows of a file that are drawn again and again
SIZES = (10**4, 10**5, 10**6, 10**7)


def seconds_a_step(table: LabelTable, drawn: int, generator: torch.Generator) -> float:
    """Mean seconds of a draw and an update, over a hundred of them, among the first rows."""
    rows = torch.randint(drawn, (STEPS, BATCH), generator=generator) * (table.rows // drawn)
    slope = torch.randn(BATCH, WIDTH, generator=generator)
    begin = time.perf_counter()
    for row in rows:
        table.update(table.draw(row), slope)
    return (time.perf_counter() - begin) / STEPS


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        tables = {f"{rows:,} in memory": (LabelTable(rows, WIDTH), rows) for rows in SIZES}
        for table, _ in tables.values():
            table.values.zero_(), table.counts.zero_()
        for rows in (10**7, 10**8):
            file = LabelTable(rows, WIDTH, folder=f"{folder}/{rows}")
            tables[f"{rows:,} in a file, new rows"] = file, rows
            tables[f"{rows:,} in a file, rows drawn before"] = file, FEW
        best = dict.fromkeys(tables, float("inf"))
        for turn in range(options.rounds + 3):
            for name, (table, drawn) in tables.items():
                seconds = seconds_a_step(table, drawn, generator)
                if turn >= 3:  # by then most rows of the smallest pools have a history
                    best[name] = min(best[name], seconds)
    first = next(iter(best.values()))
    print(f"{'rows':<38}{'ms/step':>9}{'ratio':>8}")
    for name, seconds in best.items():
        print(f"{name:<38}{1000 * seconds:>9.3f}{seconds / first:>8.2f}")


if __name__ == "__main__":
    main()
