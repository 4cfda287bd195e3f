"""How much memory it takes to fit, predict and list labels of a table of ten million rows.

    python benchmarks/large_table.py [--rows 10000000] [--steps 500] [--folder /tmp]

Ten columns of numbers, 2 % of them missing, one of five words, and 600 labels of three classes, in
a Parquet file. Each command has a process of its own. What counts is anonymous memory, `RssAnon`,
looked at every 20 ms: pages of the table's numbers are the cache's file, and can be dropped at any
time.
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

AT_ONCE, LABELS = 500_000, 600


def write(path: Path, rows: int) -> None:
    """A table whose labels can be learned from its columns, some rows at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "dark red", "grey"])
    slopes, writer = rng.normal(size=(10, 3)), None
    for start in range(0, rows, AT_ONCE):
        count = min(AT_ONCE, rows - start)
        x = rng.normal(size=(count, 10))
        word = rng.integers(0, 5, count)
        truth = (x @ slopes + np.eye(5)[word][:, :3] + rng.normal(size=(count, 3))).argmax(1)
        x[rng.random(x.shape) < 0.02] = np.nan
        labels = np.array(["low", "middle", "high"], dtype=object)[truth]
        labels[rng.random(count) >= LABELS / rows] = None
        table = {f"number {i}": pa.array(x[:, i], from_pandas=True) for i in range(10)}
        whole = pa.table(table | {"word": words[word], "label": pa.array(labels, pa.string())})
        writer = writer or parquet.ParquetWriter(path, whole.schema)
        writer.write_table(whole)
    if writer is not None:
        writer.close()


def watched(*command: str, cache: Path) -> tuple[float, float]:
    """Run labelgrad, and give its seconds and its most anonymous memory in megabytes."""
    environment = os.environ | {"LABELGRAD_CACHE": str(cache)}
    began, most = time.perf_counter(), 0.0
    process = subprocess.Popen([sys.executable, "-m", "labelgrad", *command], env=environment)
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            continue
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        most = max(most, int(found[1]) / 1024 if found else 0.0)
        time.sleep(0.02)
    assert process.returncode == 0, f"{' '.join(command)} ended with {process.returncode}"
    return time.perf_counter() - began, most


def main() -> None:
    """Write, fit, predict, list, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as place:
        path, run = Path(place, "big.parquet"), str(Path(place, "run"))
        write(path, options.rows)
        lines = [f"{options.rows:,} rows, {path.stat().st_size / 1e6:.0f} MB of Parquet"]
        commands = {
            "fit": ("fit", str(path), "--target", "label", "--steps", str(options.steps)),
            "predict": ("predict", run, str(path), "--out", str(Path(place, "said.csv"))),
            "labels": ("labels", run, "--out", str(Path(place, "sure.csv"))),
        }
        commands["fit"] += ("--out", run)
        for name, command in commands.items():
            seconds, most = watched(*command, cache=Path(place, "cache"))
            lines.append(f"{name:<8} {seconds:6.0f} s  {most:6.0f} MB")
        files = [Path(run, "labels.csv"), Path(run, "examples.csv"), Path(place, "said.csv")]
        lines += [f"{file.name}: {file.stat().st_size / 1e6:.0f} MB" for file in files]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
