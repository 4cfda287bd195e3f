"""A data frame is read like the same table in a file, by the types its columns have."""

import json
import math
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

import labelgrad
from labelgrad.augment.views import Noise
from labelgrad.inputs import kinds
from labelgrad.inputs.base import Dataset, Defaults, Prepared, Scale, Shown
from labelgrad.inputs.kinds import prepare, read, read_inputs
from labelgrad.inputs.targets import targets

ROWS = 40
RANDOM = np.random.default_rng(0)
COLUMNS = {
    "age": [None if i % 7 == 3 else float(x) for i, x in enumerate(RANDOM.normal(40, 10, ROWS))],
    "children": [None if i % 5 == 2 else int(i * 7 % 4) for i in range(ROWS)],
    "married": [None if i % 11 == 5 else i % 3 == 0 for i in range(ROWS)],
    "city": [[None, "Rome", "Oslo", "Bern"][i % 4] for i in range(ROWS)],
    "born": [None if i % 9 == 1 else date(1980 + i, 1 + i % 12, 5) for i in range(ROWS)],
    "seen": [datetime(2020, 1, 1, i % 24, i) + timedelta(days=i * i) for i in range(ROWS)],
    "planet": ["earth"] * ROWS,
    "id": [f"a{i}" for i in range(ROWS)],
    "nothing": [None] * ROWS,
    "pet": [None if i % 3 else ["cat", "dog"][i % 2] for i in range(ROWS)],
}


def pandas_frame(columns=COLUMNS):
    return pd.DataFrame(columns)


def pandas_nullable(columns=COLUMNS):
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})
    types = {
        "age": "Float64",
        "children": "Int64",
        "married": "boolean",
        "city": "string",
        "seen": "datetime64[ns]",
        "planet": "category",
        "pet": "category",
    }
    return frame.astype({name: kind for name, kind in types.items() if name in columns})


def pandas_arrow(columns=COLUMNS):
    return pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)


def polars_categories(columns=COLUMNS):
    kinds = {"city": pl.Categorical, "planet": pl.Enum(["earth", "mars"]), "pet": pl.Categorical}
    return pl.DataFrame(columns).cast({n: kind for n, kind in kinds.items() if n in columns})


FRAMES = [pandas_frame, pandas_nullable, pandas_arrow, pl.DataFrame, polars_categories, pa.table]
frames = pytest.mark.parametrize("frame", FRAMES)


@pytest.fixture
def csv(tmp_path):
    """A function that writes columns into a file."""

    def write(columns, name="table.csv"):
        rows = zip(*columns.values(), strict=True)
        lines = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
        (tmp_path / name).write_text("\n".join([",".join(columns), *lines]))
        return tmp_path / name

    return write


def alike(one, two):
    torch.testing.assert_close(one.x, two.x, rtol=0, atol=0)
    assert torch.equal(one.y, two.y)
    assert (one.kind, one.task, one.classes, one.names) == (
        two.kind,
        two.task,
        two.classes,
        two.names,
    )
    assert one.notes == two.notes
    assert one.preprocessing == two.preprocessing


@frames
def test_a_frame_is_read_like_the_same_table_in_a_file(frame, csv):
    found, file = read(frame(COLUMNS), target="pet"), read(csv(COLUMNS), target="pet")
    alike(found, file)
    assert found.names[0] == "1"
    assert len(found.preprocessing["columns"]) == 6
    assert found.x.isfinite().all()


@frames
def test_labels_may_come_beside_the_frame(frame, csv):
    whole = frame(COLUMNS)
    inputs = {name: cells for name, cells in COLUMNS.items() if name != "pet"}
    beside = read(frame(inputs), whole["pet"])
    inside = read(csv(COLUMNS), target="pet")
    assert torch.equal(beside.x, inside.x)
    assert torch.equal(beside.y, inside.y)
    assert beside.classes == inside.classes
    assert beside.preprocessing["target"] is None


@frames
def test_new_frames_and_files_are_treated_alike(frame, csv):
    source = read(frame(COLUMNS), target="pet")
    kept = json.loads(json.dumps(source.preprocessing))
    few = {name: cells[5:9] for name, cells in COLUMNS.items() if name != "pet"}
    for other in FRAMES:
        new = prepare(kept, other(few))
        assert torch.equal(new.x, source.x[5:9])
        assert (new.names, new.skipped) == (["1", "2", "3", "4"], [])
    assert torch.equal(prepare(kept, csv(few)).x, source.x[5:9])
    one = {name: cells[3:4] for name, cells in few.items()}  # all types may be lost in one row
    assert torch.equal(prepare(kept, frame(one)).x, source.x[8:9])


@frames
def test_inputs_without_labels_are_those_with_them(frame):
    inputs = {name: cells for name, cells in COLUMNS.items() if name != "pet"}
    found, source = read_inputs(frame(inputs)), read(frame(COLUMNS), target="pet")
    assert torch.equal(found.x, source.x)
    assert torch.equal(prepare(found.preprocessing, frame(inputs)).x, source.x)
    assert "Left out (always the same): 'planet'." in found.notes


def test_frames_of_numbers_reach_the_network_as_arrays_do():
    x = RANDOM.normal(5, 3, (30, 4))
    names = {f"c{i}": column for i, column in enumerate(x.T)}
    for frame in (pd.DataFrame(names), pl.DataFrame(names)):
        assert torch.equal(read_inputs(frame).x, read_inputs(x).x)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (pd.Series([0, 1, -1, 1]), [0, 1, -1, 1]),
        (pd.Series([0, 1, None, 1], dtype="Int64"), [0, 1, -1, 1]),
        (pd.Series([0, -1, None, 1], dtype="Int64"), [0, -1, -1, 1]),
        (pd.Series([0.0, 1.0, np.nan, 1.0]), [0, 1, -1, 1]),
        (pd.Series([0.0, 1.0, None, 1.0], dtype="Float64"), [0, 1, -1, 1]),
        (pd.Series([True, False, None, True], dtype="boolean"), [1, 0, -1, 1]),
        (pd.Series(["b", "a", None, "b"]), [1, 0, -1, 1]),
        (pd.Series(["b", "a", None, "b"], dtype=object), [1, 0, -1, 1]),
        (pd.Series(["b", "a", None, "b"], dtype="string"), [1, 0, -1, 1]),
        (pd.Series(["b", "a", None, "b"], dtype="category"), [1, 0, -1, 1]),
        (pd.Series([1, 0, 0, None], dtype="category"), [1, 0, 0, -1]),
        (pd.Series(["b", "a", "a", "b"], index=[3, 2, 1, 0]), [1, 0, 0, 1]),  # by position
        (pd.DataFrame({"y": ["b", "a", None, "b"]}), [1, 0, -1, 1]),
        (pl.Series([0, 1, -1, 1]), [0, 1, -1, 1]),
        (pl.Series([0, 1, None, -1]), [0, 1, -1, -1]),
        (pl.Series([0.0, 1.0, None, 1.0]), [0, 1, -1, 1]),
        (pl.Series([True, False, None, True]), [1, 0, -1, 1]),
        (pl.Series(["b", "a", None, "b"]), [1, 0, -1, 1]),
        (pl.Series(["b", "a", None, "b"], dtype=pl.Categorical), [1, 0, -1, 1]),
        (["b", "a", "", "b"], [1, 0, -1, 1]),
        (np.array(["b", "a", None, "b"], dtype=object), [1, 0, -1, 1]),
        (np.array(["b", "a", -1, math.nan], dtype=object), [1, 0, -1, -1]),
        (np.array([1, 0, pd.NA, 1], dtype=object), [1, 0, -1, 1]),
    ],
)
@pytest.mark.parametrize("x", [np.eye(4), pd.DataFrame(np.eye(4)), pl.DataFrame(np.eye(4))])
def test_labels_of_any_type(x, y, expected):
    source = read(x, y)
    assert source.y.tolist() == expected
    assert source.task == "classification"


def test_values_with_gaps_are_a_regression():
    for y in (pd.Series([0.5, None, 2.5], dtype="Float64"), pl.Series([0.5, None, 2.5])):
        source = read(np.eye(3), y)
        assert source.task == "regression"
        assert source.y[[0, 2]].tolist() == [0.5, 2.5]
        assert source.y[1].isnan()


def test_names_need_not_be_texts():
    frame = pd.DataFrame({0: [1.0, 2.0, 4.0], 1: ["a", "b", None]})
    source = read(frame, target=1)
    assert source.preprocessing["target"] == "1"
    assert [column["name"] for column in source.preprocessing["columns"]] == ["0"]
    assert source.classes == ("a", "b")


def test_times_of_a_zone_are_compared_in_utc(csv):
    zone = pd.to_datetime(["2020-01-01", "2020-07-01", "2020-03-05"]).tz_localize("Europe/Rome")
    cells = [moment.isoformat() for moment in zone]
    file = read(csv({"t": cells, "y": ["a", "b", "a"]}))
    times = [moment.to_pydatetime().astimezone(UTC) for moment in zone]
    others = pl.DataFrame({"t": times, "y": ["a", "b", "a"]})
    others = others.with_columns(pl.col("t").dt.convert_time_zone("America/New_York"))
    for frame in (pd.DataFrame({"t": zone, "y": ["a", "b", "a"]}), others, others.to_arrow()):
        alike(read(frame), file)


def test_types_that_say_category_are_believed():
    frame = pd.DataFrame({"zip": pd.Categorical([10, 20, 10]), "y": ["a", "b", None]})
    (column,) = read(frame).preprocessing["columns"]
    assert column["texts"] == ["10", "20"]
    new = prepare(read(frame).preprocessing, pd.DataFrame({"zip": [20, 10]}))
    assert new.x.argmax(1).tolist() == [1, 0]


def test_what_is_nothing_to_learn_from_is_left_out_and_said():
    columns = {
        "a": [1.5, 2.0, 4.0],
        "list": [[1], [2], [3]],
        "bytes": [b"1", b"2", b"3"],
        "wait": [timedelta(1), timedelta(2), timedelta(3)],
        "y": ["a", "b", None],
    }
    others = pl.DataFrame(columns).with_columns(struct=pl.struct("a", "list"))
    for frame, more in ((pd.DataFrame(columns), ""), (others, ", 'struct'")):
        source = read(frame)
        said = "Left out (lists, bytes or other objects): 'list', 'bytes', 'wait'"
        assert f"{said}{more}." in source.notes
        assert source.x.shape == (3, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: read(f), "Say which column of the data frame holds the labels with `target`"),
        (lambda f: read(f, target="d"), "The data frame has no column 'd'; "),
        (lambda f: read(f, [1, 0], target="a"), "labels are given twice"),
        (lambda f: read(f, [1, 0]), r"one label for each of the 3 rows .* got the shape \(2,\)"),
        (lambda f: read(f, [[1], [0, 1], 2]), "inhomogeneous|must hold numbers or text"),
        (lambda f: read(f, pl.Series([[1], [2], [3]])), "must hold numbers or text, got a list"),
        (lambda f: read(f, target="a", size=3), "`size` is for pictures, and the data are table"),
        (lambda f: read(f[:0], target="a"), "The data frame has no rows below its header"),
        (lambda f: read(f[["a"]], target="a"), "The data frame has no column to learn from beside"),
        (lambda f: prepare(read(f, target="b").preprocessing, f[["b"]]), "lacks columns .* 'a'"),
        (lambda f: prepare(read(f, target="b").preprocessing, np.eye(3)), "give a table"),
        (lambda f: read("x.csv", [1]), "There is no file or folder"),
        (lambda f: read(np.eye(3)), "An array needs its labels"),
        (lambda f: read_inputs("x.csv"), "X must be an array or a data frame"),
    ],
)
def test_bad_frames_are_one_sentence(call, message):
    columns = {"a": [1.0, 2.0, 4.0], "b": ["u", "v", "u"], "c": [3.0, 1.0, 2.0]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
            call(frame)
        assert "\n" not in str(caught.value)


def test_two_columns_of_one_name_are_one_sentence():
    for names in (["a", "a", "y"], ["1", 1, "y"]):
        frame = pd.DataFrame([[1, 2, 3], [4, 5, 6]], columns=names)
        with pytest.raises(
            ValueError, match="The data frame has two columns of one name: '"
        ) as one:
            read(frame)
        assert "\n" not in str(one.value)


def test_two_columns_of_one_name_in_parquet_are_one_sentence(tmp_path):
    parquet.write_table(pa.table([[1, 2], [3, 5], [0, 1]], ["a", "a", "y"]), tmp_path / "t.pq")
    with pytest.raises(ValueError, match=r"t\.pq has two columns of one name: 'a'; rename one"):
        read(tmp_path / "t.pq")


def test_a_lazy_frame_must_be_collected():
    with pytest.raises(ValueError, match=r"is lazy, and must be collected first: data.collect\(\)"):
        read(pl.LazyFrame({"a": [1, 2], "y": [0, 1]}))


def test_a_column_may_not_change_what_it_holds():
    kept = read(pd.DataFrame({"a": [1.0, 2.0, 5.0], "y": ["u", "v", ""]})).preprocessing
    with pytest.raises(ValueError, match=r"'a' must hold numbers, .* row 1 holds '2020-01-01'"):
        prepare(kept, pl.DataFrame({"a": [date(2020, 1, 1)]}))
    with pytest.raises(ValueError, match=r"'a' must hold numbers, .* row 2 holds 'two'"):
        prepare(kept, pl.DataFrame({"a": ["1", "two"]}))
    texts = prepare(kept, pl.DataFrame({"a": ["1", None, "5.0"]}))
    numbers = prepare(kept, pl.DataFrame({"a": [1, None, 5]}))
    assert torch.equal(texts.x, numbers.x)


def test_numbers_are_not_read_through_texts(monkeypatch):
    def fail(*_):
        raise AssertionError("a cell became a text")

    monkeypatch.setattr("labelgrad.inputs.cells.number", fail)
    monkeypatch.setattr("labelgrad.inputs.cells.days", fail)
    for frame in (pandas_nullable, pl.DataFrame):
        typed = {n: COLUMNS[n] for n in ("age", "children", "seen")}
        assert read_inputs(frame(typed)).x.shape == (ROWS, 5)


def test_a_model_is_fitted_to_a_frame_and_predicts_another():
    result = labelgrad.fit(pandas_nullable(), target="pet", steps=5)
    assert len(result.labels) == sum(cell is None for cell in COLUMNS["pet"])
    found = result.predict(pl.DataFrame(COLUMNS).drop("pet"))
    assert found.names == [str(row) for row in range(1, ROWS + 1)]
    assert set(found.labels) <= {"cat", "dog"}


class Words:
    """A kind of its own: a file of words, each with its label, read as how long they are."""

    name, what, key, options = "words", "a file of words", "row", ()

    def takes(self, data, *, new=False):
        return getattr(data, "suffix", None) == ".words"

    def read(self, data, reading):
        lines = [line.partition(" ") for line in data.read_text().splitlines()]
        words, labels = [word for word, _, _ in lines], [label for _, _, label in lines]
        found, names = targets(labels, reading.task, data.name), list(words)
        x = torch.tensor([[float(len(word))] for word in words])
        kept = found.preprocessing(self.name, language="en")
        return Dataset("words", x, found.y, "classification", found.classes, names, [], [], kept)

    def prepare(self, preprocessing, data, *, strict, encoding):
        words = data.read_text().split()
        return Prepared(torch.tensor([[float(len(word))] for word in words]), words, [])


def test_a_new_kind_is_a_class_and_a_place_in_the_list(monkeypatch, tmp_path):
    old, new = tmp_path / "old.words", tmp_path / "new.words"
    old.write_text("bird animal\ncat animal\nelm tree\n")
    new.write_text("oak sparrow")
    with pytest.raises(ValueError, match=r"Data must be .* or an \.npz file, got"):
        read(old)
    monkeypatch.setattr(kinds, "KINDS", (Words(), *kinds.KINDS))
    source = read(old)
    assert (source.kind, source.classes) == ("words", ("animal", "tree"))
    assert prepare(source.preprocessing, new).x.tolist() == [[3], [7]]
    assert kinds.kind_named(source.kind).what == "a file of words"
    with pytest.raises(ValueError, match="`size` is for pictures, and the data are words"):
        read(old, size=3)
    with pytest.raises(ValueError, match=r"must be words like the training data, and .* table"):
        prepare(source.preprocessing, csv_file(tmp_path))
    monkeypatch.undo()
    with pytest.raises(
        ValueError, match="must be one of table, texts, pictures, arrays, got 'words'"
    ):
        kinds.kind_named("words")


class ShownWords(Words):
    """The same with all that a fit, its page and its neighbours ask of a kind."""

    def inputs(self, data):
        raise ValueError("words come in files.")

    def defaults(self, shape):
        return Defaults("mlp-8", steps=6, learning_rate=1e-3, vat_radius=0.1)

    def transform(self, preprocessing, x):
        return Scale(0.1, 0.0)

    def views(self, shape, scale, mirror):
        return Noise(0.01, 0.05)

    def columns(self, preprocessing):
        return ["letters"]

    def show(self, preprocessing, row, original=None):
        return Shown(None, [f"{int(row[0])} letters"])

    def near(self, x, outputs):
        return x


def test_a_new_kind_goes_all_the_way_from_a_file_to_a_page(monkeypatch, tmp_path):
    monkeypatch.setattr(kinds, "KINDS", (ShownWords(), *kinds.KINDS))
    old, new = tmp_path / "old.words", tmp_path / "new.words"
    marked = [
        f"{'a' * n}{i} {'short' if n < 5 else 'long'}" for i, n in enumerate([2, 3, 8, 9] * 4)
    ]
    old.write_text("\n".join([*marked, *("b" * n for n in range(1, 11))]))
    result = labelgrad.fit(old, out=tmp_path / "run")
    assert len(result.labels) == 10
    assert "letters" in result.page
    again = labelgrad.load(tmp_path / "run")
    new.write_text("oak sparrows")
    assert len(again.predict(new)) == 2


def csv_file(folder):
    (folder / "table.csv").write_text("a,y\n1,2\n")
    return folder / "table.csv"
