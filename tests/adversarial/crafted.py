"""Run folders made by somebody who means harm: wild values, with digests that are right."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from labelgrad.files import read_sealed, read_tensors, sealed_json, write_tensors
from labelgrad.fitting.run_folder import DIGESTS, write_files
from tests.adversarial import damage
from tests.adversarial.cases import Part, only_inside
from tests.adversarial.targets import answer, command, refused

WILD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        3,
        10**6,
        10**12,
        10**400,
        2**63,
        -(2**63),
        0.5,
        -0.5,
        1e-300,
    ),
    *(
        1e300,
        -1e300,
        "",
        "x",
        "0",
        "nan",
        "é\n",
        "../../x",
        "=1+1",
        "\x1b[31m",
        "a" * 10_000,
        [],
        {},
    ),
    *([0], [[]], {"a": 1}, [1, 2, 3], ["a", "a"], [10**6, 10**6], [1, 10**6, 10**6], [[[[[1]]]]]),
    *(
        "classification",
        "regression",
        "table",
        "pictures",
        "arrays",
        "supervised",
        "pool",
        "student",
    ),
    *("wrn-9994-1", "wrn-10-9999", "wrn-28-10", "mlp", "mlp-0", "own", "mlp-9999-9999-9999"),
    *("mlp" + "-9999" * 30, "mlp" + "-1" * 4000, "wrn-10-0", "number", "category", "uint8"),
]


def prepare(place: Path) -> None:
    """The runs that are changed are those that are damaged elsewhere."""
    damage.prepare(place)


def wild(value: Any, draw: random.Random) -> Any:
    """The value with something in it exchanged, taken away or put in."""
    holders: list[Any] = []

    def walk(part: Any) -> None:
        if isinstance(part, dict | list) and part:
            holders.append(part)
            for each in part.values() if isinstance(part, dict) else part[:50]:
                walk(each)

    value = json.loads(json.dumps(value))
    walk(value)
    if not holders or draw.random() < 0.02:
        return draw.choice(WILD)
    holder = draw.choice(holders[:1] if draw.random() < 0.4 else holders)
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = draw.choice(keys)
    how = draw.randrange(10)
    if how == 0:
        del holder[key]
    elif how == 1:
        holder[key] = holder[draw.choice(keys)]
    elif how == 2 and isinstance(holder, list):
        holder[:] = holder * draw.choice([2, 3, 1000])
    elif how == 3 and isinstance(holder, dict):
        holder[draw.choice(["strange", "__class__", "self", ""])] = draw.choice(WILD)
    else:
        holder[key] = draw.choice(WILD)
    return value


def wild_json(content: bytes, draw: random.Random) -> bytes:
    """A JSON file with something wild in it, now and then what is no JSON at all."""
    if draw.random() < 0.03:
        return draw.choice([b"", b"[", b"[" * 10**5, b'{"a": NaN}', b"\xff\xfe", b"1e999", b"null"])
    value = json.loads(content)
    for _ in range(draw.choice([1, 1, 2])):
        value = wild(value, draw)
    return json.dumps(value).encode()


def wild_csv(content: bytes, draw: random.Random) -> bytes:
    """A table with a cell, a row or its head exchanged."""
    rows = [line.split(",") for line in content.decode().splitlines()]
    for _ in range(draw.choice([1, 2])):
        row = draw.choice(rows) if rows else []
        how = draw.randrange(6)
        if how == 0 and row:
            row.pop()
        elif how == 1:
            rows.append(list(row))
        elif how == 2 and rows:
            rows.remove(row)
        elif row:
            cells = [
                "nan",
                "inf",
                "-1",
                "2",
                "",
                "x",
                '"',
                "1e999",
                "\0",
                "9" * 5000,
                "a" * 200_000,
            ]
            row[draw.randrange(len(row))] = draw.choice([*cells, "yes", "no", "0"])
    return "\n".join(",".join(row) for row in rows).encode()


def wild_npz(content: bytes, draw: random.Random) -> bytes:
    """Arrays of other shapes and kinds, or of far more than the archive is long."""
    with np.load(io.BytesIO(content)) as found:
        kept = dict(found)
    name = draw.choice(list(kept))
    if draw.random() < 0.15:
        return _bomb(name, draw.choice([2**26, 2**28, 2**31]))
    others = [
        *(np.zeros(0), np.zeros((3, 3, 3)), np.full(kept[name].shape, np.nan), np.array(5.0)),
        *(kept[name].astype(str), kept[name][:1], kept[name].astype(complex), np.array(["a", "b"])),
    ]
    how = draw.randrange(4)
    if how == 0:
        del kept[name]
    elif how == 1:
        kept[draw.choice(["said by x", "../x", ""])] = draw.choice(others)
    else:
        kept[name] = draw.choice(others)
    packed = io.BytesIO()
    np.savez(packed, **kept)
    return packed.getvalue()


def _bomb(name: str, size: int) -> bytes:
    packed = io.BytesIO()
    head = {"descr": "|u1", "fortran_order": False, "shape": (size,)}
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(file, head)
        for _ in range(min(size, 2**26) // 2**20):  # what is not there, only the header says
            file.write(bytes(2**20))
    return packed.getvalue()


def wild_weights(content: bytes, draw: random.Random) -> bytes:
    """Other tensors, or a header that promises more than there is."""
    tensors = load(content)
    name = draw.choice(list(tensors))
    how = draw.randrange(7)
    if how == 0:
        head = json.dumps(
            {name: {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4 * 10**9]}}
        )
        return len(head).to_bytes(8, "little") + head.encode()
    if how == 1:
        return (2**62).to_bytes(8, "little") + content[8:]
    if how == 2:
        tensors[name] = tensors[name] * float(draw.choice(["nan", "inf", "1e30"]))
    elif how == 3:
        tensors[name] = tensors[name].double() if draw.random() < 0.5 else tensors[name].int()
    elif how == 4:
        tensors[name] = torch.zeros(draw.choice([0, 1, 7, 10**6]))
    elif how == 5:
        del tensors[name]
    else:
        tensors["strange"] = torch.zeros(3)
    return save(tensors)


Change = Callable[[bytes, random.Random], bytes]
CHANGES: dict[str, Change] = {".json": wild_json, ".csv": wild_csv, ".npz": wild_npz}


def case(seed: int, draw: random.Random, place: Path) -> str:
    """A folder with one or two files of somebody else's making."""
    kind = draw.choice(list(damage.KINDS))
    folder = damage.copy_of(place, kind)
    run, data = folder / "run", damage.KINDS[kind]
    with only_inside(folder):
        if draw.random() < (0.4 if kind == "few" else 0.02):
            outcome = _resumed(run, draw, folder, kind)
        else:
            outcome = _looked_at(run, draw, folder, data, pool=kind in damage.POOLED)
    return outcome


def _looked_at(run: Path, draw: random.Random, folder: Path, data: str, *, pool: bool) -> str:
    names = ["config.json"] * 4 + ["result.json", "labels.csv", "examples.csv", "held_out.npz"]
    names += ["model.safetensors", *(["pool/pool.json"] * 2 if pool else [])]
    chosen = {draw.choice(names) for _ in range(draw.choice([1, 1, 2]))}
    before = {name: (run / name).read_bytes() for name in [*chosen, DIGESTS]}
    changed = {}
    for name in chosen:
        change = wild_weights if name.endswith("safetensors") else CHANGES[Path(name).suffix]
        changed[name] = change(before[name], draw)
    write_files(run, changed)
    if draw.random() < 0.05:
        (run / DIGESTS).write_bytes(
            sealed_json(
                wild(read_sealed((run / DIGESTS).read_bytes()), draw)
                if draw.random() < 0.5
                else {"version": 1, "files": draw.choice(WILD)}
            )
        )
    found = answer(run, folder / data, pool=pool)
    if draw.random() < 0.05:
        refused(command("export", "run", "--to", "torchscript", "--out", "model.ts", cwd=folder))
    for name, content in before.items():
        (run / name).write_bytes(content)
    damage._ready[os.getpid(), folder.name] = folder
    return "answered" if all(found.values()) else "refused"


def _resumed(run: Path, draw: random.Random, folder: Path, kind: str) -> str:
    """A plan or a checkpoint that is whole, but says something wild."""
    if draw.random() < 0.5:
        plan = wild(read_sealed((run / "plan.json").read_bytes()), draw)
        (run / "plan.json").write_bytes(
            sealed_json(plan if isinstance(plan, dict) else {"plan": plan})
        )
    else:
        path = draw.choice(sorted(run.glob("checkpoint/*/checkpoints/*.safetensors")))
        tensors, info = read_tensors(path)
        name = draw.choice(list(tensors))
        if draw.random() < 0.3:
            tensors[name] = draw.choice([torch.zeros(3), tensors[name].double(), torch.zeros(0)])
            write_tensors(path, tensors, info)
        else:
            write_tensors(path, tensors, wild(info, draw))
    said = command(*damage.fit_again(kind), cwd=folder)
    return "refused" if refused(said) else "resumed"


PART = Part("crafted", prepare, case, "damage", batch=50, most_seconds=20.0, most_megabytes=2048)
