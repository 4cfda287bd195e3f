"""The table that was fitted, with labels: in the format it came in, its cells as they were."""

import csv
import gzip
import io
import json

import numpy as np
import pandas
import polars as pl
import pytest

from labelgrad import fit, load
from labelgrad.auto.annotations import Annotation, log_of, take_corrections
from labelgrad.auto.audits import draw_audit
from labelgrad.auto.data import sources
from labelgrad.auto.guarantee import guaranteed_labels

QUICK = {"base_models": "linear", "steps": 5, "encoder": "none"}
ROWS, LABELED = 30, 12
X = np.random.default_rng(0).normal(size=(ROWS, 2)).round(3)
CLASS = np.where(X.sum(1) > 0, "yes", "no")
CELLS = [
    # A number with a zero at its end, text with separators, quotes and spaces, an empty cell.
    [f"{a:.3f}", f"{b:.3f}0", f'"{row}", a; note ', "" if row % 3 else " x ", CLASS[row]]
    for row, (a, b) in enumerate(X)
]
HEADER = ["a", "b", "note", "gap", "kind"]


def as_csv(separator=",", target=lambda row: CLASS[row] if row < LABELED else ""):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator)
    writer.writerow(HEADER)
    writer.writerows([*cells[:-1], target(row)] for row, cells in enumerate(CELLS))
    return text.getvalue().encode()


def frame(target=None):
    kind = [one if row < LABELED else None for row, one in enumerate(CLASS)]
    return pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": kind if target is None else target})


@pytest.mark.parametrize(
    ("name", "separator"), [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t"), ("t.csv.gz", ",")]
)
@pytest.mark.parametrize("large", [1, 2**29])
def test_cells_of_a_text_file_stay_as_they_are_written(
    tmp_path, monkeypatch, name, separator, large
):
    monkeypatch.setattr(sources, "LARGE", large)
    content = as_csv(separator)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    result = fit(path, target="kind", out=tmp_path / "run", cache=tmp_path / "cache", **QUICK)
    back = (tmp_path / "run" / f"table{name[1:]}").read_bytes()
    text = (gzip.decompress(back) if name.endswith("gz") else back).decode()
    header, *rows = csv.reader(io.StringIO(text), delimiter=separator)
    assert header == [*HEADER, "confidence", "source"]
    labels = result.labels
    assert [row[:4] for row in rows] == [cells[:4] for cells in CELLS]
    assert [row[4] for row in rows] == labels["label"].to_list()
    assert [row[4] for row in rows[:LABELED]] == CLASS[:LABELED].tolist()
    assert [row[5] for row in rows[:LABELED]] == [""] * LABELED
    confidence = [float(row[5]) for row in rows[LABELED:]]
    assert confidence == pytest.approx(labels["confidence"].to_list()[LABELED:])
    assert [row[6] for row in rows] == ["given"] * LABELED + ["imputed"] * (ROWS - LABELED)


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.xlsx", "folder"])
def test_other_files_come_back_in_their_format(tmp_path, name):
    path, data = tmp_path / name, frame()
    if name == "t.parquet":
        data.write_parquet(path)
    elif name == "t.jsonl":
        data.write_ndjson(path)
    elif name == "t.xlsx":
        data.write_excel(path)
    else:
        path.mkdir()
        data[:7].write_parquet(path / "1.parquet")
        data[7:].write_parquet(path / "2.parquet")
    result = fit(path, target="kind", out=tmp_path / "run", **QUICK)
    suffix = ".parquet" if name == "folder" else path.suffix
    back = sources.open_source(tmp_path / "run" / f"table{suffix}", result.config).frame.collect()
    assert back.columns == [*data.columns, "confidence", "source"]
    assert back["a", "b"].equals(data["a", "b"])
    assert back["kind"].to_list() == result.labels["label"].to_list()
    assert back["source"].to_list() == result.labels["source"].to_list()
    if name == "t.jsonl":
        first = json.loads((tmp_path / "run" / "table.jsonl").read_text().splitlines()[0])
        assert first == {**data.row(0, named=True), "confidence": None, "source": "given"}


def test_a_data_frame_comes_back_as_one_of_its_library():
    names = pandas.Index([f"r{row}" for row in range(ROWS)], name="name")
    data = frame().to_pandas().set_index(names)
    before = data.copy()
    found = fit(data, target="kind", **QUICK).table()
    assert isinstance(found, pandas.DataFrame)
    pandas.testing.assert_frame_equal(data, before)
    pandas.testing.assert_frame_equal(found[["a", "b"]], data[["a", "b"]])
    assert list(found.columns) == ["a", "b", "kind", "confidence", "source"]
    assert found["kind"].tolist()[:LABELED] == CLASS[:LABELED].tolist()
    assert found["kind"].notna().all()
    assert found["confidence"].notna().sum() == ROWS - LABELED


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        ([int(one == "yes") for one in CLASS], pl.Int64),
        ([one == "yes" for one in CLASS], pl.Boolean),
        (CLASS.tolist(), pl.Categorical),
    ],
)
def test_the_target_keeps_its_type(target, dtype):
    some = pl.Series([one if row < LABELED else None for row, one in enumerate(target)])
    data = frame(some.cast(dtype))
    found = fit(data, target="kind", **QUICK).table()
    assert found.schema["kind"] == dtype
    assert found["kind"].to_list()[:LABELED] == target[:LABELED]
    assert set(found["kind"].to_list()) == set(target)


def test_labels_beside_a_frame_become_a_column_and_taken_names_get_a_prefix():
    data = frame().drop("kind").rename({"b": "source"})
    y = [one if row < LABELED else None for row, one in enumerate(CLASS)]
    found = fit(data, y, **QUICK).table()
    assert found.columns == ["a", "source", "label", "confidence", "label_source"]
    assert found["source"].equals(data["source"])
    assert found["label"].to_list()[:LABELED] == y[:LABELED]


def test_values_keep_their_writing_and_have_a_deviation(tmp_path):
    total = X.sum(1)
    content = as_csv(";", lambda row: f"{total[row]:.3f}00".replace(".", ",") * (row < LABELED))
    (tmp_path / "t.csv").write_bytes(content)
    result = fit(tmp_path / "t.csv", target="kind", out=tmp_path / "run", **QUICK)
    back = pl.read_csv(tmp_path / "run" / "table.csv", separator=";", infer_schema=False)
    assert back.columns[-2:] == ["std", "source"]
    given = [f"{one:.3f}00".replace(".", ",") for one in total[:LABELED]]
    assert back["kind"].to_list()[:LABELED] == given
    imputed = back["kind"].cast(pl.Float64, strict=False).to_list()[LABELED:]
    assert imputed == pytest.approx(result.labels["label"].to_list()[LABELED:])


def test_only_the_labels_that_are_wanted_are_filled_in(tmp_path):
    (tmp_path / "t.csv").write_bytes(as_csv())
    fit(tmp_path / "t.csv", target="kind", out=tmp_path / "run", **QUICK)
    result = load(tmp_path / "run")
    wanted = result.labels[LABELED : LABELED + 3]
    result.save_table(tmp_path / "some.parquet", labels=wanted)
    found = pl.read_parquet(tmp_path / "some.parquet")
    filled = [*range(LABELED + 3)]
    assert found["kind"].is_not_null().arg_true().to_list() == filled
    assert found["source"].is_not_null().arg_true().to_list() == filled
    with pytest.raises(ValueError, match=r"must end with \.csv"):
        result.save_table(tmp_path / "some.doc")
    (tmp_path / "t.csv").unlink()
    with pytest.raises(ValueError, match=r"not at hand .*t\.csv\); give it to"):
        result.table()
    with pytest.raises(ValueError, match="has 3 rows, and the run has 30 examples"):
        result.table(frame()[:3])


def test_without_its_writer_an_excel_file_comes_back_as_csv(tmp_path, monkeypatch):
    frame().write_excel(tmp_path / "t.xlsx")
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    result = fit(tmp_path / "t.xlsx", target="kind", out=tmp_path / "run", **QUICK)
    back = pl.read_csv(tmp_path / "run" / "table.csv")
    assert back["kind"].to_list() == result.labels["label"].to_list()
    with pytest.raises(ImportError, match=r"pip install 'labelgrad\[excel\]'"):
        result.save_table(tmp_path / "back.xlsx")


def test_a_correction_is_in_the_table_also_of_a_random_label(tmp_path):
    (tmp_path / "t.csv").write_bytes(as_csv())
    options = {"target": "kind", "out": tmp_path / "run", "label_sampling": "random", **QUICK}
    result = fit(tmp_path / "t.csv", **options)
    other = {"yes": "no", "no": "yes"}[CLASS[0]]
    (tmp_path / "corrections.csv").write_text(f"row,label\n1,{other}\n")
    take_corrections(result, tmp_path / "corrections.csv")
    fit(out=tmp_path / "run", resume=True)
    back = pl.read_csv(tmp_path / "run" / "table.csv", infer_schema=False)
    assert back["kind"][0] == other
    assert back["kind"].to_list()[1:LABELED] == CLASS[1:LABELED].tolist()


def test_audited_rows_have_the_labels_of_the_person(tmp_path):
    path = tmp_path / "pets.csv"
    rows = [f"{x % 7 / 2},{'cat' if x % 2 else 'dog'}" if x < 8 else f"{x % 5}," for x in range(60)]
    path.write_text("\n".join(["x,pet", *rows]))
    result = fit(path, target="pet", out=tmp_path / "run", base_models="linear", steps=5)
    audit = draw_audit(result, 52)
    log_of(result).add([Annotation(row, "cat", "audit", result.digest) for row in audit.ids])
    labels = guaranteed_labels(result, 0.2).labels
    table = result.table(labels=labels)
    assert table["pet"][8:].to_list() == ["cat"] * 52
    assert table["source"].to_list() == ["given"] * 8 + ["audit"] * 52
    assert table["confidence"].null_count() == 60
