"""Groups: labels of one person, device or copied example are held out together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import labelgrad
from labelgrad.auto.cross_fit import make_folds
from labelgrad.auto.guarantee import guaranteed_labels
from labelgrad.auto.task import Classification, Regression
from tests.command import run_ok

QUICK = {"base_models": "linear,extra trees", "steps": 20}
FEW = {"base_models": "linear,neighbours", "steps": 5}


def voices(persons: int = 24, each: int = 8, seed: int = 0) -> pl.DataFrame:
    """Recordings that tell who speaks, and little of what the class of a person is."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), each)
    own = rng.normal(size=(persons, 6))[person]
    X = own + 0.05 * rng.normal(size=(len(person), 6))
    kind = np.where(rng.random(persons) < 0.5, "ill", "well")[person]
    columns = {f"x{i}": X[:, i] for i in range(6)}
    return pl.DataFrame({**columns, "person": [f"p{i}" for i in person], "kind": kind})


def partly(table: pl.DataFrame, persons: int = 12) -> pl.DataFrame:
    """The table with labels of the first persons only."""
    is_labeled = table["person"].is_in([f"p{i}" for i in range(persons)])
    return table.with_columns(pl.when(is_labeled).then("kind").alias("kind"))


def test_a_stated_error_is_that_of_new_groups_only_if_groups_are_known() -> None:
    table = voices()
    given = partly(table)
    blind = labelgrad.fit(given.drop("person"), target="kind", **QUICK)
    aware = labelgrad.fit(given, target="kind", groups="person", **QUICK)
    truth = table["kind"]
    rows = given["kind"].is_null().arg_true()
    errors = [
        (result.labels["label"].cast(pl.String) != truth)[rows].mean() for result in (blind, aware)
    ]
    stated = [result.evaluation.score("ensemble").error for result in (blind, aware)]
    assert errors[0] > 0.3  # a coin, for somebody who was never heard
    assert stated[0].high < 0.2
    assert stated[1].low <= errors[1] <= stated[1].high


def test_the_column_of_groups_is_no_feature(tmp_path: Path) -> None:
    partly(voices()).write_csv(tmp_path / "voices.csv")
    run = tmp_path / "run"
    table, models = tmp_path / "voices.csv", ["--base-models", "linear", "--steps", "20"]
    options = ["--target", "kind", "--groups", "person", *models, "--out", str(run)]
    run_ok(["fit", str(table), *options], cwd=tmp_path)
    result = labelgrad.load(run)
    names = [column.name for column in result.predictor.preprocessor.columns]
    assert names == [f"x{i}" for i in range(6)]
    new = voices(seed=1).drop("person", "kind")
    assert len(result.predict(new)) == len(new)


def test_random_labels_of_groups_give_no_guarantee_and_an_audit_does(tmp_path: Path) -> None:
    given = partly(voices())
    options = {"label_sampling": "random", "target": "kind", **FEW}
    result = labelgrad.fit(given, groups="person", out=tmp_path / "run", **options)
    with pytest.raises(ValueError, match="labels of one group are alike; draw an audit"):
        guaranteed_labels(result, 0.2)


def test_groups_of_images_and_texts_are_in_the_labels_file(tmp_path: Path) -> None:
    lines = ["file,label,author"]
    for i in range(16):
        (tmp_path / f"{i}.txt").write_text(f"{'rain and wind' if i % 2 else 'sun and heat'} {i}")
        lines += [f"{i}.txt,{'bad' if i % 2 else 'good'},{'anna' if i < 6 else i}"] * (i < 12)
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    result = labelgrad.fit(tmp_path, groups="author", encoder="none", **FEW)
    held_out = result.held_out
    name = result.labels["file"]
    by_anna = [
        fold
        for row, fold in zip(held_out.rows, held_out.fold, strict=True)
        if int(name[int(row)].removesuffix(".txt")) < 6
    ]
    assert len(set(by_anna)) == 1 and len(set(held_out.fold)) > 1
    (tmp_path / "labels.csv").write_text("file,label\n0.txt,good\n1.txt,bad\n")
    with pytest.raises(ValueError, match="must have the columns file and author"):
        labelgrad.fit(tmp_path, groups="author", encoder="none", **FEW)


def test_groups_in_python_are_one_for_each_example() -> None:
    table = voices()
    X, y = table.drop("person", "kind").to_numpy(), partly(table)["kind"].to_list()
    by_name = labelgrad.fit(partly(table), target="kind", groups="person", **FEW)
    given = labelgrad.fit(X, y, groups=table["person"], **FEW)
    np.testing.assert_array_equal(by_name.held_out.rows, given.held_out.rows)
    with pytest.raises(ValueError, match="a group for each example"):
        labelgrad.fit(X, y, groups=["a", "b"], **FEW)
    with pytest.raises(ValueError, match="did you mean 'person'"):
        labelgrad.fit(partly(table), target="kind", groups="persom", **FEW)


@pytest.mark.parametrize("seed", range(20))
def test_folds_keep_groups_whole_and_classes_in_every_training(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, classes = int(rng.integers(1, 60)), int(rng.integers(2, 5))
    groups = np.unique(rng.integers(rng.integers(1, 20), size=labels), return_inverse=True)[1]
    y = rng.integers(classes, size=labels)
    task = Classification(tuple("abcde"[:classes]))
    folds = make_folds(y, task, seed, groups)
    assert len(np.unique(folds.rows)) == len(folds.rows)
    for fold in range(len(folds)):
        rows = folds.held_out(fold)
        assert len(rows)
        rest = np.setdiff1d(np.arange(labels), rows)
        assert not set(groups[rows]) & set(groups[rest])
        assert set(y[rest]) == set(y)
    values = make_folds(rng.normal(size=labels), Regression(), seed, groups)
    for fold in range(len(values)):
        rows = values.held_out(fold)
        assert not set(groups[rows]) & set(groups) - set(groups[rows])


def test_copies_are_held_out_together_and_said() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = np.where(np.arange(80) < 40, rng.integers(2, size=80), -1)  # nothing to learn
    X[20:40], y[20:40] = X[:20] + 1e-4, y[:20]
    result = labelgrad.fit(X, y, base_models="extra trees", steps=20)
    assert any("40 labeled examples are near duplicates" in n for n in result.about.notes)
    fold = dict(zip(result.held_out.rows.tolist(), result.held_out.fold.tolist(), strict=True))
    assert all(fold[row] == fold[row + 20] for row in range(20))
    assert result.evaluation.score("extra trees").error.value > 0.25


def test_rows_of_few_different_values_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(80, 3)).astype(float)
    y = np.where(np.arange(80) < 40, X[:, 0] > 0, -1)
    result = labelgrad.fit(X, y, base_models="linear", steps=20)
    assert not any("near duplicates" in note for note in result.about.notes)
    assert len(result.held_out.rows) == 40
