"""SIGKILL at random moments of a fit and of a training whose label table is a file."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.adversarial.cases import LONGEST, Finding, Part, waited
from tests.adversarial.targets import (
    QUICK,
    content,
    fit,
    mapped,
    mapped_content,
    own_folder,
    table,
)

KILLS = 5  # in one life's story


def forked(work: Callable[[], object]) -> int:
    """A child that does the work; it ends with 0, or with 1 and a traceback in its folder."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback

            Path(f"{os.getpid()}.txt").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return child


def finished(work: Callable[[], object], what: str) -> None:
    """Do the work in a child, to its end."""
    child = forked(work)
    code = waited(child, 2 * LONGEST)
    report = Path(f"{child}.txt")
    if code != 0:
        said = report.read_text() if report.exists() else ""
        raise Finding(f"{what} ended with {code}: {said[-3000:]}")


def prepare_fit(place: Path) -> None:
    """A fit that nobody disturbs, and how long it takes."""
    _prepare(place / "fit", fit)


def prepare_mapped(place: Path) -> None:
    """The same of a training."""
    _prepare(place / "mapped", lambda folder: mapped(folder).finish())


def _prepare(folder: Path, work: Callable[[Path], object]) -> None:
    if (folder / "seconds.txt").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    table(folder / "pets.csv")
    os.chdir(folder)
    for _ in range(2):  # the first one imports what it needs
        shutil.rmtree(folder / "run", ignore_errors=True)
        began = time.monotonic()
        work(folder)
        seconds = time.monotonic() - began
    (folder / "seconds.txt").write_text(str(seconds))


def kill_fit(seed: int, draw: random.Random, place: Path) -> str:
    """A fit killed some times, and then left alone, gives what an undisturbed one gave."""
    mine = _fresh(place, "fit")
    kills = _killed(lambda: fit(mine), draw, _seconds(place / "fit"))
    finished(lambda: fit(mine), "the fit after all kills")
    if content(mine / "run") != content(place / "fit" / "run"):
        raise Finding("the fit has other results than an undisturbed one")
    return f"{kills} kills"


def kill_mapped(seed: int, draw: random.Random, place: Path) -> str:
    """The same of a training."""
    mine = _fresh(place, "mapped")
    kills = _killed(lambda: mapped(mine).finish(), draw, _seconds(place / "mapped"))
    finished(lambda: mapped(mine).finish(), "the training after all kills")
    if mapped_content(mine) != mapped_content(place / "mapped"):
        raise Finding("the training has other results than an undisturbed one")
    return f"{kills} kills"


def kill_command(seed: int, draw: random.Random, place: Path) -> str:
    """The command itself, in processes of its own, killed twice."""
    mine, kills = _fresh(place, "fit"), 0
    order = ["fit", "pets.csv", "--out", "run", "--resume", *QUICK]
    program = [sys.executable, "-c", "from labelgrad.cli.app import main; main()", *order]
    for _ in range(2):
        with subprocess.Popen(program, cwd=mine, stdout=-3, stderr=-3) as process:
            try:
                process.wait(draw.uniform(1, 12))
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
    done = subprocess.run(program, cwd=mine, capture_output=True, text=True, timeout=2 * LONGEST)
    if done.returncode:
        raise Finding(f"the command after all kills ended with {done.returncode}: {done.stderr}")
    if content(mine / "run") != content(place / "fit" / "run"):
        raise Finding("the command has other results than an undisturbed fit")
    return f"{kills} kills"


def _fresh(place: Path, name: str) -> Path:
    mine = own_folder(place) / name
    shutil.rmtree(mine, ignore_errors=True)
    mine.mkdir(parents=True)
    shutil.copy(place / name / "pets.csv", mine)
    os.chdir(mine)
    return mine


def _seconds(folder: Path) -> float:
    return float((folder / "seconds.txt").read_text())


def _killed(work: Callable[[], object], draw: random.Random, seconds: float) -> int:
    kills = 0
    for _ in range(KILLS):
        child = forked(work)
        time.sleep(draw.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == -signal.SIGKILL:
            kills += 1
        elif code != 0:
            raise Finding(f"before its kill: {Path(f'{child}.txt').read_text()[-3000:]}")
    return kills


PARTS = [
    Part("kills of a fit", prepare_fit, kill_fit, batch=10, share=2.0, most_seconds=5 * LONGEST),
    Part(
        "kills of a mapped table", prepare_mapped, kill_mapped, batch=10, most_seconds=5 * LONGEST
    ),
    Part("kills of the command", prepare_fit, kill_command, batch=1, most_seconds=10 * LONGEST),
]
