"""What reading a large CSV file costs: by pyarrow in columns, and cell by cell.

    python benchmarks/large_csv.py [--rows 1000000] [--repeat 3]

Twelve columns of decimals, three of whole numbers, three of words, one of dates and the labels,
2 % of the numbers missing. Each reading has a process of its own, in which everything is imported
before; the two ways take turns. Seconds are of the CPU, the least of all turns. Memory is the peak
beyond what the process had before. Both must give the same `Dataset`, digit by digit.
"""

import argparse
import hashlib
import multiprocessing
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

WAYS = {"cell by cell": 2**62, "in columns": 0}  # the size from which pyarrow reads


def write(path: Path, rows: int) -> None:
    """A table that all programs write so."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    columns = {f"decimal {i}": rng.normal(size=rows).round(6) for i in range(12)}
    columns |= {f"whole {i}": rng.integers(0, 1000, rows).astype(float) for i in range(3)}
    for numbers in columns.values():
        numbers[rng.random(rows) < 0.02] = np.nan
    words = np.array(["red", "green", "blue", "dark red"])
    columns |= {f"word {i}": words[rng.integers(0, 4, rows)] for i in range(3)}
    columns["day"] = (np.datetime64("2000-01-01") + rng.integers(0, 5000, rows)).astype(str)
    labels = np.array(["yes", "no"], dtype=object)[rng.integers(0, 2, rows)]
    labels[rows // 100 :] = ""
    table = {name: pa.array(cells, from_pandas=True) for name, cells in columns.items()}
    whole = pa.table(table | {"label": pa.array(labels)})
    csv.write_csv(whole, path, csv.WriteOptions(quoting_style="none"))


def one_reading(path: Path, large: int) -> tuple[float, float, str]:
    """CPU seconds, megabytes, and what all that was read is called."""
    import pyarrow.compute
    import pyarrow.csv  # noqa: F401

    from labelgrad.inputs import arrow_csv
    from labelgrad.inputs.kinds import read

    arrow_csv.LARGE = large
    read(path.with_name("small.csv"))  # all that is imported on the way
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    found = read(path)
    seconds = time.process_time() - began
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    content = hashlib.sha256(repr((found.notes, found.preprocessing, found.classes)).encode())
    content.update(found.x.numpy().tobytes() + found.y.numpy().tobytes())
    return seconds, memory, content.hexdigest()


def main() -> None:
    """Read both ways, in turns, and print a line for each and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float, str]]] = {way: [] for way in WAYS}
    context = multiprocessing.get_context("spawn")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "large.csv"
        write(path, options.rows)
        write(path.with_name("small.csv"), 1000)
        for _ in range(options.repeat):
            for way, large in WAYS.items():
                with context.Pool(1) as alone:
                    found[way].append(alone.apply(one_reading, (path, large)))
        print(f"{options.rows:,} rows, 20 columns, {path.stat().st_size / 1e6:.0f} MB")
    assert len({content for every in found.values() for *_, content in every}) == 1
    least = {}
    for way, every in found.items():
        least[way] = min(s for s, *_ in every), min(m for _, m, _ in every)
        print(f"{way:<14} {least[way][0]:6.1f} s  {least[way][1]:6.0f} MB")
    (slow, much), (fast, little) = least.values()
    print(f"in columns: 1/{slow / fast:.1f} of the time, 1/{much / little:.1f} of the memory")


if __name__ == "__main__":
    main()
