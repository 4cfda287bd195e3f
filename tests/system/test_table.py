"""A table through the command: what goes in is a CSV file, what comes out are files."""

import csv
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from tests.command import refused, run_ok

ROWS, LABELED = 160, 40
CUSTOMERS = ("customers.csv", "--target", "stays")
FAST = ("--base-models", "linear,extra trees", "--steps", "60", "--workers", "1")


def write_customers(path, rows=ROWS, labeled=LABELED, seed=0):
    """A table with everything that makes tables awkward; the truth is returned."""
    rng = np.random.default_rng(seed)
    truth = []
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "age", "plan", "since", "calls", "stays"])
        for row in range(rows):
            plan = rng.choice(["basic", "plus", "pro"])
            calls = int(rng.poisson(2 if plan == "pro" else 5))
            age = "" if rng.random() < 0.1 else int(rng.integers(18, 80))
            truth.append("yes" if calls + 0.5 * rng.normal() < 3 else "no")
            since = f"2024-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}"
            cells = [f"c{row:04}", age, plan, since, calls]
            table.writerow([*cells, truth[-1] if row < labeled else ""])
    return truth


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of the command, and the truth."""
    folder = tmp_path_factory.mktemp("table")
    truth = write_customers(folder / "customers.csv")
    output = run_ok(["fit", *CUSTOMERS, "--out", "run", *FAST], cwd=folder)
    return folder, truth, output


def labels_of(folder):
    return pl.read_csv(folder / "run" / "labels.csv", infer_schema=False)


def test_every_row_has_a_label_and_given_ones_stay(run):
    folder, truth, _ = run
    table = labels_of(folder)
    assert table["row"].to_list() == [str(row) for row in range(1, ROWS + 1)]
    given = table.filter(pl.col("source") == "given")
    assert given["label"].to_list() == truth[:LABELED]
    imputed = table.filter(pl.col("source") == "imputed")
    assert len(imputed) == ROWS - LABELED
    assert set(imputed["label"]) <= {"yes", "no"}
    assert imputed["confidence"].cast(pl.Float64).is_between(0.5, 1).all()
    right = [a == b for a, b in zip(table["label"], truth, strict=True)]
    assert np.mean(right[LABELED:]) > 0.8


def test_the_terminal_and_the_report_have_the_leaderboard(run):
    folder, _, output = run
    for word in ("linear", "ensemble", "student", "report.html", "labels.csv"):
        assert word in output
    assert "id" in output  # the column that is left out, with a note
    assert "extra trees" in (folder / "run" / "report.html").read_text()


def test_the_table_comes_back_with_labels(run):
    folder, _, output = run
    assert "run/table.csv" in output
    before, labels = pl.read_csv(folder / "customers.csv", infer_schema=False), labels_of(folder)
    back = pl.read_csv(folder / "run" / "table.csv", infer_schema=False)
    assert back.columns == [*before.columns, "confidence", "source"]
    assert back.drop("stays", "confidence", "source").equals(before.drop("stays"))
    assert back["stays"].to_list() == labels["label"].to_list()
    run_ok(["labels", "run", "--above", "0.9", "--table", "some.parquet"], cwd=folder)
    some = pl.read_parquet(folder / "some.parquet")
    confident = labels["confidence"].cast(pl.Float64) >= 0.9
    expected = [row < LABELED or bool(confident[row]) for row in range(ROWS)]
    assert some["stays"].is_not_null().to_list() == expected


def test_the_same_seed_gives_the_same_bytes_in_another_process(run, tmp_path):
    folder, _, _ = run
    order = [sys.executable, "-m", "labelgrad", "fit", *CUSTOMERS, *FAST]
    order += ["--out", tmp_path / "again"]
    subprocess.run(order, cwd=folder, check=True, capture_output=True)
    for name in ("labels.csv", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / "run" / name).read_bytes()


def test_the_printed_command_after_corrections_trains_again_with_them(run, tmp_path):
    folder, truth, _ = run
    out = shutil.copytree(folder / "run", tmp_path / "corrected")
    corrections = tmp_path / "corrections.csv"
    rows = range(LABELED + 1, LABELED + 6)
    lines = [f"{row},{truth[row - 1]}\n" for row in rows]
    corrections.write_text("row,label\n" + "".join(lines))
    output = run_ok(["labels", out, "--corrections", corrections], cwd=folder)
    (command,) = re.findall(r"labelgrad (fit --resume --out \S+)", output)
    run_ok(command.split(), cwd=folder)
    table = pl.read_csv(out / "labels.csv", infer_schema=False)
    assert table["source"].to_list()[LABELED : LABELED + 5] == ["corrected"] * 5
    assert table["label"].to_list()[LABELED : LABELED + 5] == truth[LABELED : LABELED + 5]


def test_an_audit_gives_labels_with_a_guarantee(run, tmp_path):
    folder, truth, _ = run
    out = shutil.copytree(folder / "run", tmp_path / "audited")
    assert "audit" in refused(["labels", out, "--max-error-rate", "30%"], cwd=folder)
    audit = tmp_path / "audit.csv"
    run_ok(["audit", out, "--rows", "60", "--out", audit], cwd=folder)
    drawn = pl.read_csv(audit, infer_schema=False)
    assert len(drawn) == 60
    assert drawn["row"].n_unique() == 60
    assert "prediction" not in drawn.columns
    filled = [truth[int(row) - 1] for row in drawn["row"]]
    drawn.with_columns(label=pl.Series(filled)).write_csv(audit)
    run_ok(["audit", out, "--filled", audit], cwd=folder)
    good = tmp_path / "good.csv"
    run_ok(["labels", out, "--max-error-rate", "30%", "--out", good], cwd=folder)
    selected = pl.read_csv(good, infer_schema=False)
    wrong = [
        label != truth[int(row) - 1]
        for row, label in zip(selected["row"], selected["label"], strict=True)
    ]
    assert len(selected) > 30
    assert np.mean(wrong) <= 0.3
    run_ok(["prevalence", out], cwd=folder)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["fit", "missing.csv", "--target", "a", "--out", "new"], "missing.csv"),
        (["fit", "customers.csv", "--target", "nothing", "--out", "new"], "nothing"),
        (["fit", *CUSTOMERS, "--base-models", "lineer", "--out", "new"], "linear"),
        (["fit", *CUSTOMERS, "--network", "mlb", "--out", "new"], "got 'mlb'"),
        (["fit", *CUSTOMERS, "--device", "abacus", "--out", "new"], "no `device` 'abacus'"),
        (["fit", *CUSTOMERS, "--class-prior", "maybe=1", "--out", "new"], "(no, yes), got"),
        (["fit", *CUSTOMERS, "--out", "run"], "--resume"),
        (["predict", "nowhere", "customers.csv"], "nowhere"),
        (["predict", "run", "missing.csv"], "no file or folder missing.csv"),
        (["predict", "run", "run"], "run must be a table"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(run, arguments, named):
    assert named in refused(arguments, cwd=run[0])
    assert not (run[0] / "new").exists()  # so that the mended command runs


def test_label_studio_gets_tasks_and_gives_annotations_back(run, tmp_path):
    shutil.copytree(run[0], tmp_path, dirs_exist_ok=True)
    run_ok(["labels", "run", "--review", "3", "--review-out", "tasks.json"], cwd=tmp_path)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    first, _, last = tasks
    (predicted,) = first["predictions"]
    row = labels_of(tmp_path).row(int(first["data"]["row"]) - 1, named=True)
    assert predicted["result"][0]["value"] == {"choices": [row["label"]]}
    assert first["data"].keys() >= {"row", "confidence", "plan", "calls"}
    for task, label in ((first, "yes"), (last, "no")):  # as the interface would
        value = {"value": {"choices": [label]}, "from_name": "label", "type": "choices"}
        task["annotations"] = [{"result": [value]}, {"was_cancelled": True, "result": []}]
    tasks[1]["annotations"] = []
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    run_ok(["labels", "run", "--corrections", "export.json"], cwd=tmp_path)
    log = (tmp_path / "run" / "annotations.jsonl").read_text()
    taken = [json.loads(line) for line in log.splitlines()]
    expected = {str(first["data"]["row"]): "yes", str(last["data"]["row"]): "no"}
    assert {one["id"]: one["label"] for one in taken} == expected
    run_ok(["audit", "run", "--rows", "4", "--out", "audit.json"], cwd=tmp_path)
    audited = json.loads((tmp_path / "audit.json").read_text())
    assert len(audited) == 4 and not any("predictions" in task for task in audited)
    (tmp_path / "export.json").write_text('[{"data": {}}]')
    message = refused(["labels", "run", "--corrections", "export.json"], cwd=tmp_path)
    assert "export.json" in message and "Label Studio" in message
