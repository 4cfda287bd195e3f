"""Misuse of the command: wrong options, missing files, folders of older versions, full disks."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

from labelgrad.auto.cli.app import app
from tests.adversarial.cases import Failure, Part, checked, command
from tests.adversarial.targets import FIT, RESULT, copy_run, finished_runs, write_data

PATHS = ["pets.csv", "nowhere.csv", ".", "/dev/null", "", "a\x1bb.csv", "x" * 300, "run", "é", "~"]
VALUES = [
    *("0", "-1", "1", "2.5", "nan", "inf", "1e400", str(10**30), "", "x", "a,b", "a=1,b=nan"),
    *("yes=0.5,no=0.5", "label", "size", "linear", "lga+vat", "lga+lga", "+", "cuda:99", "mlp-0"),
    *("150%", "5%", "\x1b[2J", "none", "prices.csv", "nowhere", "é" * 400),
]
LONG = ("--time-budget", "--dask", "--help")  # options that may take minutes or say much
OLD = {
    "digests.json": json.dumps({"version": 1, "files": {}}),
    "plan.json": json.dumps({"steps": 5}),
    "config.json": json.dumps({"labelgrad": "0.9", "version": 2}),
    "labels.csv": "row,label\n1,a\n",
    "manifest.json": json.dumps({"format": 1}),
}


def case(draw: random.Random, place: Path) -> str:
    """A command with options, paths and values at random."""
    run, data = copy_run(place, "classes")
    before, name = data.read_bytes(), draw.choice([*app.commands, "fit", "fit", "labels"])
    words: list[object] = [name]
    if name in ("fit", "compare"):
        words += [draw.choice([*PATHS, *["pets.csv"] * 10]), "--steps", "2", "--target", "label"]
        words += ["--base-models" if name == "fit" else "--models", "linear,neighbours", "--out"]
        words += [draw.choice(["new", "new", "new", "pets.csv", "run", "/proc/x", "."])]
    elif name != "methods":
        words += [run if draw.random() < 0.8 else draw.choice(PATHS)]
        words += [draw.choice(PATHS)] if name == "predict" else []
    every = [one for one in app.commands[name].params if one.param_type_name == "option"]
    for option in draw.sample(every, min(len(every), draw.choice([0, 1, 1, 2]))):
        if option.opts[0] not in LONG:
            words += [option.opts[0], *([] if option.is_flag else [draw.choice(VALUES)])]
    words += ["--nonsense"] if draw.random() < 0.03 else []
    if name == "review":  # a page that opens would never end
        words += ["--data", "nowhere", "--port", "70000", "--no-browser"]
    ended = command(*words, cwd=place)
    if data.read_bytes() != before or not (run / "mine.txt").exists():
        raise Failure(f"{words} changed a file of the user's")
    return "refused" if ended.returncode else "done"


def older_case(draw: random.Random, place: Path) -> str:
    """Run folders of older versions, and folders that are no runs, are refused and left alone."""
    (place / "old").mkdir()
    for name in draw.sample(sorted(OLD), draw.randint(1, len(OLD))):
        (place / "old" / name).write_text(OLD[name])
    write_data(place)
    resume = ("--resume",) if draw.random() < 0.5 else ()
    orders: list[tuple[str, ...]] = [("predict", "old", "pets.csv"), ("labels", "old")]
    orders += [("review", "old", "--no-browser"), ("export", "old")]
    if any((place / "old" / name).exists() for name in ("config.json", "labels.csv")):
        orders += [(*FIT, "--out", "old", *resume)] * 4
    order = draw.choice(orders)
    ended = command(*order, cwd=place)
    if not ended.returncode or any(p.read_text() != OLD[p.name] for p in (place / "old").iterdir()):
        raise Failure(f"{order} did not leave an older folder alone: {ended}")
    return "refused"


def full_disk(order: tuple[str, ...], cwd: Path, most: int) -> CompletedProcess[str]:
    """The command where no file can have more than so many bytes."""

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        return command(*order, cwd=cwd)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def small_disk(order: tuple[str, ...], cwd: Path, options: str) -> CompletedProcess[str] | None:
    """The command where the folder `disk` is a disk of its own; None if none can be mounted."""
    unshare, test = ["unshare", "-rm"], ["mount", "-t", "tmpfs", "none", "disk"]
    try:
        subprocess.run([*unshare, *test], cwd=cwd, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    script = f'mount -t tmpfs -o {options} none disk && exec "$@"'
    program = [*unshare, "sh", "-c", script, "sh", sys.executable, "-m", "labelgrad", *order]
    return checked(subprocess.run(program, cwd=cwd, capture_output=True, text=True))


def disk_case(draw: random.Random, place: Path) -> str:
    """A fit on a disk that is full or read-only; with room again it gives the same bytes."""
    write_data(place)
    (place / "disk").mkdir()
    order, whole = (*FIT, "--out", "disk/run"), place.parent / "run-classes"
    if draw.random() < 0.5:
        options = draw.choice([f"size={draw.randrange(4, 400)}k", "ro", "nr_inodes=3", "mode=0"])
        ended = small_disk(order, place, options)
        return "skipped" if ended is None else "refused" if ended.returncode else "done"
    largest = (whole / "report.html").stat().st_size
    ended = full_disk(order, place, int(draw.choice([0.01, 0.05, 0.3, 0.9]) * largest))
    command(*order, *(("--resume",) if (place / "disk" / "run").exists() else ()), cwd=place)
    command(*FIT, "--out", "disk/undisturbed", cwd=place)
    for name in RESULT:
        one, other = (place / "disk" / run / name for run in ("run", "undisturbed"))
        if one.read_bytes() != other.read_bytes():
            raise Failure(f"{name} differs after a full disk")
    return "resumed" if ended.returncode else "done"


PARTS = [
    Part("misused commands", finished_runs, case),
    Part("older folders", finished_runs, older_case),
    Part("full disks", finished_runs, disk_case),
]
