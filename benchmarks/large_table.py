"""The time and memory that a table of ten million rows takes to fit, predict and list labels.

    python benchmarks/large_table.py [--rows 10000000] [--steps 500] [--folder /tmp]

Thirteen columns in a Parquet file: eleven of numbers, 2 % of them missing, one of five words, and
600 labels of three classes. Each command has a process of its own. What counts is anonymous memory
(`Anonymous` in `smaps_rollup`, summed over the command's processes, sampled ten times a second):
mapped pages of the cache's files can be dropped at any time.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

AT_ONCE, LABELS, NUMBERS = 500_000, 600, 11
WORDS = np.array(["red", "green", "blue", "dark red", "grey"])
CLASSES = np.array(["low", "middle", "high"], dtype=object)


def write(path: Path, rows: int) -> None:
    """A table whose labels can be learned from its columns, some rows at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    slopes, writer = rng.normal(size=(NUMBERS, 3)), None
    for start in range(0, rows, AT_ONCE):
        count = min(AT_ONCE, rows - start)
        x, word = rng.normal(size=(count, NUMBERS)), rng.integers(0, 5, count)
        truth = (x @ slopes + np.eye(5)[word][:, :3] + rng.normal(size=(count, 3))).argmax(1)
        x[rng.random(x.shape) < 0.02] = np.nan
        labels = CLASSES[truth]
        labels[rng.random(count) >= LABELS / rows] = None
        columns = {f"number {i}": pa.array(x[:, i], from_pandas=True) for i in range(NUMBERS)}
        part = pa.table(columns | {"word": WORDS[word], "label": pa.array(labels, pa.string())})
        writer = writer or parquet.ParquetWriter(path, part.schema)
        writer.write_table(part)
    if writer is not None:
        writer.close()


def anonymous(process: int) -> float:
    """Megabytes of anonymous memory of a process and of all that it has started."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        threads = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(c) for t in threads for c in (t / "children").read_text().split()]
    except (OSError, ValueError):  # it has just ended
        return 0.0
    found = re.search(r"^Anonymous:\s+(\d+) kB", rollup, re.MULTILINE)
    return (int(found[1]) / 1024 if found else 0.0) + sum(map(anonymous, children))


def measure(*command: str, cache: Path) -> tuple[float, float]:
    """Run labelgrad; its seconds, and its peak of anonymous memory in megabytes."""
    environment = os.environ | {"LABELGRAD_CACHE": str(cache)}
    began, most = time.perf_counter(), 0.0
    process = subprocess.Popen([sys.executable, "-m", "labelgrad", *command], env=environment)
    while process.poll() is None:
        most = max(most, anonymous(process.pid))
        time.sleep(0.1)
    if process.returncode:
        raise RuntimeError(f"labelgrad {' '.join(command)} ended with {process.returncode}.")
    return time.perf_counter() - began, most


def main() -> None:
    """Write, fit, predict, list, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as place:
        path, run = Path(place, "big.parquet"), str(Path(place, "run"))
        predictions, confident = Path(place, "predictions.csv"), Path(place, "confident.csv")
        write(path, options.rows)
        lines = [f"{options.rows:,} rows, {path.stat().st_size / 1e6:.0f} MB of Parquet"]
        fit = ("fit", str(path), "--target", "label", "--steps", str(options.steps), "--out", run)
        for command in (
            (*fit, "--base-models", "linear"),
            ("predict", run, str(path), "--out", str(predictions)),
            ("labels", run, "--out", str(confident)),
        ):
            seconds, most = measure(*command, cache=Path(place, "cache"))
            lines.append(f"{command[0]:<8} {seconds:6.0f} s  {most:6.0f} MB of anonymous memory")
            print(lines[-1], flush=True)
        files = (Path(run, "labels.csv"), predictions, confident)
        lines += [f"{file.name}: {file.stat().st_size / 1e6:.0f} MB" for file in files]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
