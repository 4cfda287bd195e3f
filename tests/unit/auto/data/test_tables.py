import gzip
import json
from dataclasses import asdict

import numpy as np
import pandas
import polars as pl
import pytest

from labelgrad import FitConfig
from labelgrad.auto.data import sources
from labelgrad.auto.data.dataset import preprocessor_from_dict, read

ALONE = {"encoder": "none"}
CSV = "id,weight,born,color,paid,pet\n" + "".join(
    f"c{i},{'' if i % 5 == 0 else i / 2},2024-01-{1 + i % 28:02},{'red' if i % 3 else 'blue'},"
    f"{'yes' if i % 2 else 'NO'},{('cat', 'dog')[i % 2] if i < 6 else ''}\n"
    for i in range(30)
)


def written(folder, content, name="pets.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pets(folder, **options):
    return read(written(folder, CSV), None, FitConfig(target="pet", **ALONE, **options))


def test_columns_become_features(tmp_path):
    found = pets(tmp_path)
    weight = np.array([np.nan if i % 5 == 0 else i / 2 for i in range(30)])
    filled = np.where(np.isnan(weight), np.nanmedian(weight), weight)
    expected = (filled - np.nanmean(weight)) / np.nanstd(weight)
    day = np.array([i % 28 for i in range(30)], dtype=float)
    assert found.X.shape == (30, 2 + 1 + 2 + 2)
    np.testing.assert_allclose(found.X[:, 0], expected, atol=1e-5)
    np.testing.assert_array_equal(found.X[:, 1], np.isnan(weight))
    np.testing.assert_allclose(found.X[:, 2], (day - day.mean()) / day.std(), atol=1e-4)
    np.testing.assert_array_equal(found.X[:, 3], np.arange(30) % 3 == 0)
    assert found.task.classes == ("cat", "dog")
    assert found.y[:7].tolist() == [0, 1, 0, 1, 0, 1, -1]
    assert found.ids[0] == "1"
    assert "Left out (all texts differ): 'id'." in found.notes


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_encodings_give_the_same_table(tmp_path, encoding):
    other = written(tmp_path, CSV.encode(encoding), "other.csv")
    found = read(other, None, FitConfig(target="pet", **ALONE))
    np.testing.assert_array_equal(found.X, pets(tmp_path).X)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv.gz", "a.parquet", "a.jsonl", "a.xlsx", "folder"])
def test_formats_give_the_same_table(tmp_path, name):
    expected = pets(tmp_path)
    frame = pl.read_csv(CSV.encode(), try_parse_dates=True)
    path = tmp_path / name
    if name == "a.tsv":
        path.write_text(CSV.replace(",", "\t"))
    elif name == "a.csv.gz":
        path.write_bytes(gzip.compress(CSV.encode()))
    elif name == "a.parquet":
        frame.write_parquet(path)
    elif name == "a.jsonl":
        frame.write_ndjson(path)
    elif name == "a.xlsx":
        frame.write_excel(path)
    else:
        path.mkdir()
        frame[:11].write_parquet(path / "1.parquet")
        frame[11:].write_parquet(path / "2.parquet")
        (path / "_SUCCESS").touch()
    found = read(path, None, FitConfig(target="pet", **ALONE))
    np.testing.assert_allclose(found.X, expected.X, atol=1e-6)
    np.testing.assert_array_equal(found.y, expected.y)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_give_the_same_table(tmp_path, library):
    frame = pl.read_csv(CSV.encode(), try_parse_dates=True)
    if library != "polars":
        frame = frame.to_pandas() if library == "pandas" else frame.to_arrow()
    found = read(frame, None, FitConfig(target="pet", **ALONE))
    np.testing.assert_allclose(found.X, pets(tmp_path).X, atol=1e-6)


def test_large_tables_are_read_as_small_ones(tmp_path, monkeypatch):
    expected = pets(tmp_path)
    pl.read_csv(CSV.encode()).write_parquet(tmp_path / "pets.parquet")
    monkeypatch.setattr(sources, "LARGE", 1)
    monkeypatch.setenv("LABELGRAD_MEMORY", "0")
    for name in ("pets.csv", "pets.parquet"):
        config = FitConfig(target="pet", cache=tmp_path / "cache", **ALONE)
        found = read(tmp_path / name, None, config)
        assert isinstance(found.X, np.memmap)
        np.testing.assert_allclose(found.X, expected.X, atol=1e-6)
        np.testing.assert_array_equal(found.y, expected.y)


def test_new_tables_are_treated_alike(tmp_path):
    found = pets(tmp_path)
    again = preprocessor_from_dict(json.loads(json.dumps(asdict(found.preprocessor))))
    config = FitConfig(**ALONE)
    whole = again.transform(tmp_path / "pets.csv", config)
    np.testing.assert_array_equal(whole.examples.X, found.X)
    parts = list(again.transform_in_parts(tmp_path / "pets.csv", config))
    np.testing.assert_array_equal(np.concatenate([part.examples.X for part in parts]), found.X)
    damaged = CSV.replace("c7,3.5", "c7,heavy")
    with pytest.raises(ValueError, match=r"'weight' must hold numbers, .* row 8 holds 'heavy'"):
        again.transform(written(tmp_path, damaged, "new.csv"), config)
    with pytest.raises(ValueError, match="lacks columns that the training data have: 'weight'"):
        again.transform(pl.DataFrame({"wight": [1]}), config)


def test_whole_numbers_beyond_53_bits_are_read(tmp_path):
    frame = pl.DataFrame(
        {"hash": [2**60 + 2**30 * i for i in range(6)], "a": [3, 1, 4, 1, 5, 9], "y": [0, 1] * 3}
    )
    frame.write_parquet(tmp_path / "a.parquet")
    assert np.isfinite(read(tmp_path / "a.parquet").X).all()
    far = frame.select("a", y=pl.Series([2**60, 2**60 + 1] * 3))
    assert read(far, None, FitConfig(task="classification")).task.classes == (
        str(2**60),
        str(2**60 + 1),
    )


def test_text_columns_are_encoded(tmp_path):
    words = ["soup", "cold", "warm", "good", "bad", "waiter", "came", "late", "early", "table"]
    draw = np.random.default_rng(0)
    rows = [(" ".join(draw.choice(words, 6)), i, "ab"[i % 2]) for i in range(40)]
    frame = pl.DataFrame(rows, schema=["review", "stars", "y"], orient="row")
    found = read(frame, None, FitConfig(cache=tmp_path, **ALONE))
    encoded = found.X.shape[1] - 1
    assert encoded > 1
    assert not found.has_encoded_features
    # Both blocks have the same share of the variance.
    shares = found.X[:, :encoded].var(0).sum(), found.X[:, encoded:].var(0).sum()
    np.testing.assert_allclose(*shares, rtol=0.01)
    again = found.preprocessor.transform(frame, FitConfig(cache=tmp_path, **ALONE))
    np.testing.assert_allclose(again.examples.X, found.X, atol=1e-5)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,y\n1,p\n2\n", r"is damaged on line 3: it must have 2 cells .* got 1"),
        ("a,y\n1,p\n2,q,r\n", r"is damaged on line 3: it must have 2 cells .* got 3"),
        ("a,a,y\n1,2,p\n", "two columns of one name: 'a'"),
        (b"a,y\n\xff,p\n", "must be UTF-8 text, and line 2 is not"),
        (b"a,y\n1\0,p\n", "must be a text file, and line 2 has a zero byte"),
        ("", "is empty"),
        ("a,y\n", "has no rows"),
        ('a,y\n1,"p\n', "is damaged in the row that begins on line 2"),
        ("a,b\n1,2\n", "Say which column of pets.csv holds the labels"),
        ("a,y\n1,p\n1,q\n", "has no column to learn from beside 'y'"),
        ("d,y\n07.08.1998,p\n01.02.2000,q\n", "--dates day-first or month-first"),
    ],
)
@pytest.mark.parametrize("large", [1, 2**29])
def test_errors_are_one_sentence(tmp_path, monkeypatch, content, sentence, large):
    monkeypatch.setattr(sources, "LARGE", large)
    with pytest.raises(ValueError, match=sentence) as caught:
        read(written(tmp_path, content), config=FitConfig(cache=tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("large", [1, 2**29])
def test_blank_lines_are_no_rows_and_empty_cells_are(tmp_path, monkeypatch, large):
    monkeypatch.setattr(sources, "LARGE", large)
    path = written(tmp_path, "a,y\n\n1,p\n\n2,q\n4,\n,\n\n")
    assert read(path, config=FitConfig(cache=tmp_path)).y.tolist() == [0, 1, -1, -1]


def test_labels_may_come_beside_a_frame():
    frame = pandas.DataFrame({"a": [1.0, 2.0, 4.0]})
    assert read(frame, ["p", None, "q"]).y.tolist() == [0, -1, 1]
    with pytest.raises(ValueError, match="given twice"):
        read(frame, [0, 1, -1], FitConfig(target="a"))


@pytest.mark.parametrize("late", ["NA", " 7", "x", "1.234,5"])
def test_a_late_cell_that_is_no_plain_number_is_read_as_an_early_one(tmp_path, late):
    rows = [f"{i}.5,{i % 7},{'ab'[i % 2] if i < 50 else ''}" for i in range(400)]
    cell = f'"{late}",3,'
    early = "\n".join(["size,legs,kind", *rows[:60], cell, *rows[60:]])
    late = "\n".join(["size,legs,kind", *rows, cell])
    first, last = (
        read(written(tmp_path, text), None, FitConfig(target="kind", **ALONE))
        for text in (early, late)
    )
    assert [str(note) for note in first.notes] == list(last.notes)
    assert asdict(first.preprocessor) == asdict(last.preprocessor)
    assert np.array_equal(first.X[60], last.X[400])
