"""Pictures that are decoded into a file are the same as in memory, whatever happens meanwhile."""

import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import labelgrad
from labelgrad import witnesses
from labelgrad.encoders.cache import cache_folder
from labelgrad.inputs import decoding, picture_cache
from labelgrad.inputs.base import Encoding, Scale
from labelgrad.inputs.features import features
from labelgrad.inputs.kinds import kind_named, prepare, read
from labelgrad.inputs.mapped import received, roomy, to_send
from labelgrad.inputs.picture_cache import decoded_once
from labelgrad.inputs.pixels import load_pictures
from labelgrad.witnesses.aligned import spread_of
from labelgrad.witnesses.base import in_parts
from labelgrad.witnesses.hearing import Case, hear_all
from labelgrad.witnesses.named import witnesses_named
from labelgrad.witnesses.neighbours import directions

NO_ENCODER = Encoding(("none",))


def draw(path, seed, *, grey=False, size=(12, 10)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert("L" if grey else "RGB").save(path)


def make_pets(folder, count=12, **options):
    for seed in range(count):
        kind = ("cat", "dog", "unlabeled")[seed % 3]
        draw(folder / kind / f"{seed:02}.png", seed, **options)
    return folder


@pytest.fixture
def pets(tmp_path):
    return make_pets(tmp_path / "pets")


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(decoding, "MOST", 2)


@pytest.fixture
def mapped(monkeypatch, tmp_path):
    """Everything is put into files."""
    monkeypatch.setenv("LABELGRAD_MEMORY", "0")
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path / "kept"))


def files_of(folder):
    return {path.name: path for path in sorted(folder.rglob("*.png"))}


def cached(folder, kept, **options):
    return decoded_once(files_of(folder), 8, source=folder, folder=kept, **options)


def bytes_in(kept):
    """What all files of the cache hold, but for the folder that a list was set aside in."""
    return {path.name: path.read_bytes() for path in kept.rglob("*.bin")}


def counted(monkeypatch):
    """The files that are decoded from now on."""
    seen, before = [], picture_cache.decode_all

    def decode_all(lists, size):
        seen.extend(path.name for files in lists for path in files)
        return before(lists, size)

    monkeypatch.setattr(picture_cache, "decode_all", decode_all)
    return seen


def same(one, other):
    assert one.names == other.names
    assert one.x.dtype == other.x.dtype
    assert one.x.equal(other.x)
    assert one.skipped == other.skipped


@pytest.mark.parametrize("what", ["colour", "grey", "damaged"])
def test_a_folder_reads_the_same_by_the_cache(pets, tmp_path, monkeypatch, what, small_pieces):
    if what == "grey":
        make_pets(pets, grey=True)
    if what == "damaged":
        for name in ("cat/00.png", "dog/04.png", "unlabeled/11.png"):
            (pets / name).write_bytes((pets / name).read_bytes()[:40])
    plain = read(pets, encoding=NO_ENCODER)
    monkeypatch.setenv("LABELGRAD_MEMORY", "0")
    notes, progress = [], []
    encoding = Encoding(
        ("none",),
        cache=tmp_path / "kept",
        on_note=notes.append,
        on_decoded=lambda *at: progress.append(at),
    )
    for source in (read(pets, encoding=encoding), read(pets, encoding=encoding)):
        same(source, plain)
        assert source.y.equal(plain.y)
        assert source.notes == plain.notes
        assert source.preprocessing == plain.preprocessing
        assert source.x.shape[1] == (1 if what == "grey" else 3)
    (note,) = notes
    assert note.startswith("12 pictures of 8×8 take 0.1 MB in ")
    assert progress == [(done, 12) for done in range(2, 13, 2)]


def test_strict_refuses_the_same_picture_whether_it_was_seen_before_or_not(pets, mapped):
    (pets / "dog/04.png").write_bytes(b"no picture")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^dog/04.png cannot be read as a picture: not a"):
            read(pets, strict=True, encoding=NO_ENCODER)
        read(pets, encoding=NO_ENCODER)


def test_no_picture_that_can_be_read_is_one_sentence(pets, mapped):
    for path in pets.rglob("*.png"):
        path.write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"^None of the 12 pictures can be read; cat/00.png: "):
        read(pets, size=8, encoding=NO_ENCODER)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_cut_off_anywhere_it_goes_on_to_the_same_bytes(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cut")
    pets = make_pets(folder / "pets", 7)
    (pets / "dog/04.png").write_bytes(b"no picture")
    most, decoding.MOST = decoding.MOST, 2
    try:
        whole = cached(pets, folder / "whole")
        before = bytes_in(folder / "whole")
        cached(pets, folder / "cut")
        # As writing goes: pixels first, of at most one piece more than there are entries for.
        entries = data.draw(st.integers(0, len(before["files.bin"])))
        size = picture_cache.ENTRY.itemsize
        written = min(6, len([i for i in range(entries // size) if i != 3]))
        pixels = data.draw(st.integers(written * 192, min(6 * 192, (written + 2) * 192)))
        for path in (folder / "cut").rglob("*.bin"):
            path.write_bytes(path.read_bytes()[: entries if path.name == "files.bin" else pixels])
        same(cached(pets, folder / "cut"), whole)
        assert bytes_in(folder / "cut") == before
    finally:
        decoding.MOST = most


KILLED = """
import sys, time
from pathlib import Path
from labelgrad.inputs import decoding, picture_cache
decoding.MOST = 2
def slowly(done, total):
    print(done, flush=True)
    time.sleep(0.02)
source, kept = map(Path, sys.argv[1:])
files = {path.name: path for path in sorted(source.rglob("*.png"))}
picture_cache.decoded_once(files, 8, source=source, folder=kept, on_progress=slowly)
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_in_the_same_bytes(tmp_path):
    pets = make_pets(tmp_path / "pets", 40)
    whole = cached(pets, tmp_path / "whole")
    chance = np.random.default_rng(0)
    for _ in range(2):
        running = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(pets), str(tmp_path / "cut")],
            stdout=subprocess.PIPE,
        )
        assert running.stdout.readline()
        time.sleep(chance.uniform(0, 0.1))
        running.send_signal(signal.SIGKILL)
        running.wait()
        running.stdout.close()
    same(cached(pets, tmp_path / "cut"), whole)
    assert bytes_in(tmp_path / "cut") == bytes_in(tmp_path / "whole")


@pytest.mark.parametrize("name", ["pixels.bin", "files.bin"])
def test_damage_is_found_and_only_what_is_damaged_is_decoded_again(
    pets, tmp_path, monkeypatch, name
):
    whole = cached(pets, tmp_path / "kept")
    expected = whole.x.clone()
    before = bytes_in(tmp_path / "kept")
    (path,) = (tmp_path / "kept").rglob(name)
    content = bytearray(path.read_bytes())
    content[5 * (192 if name == "pixels.bin" else picture_cache.ENTRY.itemsize) + 1] ^= 4
    path.write_bytes(content)
    decoded = counted(monkeypatch)
    again = cached(pets, tmp_path / "kept")
    assert again.x.equal(expected)
    assert decoded == [list(files_of(pets))[5]]
    assert bytes_in(tmp_path / "kept") == before


def test_only_new_and_changed_files_are_decoded(pets, tmp_path, monkeypatch):
    cached(pets, tmp_path / "kept")
    decoded = counted(monkeypatch)
    cached(pets, tmp_path / "kept")
    assert decoded == []
    draw(pets / "cat/03.png", 99)
    os.utime(pets / "cat/03.png", ns=(1, 1))
    draw(pets / "dog/05b.png", 100)
    (pets / "cat/00.png").unlink()
    found = cached(pets, tmp_path / "kept")
    assert sorted(decoded) == ["03.png", "05b.png"]
    _, pixels, _ = load_pictures(files_of(pets), 8, strict=True)
    assert found.x.equal(torch.from_numpy(pixels))
    assert len(list((tmp_path / "kept").rglob("pixels.bin"))) == 1


def test_another_size_does_not_disturb_the_first(pets, tmp_path):
    one = cached(pets, tmp_path / "kept")
    before = one.x.clone()
    files = files_of(pets)
    two = decoded_once(files, 4, source=pets, folder=tmp_path / "kept")
    assert two.x.equal(torch.from_numpy(load_pictures(files, 4, strict=True)[1]))
    assert one.x.equal(before)


def test_a_picture_that_can_be_read_later_is_there_then(pets, tmp_path, monkeypatch):
    whole, load = cached(pets, tmp_path / "whole"), decoding.load_picture

    def locked_out(path, size):
        if path.name == "04.png":
            raise PermissionError(13, "Permission denied")
        return load(path, size)

    monkeypatch.setattr(decoding, "load_picture", locked_out)
    less = cached(pets, tmp_path / "kept")
    assert less.skipped == [("04.png", "[Errno 13] Permission denied")]
    assert len(less.names) == 11
    monkeypatch.undo()
    same(cached(pets, tmp_path / "kept"), whole)


def test_two_at_the_same_time_decode_each_picture_once(pets, tmp_path, monkeypatch):
    decoded, found = counted(monkeypatch), []
    threads = [
        threading.Thread(target=lambda: found.append(cached(pets, tmp_path / "kept")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(*found)
    assert sorted(decoded) == sorted(files_of(pets))


def test_what_does_not_fit_is_refused_before_anything_is_decoded(pets, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELGRAD_CACHE_LIMIT", "0.000002")
    decoded = counted(monkeypatch)
    with pytest.raises(OSError, match=r"^12 pictures of 8×8 take .* LABELGRAD_CACHE_LIMIT"):
        cached(pets, tmp_path / "kept")
    monkeypatch.delenv("LABELGRAD_CACHE_LIMIT")
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Disk", (), {"free": 1000}))
    with pytest.raises(OSError, match=r"^12 pictures of 8×8 take .* of the disk are free; make"):
        cached(pets, tmp_path / "kept")
    assert not decoded


def test_a_disk_that_fills_up_is_one_sentence_and_loses_nothing(
    pets, tmp_path, monkeypatch, small_pieces
):
    whole, put, calls = cached(pets, tmp_path / "whole"), picture_cache.put, []

    def full(file, start, content):
        calls.append(start)
        if len(calls) > 5:
            put(file, start, content[:7])
            raise OSError(28, "No space left on device")
        put(file, start, content)

    monkeypatch.setattr(picture_cache, "put", full)
    with pytest.raises(OSError, match=r"^Decoded pictures cannot be kept in .* \(No space left"):
        cached(pets, tmp_path / "kept")
    monkeypatch.setattr(picture_cache, "put", put)
    decoded = counted(monkeypatch)
    same(cached(pets, tmp_path / "kept"), whole)
    assert len(decoded) == 8
    assert bytes_in(tmp_path / "kept") == bytes_in(tmp_path / "whole")


def test_a_cache_that_cannot_be_written_is_one_sentence(pets, tmp_path):
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(OSError, match=r"^Decoded pictures cannot be kept in .* LABELGRAD_CACHE\.$"):
        cached(pets, tmp_path / "kept")


@pytest.mark.parametrize("name", ["LABELGRAD_MEMORY", "LABELGRAD_CACHE_LIMIT"])
def test_a_variable_that_is_no_number_is_one_sentence(pets, mapped, monkeypatch, name):
    monkeypatch.setenv(name, "much")
    with pytest.raises(ValueError, match=f"^{name} must be a number from 0 on, got 'much'.$"):
        read(pets, encoding=NO_ENCODER)


def test_several_processes_decode_the_same_and_a_killed_one_costs_nothing(
    pets, monkeypatch, small_pieces
):
    files = list(files_of(pets).values()) * 3
    lists = [files[piece] for piece in decoding.pieces(len(files), 8)]
    alone = list(decoding.decode_all(lists, 8))
    monkeypatch.setattr(decoding, "FEW", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    side_by_side = decoding.decode_all(lists, 8)
    found = [next(side_by_side)]
    for child in active_children():
        os.kill(child.pid, signal.SIGKILL)
    found += side_by_side
    for one, other in zip(found, alone, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


UNGUARDED = """
import sys
from pathlib import Path
from labelgrad.inputs import decoding
print("once")
decoding.FEW = 0
files = sorted(Path(sys.argv[1]).rglob("*.png"))
found = list(decoding.decode_all([files[:6], files[6:]], 8))
print(sum(len(each.pixels) for each in found))
"""


def test_a_script_that_decodes_is_not_run_again_by_the_processes(pets, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, script, pets], capture_output=True, text=True, check=True
    )
    assert done.stdout == "once\n12\n"
    assert done.stderr == ""


@pytest.mark.parametrize("damaged", [(), ("cat/00.png",), ("unlabeled/11.png", "dog/04.png")])
def test_new_pictures_in_parts_are_those_at_once(pets, damaged, small_pieces):
    grey = make_pets(pets.parent / "grey", grey=True)
    preprocessing = read(grey, encoding=NO_ENCODER).preprocessing  # colour becomes brightness
    for name in damaged:
        (pets / name).write_bytes(b"no picture")
    whole = prepare(preprocessing, pets)
    parts = list(
        kind_named("pictures").prepare_in_parts(
            preprocessing, pets, strict=False, encoding=NO_ENCODER
        )
    )
    assert len(parts) > 4
    assert torch.cat([part.x for part in parts]).equal(whole.x)
    assert [name for part in parts for name in part.names] == whole.names
    assert [each for part in parts for each in part.skipped] == whole.skipped


def test_parts_of_a_folder_without_a_whole_picture_are_one_sentence(pets):
    preprocessing = read(pets, encoding=NO_ENCODER).preprocessing
    for path in pets.rglob("*.png"):
        path.write_bytes(b"no picture")
    ask = kind_named("pictures").prepare_in_parts
    with pytest.raises(ValueError, match=r"^None of the 12 pictures can be read; cat/00.png: "):
        list(ask(preprocessing, pets, strict=False, encoding=NO_ENCODER))
    with pytest.raises(ValueError, match=r"^cat/00.png cannot be read as a picture: "):
        list(ask(preprocessing, pets, strict=True, encoding=NO_ENCODER))


@pytest.mark.slow
def test_fit_and_predict_by_the_cache_are_those_in_memory(pets, tmp_path, monkeypatch):
    asked = {"encoder": "none", "steps": 2, "size": 8, "witnesses": "linear", "model": "mlp-4"}
    plain = labelgrad.fit(pets, **asked)
    monkeypatch.setenv("LABELGRAD_MEMORY", "0")
    kept = labelgrad.fit(pets, cache=tmp_path / "kept", **asked)
    assert list((tmp_path / "kept").rglob("pixels.bin"))
    assert kept.labels == plain.labels
    assert kept.predict(pets).values.equal(plain.predict(pets).values)
    for name, found in plain.held_out.items():
        assert np.array_equal(found, kept.held_out[name])


def test_other_processes_are_sent_the_place_of_the_file(pets, mapped):
    x = read(pets, encoding=NO_ENCODER).x
    sent = to_send(x)
    assert isinstance(sent.path, Path)
    assert received(sent).equal(x)
    assert isinstance(to_send(x, by_path=False), np.ndarray)
    (pixels,) = cache_folder().rglob("pixels.bin")
    pixels.unlink()
    with pytest.raises(OSError, match=r"^The examples in .* are not there any more "):
        received(sent)


def test_what_is_done_to_the_tensor_does_not_reach_the_file(pets, mapped):
    x = read(pets, encoding=NO_ENCODER).x
    before = x.clone()
    x.zero_()
    assert read(pets, encoding=NO_ENCODER).x.equal(before)


@pytest.mark.parametrize("shape", [(7, 5), (7, 3, 20, 20)])
def test_features_of_many_examples_are_those_of_few(shape, monkeypatch, tmp_path):
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))
    few = features(x, Scale(2 / 255, -1.0))
    monkeypatch.setattr("labelgrad.inputs.features.AT_ONCE", 2)
    monkeypatch.setenv("LABELGRAD_MEMORY", "0")
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path))
    many = features(x, Scale(2 / 255, -1.0))
    assert isinstance(many, np.memmap)
    assert np.array_equal(few, many)
    assert not list(tmp_path.iterdir())  # the file has no name


def test_a_large_array_is_zeros_in_a_file(mapped, tmp_path):
    assert not roomy((3, 4), "float32", tmp_path / "kept").any()


def test_what_witnesses_make_of_many_rows_is_what_they_make_of_few(monkeypatch, tmp_path):
    x = np.random.default_rng(0).normal(size=(7, 5))
    x[3] = 0
    few, spread = directions(x), spread_of(x)
    for module in (witnesses.aligned, witnesses.base, witnesses.neighbours):
        monkeypatch.setattr(module, "AT_ONCE", 2)
    monkeypatch.setenv("LABELGRAD_MEMORY", "0")
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path))
    many = directions(x)
    assert isinstance(many, np.memmap)
    assert np.array_equal(few, many)
    assert spread_of(x) == pytest.approx(spread, rel=1e-12)
    rows = np.array([6, 0, 3, 3, 1])
    assert np.array_equal(in_parts(np.square, x, rows), np.square(x[rows]))


def test_a_witness_that_copies_all_rows_is_left_out_where_there_are_many(monkeypatch):
    monkeypatch.setattr(witnesses.models, "MOST_ROWS", 9)
    x = np.random.default_rng(0).normal(size=(10, 2))
    case = Case(x, np.array([0, 1] * 2 + [-1] * 6), [], 2, 0)
    heard, notes = hear_all(witnesses_named(["linear", "label spreading"]), case)
    assert [each.name for each in heard] == ["linear"]
    assert notes == ["The witness 'label spreading' is left out: it is for up to 9 rows."]
