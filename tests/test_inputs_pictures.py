"""Pictures of every sort come out upright, square and alike; damaged ones are named."""

import json
import logging
import os
import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labelgrad.inputs.folder import folder_label
from labelgrad.inputs.kinds import prepare, read
from labelgrad.inputs.pixels import load_picture, to_grey

RED, GREEN, BLUE, GREY = (255, 0, 0), (0, 255, 0), (0, 0, 255), (90, 90, 90)


def save(path, colour=RED, size=(16, 16), mode="RGB", **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).convert(mode).save(path, **options)
    return path


@pytest.fixture
def pets(tmp_path):
    for name, colour in (("cat", RED), ("dog", GREEN), ("unlabeled", BLUE)):
        for index in range(3):
            save(tmp_path / "pets" / name / f"{index}.png", colour)
    return tmp_path / "pets"


def bomb(side=60_000):
    """A tiny PNG that says it is huge; a byte of pixels is all there is."""

    def chunk(kind, data):
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0")), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_subfolders_are_classes(pets):
    source = read(pets)
    assert source.x.shape == (9, 3, 16, 16)
    assert source.x.dtype == torch.uint8
    assert source.classes == ("cat", "dog")
    assert source.y.tolist() == [0, 0, 0, 1, 1, 1, -1, -1, -1]
    assert source.names[0] == "cat/0.png"
    assert source.x[0, :, 5, 5].tolist() == list(RED)
    assert source.summary == {
        "labeled": 6,
        "unlabeled": 3,
        "skipped": 0,
        "classes": {"cat": 3, "dog": 3},
    }
    assert any("Pictures are made 16×16" in note for note in source.notes)
    assert any("Fewer than 5 labels: 'cat', 'dog'." in note for note in source.notes)


@pytest.mark.parametrize("header", ["file,label\n", "Label,File,who\n", ""])
def test_a_labels_file_says_the_classes(tmp_path, header):
    for name in ("a.png", "b.png", "deep/c.png", "d.png"):
        save(tmp_path / name)
    rows = [("a.png", "x"), ("./b.png", "y"), ("deep/c.png", ""), ("a.png", "x")]
    swapped = header.startswith("L")
    lines = [f"{label},{file},me\n" if swapped else f"{file},{label}\n" for file, label in rows]
    (tmp_path / "labels.csv").write_text(header + "".join(lines))
    source = read(tmp_path)
    assert dict(zip(source.names, source.y.tolist(), strict=True)) == {
        "a.png": 0,
        "b.png": 1,
        "d.png": -1,
        "deep/c.png": -1,
    }


def test_labels_may_be_elsewhere_and_be_numbers(tmp_path):
    for index in range(4):
        save(tmp_path / "faces" / f"{index}.png")
    labels = tmp_path / "ages.csv"
    labels.write_text("file,label\n0.png,23.5\n1.png,41\n2.png,7\n")
    source = read(tmp_path / "faces", labels=labels)
    assert source.task == "regression"
    assert source.y[:3].tolist() == [23.5, 41.0, 7.0]
    assert source.labeled.tolist() == [True, True, True, False]


def test_exif_rotation_is_respected(tmp_path):
    """Red above blue, stored lying on its side."""
    upright = Image.new("RGB", (32, 32), BLUE)
    upright.paste(RED, (0, 0, 32, 16))
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn by 90° clockwise to see it"
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "a.jpg", exif=exif, quality=95)
    pixels = load_picture(tmp_path / "a.jpg", 32)
    assert pixels[:, 4, 4] == pytest.approx(RED, abs=10)
    assert pixels[:, 4, 28] == pytest.approx(RED, abs=10)
    assert pixels[:, 28, 4] == pytest.approx(BLUE, abs=10)


def test_sixteen_bits_keep_their_range(tmp_path):
    ramp = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    Image.fromarray(ramp).save(tmp_path / "a.png")
    Image.fromarray(ramp).save(tmp_path / "a.tif")
    expected = np.broadcast_to((ramp / 257).round(), (3, 16, 16))
    for name in ("a.png", "a.tif"):
        assert np.array_equal(load_picture(tmp_path / name, 16), expected)


def test_floats_are_from_0_to_1_or_to_255(tmp_path):
    for top in (1.0, 255.0):
        pixels = np.linspace(0, top, 64, dtype=np.float32).reshape(8, 8)
        Image.fromarray(pixels).save(tmp_path / "a.tif")
        found = load_picture(tmp_path / "a.tif", 8)[0]
        assert np.array_equal(found, (pixels / top * 255).round())


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("a.gif", "P"),
        ("a.png", "P"),
        ("a.png", "RGBA"),
        ("a.bmp", "RGB"),
        ("a.tif", "CMYK"),
        ("a.webp", "RGB"),
        ("a.ppm", "RGB"),
        ("a.jpg", "RGB"),
        ("a.ico", "RGBA"),
        ("a.tga", "RGB"),
    ],
)
def test_formats_and_modes(tmp_path, name, mode):
    options = {"lossless": True} if name == "a.webp" else {}
    pixels = load_picture(save(tmp_path / name, RED, mode=mode, **options), 8)
    assert pixels[:, 4, 4] == pytest.approx(RED, abs=1)


def test_what_is_transparent_is_white(tmp_path):
    Image.new("RGBA", (8, 8), (255, 0, 0, 0)).save(tmp_path / "a.png")
    Image.new("LA", (8, 8), (0, 0)).save(tmp_path / "b.png")
    for name in ("a.png", "b.png"):
        assert (load_picture(tmp_path / name, 8) == 255).all()


def test_grey_pictures_have_one_channel_however_they_are_stored(tmp_path):
    save(tmp_path / "a" / "1.png", GREY, mode="L")
    save(tmp_path / "b" / "1.png", GREY, mode="RGB")
    Image.new("L", (16, 16), GREY[0]).convert("P").save(tmp_path / "b" / "2.gif")
    save(tmp_path / "b" / "3.jpg", GREY)
    source = read(tmp_path)
    assert source.x.shape == (4, 1, 16, 16)
    assert (source.x == 90).all()
    colour = prepare(source.preprocessing, save(tmp_path / "c.png", RED))
    assert colour.x.shape == (1, 1, 16, 16)
    assert (colour.x == 76).all()  # 0.299 of 255
    assert read(tmp_path).x.shape == (5, 3, 16, 16)


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_grey_is_what_pillow_makes_of_it(colour):
    pixels = np.array(colour, dtype=np.uint8).reshape(1, 3, 1, 1)
    assert to_grey(pixels).item() == Image.new("RGB", (1, 1), colour).convert("L").getpixel((0, 0))


def test_the_middle_is_kept(tmp_path):
    wide = Image.new("RGB", (96, 32), BLUE)
    wide.paste(RED, (32, 0, 64, 32))
    wide.save(tmp_path / "a.png")
    pixels = load_picture(tmp_path / "a.png", 32)
    assert (pixels == np.array(RED).reshape(3, 1, 1)).all()


@pytest.mark.parametrize(
    ("sides", "size"),
    [
        ([(1, 1), (1, 1)], 8),
        ([(28, 28), (28, 28)], 28),
        ([(30, 90), (70, 30)], 28),
        ([(640, 480), (480, 640)], 32),
    ],
)
def test_the_size_is_that_of_most_pictures(tmp_path, sides, size):
    for index, side in enumerate(sides):
        save(tmp_path / "ab"[index] / "1.png", size=side)
    assert read(tmp_path).x.shape[-2:] == (size, size)
    assert read(tmp_path, size=20).x.shape[-2:] == (20, 20)


def test_new_pictures_in_any_layout_are_treated_like_the_old(pets, tmp_path):
    source = read(pets, size=12)
    preprocessing = json.loads(json.dumps(source.preprocessing))
    again = prepare(preprocessing, pets)
    assert torch.equal(again.x, source.x)
    assert again.names == source.names
    one = prepare(preprocessing, save(tmp_path / "flat" / "new.png", GREEN))
    assert torch.equal(one.x[0], source.x[3])
    save(tmp_path / "flat" / "deep" / "er" / "x.gif", RED)
    (tmp_path / "flat" / "bad.png").write_bytes(b"no")
    new = prepare(preprocessing, tmp_path / "flat")
    assert new.names == ["new.png", "deep/er/x.gif"]
    assert new.skipped == [("bad.png", "not a picture of a known format")]
    with pytest.raises(ValueError, match=r"bad.png cannot be read as a picture"):
        prepare(preprocessing, tmp_path / "flat", strict=True)


@pytest.mark.parametrize("side", [400, 12])
def test_damaged_pictures_are_named_and_skipped(pets, side):
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(noise).save(pets / "cat" / "cut.jpg")
    whole = (pets / "cat" / "cut.jpg").read_bytes()
    (pets / "cat" / "cut.jpg").write_bytes(whole[: len(whole) * 2 // 3])
    (pets / "cat" / "empty.png").write_bytes(b"")
    (pets / "dog" / "bomb.png").write_bytes(bomb())
    (pets / "dog" / "large.png").write_bytes(bomb(10_000))  # Pillow would only warn
    (pets / "dog" / "eps.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n")
    (pets / "notes.txt").write_text("not a picture")
    source = read(pets)
    assert len(source.names) == 9
    reasons = dict(source.skipped)
    assert set(reasons) == {
        "cat/cut.jpg",
        "cat/empty.png",
        "dog/bomb.png",
        "dog/large.png",
        "dog/eps.png",
    }
    assert "truncated" in reasons["cat/cut.jpg"].lower()
    assert "more than 89,478,485 pixels" in reasons["dog/bomb.png"]
    assert "more than 89,478,485 pixels" in reasons["dog/large.png"]
    assert source.summary["skipped"] == 5
    assert "Not pictures by their names, and not read: 'notes.txt'." in source.notes
    with pytest.raises(
        ValueError, match=r"cat/cut.jpg cannot be read as a picture: .*[Tt]runcated"
    ):
        read(pets, strict=True)


def test_a_bomb_is_never_decoded(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(bomb())
    monkeypatch.setattr(Image.core, "new", lambda *_: pytest.fail("memory was taken"))
    with pytest.raises(Image.DecompressionBombError):
        load_picture(tmp_path / "a.png", 8)


def test_classes_lost_to_damage_are_said(pets):
    (pets / "eel").mkdir()
    (pets / "eel" / "1.png").write_bytes(b"no")
    notes = read(pets).notes
    assert "Left out, because none of their pictures can be read: 'eel'." in notes


def test_links_out_of_the_folder_are_not_followed(pets, tmp_path):
    secret = save(tmp_path / "secret" / "s.png", BLUE)
    (pets / "cat" / "link.png").symlink_to(secret)
    (pets / "dog" / "all").symlink_to(secret.parent)
    (pets / "dog" / "loop").symlink_to(pets)
    (pets / "dog" / "same.png").symlink_to(pets / "dog" / "0.png")
    (pets / "dog" / "self.png").symlink_to(pets / "dog" / "self.png")
    os.mkfifo(pets / "dog" / "pipe.png")
    source = read(pets)
    assert "dog/same.png" in source.names
    assert len(source.names) == 10
    assert dict(source.skipped) == {
        "cat/link.png": "a link that leads out of the folder",
        "dog/all": "a link to a folder, which is not followed",
        "dog/loop": "a link to a folder, which is not followed",
        "dog/pipe.png": "not a regular file",
        "dog/self.png": "not a regular file",
    }
    with pytest.raises(ValueError, match="cannot be read: "):
        read(pets, strict=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png,x\n../secret.png,y\n", r"relative to the folder and in it, got '../secret.png'"),
        ("a.png,x\n/etc/passwd,y\n", "got '/etc/passwd' in line 2 of labels.csv"),
        ("a.png,x\nsub/../a.png,y\n", "relative to the folder and in it"),
        ("a.png,x\n,y\n", "got '' in line 2"),
        ("a.png,x\nlink.png,y\n", "'link.png' in line 2 .* leads out of the folder"),
        ("a.png,x\nout/s.png,y\n", "'out' in line 2 .* not followed"),
        ("a.png,x\na.png,y\n", "gives 'a.png' two labels: 'x', and 'y' on line 2"),
        ("a.png,x\n" + "".join(f"{i}.png,y\n" for i in range(9)), "9 files .*'4.png' and 4 more"),
        ("a.png,x\nb.png,x\n", "labels.csv has only one class, 'x'"),
        ("a.png,\nb.png,\n", "does not say what its pictures show"),
        ("a.png,x\nb.png\n", "line 2: it must have 2 cells"),
        ("a,b,c\nb.png,x,y\n", "must have the columns file and label, got 'a', 'b', 'c'"),
        ("", "labels.csv is empty"),
        (b"a.png,caf\xe9\n", "must be UTF-8 text"),
        (b"a.png,\0\n", "zero byte"),
    ],
)
def test_bad_labels_files_are_one_sentence(tmp_path, text, message):
    folder = tmp_path / "folder"
    secret = save(tmp_path / "secret" / "s.png")
    for name in ("a.png", "b.png", "sub/c.png"):
        save(folder / name)
    (folder / "link.png").symlink_to(secret)
    (folder / "out").symlink_to(secret.parent)
    (folder / "labels.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message) as caught:
        read(folder)
    assert "\n" not in str(caught.value)


def test_a_labels_file_that_is_a_link_out_is_refused(pets, tmp_path):
    (tmp_path / "outside.csv").write_text("cat/0.png,x\n")
    (pets / "labels.csv").symlink_to(tmp_path / "outside.csv")
    with pytest.raises(ValueError, match=r"labels.csv cannot be read: a link that leads out"):
        read(pets)


def test_bad_folders_are_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="holds no pictures"):
        read(tmp_path)
    save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="put those of each class into a subfolder"):
        read(tmp_path)
    save(tmp_path / "cat" / "a.png")
    with pytest.raises(ValueError, match="only one class, 'cat'"):
        read(tmp_path)
    with pytest.raises(ValueError, match="`size` must be from 1 to 1024 pixels, got 0"):
        read(tmp_path, size=0)
    with pytest.raises(ValueError, match="`target` is for table"):
        read(tmp_path, target="y")
    with pytest.raises(FileNotFoundError, match="no labels file"):
        read(tmp_path, labels=tmp_path / "none.csv")
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(b"no")
    with pytest.raises(
        ValueError, match=r"None of the 2 pictures can be read; a.png: not a picture"
    ):
        read(tmp_path)


def test_loose_and_hidden_pictures(pets):
    save(pets / "loose.png")
    save(pets / ".hidden.png")
    save(pets / "cat" / ".trash" / "x.png")
    source = read(pets)
    assert len(source.names) == 10
    assert source.y[source.names.index("loose.png")] == -1
    assert "Pictures outside the subfolders are unlabeled: 1." in source.notes


def test_a_name_that_is_no_text_can_be_printed(pets):
    os.rename(os.fsencode(pets / "cat" / "0.png"), os.fsencode(pets / "cat") + b"/\xff.png")
    source = read(pets)
    assert r"cat/\xff.png" in source.names
    json.dumps(source.names).encode()


def test_names_of_subfolders_are_texts_even_if_numbers(tmp_path):
    for name in ("01", "1", "none"):
        save(tmp_path / name / "a.png")
    source = read(tmp_path)
    assert source.classes == ("01", "1", "none")
    assert source.y.tolist() == [0, 1, 2]


def test_nothing_is_printed_about_a_damaged_file(pets, capfd, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as where nobody asked for a log
    save(pets / "cat" / "a.tif")
    whole = (pets / "cat" / "a.tif").read_bytes()
    samples = whole.index(struct.pack("<HHI", 277, 3, 1))  # the tag of how many a pixel has
    tag = struct.pack("<HHIHH", 277, 3, 1, 65283, 0)
    (pets / "cat" / "a.tif").write_bytes(whole[:samples] + tag + whole[samples + 12 :])
    assert read(pets).summary["skipped"] == 1
    assert capfd.readouterr() == ("", "")


def test_labels_of_subfolders():
    assert folder_label("Unlabelled/1.png") == ""
    assert folder_label("a b/c/1.png") == "a b"
