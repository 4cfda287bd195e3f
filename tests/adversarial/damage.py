"""Bits flipped, files cut short, exchanged and lost in a finished run folder."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from tests.adversarial.cases import Finding, Part, only_inside
from tests.adversarial.targets import (
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

KINDS = {"classes": "pets.csv", "values": "values.csv", "pictures": "pictures.npz"}
EXPORTED, RESUMED = 0.02, 0.03  # of the cases
CHANGED = "was changed after"
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
            table(folder / data, values=kind == "values")
        keep = () if kind == "pictures" else ("--keep-pool",)
        said = command(*_fit(data), *keep, cwd=folder)
        assert said.code == 0, said.err
        wanted = answer(folder / "run", folder / data, pool=bool(keep))
        (folder / "wanted.json").write_text(json.dumps(wanted))


def _fit(data: str) -> tuple[str, ...]:
    method = (
        ("--witnesses", "linear,neighbours") if data.endswith("csv") else ("--witnesses", "none")
    )
    return ("fit", data, "--out", "run", "--resume", "--steps", "2", *method)


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
    run, data = folder / "run", KINDS[kind]
    files = sorted(path for path in run.rglob("*") if path.is_file())
    path = draw.choice(files if draw.random() < 0.3 else [p for p in files if p.parent == run])
    whole = path.read_bytes()
    other = damaged(whole, draw)
    path.unlink() if other is None else path.write_bytes(other)
    name = path.relative_to(run).as_posix()
    if other == whole:
        _ready[os.getpid(), kind] = folder
        return "the same bytes"
    with only_inside(folder):
        if name == "plan.json" or name.startswith("checkpoint/") or draw.random() < RESUMED:
            said = command(*_fit(data), cwd=folder)
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
