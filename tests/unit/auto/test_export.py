"""An exported model predicts without labelgrad what the saved one predicts."""

import csv
import json
import subprocess
import sys
from datetime import date

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

from labelgrad import load
from labelgrad.auto.data.columns import Category, Number
from labelgrad.auto.data.formats import DateFormat, NumberFormat
from labelgrad.auto.export import _description, export
from tests.unit.auto.encoders.tiny import image_folder
from tests.unit.auto.small_fit import arrays, small_fit


@pytest.fixture(scope="module", params=["classes", "values"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "run"
    small_fit(*arrays(values=request.param == "values"), out=folder, base_models="linear")
    return load(folder)


def expected(run, X):
    found = run.predict(X)
    return found.probabilities if run.task.classes else np.array(found.labels)


def test_torch_export_takes_columns_as_fit_preprocesses_them(run):
    X, _ = arrays()
    path = export(run, to="torch")
    assert path == run.folder / "model.pt2"
    columns = run.predictor.preprocessor.transform(X, run.config).examples.X
    program = torch.export.load(path).module()
    found = program(torch.from_numpy(np.array(columns))).detach().numpy()
    np.testing.assert_allclose(found, expected(run, X), rtol=1e-4, atol=1e-5)


def test_onnx_gives_the_same(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    X, _ = arrays()
    path = export(run, to="onnx", out=tmp_path / "model.onnx")
    columns = run.predictor.preprocessor.transform(X, run.config).examples.X
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: np.array(columns)})
    np.testing.assert_allclose(found, expected(run, X), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_exported_is_said(run, tmp_path):
    with pytest.raises(ValueError, match="must be one of torch, onnx, numpy, got 'torchscript'"):
        export(run, to="torchscript")
    with pytest.raises(ValueError, match="--with-encoder needs a model of a folder of images"):
        export(run, with_encoder=True)
    with pytest.raises(ValueError, match="has no run folder; name a file with `out`"):
        export(small_fit(*arrays(), base_models="linear"))
    export(run, out=tmp_path / "deep" / "model.pt2")
    assert (tmp_path / "deep" / "model.pt2").is_file()


class Means(nn.Module):
    """An encoder that anybody can build."""

    def forward(self, pixels):
        return nn.functional.adaptive_avg_pool2d(pixels / 255, 2).flatten(1)


@pytest.mark.parametrize("encoder", ["none", Means()])
def test_pixels_go_in_where_there_are_images(tmp_path, encoder):
    data = image_folder(tmp_path / "images")
    options = {"encoder": encoder, "base_models": "linear", "size": 8, "network": "mlp-8"}
    run = small_fit(data, out=tmp_path / "run", **options)
    path = export(run, with_encoder=encoder != "none")
    program = torch.export.load(path).module()
    pixels = torch.randint(0, 256, (2, 3, 8, 8)).float()
    probabilities = program(pixels).detach().numpy()
    assert probabilities.shape == (2, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)


HEADER = ["age", "price", "share", "town", "paid", "since", "seen", "label"]
WITHOUT_LABELGRAD = """
import csv, json, sys
sys.modules.update(dict.fromkeys(("labelgrad", "torch", "polars", "pandas", "sklearn")))
from model import MODEL
with open("new.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
found = MODEL.predict({name: [row[name] for row in rows] for name in MODEL.names})
print(json.dumps([MODEL.classes, found.tolist()]))
"""


def mixed_rows(count, rng, target):
    """Rows of every kind of column, with gaps."""

    def row(number):
        day = date(2020, 1, 1).toordinal() + int(rng.integers(900))
        written = date.fromordinal(day).strftime("%d.%m.%Y")
        cells = [
            rng.choice([f"{rng.normal():.3f}", "n/a"], p=[0.9, 0.1]),
            f"€ {rng.integers(1, 9)}.{rng.integers(100, 999)},{rng.integers(10, 99)}",
            f"{rng.integers(0, 100)} %",
            rng.choice(["Ulm", "Bonn", "Köln", ""]),
            rng.choice(["yes", "no"]),
            written,
            rng.choice([f"{date.fromordinal(day)} 1{rng.integers(0, 9)}:30 +02:00", "-"]),
        ]
        return [*cells, target(cells) if number < 30 else ""]

    return [row(number) for number in range(count)]


def write_rows(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return path


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_raw_columns_of_a_mixed_table_in_a_process_without_labelgrad(tmp_path, task):
    rng = np.random.default_rng(0)
    is_class = task == "classification"
    scores = {"yes": ["good", 310.0], "no": ["bad", 207.5]}
    rows = mixed_rows(80, rng, lambda cells: scores[cells[4]][not is_class])
    if not is_class:
        rows = [[*r[:-1], r[-1] and r[-1] + round(float(rng.normal()), 2)] for r in rows]
    data = write_rows(tmp_path / "train.csv", rows)
    options = {"target": "label", "task": task, "base_models": "linear", "steps": 60}
    run = small_fit(data, out=tmp_path / "run", **options)
    kinds = {type(column).__name__ for column in run.predictor.preprocessor.columns}
    assert len(run.predictor.preprocessor.columns) == 7 and kinds == {"Number", "Category"}
    path = export(run, to="numpy", out=tmp_path / "model.py")
    assert path == tmp_path / "model.py"
    new = mixed_rows(40, rng, lambda _: "")
    new[0][3], new[1][0], new[2][0] = "Paris", "50", "inf"
    write_rows(tmp_path / "new.csv", new)
    order = [sys.executable, "-c", WITHOUT_LABELGRAD]
    done = subprocess.run(order, cwd=tmp_path, capture_output=True, text=True, check=True)
    classes, found = json.loads(done.stdout)
    assert classes == list(run.task.classes)
    wanted = expected(run, tmp_path / "new.csv")
    assert np.std(wanted, axis=0).min() > 1e-3  # else a constant would do
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


CELLS = {  # separated by bars
    "plain": "1.5| 2 |+3|1e3|1e30|.5|5.|1_0|٣|0x1|two|NaN|-inf|n/a",
    "number": "€ 1.234,5|(12) €|-3 €|3-|1.5|5 $|- -3|(4|−7|1.234|",
    "percent": "12 %|0|3|4 ‰|(5 %)|?",
    "day-first": "02.01.1970|1/2/70 12:00|31.2.2000|1.2|3-4-68 1:05 pm|1.1.69|13:00|",
    "month-name": "2 Jan 1970|Mon, January 5th, 2026 at 0:30 am|3. sept 99|2020-may-7|-",
    "year-first": "1970-01-02T06:00:00.5Z|1970-01-02 6:00+05:30|1970/13/01|2000-1-1 24:00|",
    "town": "Ulm| Bonn|Paris|ulm||?",
    "boolean": "YES|0|maybe|true|",
}
COLUMNS = {
    "plain": Number("x", 1.0, True, 2.0, 3.0),
    "number": Number("x", 1.0, False, 2.0, 3.0, format=NumberFormat(",", ".", "€")),
    "percent": Number("x", 1.0, True, 2.0, 3.0, format=NumberFormat(".", "", "%")),
    **{
        order: Number("x", 9.0, True, 2.0, 3.0, format=DateFormat(order))
        for order in ("day-first", "month-name", "year-first")
    },
    "town": Category("x", ("Bonn", "Ulm"), other=True, missing=True),
    "boolean": Category("x", ("no", "yes"), other=False, missing=False, boolean=True),
}


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    """The constants that every exported file has."""
    path = export(run, to="numpy", out=tmp_path_factory.mktemp("exported") / "model.py")
    names: dict = {}
    exec(path.read_text(), names)
    return names["MODEL"]


@pytest.mark.parametrize("kind", CELLS)
def test_an_exported_column_reads_every_cell_as_fit_does(exported, kind):
    column = COLUMNS[kind]
    accepted = 0
    for cell in [*CELLS[kind].split("|"), None]:
        try:
            wanted = column.encode(column.parse(pl.Series([cell], dtype=pl.String)))
        except ValueError:
            with pytest.raises(ValueError, match=r"must hold .* row 1 holds"):
                exported._features(_description(column), [cell])
            continue
        found = exported._features(_description(column), [cell])
        np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=repr(cell))
        accepted += 1
    assert accepted >= 3


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("plain", pl.Series([1, None, 3])),
        ("plain", pl.Series([1.5, float("nan")])),
        ("year-first", pl.Series([date(2020, 1, 2), None])),
        ("town", pl.Series(["Ulm", None])),
    ],
)
def test_an_exported_column_takes_typed_cells(exported, kind, cells):
    column = COLUMNS[kind]
    found = exported._features(_description(column), cells)
    np.testing.assert_allclose(found, column.encode(column.parse(cells)), rtol=1e-6)


def test_an_exported_file_says_what_it_needs(exported):
    assert exported.names == ("0", "1", "2", "3")
    with pytest.raises(ValueError, match=r"needs the columns .* \['3'\] are missing"):
        exported.predict({"0": [1], "1": [1], "2": [1]})
    with pytest.raises(ValueError, match="the same number of cells"):
        exported.predict({"0": [1], "1": [1], "2": [1], "3": [1, 2]})


def test_texts_and_images_are_refused(tmp_path):
    texts = [f"the soup number {n} was {'good' if n % 2 else 'bad'} today" for n in range(30)]
    labels = [str(n % 2) if n < 20 else None for n in range(30)]
    frame = pl.DataFrame({"review": texts, "label": labels})
    run = small_fit(frame, encoder="none", target="label", base_models="linear")
    with pytest.raises(ValueError, match=r"'review' is a column of texts; .*--ignore review"):
        export(run, to="numpy", out=tmp_path / "model.py")
    run = small_fit(image_folder(tmp_path / "images"), encoder="none", base_models="linear", size=8)
    with pytest.raises(ValueError, match="--to numpy is for tables"):
        export(run, to="numpy", out=tmp_path / "model.py")
    assert not (tmp_path / "model.py").exists()
