"""A table through the command: what goes in is a CSV file, what comes out are files."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.system.command import labelgrad, run_ok

ROWS, LABELED = 160, 40
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
    output = run_ok(
        ["fit", "customers.csv", "--target", "stays", "--out", "run", *FAST], cwd=folder
    )
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


def test_the_labels_are_mostly_right(run):
    folder, truth, _ = run
    table = labels_of(folder)
    right = [a == b for a, b in zip(table["label"], truth, strict=True)]
    assert np.mean(right[LABELED:]) > 0.8


def test_the_terminal_begins_with_the_answer_and_has_the_leaderboard(run):
    _, _, output = run
    assert "linear" in output
    assert "ensemble" in output
    assert "student" in output
    assert "report.html" in output
    assert "labels.csv" in output
    assert "id" in output  # the column that is left out, with a note


def test_the_report_loads_nothing_and_names_the_models(run):
    page = (run[0] / "run" / "report.html").read_text()
    assert "extra trees" in page
    assert "Leaderboard" in page
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)


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


def test_predict_gives_probabilities_that_add_up_to_one(run):
    folder, _, _ = run
    run_ok(["predict", "run", "customers.csv", "--out", "predictions.csv"], cwd=folder)
    found = pl.read_csv(folder / "predictions.csv")
    assert len(found) == ROWS
    assert np.allclose(found["yes"] + found["no"], 1, atol=1e-3)
    again = labels_of(folder).filter(pl.col("source") == "imputed")
    assert found["prediction"].to_list()[LABELED:] == again["prediction"].to_list()


def test_a_second_fit_into_the_folder_is_refused_with_what_to_do(run):
    folder, _, _ = run
    done = labelgrad(["fit", "customers.csv", "--target", "stays", "--out", "run"], cwd=folder)
    assert done.returncode == 1
    assert "--resume" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_same_seed_gives_the_same_bytes(run, tmp_path):
    folder, _, _ = run
    options = ["--target", "stays", "--out", str(tmp_path / "again"), *FAST]
    run_ok(["fit", "customers.csv", *options], cwd=folder)
    for name in ("labels.csv", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / "run" / name).read_bytes()


def test_the_printed_command_after_corrections_trains_again_with_them(run, tmp_path):
    folder, truth, _ = run
    out = tmp_path / "corrected"
    run_ok(["fit", "customers.csv", "--target", "stays", "--out", str(out), *FAST], cwd=folder)
    corrections = tmp_path / "corrections.csv"
    rows = range(LABELED + 1, LABELED + 6)
    lines = [f"{row},{truth[row - 1]}\n" for row in rows]
    corrections.write_text("row,label\n" + "".join(lines))
    output = run_ok(["labels", str(out), "--corrections", str(corrections)], cwd=folder)
    (command,) = re.findall(r"labelgrad (fit --resume --out \S+)", output)
    run_ok(command.split(), cwd=folder)
    table = pl.read_csv(out / "labels.csv", infer_schema=False)
    assert table["source"].to_list()[LABELED : LABELED + 5] == ["corrected"] * 5
    assert table["label"].to_list()[LABELED : LABELED + 5] == truth[LABELED : LABELED + 5]


def test_an_audit_gives_labels_with_a_guarantee(run, tmp_path):
    folder, truth, _ = run
    out = tmp_path / "audited"
    run_ok(["fit", "customers.csv", "--target", "stays", "--out", str(out), *FAST], cwd=folder)
    done = labelgrad(["labels", str(out), "--max-error-rate", "30%"], cwd=folder)
    assert done.returncode == 1
    assert "audit" in done.stderr
    audit = tmp_path / "audit.csv"
    run_ok(["audit", str(out), "--rows", "60", "--out", str(audit)], cwd=folder)
    drawn = pl.read_csv(audit, infer_schema=False)
    assert len(drawn) == 60
    assert drawn["row"].n_unique() == 60
    assert "prediction" not in drawn.columns
    filled = [truth[int(row) - 1] for row in drawn["row"]]
    drawn.with_columns(label=pl.Series(filled)).write_csv(audit)
    run_ok(["audit", str(out), "--filled", str(audit)], cwd=folder)
    good = tmp_path / "good.csv"
    run_ok(["labels", str(out), "--max-error-rate", "30%", "--out", str(good)], cwd=folder)
    selected = pl.read_csv(good, infer_schema=False)
    wrong = [
        label != truth[int(row) - 1]
        for row, label in zip(selected["row"], selected["label"], strict=True)
    ]
    assert len(selected) > 30
    assert np.mean(wrong) <= 0.3
    run_ok(["prevalence", str(out)], cwd=folder)


def test_results_can_be_read_as_json(run):
    about = json.loads((run[0] / "run" / "result.json").read_text())
    assert about["about"]["labeled"] == LABELED
    assert {"linear", "ensemble", "student"} <= {
        row["name"] for row in about["evaluation"]["scores"]
    }


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["fit", "missing.csv", "--target", "a"], "missing.csv"),
        (["fit", "customers.csv", "--target", "nothing"], "nothing"),
        (["fit", "customers.csv", "--target", "stays", "--base-models", "lineer"], "linear"),
        (["predict", "nowhere", "customers.csv"], "nowhere"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(run, tmp_path, arguments, named):
    if arguments[0] == "fit":
        arguments = [*arguments, "--out", str(tmp_path / "new")]
    done = labelgrad(arguments, cwd=run[0])
    assert done.returncode == 1
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not Path(tmp_path / "new" / "labels.csv").exists()
