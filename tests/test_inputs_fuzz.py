"""Whatever bytes come, reading ends in a `Dataset` or in one sentence, inside the folder."""

import builtins
import io
import os
import random
import zipfile

import numpy as np
import pandas
import pytest
from PIL import Image

from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import prepare, read
from tests import fuzz_tables

TRIALS = 1000
# What is imported when first needed is imported now: below, only the data's files may be opened.
read(pandas.DataFrame({"a": [0.5, 1.0, 2.0]}), pandas.Series([0, 1, -1]))
read([[0.5], [1.0], [2.0]], [0, 1, -1])
SCRAPS = [b"", b",", b"\n", b'"', b"\0", b"\xff", b"../", b"/etc/passwd", b";", b"nan", b"1e999"]


def png(mode="RGB", **options):
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(file, **options)
    return file.getvalue()


def npz():
    file = io.BytesIO()
    np.savez(file, x=np.random.default_rng(0).normal(size=(9, 3)), y=np.arange(9) % 4 - 1)
    return file.getvalue()


def parquet():
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(arrow.table({"a": [1, 2, 4], "b": ["u", "v", "u"], "y": list("pq ")}), file)
    return file.getvalue()


TABLE = b'a,b,when,y\n1,u,2020-01-01,p\n2,"v",2020-02-01,q\n4,u,,\n8,,2021-01-01,p\n'
LISTED = b"file,label\na.png,x\nsub/b.jpg,y\nc.gif,\n"
PICTURES = {
    "a.png": png(format="PNG"),
    "sub/b.jpg": png(format="JPEG"),
    "c.gif": png("P", format="GIF"),
    "d.tif": png(format="TIFF"),
    "e.bmp": png(format="BMP"),
    "f.webp": png(format="WEBP"),
    "g.png": png("L", format="PNG"),
    "h.tga": png(format="TGA"),
}


def mutated(data, draw, changes=None):
    """The bytes after some of: flips, cuts, repeats, scraps put in."""
    changed = bytearray(data)
    for _ in range(changes or draw.randint(1, 6)):
        at = draw.randrange(len(changed) + 1)
        kind = draw.randrange(4)
        if kind == 0 and at < len(changed):
            changed[at] = draw.randrange(256)
        elif kind == 1:
            del changed[at : at + draw.randint(1, 20)]
        elif kind == 2:
            changed[at:at] = changed[at : at + draw.randint(1, 20)]
        else:
            changed[at:at] = draw.choice(SCRAPS)
    return bytes(changed)


class Outside(BaseException):  # caught by no `except Exception`
    pass


@pytest.fixture
def only_inside(monkeypatch, tmp_path):
    """Opening or listing anything outside `tmp_path` fails, as no other error would."""
    inside = os.path.realpath(tmp_path)

    def guarded(function):
        def call(path, *arguments, **options):
            if isinstance(path, str | bytes | os.PathLike):
                real = os.fsdecode(os.path.realpath(path))
                if not real.startswith(inside):
                    raise Outside(real)
            return function(path, *arguments, **options)

        return call

    Image.init()  # loads its decoders, and those are files, too
    for owner, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "scandir")):
        monkeypatch.setattr(owner, name, guarded(getattr(owner, name)))
    return tmp_path


def write_pictures(folder, draw):
    (folder / "sub").mkdir(parents=True)
    broken = draw.choice([*PICTURES, "labels.csv"])
    for name, data in (PICTURES | {"labels.csv": LISTED}).items():
        (folder / name).write_bytes(mutated(data, draw) if name == broken else data)
    return folder


def write_file(name, data):
    def write(folder, draw):
        folder.mkdir()
        (folder / name).write_bytes(mutated(data, draw))
        return folder / name

    return write


def said(function, *arguments):
    """The sentence of the error, if there is one."""
    try:
        function(*arguments)
    except (ValueError, OSError) as error:
        return str(error) or "nothing"
    return None


def read_twice(path):
    source = read(path)
    assert isinstance(source, Dataset)
    assert len(source.x) == len(source.y) == len(source.names)
    assert prepare(source.preprocessing, path).x.equal(source.x)


def write_arrays(folder, draw):
    """Arrays whose own bytes are changed, so that the archive's checksums still hold."""
    folder.mkdir()
    broken = draw.choice("xy")
    with zipfile.ZipFile(io.BytesIO(npz())) as old, zipfile.ZipFile(folder / "d.npz", "w") as new:
        for name in ("x", "y"):
            data = old.read(f"{name}.npy")
            new.writestr(f"{name}.npy", mutated(data, draw) if name == broken else data)
    return folder / "d.npz"


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet", "pictures", "arrays"])
def test_no_bytes_lead_anywhere_but_to_a_source_or_a_sentence(only_inside, kind):
    whole = {"csv": TABLE, "npz": npz(), "parquet": parquet()}
    writes = {name: write_file(f"data.{name}", data) for name, data in whole.items()}
    write = (writes | {"pictures": write_pictures, "arrays": write_arrays})[kind]
    draw = random.Random(0)
    sentences = [said(read_twice, write(only_inside / str(i), draw)) for i in range(TRIALS // 4)]
    assert all("\n" not in sentence for sentence in sentences if sentence)
    assert None in sentences  # not every mutation breaks a file
    assert set(sentences) != {None}


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_nor_do_they_when_they_are_new_data(only_inside, kind):
    whole = {"csv": TABLE, "npz": npz()}[kind]
    (only_inside / f"old.{kind}").write_bytes(whole)
    preprocessing = read(only_inside / f"old.{kind}").preprocessing
    draw, write = random.Random(1), write_file(f"new.{kind}", whole)
    sentences = [
        said(prepare, preprocessing, write(only_inside / str(i), draw)) for i in range(TRIALS // 4)
    ]
    assert None in sentences
    assert set(sentences) != {None}


def test_files_of_every_kind_are_read_or_refused():
    ends = fuzz_tables.run(seed=0, count=200)
    assert {kind for kind, _ in ends} == {"table", "arrays", "picture"}
    assert {end for _, end in ends} == {"read", "refused"}


def test_looking_outside_would_be_noticed(only_inside):
    with pytest.raises(Outside):
        (only_inside / ".." / "other.csv").open()
    with pytest.raises(Outside):
        Image.open("/somewhere/else.png")
    with pytest.raises(Outside):
        list(os.walk("/somewhere"))
