"""A table becomes numbers by statistics of its own rows, and new rows by the same ones."""

import json
import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from labelgrad.inputs.columns import (
    Category,
    Encoder,
    Number,
    fit_column,
    from_json,
    to_json,
)
from labelgrad.inputs.kinds import kind_named, prepare, read
from labelgrad.inputs.spreads import spreads
from labelgrad.inputs.targets import targets

TABLE = """age,city,since,visits,id,planet,species
20,Rome,2020-01-01,1,a1,earth,cat
30,Oslo,2020-01-03,2,b2,earth,dog
,Rome,2020-01-05,4,c3,earth,
40,,2020-01-02,8,d4,earth,cat
25,Oslo,2020-01-04,16,e5,earth,
"""


@pytest.fixture
def table(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def standardized(values):
    values = np.array(values)
    return (values - values.mean()) / values.std()


def unit(width):
    """What a standard deviation is in a row of so many numbers, and the 1 of a category."""
    return 3 / math.sqrt(width)


def test_columns_become_what_can_be_worked_out_by_hand(table):
    source = read(table(TABLE), target="species")
    ages = np.array([20, 30, 27.5, 40, 25])  # the median where missing
    known = np.array([20, 30, 40, 25])
    expected = np.column_stack(
        [
            (ages - known.mean()) / known.std(),
            [0, 0, 1, 0, 0],
            [0, 1, 0, 0, 1],  # Oslo
            [1, 0, 1, 0, 0],  # Rome
            [0, 0, 0, 1, 0],  # no city
            standardized([0, 2, 4, 1, 3]),
            standardized([1, 2, 4, 8, 16]),
        ]
    )
    torch.testing.assert_close(source.x, torch.tensor(unit(7) * expected, dtype=torch.float32))
    assert source.y.tolist() == [0, 1, -1, 0, -1]
    assert source.classes == ("cat", "dog")
    assert source.names == ["1", "2", "3", "4", "5"]
    assert (source.kind, source.task) == ("table", "classification")


def test_what_was_decided_is_said(table):
    notes = " ".join(read(table(TABLE), target="species").notes)
    for said in (
        "The column 'species' holds text, so the task is classification.",
        "Left out (every text is different): 'id'.",
        "Left out (always the same): 'planet'.",
        "Dates, read as days since 1970: 'since'.",
        "Missing numbers become the column's median, with a sign that says so: 'age'.",
        "Missing texts are a category of their own: 'city'.",
        "Fewer than 5 labels: 'cat', 'dog'.",
    ):
        assert said in notes


def test_new_rows_are_treated_like_the_old_in_another_process(table):
    source = read(table(TABLE), target="species")
    preprocessing = json.loads(json.dumps(source.preprocessing))
    without_target = "\n".join(line.rpartition(",")[0] for line in TABLE.splitlines())
    again = prepare(preprocessing, table(without_target, "new.csv"))
    assert torch.equal(again.x, source.x)
    assert (again.names, again.skipped) == (source.names, [])
    one = prepare(preprocessing, table("\n".join(TABLE.splitlines()[:2]), "one.csv"))
    assert torch.equal(one.x, source.x[:1])


def test_new_columns_may_stand_anywhere(table):
    source = read(table("a,b,y\n1,x,u\n2,z,v\n5,x,\n"), target="y")
    other = prepare(source.preprocessing, table("extra,b,a\n?,x,1\n!,z,2\n!,x,5\n", "new.csv"))
    assert torch.equal(other.x, source.x)


def test_texts_never_seen_and_numbers_far_away_stay_finite(table):
    source = read(table("a,b,y\n1,x,u\n2,z,v\n5,x,\n"), target="y")
    new = prepare(source.preprocessing, table("a,b\n1e300,new\ninf,\n,?\n", "new.csv"))
    assert new.x.isfinite().all()
    assert new.x[:, 1:].sum() == 0


def test_parquet_and_csv_give_the_same(table, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from datetime import date

    from pyarrow import parquet

    columns = {
        "age": [20.5, None, math.nan, 40.0],
        "old": [True, False, None, True],
        "born": [date(2020, 1, 1), None, date(2021, 1, 1), date(2022, 5, 5)],
        "city": ["Rome", "Oslo", "Rome", None],
        "list": [[1], [2], [3], [4]],
        "y": ["a", "b", None, "a"],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    text = (
        "age,old,born,city,list,y\n20.5,True,2020-01-01,Rome,,a\n,False,,Oslo,,b\n"
        ",,2021-01-01,Rome,,\n40.0,True,2022-05-05,,,a\n"
    )
    one, two = read(tmp_path / "t.parquet", target="y"), read(table(text), target="y")
    assert torch.equal(one.x, two.x)
    assert torch.equal(one.y, two.y)
    assert one.preprocessing == two.preprocessing
    assert "Left out (lists, bytes or other objects): 'list'." in one.notes


def test_parquet_times_may_have_nanoseconds(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    day = 86_400 * 10**9
    times = arrow.array([0, day + 1, 3 * day, 5 * day], type=arrow.timestamp("ns"))
    parquet.write_table(arrow.table({"t": times, "y": ["a", "b", "a", ""]}), tmp_path / "t.pq")
    source = read(tmp_path / "t.pq")
    expected = torch.tensor(unit(1) * standardized([0, 1, 3, 5]))
    torch.testing.assert_close(source.x[:, 0].double(), expected)


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch, table):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install 'labelgrad\[tables\]'"):
        read(table(b"PAR1", "t.parquet"), target="y")


@pytest.mark.parametrize(
    ("cells", "task"),
    [
        (["a", "b", ""], "classification"),
        (["0", "1", "2", ""], "classification"),  # whole numbers without a gap
        (["3", "7", "3", "7"], "classification"),  # few whole numbers, each of them often
        (["1.0", "2.0", "1.0", ""], "classification"),
        (["18", "44", "73"], "regression"),  # whole, but each of them once
        (["0.5", "1", "0"], "regression"),
        ([str(i) for i in range(30)], "regression"),
        (["True", "False"], "classification"),
    ],
)
def test_the_labels_decide_the_task_and_can_be_overruled(cells, task):
    decided = targets(cells, None, "The column 'y'")
    assert decided.task == task
    assert "The column 'y' holds" in decided.notes[0]
    assert targets(cells, "classification", "y").task == "classification"


def test_whole_numbers_are_named_as_such_and_in_order():
    found = targets(["10.0", "9", "10", "nan", "9.0", ""], "classification", "y")
    assert found.classes == ("9", "10")
    assert found.y.tolist() == [1, 0, 1, -1, 0, -1]


def test_regression_targets_are_kept_to_the_last_digit():
    found = targets(["1000000.1", "", "1000000.2"], None, "y")
    assert found.y[[0, 2]].tolist() == [1000000.1, 1000000.2]
    assert found.y[1].isnan()


def test_a_class_that_looks_missing_is_pointed_out():
    found = targets(["NA", "SE", "", "NA"], None, "y")
    assert found.classes == ("NA", "SE")
    assert "Taken for a class, because the cell is not empty: 'NA'." in found.notes


def test_a_missing_number_may_be_spelled_and_that_is_said():
    found = targets(["1", "NA", "2", ""], None, "y")
    assert found.y.tolist() == [0, -1, 1, -1]
    assert "Unlabeled, although the cell is not empty: 'NA'." in found.notes


def test_uneven_classes_and_full_labels_are_pointed_out():
    notes = " ".join(targets(["a"] * 60 + ["b"] * 6, None, "y").notes)
    assert "The classes are uneven: 60 labels of 'a', 6 of 'b'." in notes
    assert "Every example has a label" in notes


def test_column_kinds():
    assert fit_column("a", ["1", "2", "3"]) == "the row's number"
    assert fit_column("a", ["2000", "2001", "2002"]).median == 2001  # years are no row numbers
    assert fit_column("a", ["", "?", "NaN"]) == "empty"
    assert fit_column("a", [f"{i % 60} words" for i in range(100)]) == "most texts are different"
    many = fit_column("a", [f"{i % 60} words" for i in range(300)] + ["0 words"])
    assert (len(many.texts), many.other) == (50, True)
    assert many.encode(["0 words", "never seen"]).sum(axis=1).tolist() == [1, 1]
    assert fit_column("a", ["1e308", "-1e308", "1e308"]).startswith("numbers too large")
    assert fit_column("a", ["5", "", "5"]) == Number("a", 5.0, missing=True, decimals=0)
    assert fit_column("a", ["1_0", "2_0", "1_0"]).texts == ("1_0", "2_0")


CELLS = st.one_of(
    st.sampled_from(["", "a", "b", "NA", "2020-01-01", "inf", "-0", "1e308", "1e-320"]),
    st.floats().map(str),
    st.text(max_size=5).map(str.strip),
)


@given(st.lists(CELLS, min_size=1, max_size=30), st.lists(CELLS, max_size=5))
def test_any_column_is_finite_and_the_same_through_json(cells, new):
    column = fit_column("a", cells)
    if isinstance(column, str):
        return
    rows = column.encode(cells)
    assert np.isfinite(rows).all()
    again = from_json(json.loads(json.dumps(to_json(column))))
    assert again == column
    if isinstance(column, Category):
        assert column.encode([*cells, *new]).shape[1] == rows.shape[1]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_a_column_of_numbers_has_mean_zero_and_the_rows_length_and_is_shown_as_written(numbers):
    mean, spread = spreads(np.array([numbers]).T)
    column = fit_column("a", [repr(n) for n in numbers])
    if isinstance(column, Number) and np.std(numbers) > 1e-3:
        encoder = Encoder.fit([column], mean, spread)
        rows = encoder.rows([[repr(n) for n in numbers]]).double()
        assert abs(rows.mean()) < 1e-4
        assert abs(rows.std(correction=0) - 3) < 1e-4
        for number, row in zip(numbers, rows.numpy(), strict=True):
            (shown,) = encoder.show(row)
            assert float(shown.lstrip("≈")) == pytest.approx(
                number, abs=1e-5 * max(map(abs, numbers))
            )


def test_a_number_with_digits_left_out_says_so(table):
    numbers = np.random.default_rng(0).integers(10**9, 10**10, 30)
    source = read(table("id,a,y\n" + "".join(f"{n},{i},{i % 2}\n" for i, n in enumerate(numbers))))
    for number, row in zip(numbers.tolist(), source.x.numpy(), strict=True):
        shown = kind_named("table").show(source.preprocessing, row).cells[0]
        assert shown.startswith("≈")
        assert int(shown[1:]) == pytest.approx(number, rel=1e-5)


def test_cells_are_shown_as_they_were_written(table):
    text = "a,many,big,when,at,b,y\n" + "".join(
        f"{i % 9},{i / 7},{1234567 + 1001 * i},2020-01-{i + 1:02},2020-01-{i + 1:02} 12:{i:02},"
        f"{'xy'[i % 2]},{i % 2}\n"
        for i in range(30)
    )
    source, kind = read(table(text)), kind_named("table")
    assert kind.columns(source.preprocessing) == ["a", "many", "big", "when", "at", "b"]
    for i in range(30):
        shown = kind.show(source.preprocessing, source.x[i].numpy())
        a, many, big, when, at, b = shown.cells
        assert (a, big, b) == (str(i % 9), str(1234567 + 1001 * i), "xy"[i % 2])
        assert (when, at) == (f"2020-01-{i + 1:02}", f"2020-01-{i + 1:02} 12:{i:02}")
        assert float(many) == pytest.approx(i / 7, rel=1e-4)
        assert len(many) < 9
        assert shown.picture is None


def test_digits_reach_the_network_alike_from_a_file_a_frame_and_an_array(table):
    x, y = load_digits(return_X_y=True)
    header = ",".join([*(f"p{i}" for i in range(64)), "y"])
    lines = [",".join(map(str, [*row.astype(int), label])) for row, label in zip(x, y, strict=True)]
    file = read(table("\n".join([header, *lines])))
    array = read(x, y)
    varies = torch.tensor(x.std(0) > 0)
    length = math.sqrt(varies.sum() / 64)  # the constant columns are left out of the file
    torch.testing.assert_close(file.x, array.x[:, varies], rtol=1e-5, atol=1e-6)
    assert file.x.shape[1] == 61
    assert 0.9 < length < 1
    assert array.x.abs().max() < 2  # a pixel that is seldom lit is not magnified


def test_rare_texts_and_signs_are_not_magnified(table):
    rows = "".join(f"{i % 10},{'rare' if i == 7 else 'usual'},{i % 2}\n" for i in range(500))
    source = read(table("a,b,y\n" + rows))
    assert source.x[:, 1:].max() == pytest.approx(unit(3))


def test_a_thousand_columns_take_no_time(table):
    count = 20_000
    with pytest.raises(ValueError, match="two columns of one name: 'c0'"):
        read(table(",".join([*(f"c{i}" for i in range(count)), "c0"]) + "\n" + "1," * count + "1"))


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators_are_seen(table, separator):
    plain = read(table(TABLE), target="species")
    other = read(table(TABLE.replace(",", separator), "other.csv"), target="species")
    assert torch.equal(plain.x, other.x)


def test_line_ends_quotes_and_a_byte_order_mark_do_not_matter(table):
    plain = read(table(TABLE), target="species")
    quoted = TABLE.replace("Rome", '"Rome"').replace("\n", "\r\n\r\n")
    other = read(table(b"\xef\xbb\xbf" + quoted.encode(), "other.csv"), target="species")
    assert torch.equal(plain.x, other.x)
    assert plain.preprocessing == other.preprocessing


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "table.csv is empty"),
        ("a,y\n", {}, "no rows below its header"),
        ("a,y\n1,2\n1,2,3\n", {}, "line 3: it must have 2 cells like the first row, got 3"),
        ('a,y\n"1\n2",2\n1\n', {}, "line 4: it must have 2 cells like the first row, got 1"),
        ('a,y\n1,"2\n', {}, "row that begins on line 2: unexpected end"),
        ("a,a,y\n1,2,3\n", {}, "two columns of one name: 'a'"),
        (TABLE, {"target": "Specie"}, "no column 'Specie'; did you mean 'species'\\?"),
        (TABLE, {"target": "q"}, "the columns are 'age', 'city'"),
        (TABLE, {}, "Say which column of table.csv holds the labels with `target`"),
        ("a,y\n1,\n2,\n", {}, "The column 'y' has no label at all"),
        ("a,y\n1,b\n2,\n3,b\n", {}, "only one class, 'b'"),
        ("a,y\n1,0.5\n2,\n3,0.5\n", {}, "the same value 0.5 in every label"),
        ("a,y\n1,b\n2,c\n", {"task": "regression"}, "must hold numbers for regression, got 'b'"),
        ("a,y\n1,inf\n2,1\n", {"task": "regression"}, "finite"),
        ("a,y\n1,b\n2,c\n", {"task": "cluster"}, "`task` must be one of"),
        ("a,y\n1,b\n1,c\n", {}, "no column to learn from beside 'y'. .*always the same"),
        (b"a,y\n1,caf\xe9\n", {}, "must be UTF-8 text, and line 2 is not"),
        (b"\x89PNG\r\n\0\0\n", {}, "must be UTF-8 text"),
        (b"PK\x03\x04\0\0\n", {}, "must be a text file, and line 1 has a zero byte"),
        ("a,y\n1,b\n2,c\n", {"size": 32}, "`size` is for pictures"),
        ("a,y\n1,b\n2,c\n", {"labels": "l.csv"}, "`labels` is for "),
    ],
)
def test_bad_tables_are_one_sentence(table, text, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(table(text), **options)
    assert "\n" not in str(caught.value)


def test_a_target_of_ten_thousand_texts_needs_to_be_meant(table):
    path = table("a,y\n" + "".join(f"{i % 7},name {i}\n" for i in range(10_000)))
    with pytest.raises(ValueError, match=r"10000 different texts in 10000 labels .*--task"):
        read(path)
    assert len(read(path, task="classification").classes) == 10_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Age,b\n1,x\n", "lacks columns that the training data had: 'a'"),
        ("b\nx\n", "the columns are 'b'"),
        ("a,b\n1,x\n7,x\ntwo,x\n", "'a' must hold numbers, .* and row 3 holds 'two'"),
    ],
)
def test_new_tables_must_fit_the_old(table, text, message):
    source = read(table("a,b,y\n1,x,u\n2,z,v\n5,x,\n"), target="y")
    with pytest.raises(ValueError, match=message):
        prepare(source.preprocessing, table(text, "new.csv"))


def test_what_is_not_data_is_said(table, tmp_path):
    with pytest.raises(ValueError, match=r"Data must be a table .*, a folder of pictures or"):
        read(table("hello", "notes.txt"))
    with pytest.raises(FileNotFoundError, match="There is no file or folder"):
        read(tmp_path / "nothing.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match=r"The folder .*folder.csv holds no pictures"):
        read(tmp_path / "folder.csv")
    with pytest.raises(ValueError, match=r"t.parquet cannot be read as a Parquet file"):
        read(table(b"PAR1 and no more PAR1", "t.parquet"), target="y")


def test_a_preprocessing_of_another_kind_or_version_is_refused(table, tmp_path):
    source = read(table(TABLE), target="species")
    with pytest.raises(ValueError, match=r"must be table like the training data, and .* pictures"):
        prepare(source.preprocessing, tmp_path)
    with pytest.raises(ValueError, match="must be of version 2, got 99"):
        prepare(source.preprocessing | {"version": 99}, table(TABLE))
