"""The tabular bench: the same rows for all, one way to score, and the leaderboard."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import gmean, rankdata

from experiments.tabular.bench import bench_trial
from experiments.tabular.data import (
    SETS,
    VALUES,
    Draw,
    Rows,
    Sources,
    set_names,
    split,
)
from experiments.tabular.leaderboard import Leaderboard, page, show
from experiments.tabular.methods import (
    BASELINES,
    FITS,
    fits_for,
    undisturbed,
)
from experiments.tabular.tabpfn import TabPFN, Transformer
from labelgrad import StackedClassifier
from tests.experiments.command import experiment, one_sentence

MODELS = ["linear", "lga-evidence"]


def blobs(*, rows=150, classes=3, known=24, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % classes
    x = rng.normal(size=(rows, 3)) + 3 * np.eye(classes, 3)[y]
    return Rows(x, y, np.arange(rows) < known, x, y)


def tables(folder):
    """Two tables: one of classes with texts and gaps, one of values."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    pets = ["weight,fur,target"]
    for row in range(80):
        weight = "" if row % 9 == 0 else f"{rng.normal(5 + 5 * (row % 2)):.2f}"
        fur = "long" if rng.random() < 0.5 else "short"
        pets.append(f"{weight},{fur},{['cat', 'dog'][row % 2]}")
    x = rng.normal(size=(120, 3)) * [1, 10, 100]
    houses = ["size,age,far,target", *(f"{a:.3f},{b:.3f},{c:.3f},{a - b:.3f}" for a, b, c in x)]
    (folder / "pets.csv").write_text("\n".join(pets))
    (folder / "houses.csv").write_text("\n".join(houses))
    return Sources(tables=folder)


# Methods


@pytest.mark.parametrize("name", [name for name in fits_for("classification") if name in BASELINES])
@pytest.mark.parametrize("rarest", [1, 8])
def test_a_baseline_learns_easy_classes(name, rarest):
    rows = blobs()
    if rarest == 1:
        rows.given[(rows.y == 2) & (np.arange(150) >= 3)] = False
    with undisturbed():
        (found,) = FITS[name](rows, 0)
    np.testing.assert_allclose(found.test.sum(1), 1)
    assert np.mean(found.test.argmax(1) == rows.y) > (0.8 if rarest > 1 else 0.5)
    assert len(found.unlabeled) == (~rows.given).sum()


@pytest.mark.parametrize("name", [name for name in fits_for("regression") if name in BASELINES])
def test_a_baseline_of_regression_ignores_the_unit(name):
    x = np.random.default_rng(0).normal(size=(80, 2))
    given, found = np.arange(80) < 40, []
    for unit in (1, 1024):  # a power of 2, which rounds alike
        with undisturbed():
            found.append(FITS[name](Rows(x, unit * x.sum(1), given, x, x.sum(1)), 0)[0].test)
    assert np.mean((found[0] - x.sum(1)) ** 2) < 0.3 * x.sum(1).var()
    np.testing.assert_allclose(found[1], 1024 * found[0])


# Data


@pytest.mark.parametrize("name", ["wine", "iris", "digits-30", "digits-100", "diabetes"])
@pytest.mark.parametrize("at_random", [False, True])
def test_a_split_has_the_labels_that_were_asked_for(name, at_random):
    found = [split(name, Sources(), Draw(5, at_random), seed) for seed in (0, 0, 1)]
    for array in ("x", "y", "given", "x_test", "y_test"):
        assert (getattr(found[0], array) == getattr(found[1], array)).all(), "same seed, same split"
    assert (found[0].given != found[2].given).any()
    rows = found[0]
    own = SETS[name][1] if name.startswith("digits") else None
    assert rows.given.sum() == (VALUES if rows.classes is None else own or 5 * rows.classes)
    assert len(rows.y_test) == pytest.approx(0.25 * (len(rows.y) + len(rows.y_test)), abs=3)
    if rows.classes and not at_random:
        assert len(set(np.bincount(rows.y[rows.given]))) == 1, "even by class"
    if rows.classes:
        assert len(np.unique(rows.y[rows.given])) > 1


def test_a_table_is_a_data_set_with_numbers_of_unit_variance(tmp_path):
    sources = tables(tmp_path / "mine")
    assert set_names(sources)[-2:] == ("houses", "pets")
    houses, pets = (split(name, sources, Draw(4), seed=0) for name in ("houses", "pets"))
    assert (houses.classes, houses.given.sum()) == (None, 50)
    assert (pets.classes, pets.given.sum()) == (2, 8)
    np.testing.assert_allclose(np.concatenate([houses.x, houses.x_test]).std(0), 1)
    whole = np.concatenate([pets.x, pets.x_test])
    assert whole.shape[1] == 4  # the weight, two kinds of fur, whether the weight is missing
    assert set(np.unique(whole[:, 1:])) == {0, 1}
    with pytest.raises(ValueError, match="must hold numbers for regression"):
        split("pets", Sources(tables=sources.tables, regressions=("pets",)), Draw(), seed=0)


# Scores


def test_a_trial_is_repeatable_and_scored_as_by_hand():
    trial = {"seed": 0, "draw": Draw(), "sources": Sources()}
    (line,), (again,) = (bench_trial("wine", "random-forest", **trial) for _ in range(2))
    assert line | {"seconds": 0} == again | {"seconds": 0}
    rows = split("wine", Sources(), Draw(), 0)
    (found,) = FITS["random-forest"](rows, 0)
    test, others = (np.maximum(part, 1e-4) for part in (found.test, found.unlabeled))
    losses = [-np.log(p[y] / p.sum()) for p, y in zip(test, rows.y_test, strict=True)]
    assert line["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    confident = [
        (p.argmax(), y)
        for p, y in zip(others, rows.y[~rows.given], strict=True)
        if p.max() / p.sum() > 0.9
    ]
    assert line["sure"] == len(confident)
    assert line["sure_right"] == sum(a == b for a, b in confident)


def test_a_method_that_fails_keeps_a_line_that_says_why(monkeypatch):
    def refuse(rows, seed):
        raise ValueError("too few labels\nand more")

    monkeypatch.setitem(FITS, "svm", refuse)
    (line,) = bench_trial("wine", "svm", seed=0, draw=Draw(), sources=Sources())
    assert line["why"] == "too few labels"
    assert "error" not in line


# The leaderboard

METHODS = ["random-forest", "svm", "self-training", "lga"]  # as in the registry


def made_up():
    """Four data sets, three seeds; svm fails once on the second."""
    rng, lines = np.random.default_rng(0), []
    for data in "abcd":
        for method in METHODS:
            for seed in range(3):
                line = {"data": data, "method": method, "seed": seed, "task": "classification"}
                line |= {"test_rows": 50, "labels": 30, "classes": 3, "seconds": 1.0}
                found = {"error": round(rng.random(), 2), "loss": rng.random() + 0.01}
                found |= {"sure": 30, "sure_right": int(rng.integers(20, 31))}
                failed = (method, data, seed) == ("svm", "b", 1)
                lines.append(line | ({"why": "it could not"} if failed else found))
    return lines


def test_the_leaderboard_is_that_of_a_slow_computation():
    lines = made_up()
    board = Leaderboard(lines, "classification")
    losses, errors = np.full((4, 4), np.inf), np.full((4, 4), np.inf)
    for i, data in enumerate("abcd"):
        for j, method in enumerate(METHODS):
            mine = [x for x in lines if x["data"] == data and x["method"] == method]
            if not any("why" in x for x in mine):
                losses[i, j] = np.mean([x["loss"] for x in mine])
                errors[i, j] = np.mean([x["error"] for x in mine])
    found = board.standings.loc[METHODS]
    places = np.mean([rankdata(row) for row in losses], axis=0)
    assert found.loss_rank.tolist() == pytest.approx(places.tolist())
    assert list(board.standings.loss_rank) == sorted(places)
    level = losses[:, :3].min(1, keepdims=True)
    shifted = (errors + 0.01) / (errors[:, :3].min(1, keepdims=True) + 0.01)
    for j, method in enumerate(METHODS):
        one, there = found.loc[method], np.isfinite(losses[:, j])
        assert one.loss_ratio == pytest.approx(gmean((losses / level)[there, j]))
        assert one.error_ratio == pytest.approx(gmean(shifted[there, j]))
        assert one.failed == (~there).sum()
        behind = (losses[:, j] > 1.05 * losses[:, :2].min(1)) & there
        assert one.clearly_behind == behind.sum()
    mine = [x for x in lines if (x["data"], x["method"]) == ("a", "lga")]
    share = sum(x["sure_right"] for x in mine) / sum(x["sure"] for x in mine)
    assert board.confident()[1].loc["a", "lga"] == share
    won, lost = board.won_and_lost("loss", "lga", "svm")
    assert board.won_and_lost("loss", "svm", "lga") == (lost, won)
    assert won + lost == 4


def test_a_data_set_counts_with_the_seeds_that_all_methods_have():
    lines = made_up()
    without = [x for x in lines if (x["data"], x["method"]) != ("c", "lga")]
    assert list(Leaderboard(without, "classification").means("loss").index) == ["a", "b", "d"]
    late = [x for x in lines if (x["method"], x["seed"]) != ("lga", 2)]
    by_two = [x for x in lines if x["seed"] < 2]
    found = [Leaderboard(some, "classification").means("loss") for some in (late, by_two)]
    assert found[0].equals(found[1])


def test_the_page_has_every_data_set_and_the_figures_are_drawn(tmp_path, capsys):
    lines = made_up()
    found = page(lines, "python -m experiments.tabular bench --seeds 3")
    assert "    python -m experiments.tabular bench --seeds 3\n" in found
    assert found.count("\n| b | 30 |") == 2
    assert "- b, support vectors, seed 1: it could not" in found
    show(lines, tmp_path, "test")
    assert "LGA" in capsys.readouterr().out
    assert {path.name for path in tmp_path.glob("*.png")} == {
        f"leaderboard-classification-{what}.png" for what in ("loss", "error")
    }


# The commands


def lines_in(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_the_bench_continues_and_refuses_another_draw(tmp_path):
    tables(tmp_path / "mine")
    order = ["bench", "--sets", "wine,pets,houses", "--tables", "mine", "--labels", 20]
    order += ["--methods", "logistic-regression,svm,ridge", "--workers", "1", "--out", "here"]
    said = experiment(*order, "--seeds", 1, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "support vectors" in said.stdout
    found = {(line["data"], line["method"]) for line in lines_in(tmp_path / "here")}
    assert found == {
        *((data, name) for data in ("wine", "pets") for name in ("logistic-regression", "svm")),
        *(("houses", "ridge"), ("houses", "svm")),
    }
    assert (tmp_path / "here/leaderboard.md").exists()
    again = experiment(*order, "--seeds", 1, cwd=tmp_path)
    assert "done" not in again.stdout
    other = experiment(*order, "--labels", 30, cwd=tmp_path)
    assert "holds results with labels = 20" in one_sentence(other)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sets", "wein"], "did you mean 'wine'?"),
        (["--methods", "random-forrest"], "did you mean 'random-forest'?"),
        (["--tables", "nowhere"], "--tables must be a folder of CSV files"),
        (["--regression", "wine"], "--regression must be one of"),
    ],
)
def test_bad_input_is_one_sentence(arguments, said, tmp_path):
    assert said in one_sentence(experiment("bench", *arguments, cwd=tmp_path))


def test_label_rules_continue_and_refuse_other_steps(tmp_path):
    order = ["label-rules", "--sets", "wine", "--seeds", 1, "--steps", 3, "--out", "here"]
    order += ["--workers", 1]
    said = experiment(*order, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "Evidence with 3 times its scale" in said.stdout
    lines = lines_in(tmp_path / "here")
    assert len(lines) == 7
    (tmp_path / "here/results.jsonl").write_text(json.dumps(lines[0]) + "\n")
    assert experiment(*order, cwd=tmp_path).returncode == 0
    assert lines_in(tmp_path / "here")[0] == lines[0]
    assert len(lines_in(tmp_path / "here")) == 7
    assert "holds results with steps = 3" in experiment(*order, "--steps", 4, cwd=tmp_path).stderr


def test_one_fit_of_the_ensemble_gives_three_methods(monkeypatch):
    monkeypatch.setattr(
        "labelgrad.auto.estimators.StackedClassifier", partial(StackedClassifier, MODELS, steps=5)
    )
    lines = bench_trial("wine", "pool", seed=0, draw=Draw(), sources=Sources())
    assert [line["method"] for line in lines] == ["pool", "student", "pool-without-lga"]
    assert not [line for line in lines if "why" in line]
    assert set(lines[0]["weights"]) == set(MODELS)
    assert lines[0]["loss"] != pytest.approx(lines[1]["loss"], abs=1e-3)


def test_tabpfn_predicts_each_row_from_the_labeled_rows_alone(tmp_path):
    torch.manual_seed(0)
    weights = {f"module.{name}": value for name, value in Transformer().state_dict().items()}
    torch.save((weights,), tmp_path / "weights")
    rows = blobs(rows=40)
    model = TabPFN(str(tmp_path / "weights")).fit(rows.x[:20], rows.y[:20])
    found = model.predict_proba(rows.x[20:])
    assert np.allclose(found.sum(1), 1)
    assert np.allclose(model.predict_proba(rows.x[25:27]), found[5:7], atol=1e-6)
    other = TabPFN(str(tmp_path / "weights")).fit(rows.x[:20], rows.y[:20][::-1])
    assert not np.allclose(other.predict_proba(rows.x[20:]), found, atol=1e-3)
