"""What is measured by hand still runs."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_small_tables_prints_a_row_for_each_set():
    options = ("--seeds", "2", "--steps", "2", "--sets", "wine", "diabetes")
    command = [sys.executable, str(BENCHMARKS / "small_tables.py"), *options]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in said.splitlines()[2:]] == ["wine", "diabetes"]
    assert all(len(line.replace("±", " ").split()) == 11 for line in said.splitlines()[2:])


def test_plain_methods_prints_a_row_for_each_set_and_method():
    options = ("--seeds", "2", "--sets", "digits-50", "wine", "diabetes")
    command = [sys.executable, str(BENCHMARKS / "plain_methods.py"), *options]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [tuple(line.split()[:2]) for line in said.splitlines()[1:]] == [
        ("digits-50", "logistic_regression"),
        ("digits-50", "label_spreading"),
        ("wine", "logistic_regression"),
        ("diabetes", "ridge"),
    ]


def test_stacked_prints_a_row_for_each_method():
    command = [sys.executable, str(BENCHMARKS / "stacked.py"), "--rounds", "1", "--many", "2"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in said.splitlines()[1:]]
    assert names == ["supervised", "lga-evidence", "lga"]
