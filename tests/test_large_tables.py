"""Tables that are read in parts and kept as numbers in a file are what they are in memory."""

import itertools
import random
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch

from labelgrad.inputs import arrow_csv, columns, kept_table, parquet, spreads, table_cells
from labelgrad.inputs.base import Encoding
from labelgrad.inputs.cells import Typed, as_texts, typed
from labelgrad.inputs.frames import frame_columns, series_cells
from labelgrad.inputs.kinds import prepare, prepare_in_parts, read
from labelgrad.inputs.row_names import RowNames
from labelgrad.inputs.spreads import column_spreads
from tests import fuzz_tables

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 40
WORDS = ["red", " green", "blue", "", None]
AWKWARD = {
    "whole": [None if i % 9 == 0 else i * i for i in range(ROWS)],
    "decimal": [i / 7 - 2 for i in range(ROWS)],
    "word": [WORDS[i % 5] for i in range(ROWS)],
    "number as text": [str(i % 13) if i % 4 else "NA" for i in range(ROWS)],
    "day as text": [f"2001-02-{1 + i % 28:02d}" for i in range(ROWS)],
    "euros": [f"{i},50 €" for i in range(ROWS)],
    "late words": ["3"] * (ROWS - 1) + ["three"],
    "truth": [None if i == 3 else i % 2 == 0 for i in range(ROWS)],
    "day": [date(2000, 1, 1 + i % 20) if i % 6 else None for i in range(ROWS)],
    "moment": [datetime(2000, 1, 1, i % 24, 30) for i in range(ROWS)],
    "hour": [time(i % 24) for i in range(ROWS)],
    "money": [Decimal(i) / 4 for i in range(ROWS)],
    "list": [[1], [2, 3]] * (ROWS // 2),
    "struct": [{"a": i} for i in range(ROWS)],
    "bytes": [b"x"] * ROWS,
    "nothing": [None] * ROWS,
    "nothing at first": [None] * 20 + ["a", "b"] * 10,
    "same": [5] * ROWS,
    "a.b": list(range(ROWS, 0, -1)),
    "label": ["cat" if i % 3 else "dog" if i % 2 else None for i in range(ROWS)],
}


def table_of(some=AWKWARD):
    table = pa.table({name: pa.array(cells) for name, cells in some.items()})
    coded = pa.array(some["word"]).dictionary_encode() if "word" in some else None
    return table if coded is None else table.append_column("coded", coded)


@pytest.fixture
def in_parts(monkeypatch, tmp_path):
    """Read all tables as if they were large, few rows at a time."""
    monkeypatch.setattr(kept_table, "LARGE", 0)
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(table_cells, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(table_cells, "LARGE_CSV", 0)
    monkeypatch.setattr(arrow_csv, "LARGE", 0)
    monkeypatch.setattr(arrow_csv, "BLOCK", 300)
    monkeypatch.setattr(arrow_csv, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(columns, "MAPPED_AT_ONCE", 7)
    monkeypatch.setattr(spreads, "ROWS_AT_ONCE", 7)
    monkeypatch.setenv("LABELGRAD_CACHE", str(tmp_path / "cache"))


def same(one, two):
    assert (one.kind, one.task, one.classes) == (two.kind, two.task, two.classes)
    assert one.notes == two.notes
    assert one.preprocessing == two.preprocessing
    assert list(one.names) == list(two.names)
    assert torch.equal(one.x, two.x)
    assert torch.equal(one.y.nan_to_num(-7.5), two.y.nan_to_num(-7.5))


def is_mapped(dataset):
    return "rows.bin" in Path("/proc/self/maps").read_text() and not dataset.x.is_shared()


def test_columns_are_those_of_the_whole_table_as_a_data_frame(in_parts, tmp_path):
    pq.write_table(table_of(), tmp_path / "t.parquet", row_group_size=9)
    names, series = frame_columns(table_of())
    found = parquet.ParquetTable(tmp_path / "t.parquet")
    assert found.names == names
    for place, column in enumerate(series):
        mine, theirs = found.cells(place, np.empty), series_cells(column)
        assert isinstance(mine, Typed) == isinstance(theirs, Typed), names[place]
        assert as_texts(mine) == as_texts(theirs), names[place]
        assert typed(mine).holds == typed(theirs).holds, names[place]


@pytest.mark.parametrize("target", ["label", "decimal", "whole", "truth"])
def test_a_large_parquet_file_is_read_as_a_small_one(tmp_path, target, request):
    pq.write_table(table_of(), tmp_path / "t.parquet", row_group_size=9)
    alone = Encoding(("none",))
    small = read(tmp_path / "t.parquet", target=target, encoding=alone)
    request.getfixturevalue("in_parts")
    large = read(tmp_path / "t.parquet", target=target, encoding=alone)
    same(small, large)
    assert is_mapped(large)
    same(large, read(tmp_path / "t.parquet", target=target, encoding=alone))  # out of the cache


@pytest.mark.parametrize("seed", range(60))
def test_awkward_tables_are_read_the_same_in_parts(tmp_path, seed, request):
    """Dataset or sentence, those of the large way are those of the small one."""
    drawn = random.Random(seed)
    names = list(AWKWARD)[:-1]
    some = {name: AWKWARD[name] for name in drawn.sample(names, drawn.randint(1, 6))}
    order = drawn.sample(range(ROWS), drawn.randint(2, ROWS))
    table = table_of(some | {"label": AWKWARD["label"]}).take(order)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=drawn.randint(1, 50))
    alone = Encoding(("none",))
    small = outcome(tmp_path / "t.parquet", alone)
    request.getfixturevalue("in_parts")
    large = outcome(tmp_path / "t.parquet", alone)
    if isinstance(small, str) or isinstance(large, str):
        assert small == large
    else:
        same(small, large)


@pytest.mark.parametrize("seed", range(40))
def test_awkward_csv_files_are_read_the_same_in_parts(tmp_path, seed, request):
    tables = (c for c in fuzz_tables.cases(seed) if c[0].endswith((".csv", ".tsv")))
    cases = itertools.islice(tables, 3)
    alone = Encoding(("none",))
    for number, (name, content) in enumerate(cases):
        (tmp_path / f"{number}-{name}").write_bytes(content)
    paths = sorted(tmp_path.glob("*-*"))
    small = [outcome(path, alone) for path in paths]
    request.getfixturevalue("in_parts")
    for path, one in zip(paths, small, strict=True):
        two = outcome(path, alone)
        if isinstance(one, str) or isinstance(two, str):
            assert one == two
        else:
            same(one, two)


def outcome(path, encoding):
    try:
        return read(path, target="label", encoding=encoding)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_new_rows_in_parts_are_the_rows_at_once(tmp_path, in_parts, suffix):
    plain = ["whole", "decimal", "word", "number as text", "day as text", "truth", "label"]
    table = table_of({name: AWKWARD[name] for name in plain}).drop(["coded"])
    path = tmp_path / f"t{suffix}"
    if suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    settings = read(path, target="label").preprocessing
    parts = list(prepare_in_parts(settings, path))
    whole = prepare(settings, path)
    assert len(parts) > 3
    assert torch.equal(torch.cat([part.x for part in parts]), whole.x)
    assert [name for part in parts for name in part.names] == list(whole.names)


def test_a_wrong_cell_is_told_by_its_row_in_the_table(tmp_path, in_parts):
    rows = "".join(f"{i * i},{'ab'[i % 2]}\n" for i in range(30))
    path = tmp_path / "t.csv"
    path.write_text("n,label\n" + rows)
    settings = read(path, target="label").preprocessing
    path.write_text("n,label\n" + rows + "many,a\n")
    with pytest.raises(ValueError, match="row 31 holds 'many'"):
        list(prepare_in_parts(settings, path))
    path.write_text("n,label\n" + rows + "7\n")
    with pytest.raises(ValueError, match="broken on line 32: it must have 2 cells"):
        list(prepare_in_parts(settings, path))
    path.write_text("m,label\n" + rows)
    with pytest.raises(ValueError, match="lacks columns that the training data had: 'n'"):
        list(prepare_in_parts(settings, path))


def folder_of(place, *tables):
    place.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, place / f"part-{number}.parquet")
    return place


def test_a_folder_of_parquet_files_is_one_table(tmp_path, request):
    table = table_of()
    pq.write_table(table, tmp_path / "t.parquet")
    folder = folder_of(tmp_path / "many", table[:11], table[11:12], table[12:])
    (folder / "_SUCCESS").write_text("")
    one = read(tmp_path / "t.parquet", target="label", encoding=Encoding(("none",)))
    same(one, read(folder, target="label", encoding=Encoding(("none",))))
    request.getfixturevalue("in_parts")
    same(one, read(folder, target="label", encoding=Encoding(("none",))))
    again = prepare(one.preprocessing, folder)
    assert torch.equal(again.x, one.x)


def test_a_folder_of_other_columns_is_refused(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "label": ["x", "y"]})
    less = folder_of(tmp_path / "less", table, table.drop(["a"]))
    with pytest.raises(ValueError, match=r"part-1.parquet lacks 'a', unlike part-0.parquet"):
        read(less)
    other = folder_of(tmp_path / "other", table, table.set_column(0, "a", pa.array(["1", "2"])))
    with pytest.raises(ValueError, match=r"'a' is double in part-0.parquet and string in"):
        read(other)
    whole = folder_of(tmp_path / "whole", table, table.set_column(0, "a", pa.array([30, 40])))
    assert len(read(whole).x) == 4  # whole numbers are numbers
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty"):
        read(tmp_path / "empty")
    broken = folder_of(tmp_path / "broken", table)
    (broken / "part-1.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"part-1.parquet cannot be read as a Parquet file"):
        read(broken)


@pytest.fixture
def kept(in_parts, tmp_path):
    """A table that has been read, where its numbers are kept, and what is said when read again."""
    path = tmp_path / "t.parquet"
    pq.write_table(table_of(), path)
    first, said = read(path, target="label"), []

    def again():
        said.clear()
        return read(path, target="label", encoding=Encoding(on_note=said.append)), said

    (place,) = (tmp_path / "cache" / "tables").iterdir()
    return path, first, place, again


def test_what_is_kept_is_taken_and_damage_is_told_and_mended(kept):
    _path, first, place, again = kept
    found, said = again()
    same(first, found)
    assert said == [f"The numbers of t.parquet are kept in {place}, and taken from there."]
    content = (place / "rows.bin").read_bytes()
    for damaged in (content[:-4], content[:100] + b"?" + content[101:], b""):
        (place / "rows.bin").unlink()  # another file: the old one is still mapped
        (place / "rows.bin").write_bytes(damaged)
        found, said = again()
        same(first, found)
        assert "damaged (rows.bin does not match its digest), and made anew" in said[0]
        assert (place / "rows.bin").read_bytes() == content
    (place / "table.json").write_text("{}")
    found, said = again()
    same(first, found)
    assert "damaged" in said[0]


def test_another_table_or_another_way_to_read_it_is_not_taken_from_there(kept):
    path, first, place, again = kept
    other = replace(first)
    pq.write_table(table_of().take(list(range(ROWS))[::-1]), path)
    found, said = again()
    assert not torch.equal(found.x, other.x)
    assert "as" in said[0]
    assert "kept" not in said[0]
    by_value = read(path, target="decimal")
    assert by_value.task == "regression"
    assert len(list(place.parent.iterdir())) == 2


def test_the_size_is_said_before_and_a_disk_too_small_is_refused(kept, monkeypatch):
    _path, first, place, again = kept
    (place / "table.json").unlink()
    _, said = again()
    assert (
        f"has 40 rows: as {first.x.shape[1]} numbers each they take 0.1 MB in the cache" in said[0]
    )
    full = type("Usage", (), {"free": 10})
    monkeypatch.setattr(kept_table.shutil, "disk_usage", lambda _: full)
    (place / "table.json").unlink()
    with pytest.raises(OSError, match=r"need 0.1 MB in .* of the disk are free; make room"):
        again()
    assert not list(place.glob(".*"))


def test_a_cache_that_cannot_be_written_to_is_told(in_parts, tmp_path):
    pq.write_table(table_of(), tmp_path / "t.parquet")
    (tmp_path / "cache").write_text("a file in its place")
    with pytest.raises(OSError, match=r"The numbers of t.parquet cannot be written to"):
        read(tmp_path / "t.parquet", target="label")


def test_very_many_different_texts_are_left_out_with_a_reason(in_parts, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MOST_DIFFERENT", 20)
    monkeypatch.setattr(columns, "MOST_DIFFERENT", 20)
    some = {"id": [f"a{i}" for i in range(ROWS)], "n": AWKWARD["decimal"]}
    pq.write_table(pa.table(some | {"label": AWKWARD["label"]}), tmp_path / "t.parquet")
    found = read(tmp_path / "t.parquet", target="label")
    assert "Left out (more than 20 different texts): 'id'." in found.notes
    with pytest.raises(ValueError, match="different texts and is probably not a class"):
        read(tmp_path / "t.parquet", target="id")


def test_sums_in_parts_are_the_sums_of_all(monkeypatch):
    rng = np.random.default_rng(0)
    for turn in range(60):
        x = rng.normal(size=(rng.integers(1, 200), 5)) * 10.0 ** rng.uniform(-9, 9, size=5)
        if turn % 2:
            x[rng.random(x.shape) < 0.1] = [np.nan, np.inf][turn % 4 == 1]
        whole = column_spreads(list(x.T))
        with monkeypatch.context() as patch:
            patch.setattr(spreads, "ROWS_AT_ONCE", 7)
            parts = column_spreads(list(x.T))
        plain = spreads.spreads(x)
        for one, two, three in zip(whole, parts, plain, strict=True):
            np.testing.assert_array_equal(one, two)
            np.testing.assert_array_equal(one, three)


def test_names_of_rows_are_those_of_a_list():
    listed = [str(number) for number in range(3, 20)]
    names = RowNames(17, first=3)
    assert names == listed
    assert listed == names
    assert names != listed[:-1]
    assert [names[place] for place in range(-17, 17)] == listed * 2
    assert list(names[4:-2]) == listed[4:-2]
    assert list(names[::-3]) == listed[::-3]
    assert all(name in names for name in listed)
    assert not any(name in names for name in ("2", "20", "03", "+3", "3.0", "٣", "", 3, None))
    assert all(names.index(name) == place for place, name in enumerate(listed))
    with pytest.raises(IndexError):
        names[17]
    with pytest.raises(ValueError, match="none of the rows"):
        names.index("2")
