"""The row store: what was written comes back, and what is damaged does not."""

import multiprocessing
import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import Parallel, delayed

from labelgrad.auto.events import Events
from labelgrad.auto.store import RowStore, allocate, content_key


def row_store(folder, width=5):
    return RowStore(folder, {"encoder": "tiny"}, (width,), "float32")


def some_rows(count, width=5, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, width)).astype(np.float32)
    return [content_key(rng.bytes(20)) for _ in range(count)], rows


def file_of(folder, name):
    (path,) = folder.rglob(name)
    return path


def test_large_arrays_are_mapped_shared_with_processes_and_leave_no_file(tmp_path, monkeypatch):
    assert not isinstance(allocate((3, 2), "float32", tmp_path), np.memmap)
    monkeypatch.setenv("LABELGRAD_MEMORY", "0")
    array = allocate((300, 20), "float32", tmp_path)
    assert isinstance(array, np.memmap)
    assert not array.any()
    array[:] = np.arange(20)
    found = Parallel(2)(delayed(np.mean)(part) for part in (array, array[5:9], array[:, 3]))
    assert found == pytest.approx([9.5, 9.5, 3.0])
    assert list(tmp_path.iterdir()) == []
    before = len(os.listdir("/proc/self/fd"))
    del array
    assert len(os.listdir("/proc/self/fd")) < before


@pytest.mark.parametrize("given", ["-1", "much", "inf", "nan"])
def test_a_limit_that_is_no_number_is_refused(given, monkeypatch):
    monkeypatch.setenv("LABELGRAD_MEMORY", given)
    with pytest.raises(ValueError, match="LABELGRAD_MEMORY must be a number"):
        allocate((3,), "float32")


def write_forever(folder):
    store, keys = row_store(folder), some_rows(4000)[0]
    for start in range(0, 4000, 4):
        rows = np.array([np.frombuffer(k[:5], np.uint8) for k in keys[start : start + 4]])
        store.add(keys[start : start + 4], rows)


@pytest.mark.parametrize("seconds", [0.05, 0.15])
def test_a_process_that_is_killed_while_writing_leaves_only_whole_rows(tmp_path, seconds):
    child = multiprocessing.get_context("fork").Process(target=write_forever, args=(tmp_path,))
    child.start()
    while not list(tmp_path.rglob("entries.bin")):
        time.sleep(0.01)
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    store, keys = row_store(tmp_path), some_rows(4000)[0]
    places = store.find(keys)
    known = np.flatnonzero(places >= 0)
    assert 0 < len(known) < 4000
    expected = np.array([np.frombuffer(keys[k][:5], np.uint8) for k in known], np.float32)
    assert np.array_equal(store.rows(places[known]), expected)
    store.add(keys[-1:], np.ones((1, 5)))
    assert store.find(keys[-1:])[0] >= 0


def test_rows_come_back_in_any_order(tmp_path):
    keys, rows = some_rows(40)
    store = row_store(tmp_path)
    assert (store.find(keys) == -1).all()
    for start in range(0, 40, 7):
        store.add(keys[start : start + 7], rows[start : start + 7])
    again = row_store(tmp_path)
    assert np.array_equal(again.rows(again.find(keys[::-1])), rows[::-1])
    other = RowStore(tmp_path, {"encoder": "other"}, (5,), "float32")
    assert (other.find(keys) == -1).all()


@pytest.mark.parametrize("file", ["rows.bin", "entries.bin"])
def test_files_cut_anywhere_have_their_whole_rows(tmp_path, file):
    keys, rows = some_rows(4)
    store = row_store(tmp_path)
    store.add(keys, rows)
    path = file_of(tmp_path, file)
    whole, size = path.read_bytes(), len(path.read_bytes()) // 4
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert ((store.find(keys) >= 0) == (np.arange(4) < length // size)).all()
    store.add(keys[3:], rows[3:])  # over what is left of a row
    assert np.array_equal(store.rows(store.find(keys)), rows)


def test_only_missing_and_damaged_rows_are_computed_and_equal_keys_once(tmp_path):
    keys, rows = some_rows(4)
    store = row_store(tmp_path)
    store.add(keys[:2], rows[:2])
    path = file_of(tmp_path, "rows.bin")
    content = bytearray(path.read_bytes())
    content[25] ^= 1  # in the second row
    path.write_bytes(content)
    assert store.find(keys).tolist() == [0, -1, -1, -1]
    order, seen = [0, 1, 0, 3, 3, 2], []

    def compute(batches):
        for batch in batches:
            seen.append(batch)
            good = [order[position] for position in batch if order[position] != 3]
            yield rows[good], {i: "bad" for i, p in enumerate(batch) if order[p] == 3}

    places, failed = store.complete([keys[i] for i in order], compute, 2, "testing", Events())
    assert seen == [[1], [3, 5]]  # batches begin where they would if nothing were stored
    assert failed == {3: "bad", 4: "bad"}
    assert places[3] == places[4] == -1
    assert np.array_equal(store.rows(places[[0, 1, 2, 5]]), rows[[0, 1, 0, 2]])


def test_rows_beyond_the_memory_limit_are_mapped(tmp_path, monkeypatch):
    keys, rows = some_rows(6)
    store = row_store(tmp_path)
    store.add(keys, rows)
    monkeypatch.setenv("LABELGRAD_MEMORY", "0")
    for places in (np.arange(6), np.arange(6)[::-1]):
        found = store.rows(places, tmp_path)
        assert isinstance(found, np.memmap)
        assert np.array_equal(found, rows[places])


def test_a_full_disk_is_reported_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=50_000_000))
    with pytest.raises(OSError, match=r"of the disk are free; make room"):
        row_store(tmp_path).complete(some_rows(2)[0], None, 2, "testing", Events())


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file.* cannot be written .*LABELGRAD_CACHE"):
        row_store(tmp_path / "file").add(*some_rows(2))
