"""Bits flipped, files cut short, exchanged and lost in a finished run folder."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from tests.adversarial.cases import Finding, Part, only_inside
from tests.adversarial.targets import (
    LABELED,
    Said,
    answer,
    arrays,
    command,
    content,
    copied,
    own_folder,
    refused,
    table,
)

KINDS = {
    "classes": "pets.csv",
    "values": "values.csv",
    "pictures": "pictures.npz",
    "few": "few.csv",
}
EXPORTED, RESUMED = 0.01, 0.01  # of the cases
FEW = 3  # labels of the run whose resumes are quick: there is nothing to hold out
CHANGED = "was changed after"
POOLED = ("classes", "values")
_ready: dict[tuple[int, str], Path] = {}  # the copies of this process that are whole


def prepare(place: Path) -> None:
    """Runs of three kinds, with what is said of them while they are whole."""
    for kind, data in KINDS.items():
        folder = place / kind
        if (folder / "wanted.json").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "pictures":
            arrays(folder / data)
        else:
            table(folder / data, values=kind == "values", labeled=FEW if kind == "few" else LABELED)
        keep = ("--keep-pool",) if kind in POOLED else ()
        said = command(*fit_again(kind), *keep, cwd=folder)
        assert said.code == 0, said.err
        wanted = answer(folder / "run", folder / data, pool=bool(keep))
        (folder / "wanted.json").write_text(json.dumps(wanted))


def fit_again(kind: str) -> tuple[str, ...]:
    """The command that makes a run of this kind, or goes on with it."""
    witnesses = "linear,neighbours" if kind in POOLED else "none"
    order = ("fit", KINDS[kind], "--out", "run", "--resume", "--steps", "2")
    return (*order, "--witnesses", witnesses)


def copy_of(place: Path, kind: str) -> Path:
    """A whole copy of a run and its data, of this process alone."""
    mine = own_folder(place) / kind
    if _ready.pop((os.getpid(), kind), None) is None:
        copied(place / kind, mine)
    return mine


def damaged(whole: bytes, draw: random.Random) -> bytes | None:
    """Other bytes, or none: the file is lost."""
    how = draw.randrange(8)
    if how == 0 and draw.random() < 0.3:
        return None
    if how == 1:
        return whole[: draw.randrange(len(whole) + 1)]
    changed = bytearray(whole)
    if how == 2:
        start = draw.randrange(len(whole) + 1)
        size = min(draw.randrange(1, 600), len(whole) - start)
        changed[start : start + size] = bytes(size)
    elif how == 3:
        changed += draw.randbytes(draw.randrange(1, 40))
    elif whole:
        for _ in range(draw.choice([1, 1, 1, 2, 8])):
            changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def case(seed: int, draw: random.Random, place: Path) -> str:
    """One file damaged: what is said is as before, or is said to be changed, or is a refusal."""
    kind = draw.choice(list(KINDS))
    folder = copy_of(place, kind)
    run = folder / "run"
    files = sorted(path for path in run.rglob("*") if path.is_file())
    if kind != "few":  # there the checkpoints have their turn
        files = [path for path in files if path.relative_to(run).parts[0] != "checkpoint"]
    path = draw.choice(files)
    whole = path.read_bytes()
    other = damaged(whole, draw)
    path.unlink() if other is None else path.write_bytes(other)
    name = path.relative_to(run).as_posix()
    if other == whole:
        _ready[os.getpid(), kind] = folder
        return "the same bytes"
    with only_inside(folder):
        if name == "plan.json" or name.startswith("checkpoint/") or draw.random() < RESUMED:
            said = command(*fit_again(kind), cwd=folder)
            if refused(said):
                return "refused"
            wanted = content(place / kind / "run")
            if content(run) != wanted and not _was_told(said, name):
                differ = [each for each, found in content(run).items() if found != wanted[each]]
                raise Finding(f"resumed with {kind}/{name} damaged: {differ} differ")
            return "resumed"
        if draw.random() < EXPORTED:
            refused(command("export", "run", "--to", "torchscript", cwd=folder))
        outcome = _compare(place, folder, kind, name)
    path.write_bytes(whole)
    _ready[os.getpid(), kind] = folder
    return outcome


def _was_told(said: Said, name: str) -> bool:
    return name == "corrections.csv" and CHANGED in said.out


def _compare(place: Path, folder: Path, kind: str, name: str) -> str:
    wanted = json.loads((place / kind / "wanted.json").read_text())
    found = answer(folder / "run", folder / KINDS[kind], pool="pool" in wanted)
    outcome = "as before"
    for each, text in found.items():
        if text == "":
            outcome = "refused"
        elif _without_paths(text, folder) != _without_paths(wanted[each], place / kind):
            if CHANGED not in text:
                raise Finding(
                    f"{each} says something else with {kind}/{name} damaged: {text[:400]}"
                )
            outcome = "said to be changed"
    return outcome


def _without_paths(text: str, folder: Path) -> str:
    return text.replace(str(folder), "")


PART = Part("damage", prepare, case, batch=200, share=3.0)
