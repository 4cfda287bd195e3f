"""Every file operation of a fit and of a training, killed once and failed in every way once."""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch as tensors

from tests.adversarial.cases import LONGEST, Finding, Part, waited
from tests.adversarial.kills import finished, forked
from tests.adversarial.targets import (
    command,
    content,
    mapped,
    mapped_content,
    own_folder,
    refused,
    table,
)

KILL, FULL, BROKEN, TORN, SHORT, STAYS_FULL = MODES = (
    "kill",  # before the operation
    "ENOSPC",
    "EIO",
    "torn",  # killed in the middle of a write, or right after another operation
    "short",  # half of a write, and then no space
    "full",  # no space, and none from then on
)
FEW = 3  # labels: one of a class cannot be held out, and there are fewer trainings
REFUSED = 3  # the exit code of a child whose work ended in one sentence
ON_PATHS = ("replace", "rename", "unlink", "remove", "truncate", "mkdir", "rmdir", "open")
ON_HANDLES = ("write", "fsync", "ftruncate")


class Faults:
    """Counts the operations below a folder, and makes one of them fail."""

    def __init__(self, root: Path, at: int | None = None, mode: str = KILL):
        self.root, self.at, self.mode = os.path.realpath(root), at, mode
        self.count, self.full = 0, False

    def install(self) -> Faults:
        """Put this layer between the process and its files; it stays there."""
        for name in ON_PATHS:
            setattr(os, name, self._on_path(name, getattr(os, name)))
        for name in ON_HANDLES:
            setattr(os, name, self._on_handle(name, getattr(os, name)))
        tensors.save_file = self._saving(tensors.save_file)
        self._open = io.open
        builtins.open = io.open = self._opened  # type: ignore[assignment]
        return self

    def _hit(self, write: bool) -> bool:
        """Whether it is this operation's turn; a kill before it happens here."""
        mine = self.count == self.at
        self.count += 1
        if mine and self.mode == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if mine and self.mode == BROKEN:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.full |= mine and self.mode == STAYS_FULL
        if self.full or (mine and (self.mode == FULL or (self.mode == SHORT and not write))):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return mine

    def _inside(self, path: Any) -> bool:
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        return os.path.realpath(os.fsdecode(path)).startswith(self.root)

    def _on_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            reads = name == "open" and not (arguments and arguments[0] & (os.O_CREAT | os.O_RDWR))
            relative = options.get("dir_fd") is not None
            if reads or not (relative or self._inside(path)):
                return real(path, *arguments, **options)
            frees = name in ("unlink", "remove", "rmdir", "truncate")  # a full disk lets that pass
            if frees and self.full:
                return real(path, *arguments, **options)
            mine = self._hit(write=False)
            found = real(path, *arguments, **options)
            if mine and self.mode == TORN:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return call

    def _on_handle(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(handle: int, *arguments: Any) -> Any:
            if not self._inside(handle) or (name == "ftruncate" and self.full):
                return real(handle, *arguments)
            mine = self._hit(write=name == "write")
            if mine and name == "write" and self.mode in (TORN, SHORT):
                real(handle, bytes(arguments[0])[: len(arguments[0]) // 2])
                self._end()
            found = real(handle, *arguments)
            if mine and self.mode == TORN:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return call

    def _end(self) -> None:
        if self.mode == TORN:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _saving(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Safetensors writes without Python: the whole file is one operation."""

        def call(named: Any, path: Any, *arguments: Any) -> None:
            mine = self._hit(write=True)
            real(named, path, *arguments)
            if mine and self.mode in (TORN, SHORT):
                os.truncate(path, os.stat(path).st_size // 2)
                self._end()

        return call

    def _opened(self, file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        plain = isinstance(file, int) or not set(mode) & set("wax+") or "opener" in options
        if plain or not self._inside(file):
            return self._open(file, mode, *arguments, **options)
        mine = self._hit(write=False)
        raw = _Raw(self, file, mode.replace("b", "").replace("t", ""))
        if mine and self.mode == TORN:
            os.kill(os.getpid(), signal.SIGKILL)
        whole = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return whole if "b" in mode else io.TextIOWrapper(whole, encoding="utf-8", newline="")


class _Raw(io.FileIO):
    """A file whose writes can fail."""

    def __init__(self, faults: Faults, path: Any, mode: str):
        super().__init__(path, mode)
        self.faults = faults

    def write(self, data: Any) -> int:
        faults = self.faults
        if faults._hit(write=True) and faults.mode in (TORN, SHORT):
            super().write(bytes(data)[: len(data) // 2])
            faults._end()
        return super().write(data)


def prepare_fit(place: Path) -> None:
    """An undisturbed fit, and how many operations it has."""
    _prepare(place / "fit", fit)


def prepare_mapped(place: Path) -> None:
    """An undisturbed training, and how many operations it has."""
    _prepare(place / "mapped", lambda folder: mapped(folder).finish())


def fit(place: Path) -> None:
    """The shortest fit, begun or gone on with."""
    short = ("--steps", "2", "--witnesses", "none")
    said = command("fit", "pets.csv", "--out", "run", "--resume", *short, cwd=place)
    if refused(said):
        raise RuntimeError(said.err.splitlines()[-1])


def _prepare(folder: Path, work: Callable[[Path], object]) -> None:
    if (folder / "operations.txt").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    table(folder / "pets.csv", labeled=FEW)
    os.chdir(folder)
    work(folder)
    shutil.rmtree(folder / "run")

    def counted() -> None:
        faults = Faults(folder / "run").install()
        work(folder)
        Path(folder / "operations.txt").write_text(str(faults.count))

    finished(counted, "the count of operations")


def operations(place: Path) -> int:
    """How many operations the work of a prepared folder has."""
    return int((place / "operations.txt").read_text())


def fault_fit(seed: int, draw: random.Random, place: Path) -> str:
    """One operation of a fit fails; the next fit gives what an undisturbed one gave."""
    mine = _fresh(place, "fit")
    outcome = _failed(seed, place / "fit", mine, fit)
    finished(lambda: fit(mine), f"the fit after {outcome}")
    if content(mine / "run") != content(place / "fit" / "run"):
        raise Finding(f"the fit after {outcome} has other results than an undisturbed one")
    return outcome.partition(" at ")[0]


def fault_mapped(seed: int, draw: random.Random, place: Path) -> str:
    """The same of a training."""
    mine = _fresh(place, "mapped")
    outcome = _failed(seed, place / "mapped", mine, lambda folder: mapped(folder).finish())
    finished(lambda: mapped(mine).finish(), f"the training after {outcome}")
    if mapped_content(mine) != mapped_content(place / "mapped"):
        raise Finding(f"the training after {outcome} has other results than an undisturbed one")
    return outcome.partition(" at ")[0]


def _fresh(place: Path, name: str) -> Path:
    mine = own_folder(place) / name
    shutil.rmtree(mine, ignore_errors=True)
    mine.mkdir(parents=True)
    shutil.copy(place / name / "pets.csv", mine)
    os.chdir(mine)
    return mine


def _failed(seed: int, whole: Path, mine: Path, work: Callable[[Path], object]) -> str:
    """Let one operation fail, in one way; each pair has its seed, and then they come again."""
    first, rest = divmod(seed, 3 * operations(whole))  # a kill and two errors of each come first
    mode, at = MODES[3 * (first % 2) + rest % 3], rest // 3
    what = f"{mode} at operation {at}"

    def disturbed() -> None:
        Faults(mine / "run", at, mode).install()
        try:
            work(mine)
        except (OSError, RuntimeError, ValueError) as error:
            if "\n" in str(error):
                raise
            os._exit(REFUSED)

    child = forked(disturbed)
    code = waited(child, LONGEST)
    wanted = {-signal.SIGKILL} if mode in (KILL, TORN) else {0, REFUSED}
    if code not in wanted | {0}:
        report = mine / f"{child}.txt"
        said = report.read_text()[-3000:] if report.exists() else ""
        raise Finding(f"{what}: ended with {code}: {said}")
    return what if code else f"{mode}, gone through at {at}"


PARTS = [
    Part("faults of a fit", prepare_fit, fault_fit, batch=20, share=2.0, most_seconds=4 * LONGEST),
    Part(
        "faults of a mapped table", prepare_mapped, fault_mapped, batch=50, most_seconds=4 * LONGEST
    ),
]
