"""Run folders that are damaged, or crafted by somebody who means harm, with digests that are right.

A damaged folder gives what it gave before, or is refused. A crafted one gives something, or is
refused. Neither runs code, hangs, fills the memory or touches a file of the user's.
"""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from labelgrad.auto.run import Manifest, write_result_files
from labelgrad.files import read_sealed, read_tensors, sealed_json, write_tensors
from tests.adversarial.cases import Failure, Part, command
from tests.adversarial.tables import mutate
from tests.adversarial.targets import (
    DATA,
    FAST,
    RESULT,
    copy_run,
    finished_runs,
    outcomes,
)
from tests.unit.auto.encoders.tiny import image_folder

WILD: list[Any] = [
    *(None, True, 0, -1, 1, 3, 10**6, 10**12, 10**400, 2**63, 0.5, -0.5, 1e-300, 1e300),
    *("", "x", "0", "nan", "é\n", "../../x", "/etc/passwd", "=1+1", "\x1b[31m", "a" * 10_000),
    *([], {}, [0], [[]], {"a": 1}, [1, 2, 3], ["a", "a"], [10**6, 10**6], [[[[[1]]]]]),
    *("classification", "regression", "table", "images", "arrays", "texts", "student", "ensemble"),
    *("wrn-9994-1", "wrn-10-9999", "mlp", "mlp-0", "mlp" + "-9999" * 30, "mlp" + "-1" * 4000),
]
BROKEN = [b"", b"[", b"[" * 10**5, b'{"a": NaN}', b"\xff\xfe", b"1e999", b"null", b"{}", b"\x00"]
CODE = [("os", "system"), ("builtins", "eval"), ("subprocess", "Popen"), ("numpy", "load")]
LOADERS = ["FunctionNode", "MethodNode", "ReduceNode", "PartialNode", "ObjectNode"]


def holders(value: Any) -> list[Any]:
    """All dictionaries and lists in a value that hold something."""
    if not isinstance(value, dict | list) or not value:
        return []
    inner = value.values() if isinstance(value, dict) else value[:50]
    return [value, *(found for each in inner for found in holders(each))]


def wild(value: Any, draw: random.Random) -> Any:
    """The value with something in it exchanged, taken away or put in."""
    value = json.loads(json.dumps(value))
    found = holders(value)
    if not found or draw.random() < 0.02:
        return draw.choice(WILD)
    holder = draw.choice(found[:1] if draw.random() < 0.4 else found)
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key, how = draw.choice(keys), draw.randrange(10)
    if how == 0:
        del holder[key]
    elif how == 1:
        holder[key] = holder[draw.choice(keys)]
    elif how == 2 and isinstance(holder, list):
        holder[:] = holder * draw.choice([2, 1000])
    elif how == 3 and isinstance(holder, dict):
        holder[draw.choice(["strange", "__class__", "self", ""])] = draw.choice(WILD)
    else:
        holder[key] = draw.choice(WILD)
    return value


def wild_tensors(content: bytes, draw: random.Random) -> bytes:
    """Other tensors, or a header that claims more than there is."""
    tensors = load(content)
    name = draw.choice(list(tensors))
    claim = {name: {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4 * 10**9]}}
    head = json.dumps(claim).encode()
    if draw.random() < 0.2:
        return draw.choice([len(head), 2**62]).to_bytes(8, "little") + head
    one, shape = tensors.pop(name), draw.choice([(0,), (7, 2), (10**6,), (2, 2, 2)])
    factor = float(draw.choice(["nan", "inf", "1e30", "-1"]))
    kind = draw.choice([torch.float64, torch.int32, torch.bool])
    changed = draw.choice([one * factor, one.to(kind), torch.zeros(shape), None])
    return save(
        tensors | ({draw.choice([name, name, "strange"]): changed} if changed is not None else {})
    )


def wild_skops(content: bytes, draw: random.Random) -> bytes:
    """A skops file that names other types, or with changed arrays."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w") as new:
        chosen = draw.choice([*old.namelist(), *["schema.json"] * 10])
        for name in old.namelist():
            part = old.read(name)
            if name == chosen == "schema.json":
                schema = json.loads(part)
                node = draw.choice([h for h in holders(schema) if "__class__" in h])
                if draw.random() < 0.6:
                    node["__module__"], node["__class__"] = draw.choice(CODE)
                    node["__loader__"] = draw.choice([*LOADERS, node["__loader__"]])
                part = json.dumps(schema if draw.random() < 0.5 else wild(schema, draw)).encode()
            elif name == chosen:
                at = draw.randrange(max(1, len(part) - 8))
                part = part[:at] + draw.randbytes(8) + part[at + 8 :]
            new.writestr(name, part)
    return packed.getvalue()


def crafted(name: str, content: bytes, draw: random.Random) -> bytes:
    """A file of a run as an attacker would write it."""
    if draw.random() < 0.1:
        return mutate(content, draw)
    if name.endswith(".json"):
        wild_json = json.dumps(wild(json.loads(content), draw)).encode()
        return draw.choice(BROKEN) if draw.random() < 0.05 else wild_json
    change = {".safetensors": wild_tensors, ".skops": wild_skops}.get(Path(name).suffix, mutate)
    return change(content, draw)


def crafted_case(draw: random.Random, place: Path) -> str:
    """One or two files of a finished run with other contents, and a manifest that lists them."""
    run, data = copy_run(place, draw.choice(["classes", "classes", *DATA]))
    files = {name: (run / name).read_bytes() for name in Manifest.of(run).files}
    weights = [8 if name.startswith("model") or name.endswith(".skops") else 3 for name in files]
    for name in dict.fromkeys(draw.choices(list(files), weights, k=draw.choice([1, 1, 2]))):
        files[name] = crafted(name, files[name], draw)
    write_result_files(run, files)
    if draw.random() < 0.05:
        saved = wild(read_sealed((run / "manifest.json").read_bytes()), draw)
        content = sealed_json(saved) if isinstance(saved, dict) else json.dumps(saved).encode()
        (run / "manifest.json").write_bytes(content)
    return "answered" if all(outcomes(place, run, data).values()) else "refused"


def damage(path: Path, other: bytes, draw: random.Random) -> None:
    """A file truncated, changed, removed, or exchanged for another, a folder, a link or a pipe."""
    content, how = path.read_bytes(), draw.randrange(7)
    at, link = draw.randrange(len(content) or 1), draw.choice(["/dev/null", "mine.txt", path.name])
    flipped = bytes([content[at] ^ 1 << draw.randrange(8)]) if content else b""
    path.unlink()
    if how < 3:
        path.write_bytes([content[:at], content[:at] + flipped + content[at + 1 :], other][how])
    elif how == 3:
        path.mkdir()
    elif how == 4:
        path.symlink_to(link)
    elif how == 5:
        os.mkfifo(path)


def damaged_case(draw: random.Random, place: Path) -> str:
    """One file damaged: what the commands give stays the same, or is refused."""
    kind = draw.choice(list(DATA))
    run, data = copy_run(place, kind)
    paths = [p for p in sorted(run.rglob("*")) if p.is_file() and p.name != "mine.txt"]
    path = draw.choice([p for p in paths if "checkpoints" not in p.parts or draw.random() < 0.2])
    damage(path, draw.choice(paths).read_bytes(), draw)
    found = outcomes(place, run, data)
    before = json.loads((place.parent / f"outcomes-{kind}.json").read_text())
    for name, outcome in found.items():
        if outcome and path.name != "labels.csv" and outcome != before[name]:
            raise Failure(f"{name} gives something else after damage to {path.relative_to(run)}")
    if draw.random() < 0.3 and not command("fit", "--resume", "--out", run, cwd=place).returncode:
        for name in RESULT:
            if (run / name).read_bytes() != (place.parent / f"run-{kind}" / name).read_bytes():
                raise Failure(f"{name} differs after damage to {path.relative_to(run)}, --resume")
    return "answered" if all(found.values()) else "refused"


def resumed_case(draw: random.Random, place: Path) -> str:
    """config.json or a checkpoint that is whole, but has a wild value; then fit --resume."""
    run, _ = copy_run(place, draw.choice(list(DATA)))
    found = sorted((run / "checkpoints").rglob("*.safetensors"))
    if found and draw.random() < 0.5:
        path = draw.choice(found)
        tensors, info = read_tensors(path)
        name = draw.choice(list(tensors))
        new = draw.choice([torch.zeros(3), tensors[name].double(), torch.zeros(0), tensors[name]])
        write_tensors(path, tensors | {name: new}, wild(info, draw))
    else:
        saved = wild(read_sealed((run / "config.json").read_bytes()), draw)
        saved = saved if isinstance(saved, dict) else {"config": saved}
        (run / "config.json").write_bytes(sealed_json(saved))
    ended = command("fit", "--resume", "--out", run, *FAST[:4], cwd=place)
    return "refused" if ended.returncode else "resumed"


def annotation(draw: random.Random) -> bytes:
    """A line of annotations.jsonl, in which most is right."""
    line: Any = {"id": str(draw.randint(1, 41)), "label": draw.choice(["yes", "no"]), "time": 1.0}
    line |= {"how": "correction", "model": "x", "by": "me", "shown": "no", "shown_confidence": 0.5}
    if draw.random() < 0.2:
        line = {"draw": ["20", "21"], "seed": 1, "population": 24, "model": "x", "time": 2.0}
    how = draw.randrange(8)
    if how < 3:
        line = wild(line, draw)
    elif how == 3:
        line["label"] = draw.choice([None, {"a": 1}, [["x"]], "\ud800", "x" * 10**5, "\x00", "NEW"])
    elif how == 4:
        return draw.choice([*BROKEN, b"[" * 50_000 + b"]" * 50_000])
    text = json.dumps(line, ensure_ascii=draw.random() < 0.5)
    return text.encode(draw.choice(["utf-8"] * 6 + ["utf-16", "utf-8-sig"]), "surrogatepass")


def annotations_case(draw: random.Random, place: Path) -> str:
    """A log of crafted lines, which is answered and not changed."""
    run, data = copy_run(place, draw.choice(list(DATA)))
    lines = [annotation(draw) for _ in range(draw.choice([1, 3, 12]))]
    content = draw.choice([b"\n", b"\n", b"\r\n"]).join(lines) + draw.choice([b"\n", b""])
    (run / "annotations.jsonl").write_bytes(content)
    found = outcomes(place, run, data)
    command("labels", run, "--max-error-rate", "20%", cwd=place)
    command("prevalence", run, cwd=place)
    if draw.random() < 0.3:
        command("fit", "--resume", "--out", run, cwd=place)
    if not (run / "annotations.jsonl").read_bytes().startswith(content):
        raise Failure("the annotations were changed")
    return "answered" if all(found.values()) else "refused"


def encoder_case(draw: random.Random, place: Path) -> str:
    """A folder that claims to be an encoder; the code in it must not run."""
    (place / "encoder").mkdir()
    kinds = ["planted.Module", "os.system", "sentence_transformers.models.Transformer"]
    kinds += ["sentence_transformers.base.modules.router.Router"]  # it loads what its config names
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind} for kind in kinds]
    route = {"types": {"query_0": "planted.Module"}, "structure": {"query": ["query_0"]}}
    about = {
        "architecture": draw.choice(["resnet18", "planted", "../x"]),
        "auto_map": {"AutoModel": "planted.Module", "AutoConfig": "planted.Module"},
        "model_type": draw.choice(["bert", "clip", "planted", "resnet"]),
    }
    contents = {
        "planted.py": b"open('ran', 'w').close()",
        "modules.json": json.dumps(wild(draw.sample(modules, 2), draw)).encode(),
        "router_config.json": json.dumps(route).encode(),
        "config.json": json.dumps(wild(about, draw)).encode(),
        "config_sentence_transformers.json": json.dumps(wild({"a": 1}, draw)).encode(),
        "tokenizer_config.json": json.dumps(about).encode(),
        "model.safetensors": draw.choice([b"", draw.randbytes(100), save({"a": torch.zeros(2)})]),
        "pytorch_model.bin": b"cos\nsystem\n(S'touch ran'\ntR.",
    }
    for name in draw.sample(sorted(contents), draw.randint(1, len(contents))):
        (place / "encoder" / name).write_bytes(contents[name])
    image_folder(place / "images")
    (place / "texts.csv").write_text("a,label\n" + "long words,x\nother words,y\n,\n" * 9)
    texts = ("texts.csv", "--target", "label", "--text", "a")
    data = draw.choice([("images",), texts])
    ended = command("fit", *data, "--encoder", "./encoder", "--out", "new", cwd=place)
    if list(place.rglob("ran")):
        raise Failure("code of an encoder's folder has run")
    return "refused" if ended.returncode else "answered"


PARTS = [
    Part("damaged runs", finished_runs, damaged_case),
    Part("crafted runs", finished_runs, crafted_case),
    Part("crafted state", finished_runs, resumed_case),
    Part("crafted annotations", finished_runs, annotations_case),
    Part("crafted encoders", finished_runs, encoder_case),
]
