"""How much memory a fit takes whose pictures are many: made, cached, fitted, predicted.

Pictures of 224×224 are made in a folder, or taken where they are there already: one of four shapes,
tilted, of any colour, with noise. A tenth of a percent of them, at least 80, have a label. Then
`labelgrad fit` and `labelgrad predict` run as commands, and every process of theirs is looked at
ten times a second. What counts is anonymous memory, `RssAnon`: pages of the cache's file can be
dropped at any time.

    python benchmarks/large_pictures.py --folder /somewhere [--pictures 100000] [--steps 100] \
[-- OPTIONS OF FIT]
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SHAPES = ("disc", "square", "triangle", "cross")
SIDE, TEXTURES = 224, 16


def texture(seed: int) -> Image.Image:
    """Noise that some pictures share: it is what takes long to make."""
    noise = np.random.default_rng(seed).integers(0, 80, (SIDE, SIDE, 3), dtype=np.uint8)
    return Image.fromarray(noise).filter(ImageFilter.SMOOTH)


def picture(number: int, textures: list[Image.Image]) -> tuple[str, Image.Image]:
    """The shape of a number and its picture; always the same."""
    rng = np.random.default_rng([1, number])
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    image = textures[int(rng.integers(TEXTURES))].copy()
    x, y = map(int, rng.integers(80, 144, 2))
    r = int(rng.integers(30, 70))
    red, green, blue = map(int, rng.integers(80, 256, 3))
    colour = red, green, blue
    angles = rng.uniform(0, 2 * np.pi) + np.arange(4) * np.pi / 2
    corners = [(float(x + r * np.cos(a)), float(y + r * np.sin(a))) for a in angles]
    pen = ImageDraw.Draw(image)
    if shape == "disc":
        pen.ellipse((x - r, y - r, x + r, y + r), fill=colour)
    elif shape == "cross":
        for ends in (corners[::2], corners[1::2]):
            pen.line(ends, fill=colour, width=max(8, r // 4))
    else:
        pen.polygon(corners if shape == "square" else corners[:3], fill=colour)
    return shape, image


def make(folder: Path, numbers: range, labeled: int) -> None:
    """Write these pictures, those below `labeled` into the subfolders of their classes."""
    textures = [texture(seed) for seed in range(TEXTURES)]
    for number in numbers:
        shape, image = picture(number, textures)
        place = folder / (shape if number < labeled else f"unlabeled/{number // 1000:03}")
        place.mkdir(parents=True, exist_ok=True)
        image.save(place / f"{number:07}.jpg", quality=75)


def make_all(folder: Path, count: int, labeled: int) -> None:
    """All of them, by two processes."""
    parts = [range(start, min(start + 1000, count)) for start in range(0, count, 1000)]
    with Pool(2) as pool:
        pool.starmap(make, [(folder, part, labeled) for part in parts], chunksize=1)


Watched = tuple[float, dict[int, float], list[str]]


def watched(command: list[str], environment: dict[str, str]) -> Watched:
    """Seconds, the peak of each process in megabytes, and the lines that were printed."""
    began = time.perf_counter()
    peaks: dict[int, float] = {}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        while running.poll() is None:
            for pid in family(running.pid):
                peaks[pid] = max(peaks.get(pid, 0.0), anonymous(pid))
            time.sleep(0.1)
        said = running.stdout.read() if running.stdout else ""
    if running.returncode:
        sys.exit(f"{' '.join(command)} ended with {running.returncode}:\n{said}")
    return time.perf_counter() - began, peaks, said.splitlines()


def family(pid: int) -> list[int]:
    """A process and all that it started, directly or not."""
    found = [pid]
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    for each in found:
        found += children.get(each, [])
    return found


def anonymous(pid: int) -> float:
    """The anonymous memory of a process, in megabytes."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def main() -> None:
    """Make, fit, predict, and print what was held."""
    options = argparse.ArgumentParser()
    options.add_argument("--folder", required=True)
    options.add_argument("--pictures", type=int, default=100_000)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("fit", nargs="*", default=["--encoder", "none"])
    asked = options.parse_args()
    place = Path(asked.folder)
    pictures, run, out = place / f"pictures-{asked.pictures}", place / "run", place / "said.csv"
    labeled = max(80, asked.pictures // 1000)
    began = time.perf_counter()
    if not pictures.exists():
        make_all(pictures, asked.pictures, labeled)
    size = sum(path.stat().st_size for path in pictures.rglob("*.jpg"))
    print(f"{asked.pictures:,} pictures, {size / 1e9:.1f} GB: {time.perf_counter() - began:.0f} s")
    shutil.rmtree(run, ignore_errors=True)
    environment = {**os.environ, "LABELGRAD_CACHE": str(place / "cache")}
    command = [sys.executable, "-m", "labelgrad"]
    fit = [*command, "fit", str(pictures), "--out", str(run), "--steps", str(asked.steps)]
    for name, words in (
        ("fit", [*fit, *asked.fit]),
        ("predict", [*command, "predict", str(run), str(pictures), "--out", str(out)]),
    ):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds, peaks, said = watched(words, environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        for line in said:
            if " take " in line or "left out" in line:
                print(f"    {line}")
        largest = sorted((round(peak) for peak in peaks.values()), reverse=True)
        print(
            f"{name}: {seconds:.0f} s, {cpu:.0f} CPU seconds; {len(peaks)} processes, anonymous "
            f"memory at most {largest[0]} MB, of the others {largest[1:]}."
        )
    kept = sum(path.stat().st_size for path in (place / "cache").rglob("*") if path.is_file())
    print(f"the cache has {kept / 1e6:.0f} MB; {sum(1 for _ in out.open()) - 1:,} predictions")


if __name__ == "__main__":
    main()
