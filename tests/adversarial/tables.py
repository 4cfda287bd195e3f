"""Fuzzed tables, arrays and images: they are read, or refused in one line."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import polars as pl

from tests.adversarial.cases import Failure, Part, command
from tests.adversarial.targets import DATA, FAST, copy_run, finished_runs, frame, npz
from tests.unit.auto.encoders.tiny import image_folder

CELLS = [
    *("", " ", "nan", "inf", "null", "None", "NA", "?", "-", "0", "-0", "1e999", "9" * 400, "1,5"),
    *("1.234,56", "€ 12", "12 %", "0x10", "1_000", "٣", "½", "true", "yes", "a", "b", str(2**70)),
    *("2024-02-30", "31.12.1999", "12/31/99", "0000-00-00", "9999-12-31T25:61", "1e5", "label"),
    *("=1+1", "\x1b[2J", "a\u202eb", "\x00", "\ufeff", '"', "'", "a\tb", "a" * 70_000, "🐕", "<b>"),
]
NAMES = ["size", "size", "", " ", "label", "row", "file", "\x1b[31m", "a" * 3000, "é", "0", "None"]
ENCODINGS = ["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "utf-32"]
NESTED = [None, True, [], {}, [1, [2]], {"a": {"b": 1}}, 10**400, 1e300, "x" * 5000]
OFFICE = "http://schemas.openxmlformats.org"
WILD_ARRAYS = [
    *(np.zeros(0), np.zeros((3, 0)), np.array(5.0), np.full((40, 8, 8), np.nan)),
    *(np.full((40, 3), np.inf), np.array(["a", "b"] * 20), np.zeros((40, 2), dtype=complex)),
    *(np.arange(40).astype("datetime64[s]"), np.zeros((40, 3, 2, 2, 2)), np.full((40, 4), 1e300)),
    *(np.array([{}, []] * 20, dtype=object), np.zeros((40, 4), "S3"), np.zeros((40, 8, 8), bool)),
]


def mutate(content: bytes, draw: random.Random) -> bytes:
    """The content with some bytes changed, cut out, repeated or put in."""
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 6])):
        at, length = draw.randrange(len(changed) + 1), draw.choice([1, 2, 8, 100, 2000])
        part = bytes(changed[at : at + length])
        cell = draw.choice(CELLS).encode()
        new = draw.choice([b"", draw.randbytes(len(part)), part * 2, part * 50, cell, part + cell])
        changed[at : at + length] = new
        if draw.random() < 0.15:
            del changed[at:]
    return bytes(changed)


def wild_rows(draw: random.Random) -> list[list[object]]:
    """A table of wild cells under wild names."""
    names: list[object] = [*draw.sample(NAMES, draw.randint(0, 4)), "label"]
    few, rows = draw.choices(CELLS, k=3), draw.choice([0, 1, 2, 12, 40])
    cells = [[draw.choice(draw.choice([CELLS, few])) for _ in names] for _ in range(rows)]
    for row in cells[::3] if draw.random() < 0.7 else []:
        row[-1] = draw.choice(["a", "b", "1", "2"])
    return [names, *cells]


def csv(rows: list[list[object]], draw: random.Random) -> bytes:
    """A table with some sign between its cells, in some encoding."""
    quote = draw.choice(["", '"'])
    texts = [["" if cell is None else f"{quote}{cell}{quote}" for cell in row] for row in rows]
    sign, end = draw.choice([",", ",", ";", "\t", "|"]), draw.choice(["\n", "\r\n", "\r"])
    return end.join(map(sign.join, texts)).encode(draw.choice(ENCODINGS), "replace")


def parquet(rows: list[list[object]], draw: random.Random) -> bytes:
    """A Parquet file; names must differ there."""
    names = [name if name == "label" else f"{name}{i}" for i, name in enumerate(map(str, rows[0]))]
    packed = io.BytesIO()
    columns = {name: [row[i] for row in rows[1:]] for i, name in enumerate(names)}
    columns |= {"key": [2 ** draw.choice([31, 53, 62]) + row for row in range(len(rows) - 1)]}
    pl.DataFrame(columns, strict=False).write_parquet(packed)
    return packed.getvalue()


def jsonl(rows: list[list[object]], draw: random.Random) -> bytes:
    """Lines of JSON, some with nested values."""
    lines = []
    for row in rows[1:]:
        line = dict(zip(map(str, rows[0]), row, strict=True))
        if draw.random() < 0.1:
            line[draw.choice([*line, "new"])] = draw.choice(NESTED)
        lines.append(json.dumps(line))
    lines += draw.choice([[], [], [], ["[" * 10**5], ["null"], ["{"], ['{"a": NaN}']])
    return "\n".join(lines).encode()


def xlsx(rows: list[list[object]], draw: random.Random) -> bytes:
    """A workbook with one sheet."""
    text = '<c t="inlineStr"><is><t>{}</t></is></c>'
    cells = ["".join(text.format(escape(str(cell or ""))) for cell in row) for row in rows]
    sheet = "".join(f"<row>{row}</row>" for row in cells)
    link = f'<Relationships xmlns="{OFFICE}/package/2006/relationships"><Relationship Id="r1" '
    link += f'Type="{OFFICE}/officeDocument/2006/relationships/'
    main, packed = f'xmlns="{OFFICE}/spreadsheetml/2006/main"', io.BytesIO()
    relations = f'xmlns:r="{OFFICE}/officeDocument/2006/relationships"'
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in {
            "_rels/.rels": f'{link}officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/_rels/workbook.xml.rels": f'{link}worksheet" Target="a.xml"/></Relationships>',
            "xl/workbook.xml": f"<workbook {main} {relations}><sheets>"
            '<sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/a.xml": f"<worksheet {main}><sheetData>{sheet}</sheetData></worksheet>",
        }.items():
            archive.writestr(name, content)
    return packed.getvalue()


def arrays(rows: list[list[object]], draw: random.Random) -> bytes:
    """An .npz file with a wild array, or with a header that claims far more than there is."""
    packed, claim = io.BytesIO(), io.BytesIO()
    if draw.random() < 0.2:
        head = {"descr": "|u1", "fortran_order": False, "shape": (2**33, 2)}
        np.lib.format.write_array_header_1_0(claim, head)
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("x.npy", claim.getvalue() + bytes(2**20))
        return packed.getvalue()
    with np.load(io.BytesIO(npz())) as found:
        content = dict(found)
    content[draw.choice(["x", "y", "ids", "../x"])] = draw.choice(WILD_ARRAYS)
    np.savez(packed, **content)
    return packed.getvalue()


FORMATS = {"csv": csv, "tsv": csv, "csv.gz": csv, "jsonl": jsonl, "parquet": parquet, "xlsx": xlsx}


def fuzzed(draw: random.Random, place: Path) -> Path:
    """A file, or a folder of images, that is made up or damaged."""
    suffix = draw.choice([*FORMATS, "csv", "npz", "png"])
    if suffix == "png":
        folder = image_folder(place / "images")
        for path in draw.sample(sorted(folder.iterdir()), draw.choice([1, 2, 8])):
            path.write_bytes(mutate(path.read_bytes(), draw))
        return folder
    made_up, table = draw.random() < 0.6, frame()
    rows = wild_rows(draw) if made_up else [list(table.columns), *map(list, table.rows())]
    content = (FORMATS | {"npz": arrays})[suffix](rows, draw)
    if not made_up or draw.random() < 0.3:
        content = mutate(content, draw)
    path = place / f"fuzzed.{suffix}"
    path.write_bytes(gzip.compress(content) if suffix == "csv.gz" else content)
    return path


def case(draw: random.Random, place: Path) -> str:
    """Fit fuzzed data, predict them with a finished run, or take them as labels."""
    path = fuzzed(draw, place)
    before = path.read_bytes() if path.is_file() else b""
    run, data = copy_run(place, draw.choice(list(DATA)))
    target = () if path.is_dir() or path.suffix == ".npz" else ("--target", "label")
    weak = ("--weak-labels", path, *(() if data.suffix == ".npz" else ("--target", "label")))
    orders: list[tuple[object, ...]] = [("fit", path, *target, *FAST, "--out", "new")] * 2
    orders += [("predict", run, path, "--out", "out.csv")]
    if path.suffix in (".csv", ".tsv"):
        orders += [("labels", run, "--corrections", path), ("audit", run, "--filled", path)]
        orders += [("fit", data, *weak, *FAST, "--out", "new")]
    order = draw.choice(orders)
    ended = command(*order, cwd=place)
    if path.is_file() and path.read_bytes() != before:
        raise Failure("the data were changed")
    return f"{order[0]} {'refused' if ended.returncode else 'done'}"


PARTS = [Part("fuzzed data", finished_runs, case)]
