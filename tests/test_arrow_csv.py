"""A CSV file that pyarrow reads in columns gives what it gives cell by cell."""

import math
import random
import struct
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelgrad.inputs import arrow_csv
from labelgrad.inputs.arrow_csv import columns_by_arrow, csv_columns, plain_numbers
from labelgrad.inputs.cells import PlainNumbers, as_texts, number, values
from labelgrad.inputs.kinds import prepare, read
from labelgrad.inputs.spreads import column_spreads, spreads
from labelgrad.inputs.table_cells import _csv
from tests import fuzz_tables

pa = pytest.importorskip("pyarrow", reason="needs pip install 'labelgrad[tables]'")
WRITTEN = ["1", "-0", "2.5", "+.5e3", "1e400", "inf", "nan(1)", "1_0", "٣", "NA", "n/a", "", " 7 "]
TEXTS = ["cat", "Dög", "a b", 'say "hi"', "x,y", "two\nlines", "two\r\nlines", "'", "2020-01-02"]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(arrow_csv, "BLOCK", 300)  # so that files have several
    monkeypatch.setattr(arrow_csv, "GLANCE", 7)


def the_same_cells(found, path):
    """Whether pyarrow read the file; if it did, as it is."""
    if found is None:
        return False
    names, columns = _csv(path)
    assert found[0] == names
    for mine, theirs in zip(found[1], columns, strict=True):
        assert as_texts(mine) == theirs
        numbers = values(theirs, number)
        assert isinstance(mine, PlainNumbers) == (numbers is not None)
        if numbers is not None:
            np.testing.assert_array_equal(mine.values, numbers)
            known = ~np.isnan(numbers)
            assert (np.signbit(mine.values) == np.signbit(numbers))[known].all()
    return True


@st.composite
def csv_files(draw):
    """Files whose cells are quoted where they must be, and sometimes where they need not."""
    separator, end = draw(st.sampled_from(",;\t|")), draw(st.sampled_from(["\n", "\r\n"]))
    width = draw(st.integers(2, 4))
    pools = [draw(st.sampled_from([WRITTEN[:4], WRITTEN, TEXTS])) for _ in range(width)]
    rows = draw(st.lists(st.tuples(*map(st.sampled_from, pools)), min_size=1, max_size=60))
    always = draw(st.booleans())

    def written(cell):
        must = any(sign in cell for sign in f'{separator}"\r\n')
        return '"' + cell.replace('"', '""') + '"' if must or always else cell

    header = [f"c{column}" for column in range(width)]
    lines = [separator.join(map(written, row)) for row in [header, *rows]]
    blank = draw(st.sampled_from(["", end]))
    text = end.join([*lines[:2], *([blank] if blank else []), *lines[2:]])
    return (
        draw(st.sampled_from(["", "\ufeff"])) + text + draw(st.sampled_from(["", end]))
    ).encode()


@given(csv_files())
def test_every_file_that_is_written_properly_is_read_in_columns(content):
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_csv, "BLOCK", 300)
        patch.setattr(arrow_csv, "GLANCE", 7)
        path = Path(folder, "data.csv")
        path.write_bytes(content)
        assert the_same_cells(columns_by_arrow(path), path)


def test_files_of_any_kind_are_read_alike_or_left_alone(tmp_path, small_blocks):
    """Those of the fuzzer, half of them damaged."""
    draw, path, done = random.Random(3), tmp_path / "data.csv", 0
    for _ in range(600):
        content = fuzz_tables.table(draw)[1]
        path.write_bytes(fuzz_tables.mutated(content, draw) if draw.random() < 0.5 else content)
        done += the_same_cells(columns_by_arrow(path), path)
    assert done > 80


def came_of(path, large, monkeypatch, preprocessing=None):
    """What reading gives, or new data read as some other, as plain values; or the sentence."""
    monkeypatch.setattr(arrow_csv, "LARGE", large)
    try:
        if preprocessing is not None:
            return prepare(preprocessing, path).x.tolist()
        found = read(path, dates="day-first")
    except ValueError as error:
        return str(error)
    return [
        *(found.x.numpy().tobytes(), repr(found.y.tolist()), found.task, found.classes),
        *(found.names, found.notes, found.preprocessing, found.originals),
    ]


def test_the_dataset_is_the_same_digit_by_digit(tmp_path, small_blocks, monkeypatch):
    draw, path, read_so, kept = random.Random(4), tmp_path / "data.csv", 0, []
    for _ in range(300):
        path.write_bytes(fuzz_tables.table(draw)[1])
        found = came_of(path, 0, monkeypatch)
        assert found == came_of(path, math.inf, monkeypatch)
        if isinstance(found, list):
            read_so += columns_by_arrow(path) is not None
            kept.append(found[6])
        if kept:  # new data, mostly of other kinds
            other = draw.choice(kept[-3:])
            new = came_of(path, 0, monkeypatch, other)
            assert repr(new) == repr(came_of(path, math.inf, monkeypatch, other))
    assert read_so > 30


@pytest.mark.parametrize("column", ["1.234", "12.5", "1700000000"])
def test_what_columns_tell_of_each_other_is_told(tmp_path, monkeypatch, column):
    """Numbers such as 1.234 beside decimal commas, and seconds since 1970."""
    rows = [f"{column};{n},5;{'pq'[n % 2]}" for n in range(9)]
    rows += [f"2.345;{n},25;" for n in range(20)]
    (tmp_path / "data.csv").write_text("\n".join(["created_at;price;y", *rows]))
    found = came_of(tmp_path / "data.csv", 0, monkeypatch)
    assert found == came_of(tmp_path / "data.csv", math.inf, monkeypatch)
    assert columns_by_arrow(tmp_path / "data.csv") is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n",
        b"a\n1\n2\n",
        b"\na,b\n1,2\n",
        b"a,b\n1,2\n3\n",
        b'a,b\n1,"2\n',
        b'a,b\n1,"2"x\n',
        b'a,b\n1,x"2"\n',
        b"a,b\n1,2\r3,4\n",
        b"a,b\n1,\xff\n",
        b"a,b\n1,\0\n",
        "a,b\n1,2\n".encode("utf-16"),
    ],
)
def test_what_cells_must_tell_is_left_to_them(tmp_path, content):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    assert columns_by_arrow(path) is None


def test_a_column_that_turns_out_to_be_text_late_is_text(tmp_path, small_blocks):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n" + "1.5,2\n" * 300 + "late,3\n")
    assert the_same_cells(columns_by_arrow(path), path)


@given(st.text(st.sampled_from("0123456789+-.eEnaif()_x "), max_size=8))
def test_a_number_is_what_python_makes_of_it(text):
    found = plain_numbers(pa.array([text, "1"]))
    expected = values([text.strip()], number)
    assert (found is None) == (expected is None)
    if found is not None and not math.isnan(expected[0]):
        assert struct.pack("d", found[0]) == struct.pack("d", expected[0])
    elif found is not None:
        assert math.isnan(found[0])


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 8, 17])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_spreads_of_columns_are_those_of_the_table(columns, missing):
    rng = np.random.default_rng(columns)
    x = rng.normal(1e6, 1.0, size=(20_000, columns)) * 10.0 ** rng.integers(-3, 4, columns)
    x[rng.random(x.shape) < missing] = np.nan
    for mine, theirs in zip(column_spreads(list(x.T.copy())), spreads(x), strict=True):
        assert mine.tobytes() == theirs.tobytes()


def test_small_files_and_those_without_pyarrow_are_read_as_ever(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,2\n")
    assert csv_columns(path) is None
    monkeypatch.setattr(arrow_csv, "LARGE", 0)
    assert csv_columns(path) is not None
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert csv_columns(path) is None
