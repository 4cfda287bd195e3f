"""SIGKILL at random moments of a fit: resumed, it has the bytes of an undisturbed one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

from tests.adversarial.cases import Failure, Part, command
from tests.adversarial.targets import FIT, RESULT, write_data

KILLS = 3
LONGER = (*FIT, "--base-models", "linear,lga", "--steps", "40", "--out", "run")


def fit(place: Path) -> None:
    """Begin the fit, or resume it."""
    resume = ("--resume",) if (place / "run").exists() else ()
    if (ended := command(*LONGER, *resume, cwd=place)).returncode:
        raise Failure(f"a fit was refused: {ended.stderr}")


def prepare(place: Path) -> None:
    """An undisturbed fit, and the seconds that it takes."""
    write_data(place)
    began = time.monotonic()
    fit(place)
    (place / "seconds.txt").write_text(str(time.monotonic() - began))


def killed(place: Path, after: float) -> bool:
    """Begin or resume a fit and kill it after some seconds; whether it was not done yet."""
    child = os.fork()
    if child == 0:
        try:
            fit(place)
            os._exit(0)
        except BaseException as error:
            (place / "error.txt").write_text(str(error))
            os._exit(1)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 1:
        raise Failure((place / "error.txt").read_text())
    return code != 0


def case(draw: random.Random, place: Path, kills: int = KILLS) -> str:
    """Some kills, and then a fit to its end; a fit that was done too soon begins again."""
    shutil.copy(place.parent / "pets.csv", place)  # polars' threads would not survive the fork
    seconds = float((place.parent / "seconds.txt").read_text())
    done = 0
    while done < kills:
        if killed(place, draw.uniform(0, seconds)):
            done += 1
        else:
            shutil.rmtree(place / "run")
    fit(place)
    for name in RESULT:
        if (place / "run" / name).read_bytes() != (place.parent / "run" / name).read_bytes():
            raise Failure(f"{name} differs after {done} kills")
    left = [p.name for p in (place / "run").rglob("*") if "partial" in p.name or p.name == ".lock"]
    if left:
        raise Failure(f"left behind: {left}")
    return f"{done} kills"


PARTS = [Part("kills", prepare, case, seconds=1500)]
