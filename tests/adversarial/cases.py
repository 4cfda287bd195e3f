"""Cases in forked processes, each with a limit of time and memory; every failure has its seed."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

from tests.command import labelgrad

SECONDS, MEGABYTES = 300.0, 2500
# What changes a file, and which argument of its audit event is the folder that a path starts from.
CHANGES = {"os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.rename": 2, "os.link": 2}
CHANGES |= {"os.symlink": 2, "os.truncate": 2}  # the last has none


class Failure(AssertionError):  # noqa: N818
    """A property that did not hold."""


class Hang(BaseException):
    """Time is over; nothing catches it."""


class Part(NamedTuple):
    """One kind of attack: `case` gets random numbers and a folder, and gives a word to count."""

    name: str
    prepare: Callable[[Path], object]
    case: Callable[[random.Random, Path], str]
    seconds: float = SECONDS


class Done(NamedTuple):
    """What came of a case."""

    outcome: str
    failure: str | None
    seconds: float
    megabytes: int


def forked(work: Callable[[], str], seconds: float) -> Done:
    """What came of work in a process of its own, which is killed when its time is over."""
    reading, writing = os.pipe()
    began, child = time.monotonic(), os.fork()
    if child == 0:
        outcome, failure = "failure", None
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGALRM, _hangs)
            signal.setitimer(signal.ITIMER_REAL, 0.9 * seconds)  # a traceback says where it hangs
            outcome = work()
        except Failure as error:
            failure = str(error)
        except BaseException:
            failure = traceback.format_exc()[-4000:]
        os.write(writing, json.dumps([outcome, failure]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        content = file.read() if select.select([file], [], [], seconds)[0] else b""
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    used = os.wait4(child, 0)[2]
    outcome, failure = json.loads(content or '["failure", "it died or hung"]')
    megabytes = used.ru_maxrss // 1024
    if failure is None and megabytes > MEGABYTES:
        failure = f"it took {megabytes} MB"
    return Done(outcome, failure, time.monotonic() - began, megabytes)


def _hangs(*_: object) -> None:
    raise Hang


def run_case(part: Part, seed: int, place: Path) -> Done:
    """One case of a part, in a folder of its own inside the folder that the part prepared."""
    mine = place / "case"
    shutil.rmtree(mine, ignore_errors=True)
    (mine / "tmp").mkdir(parents=True)

    def work() -> str:
        for name in ("TMPDIR", "LABELGRAD_CACHE", "TORCHINDUCTOR_CACHE_DIR"):
            os.environ[name] = str(mine / "tmp")
        tempfile.tempdir = None
        elsewhere = watch(mine)
        outcome = part.case(random.Random(f"{part.name} {seed}"), mine)
        if elsewhere:
            raise Failure(f"outside of the folder: {elsewhere[0]}")
        return outcome

    busy = os.getloadavg()[0] / (os.cpu_count() or 1)  # processes that wait for each processor
    return forked(work, part.seconds * max(1.0, busy))


def prepare(part: Part, place: Path) -> None:
    """Prepare a part in another process, as threads of libraries do not survive a fork.

    This process then imports what that one has imported, so that cases need not.
    """
    place.mkdir(parents=True)

    def work() -> str:
        part.prepare(place)
        (place / "modules.txt").write_text("\n".join(sys.modules))
        return "prepared"

    done = forked(work, 10 * SECONDS)
    if done.failure:
        raise RuntimeError(f"{part.name} could not be prepared: {done.failure}")
    for name in (place / "modules.txt").read_text().splitlines():
        with suppress(Exception):
            import_module(name)


def watch(place: Path) -> list[str]:
    """A list that grows whenever this process changes a file outside of a folder."""
    inside, found = (os.path.realpath(place), "/dev/", "/proc"), []
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        start: tuple[int, ...] = ()
        if event == "open" and (set(arguments[1] or "") & set("wax+") or arguments[2] & writes):
            path = arguments[0]
        elif event in CHANGES:
            path, start = arguments[event == "os.symlink"], arguments[CHANGES[event] :]
        else:
            return
        if isinstance(path, str | bytes | os.PathLike):
            folder = f"/proc/self/fd/{start[0]}" if start and start[0] >= 0 else ""
            real = os.path.realpath(os.path.join(folder, os.fsdecode(path)))
            if not real.startswith(inside):
                found.append(f"{event} {real}")

    sys.addaudithook(hook)
    return found


def checked(done: CompletedProcess[str]) -> CompletedProcess[str]:
    """The rule of every case: success, one line of error, or a usage error of click."""
    said = [line for line in done.stderr.splitlines() if "labelgrad: warning: " not in line]
    usage = done.returncode == 2 and done.stderr.startswith("Usage: ")
    one_line = done.returncode == 1 and len(said) == 1 and len(said[0]) < 2000
    fine = usage or one_line or (done.returncode == 0 and not said)
    if "Traceback" in done.stderr or not fine:
        what = f"{str(done.args)[:300]} ended with {done.returncode}"
        raise Failure(f"{what}: {done.stderr[-2000:]}")
    return done


def command(*arguments: object, cwd: Path) -> CompletedProcess[str]:
    """A command in this process, which succeeds or refuses in one line."""
    done = labelgrad(arguments, cwd=cwd)
    if done.returncode == 70:  # a bug; once more, for its traceback
        labelgrad([*arguments, "--debug"], cwd=cwd)
    return checked(done)
