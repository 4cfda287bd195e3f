"""The page to work on with 10⁵ examples and 1,000 classes: how soon it opens, how much it holds.

    python benchmarks/review_size.py

A run folder is made up (nothing is trained), `labelgrad review` serves it, and the pages are asked
for as the browser does. With chromium and playwright the grid is opened in a real one.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from labelgrad.files import json_bytes
from labelgrad.fitting.labels import Example, ImputedLabel, examples_csv, labels_csv
from labelgrad.fitting.run_files import CONFIG, EXAMPLES, HELD_OUT, LABELS, SUMMARY
from labelgrad.fitting.run_folder import write_files
from labelgrad.fitting.source import Source
from labelgrad.fitting.statements import FILE as STATEMENTS
from labelgrad.fitting.statements import of_classes

SIDE = 32  # pixels
IN_SIGHT = 40  # pictures of a grid; others are loaded when they are scrolled to
WITNESSES = ("linear", "self-training", "random forest", "extra trees", "neighbours", "network")


def write_run(folder: Path, examples: int, classes: int, *, labeled: int = 2000) -> None:
    """A run folder as `fit` would leave it, of random pictures, labels and opinions."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    names = [f"class {place:03}" for place in range(classes)]
    data = folder.parent / "pictures.npz"
    np.savez(data, x=random.integers(0, 256, (examples, SIDE, SIDE), dtype=np.uint8))
    unlabeled = examples - labeled
    label = random.integers(0, classes, unlabeled)
    sure = random.beta(8, 1.5, unlabeled)
    rows = [
        ImputedLabel(str(labeled + i), names[k], p, names[k], p, True, 0.1, None)
        for i, (k, p) in enumerate(zip(label.tolist(), sure.tolist(), strict=True))
    ]
    given = random.integers(0, classes, labeled).tolist()
    shown = [Example(str(row), names[k]) for row, k in enumerate(given)]
    shown += [Example(row.name, None, str(row.label), 0.1, 0.5) for row in rows]
    parts = []
    for start in range(0, unlabeled, 5000):  # all at once would be gigabytes
        mine = label[start : start + 5000]
        logs = np.log(random.dirichlet(np.ones(classes), len(mine)))
        logs[np.arange(len(mine)), mine] = 0.0
        near = random.integers(0, labeled, (len(mine), 6))
        parts.append(of_classes(dict.fromkeys(WITNESSES, logs), np.exp(logs), near))
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("said", "sure", "likely", "probability", "near")
    }
    statements = type(parts[0])(WITNESSES, **joined)
    held_out = io.BytesIO()
    np.savez(held_out, rows=np.zeros(0, int), y=np.zeros(0, int))
    config = {"kind": "arrays", "task": "classification", "classes": names}
    contents = {
        LABELS: labels_csv(rows, "row"),
        EXAMPLES: examples_csv(shown, "row"),
        STATEMENTS: statements.content(),
        HELD_OUT: held_out.getvalue(),
        CONFIG: json_bytes(config | {"preprocessing": {"channels_last": False}}),
        SUMMARY: json_bytes({"data": str(data), "plan": {"seed": 0}}),
    }
    write_files(folder, contents)
    Source(str(data)).save(folder)


def serve(folder: Path) -> tuple[subprocess.Popen[str], str, float]:
    """`labelgrad review` on a folder, its address, and how long it took to say it."""
    began = time.perf_counter()
    command = "from labelgrad.cli.app import main; main()"
    server = subprocess.Popen(
        [sys.executable, "-c", command, "review", str(folder), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    for line in server.stdout:
        found = re.search(r"http://\S+", line)
        if found:
            return server, found.group(0), time.perf_counter() - began
    raise RuntimeError("The server said no address.")


def megabytes(process: int) -> float:
    """What a process holds in memory at most, so far."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1000


def asked(address: str, path: str) -> tuple[bytes, float]:
    """An answer, and the seconds until it was there."""
    began = time.perf_counter()
    with urllib.request.urlopen(address + path) as answer:
        return answer.read(), time.perf_counter() - began


def in_a_browser(address: str) -> float | None:
    """Seconds from the key to a screen full of pictures; None without a browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with suppress(ImportError):
        from playwright.sync_api import sync_playwright

        if chromium is not None:
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1280, "height": 900})
                page.goto(address)
                page.locator("#look img").wait_for()
                began = time.perf_counter()
                page.keyboard.press("g")
                loaded = "all => all.filter(one => one.complete && one.naturalWidth).length"
                while page.locator("#sheet img").evaluate_all(loaded) < IN_SIGHT:
                    time.sleep(0.01)
                return time.perf_counter() - began
    return None


def main() -> None:
    """Print one line for each thing measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=1000)
    options = parser.parse_args()
    with TemporaryDirectory() as place:
        write_run(Path(place, "run"), options.examples, options.classes)
        server, address, seconds = serve(Path(place, "run"))
        try:
            print(f"{options.examples} examples, {options.classes} classes")
            print(f"until the address is printed: {seconds:.2f} s")
            for name, path in (
                ("the facts", "api/run"),
                ("the queue, most useful first", "api/queue?order=useful&count=100"),
                ("one example", "api/example/50000"),
                ("the grid of a class", "api/queue?order=sure&label=7&count=60&looks=1"),
                ("a search", "api/queue?search=9999&count=60"),
                ("the state", "api/state"),
            ):
                content, seconds = asked(address, path)
                print(f"{name}: {1000 * seconds:.0f} ms, {len(content) / 1000:.1f} kB")
            grid = json.loads(asked(address, "api/queue?order=sure&label=7&count=60")[0])["rows"]
            began = time.perf_counter()
            for row in grid:
                asked(address, f"picture/{row[0]}/192")
            print(f"its {len(grid)} pictures: {1000 * (time.perf_counter() - began):.0f} ms")
            opened = in_a_browser(address)
            print("the grid in chromium:", "not there" if opened is None else f"{opened:.2f} s")
            print(f"the server holds at most {megabytes(server.pid):.0f} MB")
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
