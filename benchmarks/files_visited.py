"""How many of our files one `labelgrad fit table.csv` runs through.

A reader who wants to know what `fit` does has to open these. Only functions that are called
count: what is merely imported does not.

    python benchmarks/files_visited.py
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from unittest.mock import patch

import numpy as np

import labelgrad
from labelgrad.auto.cli import app

HOME = Path(labelgrad.__file__).parent


def main() -> None:
    """Fit a small table in this process, and print what was visited."""
    with tempfile.TemporaryDirectory() as folder:
        visited = files_visited(Path(folder))
    by_file = Counter(file for file, _ in visited)
    for file, functions in sorted(by_file.items()):
        print(f"{functions:4} functions of {file}")
    print(f"{len(by_file)} files and {len(visited)} functions.")


def files_visited(folder: Path) -> set[tuple[str, str]]:
    """The file and name of every function of ours that is called."""
    visited: set[tuple[str, str]] = set()

    def trace(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(str(HOME)) and not code.co_name.startswith("<"):
            visited.add((str(Path(code.co_filename).relative_to(HOME)), code.co_qualname))

    data = write_table(folder / "table.csv")
    fit(data, folder / "first")  # so that all modules are there: what they run then is no call
    sys.settrace(trace)
    try:
        fit(data, folder / "second")
    finally:
        sys.settrace(None)
    return visited


def fit(data: Path, out: Path) -> None:
    """The command, silent."""
    words = ["labelgrad", "fit", str(data), "--target", "label", "--out", str(out)]
    words += ["--steps", "30", "--workers", "1"]
    with patch.object(sys, "argv", words), redirect_stdout(io.StringIO()):
        try:
            app.main()
        except SystemExit as end:
            if end.code:
                raise


def write_table(path: Path) -> Path:
    """Sixty rows of two columns, and a label for each of the first twenty."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    label = np.where(x.sum(1) > 0, "yes", "no")
    rows = [f"{a},{b},{label[row] if row < 20 else ''}" for row, (a, b) in enumerate(x)]
    path.write_text("\n".join(["first,second,label", *rows]) + "\n")
    return path


if __name__ == "__main__":
    main()
