"""Columns that name rows, or are no features."""

import csv

import numpy as np
import polars as pl
import pytest

from labelgrad import FitConfig, fit, load
from labelgrad.auto.annotations import AnnotationLog, take_corrections
from labelgrad.auto.audits import draw_audit, take_audit
from labelgrad.auto.data.dataset import read
from labelgrad.auto.label_studio import save_to_fill_in
from labelgrad.auto.queue import review_list
from tests.unit.auto.fake_runs import FILE

ROWS, LABELED = 40, 16
QUICK = {"base_models": "linear", "steps": 5, "encoder": "none"}
X = np.random.default_rng(1).normal(size=ROWS)


def table(**columns):
    kind = ["yes" if one > 0 else "no" for one in X]
    kind[LABELED:] = [None] * (ROWS - LABELED)
    return pl.DataFrame({**columns, "x": X, "leak": X + 1, "kind": kind})


NAMES = [f" c{7 * row:03}" for row in range(ROWS)]
STRIPPED = [name.strip() for name in NAMES]


def test_an_id_names_the_rows_in_every_file(tmp_path):
    path, run = tmp_path / "t.csv", tmp_path / "run"
    table(**{"Customer ID": NAMES}).write_csv(path)
    result = fit(path, target="kind", id="Customer ID", ignore="leak", out=run, **QUICK)
    assert [column.name for column in result.predictor.preprocessor.columns] == ["x"]
    labels = pl.read_csv(run / "labels.csv", infer_schema=False)
    assert labels["Customer ID"].to_list() == STRIPPED
    assert pl.read_csv(run / "table.csv")["Customer ID"].to_list() == NAMES
    result = load(run)
    save_to_fill_in(result, review_list(result, 5), tmp_path / "look.csv")
    draw_audit(result, 4, path=tmp_path / "audit.csv")
    for file, count, take in (("look", 5, take_corrections), ("audit", 4, take_audit)):
        listed = pl.read_csv(tmp_path / f"{file}.csv", infer_schema=False)
        assert listed["Customer ID"].is_in(STRIPPED[LABELED:]).all()
        assert listed.columns[:2] == ["Customer ID", "label"]
        assert listed["label"].null_count() == count
        cells = pl.read_csv(path, infer_schema=False).select("Customer ID", "x", "leak")
        cells = cells.with_columns(pl.col("Customer ID").str.strip_chars())
        beside = listed.select("Customer ID", "x", "leak")
        assert beside.equals(beside.select("Customer ID").join(cells, on="Customer ID", how="left"))
        listed.with_columns(label=pl.lit("yes")).write_csv(tmp_path / "filled.csv")
        take(result, tmp_path / "filled.csv")
        known = {one.id for one in AnnotationLog(run / FILE).newest(audits=file == "audit")}
        assert known == set(listed["Customer ID"])
        assert len(known) == count
    new = table(**{"Customer ID": STRIPPED[::-1]}).drop("kind", "leak")
    assert result.predict(new).frame()["Customer ID"].to_list() == STRIPPED[::-1]
    assert result.predict(new.drop("Customer ID")).frame()["row"].to_list()[:2] == ["1", "2"]
    again = fit(out=run, resume=True)
    corrected = again.labels.filter(pl.col("source") == "corrected")["Customer ID"]
    assert len(corrected) == 5


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"id": "name"}, "'name' must name each row once, and row 40 repeats 'a'"),
        ({"id": "gap"}, "'gap' must name each row once, and row 1 is empty"),
        ({"id": "nmae"}, "has no column 'nmae'; did you mean 'name'"),
        ({"ignore": "x,nmae"}, "has no column 'nmae'; did you mean 'name'"),
        ({"id": "kind"}, "'kind' is the target, and can be nothing else"),
        ({"id": "source"}, "must not be called 'source', as a column of labels.csv is"),
    ],
)
def test_mistakes_are_one_sentence(options, sentence):
    gap = [None, *map(str, range(1, ROWS))]
    data = table(name=["a", *NAMES[2:], "a"], gap=gap, source=NAMES)
    with pytest.raises(ValueError, match=sentence):
        read(data, None, FitConfig(target="kind", **QUICK, **options))


def features(data):
    found = read(data, None, FitConfig(target="kind", **QUICK))
    return [column.name for column in found.preprocessor.columns], "\n".join(found.notes)


def test_ids_are_noticed_in_a_sample_of_rows():
    kept = np.random.default_rng(0).permutation(1000)[:ROWS]
    data = table(
        PassengerId=kept,
        customer_id=np.sort(kept) + 5000,
        code=[f"k{one}" for one in kept],
        humid=kept,
        sorted=np.sort(kept),
    )
    names, notes = features(data)
    assert names == ["humid", "sorted", "x", "leak"]
    id_note = "Left out (an id by its name, and all numbers differ): 'PassengerId', 'customer_id'."
    assert id_note in notes
    assert "use --id PassengerId" in notes
    assert "although it counts up from row to row as an id does: 'sorted';" in notes
    numbers = table(room_no=kept % 9, id=kept / 7)
    assert features(numbers)[0] == ["room_no", "id", "x", "leak"]


def test_a_row_number_of_a_file_is_noticed(tmp_path):
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["", "x", "kind"], *([row, X[row], "ab"[row % 2]] for row in range(ROWS))]
        )
    names, notes = features(tmp_path / "t.csv")
    assert names == ["x"]
    assert "the number of the row" in notes
