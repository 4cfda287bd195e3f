"""The demo: one trial of all its methods, the table, the sentences, the picture."""

import io

import numpy as np
import pytest
from rich.console import Console

from labelgrad import PooledClassifier
from labelgrad.bench.digits import TITLES, DigitsTrial, at_unit_variance, rows_of
from labelgrad.bench.digits_figure import draw_digits
from labelgrad.bench.peer_trial import partly
from labelgrad.cli.demo import conclusion, results_table
from labelgrad.datasets.digits import digits

FEW = {"network_steps": 5, "witnesses": "linear"}
KEYS = {"error", "loss", "unlabeled", "right", "sure", "sure_right", "seconds", "seed", "method"}


@pytest.fixture(scope="module")
def trial():
    trial = DigitsTrial(seed=0, labels=20, **FEW)
    assert [record["step"] for record in trial] == [0, trial.steps]
    return trial


def line(method, seed, value, *, sure=50):
    judged = {"error": value, "loss": value, "unlabeled": 100, "right": 80}
    return (
        {"seed": seed, "method": method, "sure": sure, "sure_right": sure} | judged | {"seconds": 2}
    )


def lines(**values):
    """Two splits of every method; those that are not named have 0.5 on both."""
    every = dict.fromkeys(TITLES, (0.5, 0.5)) | values
    return [line(method, seed, every[method][seed]) for method in TITLES for seed in (0, 1)]


def printed(table):
    console = Console(file=io.StringIO(), width=80)
    console.print(table)
    return console.file.getvalue()


def test_a_trial_has_a_line_for_each_method(trial):
    assert [line["method"] for line in trial.history] == list(TITLES)
    for line in trial.history:
        assert set(line) == KEYS
        assert 0 <= line["sure_right"] <= line["sure"] <= line["unlabeled"] == 1427
        assert 0 <= line["error"] <= 1
        assert line["right"] <= line["unlabeled"]


def test_a_network_alone_is_not_the_pool(trial):
    found = {line["method"]: line["loss"] for line in trial.history}
    assert len({found["supervised"], found["lga-evidence"], found["pool"], found["student"]}) == 4


def test_the_pool_is_made_of_what_each_witness_says(trial):
    model, new = trial.model, trial.rows.x_test[:7]
    each = model.predict_proba_by_each(new)
    assert list(each) == list(model.weights_)
    for said in each.values():
        np.testing.assert_allclose(said.sum(1), 1)
    together = model.pooled_.pool.combined({name: np.log(said) for name, said in each.items()})
    np.testing.assert_allclose(model.predict_proba(new), np.exp(together), rtol=1e-6)


def test_the_trial_fits_the_classifier_as_anybody_would(trial):
    rows = trial.rows
    model = PooledClassifier("linear", steps=5, random_state=0).fit(rows.x, partly(rows))
    wrong = (model.predict(rows.x_test) != rows.y_test).mean()
    assert trial.history[-2]["error"] == pytest.approx(wrong, abs=1e-5)


def test_others_get_the_pixels_on_one_scale():
    rows = rows_of(digits(labels=50, seed=0))
    spread = rows.x_test.std(0)
    lit = spread > 0
    ratio = at_unit_variance(rows).x_test.std(0)[lit] / spread[lit]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)


def test_the_table_fits_80_columns_and_has_a_dash_where_nothing_is_sure():
    found = lines(pool=(0.1, 0.3))
    found = [
        line | {"sure": 0, "sure_right": 0} if line["method"] == "student" else line
        for line in found
    ]
    said = printed(results_table(found))
    assert "…" not in said
    assert "20.0 ± 14.1" in said
    assert "–" in next(row for row in said.splitlines() if row.startswith("student"))


def test_the_sentence_says_who_is_ahead_whoever_it_is():
    ours = conclusion(lines(student=(0.1, 0.2), **{"label-spreading-knn": (0.3, 0.1)}), "error")
    assert ours == (
        "The student has the lowest error, 15.0 %; the best of scikit-learn, label spreading, has "
        "20.0 % and is ahead on 1 of 2 splits."
    )
    theirs = conclusion(lines(pool=(0.3, 0.3), **{"logistic-regression": (0.2, 0.2)}), "loss")
    assert theirs == (
        "Logistic regression has the lowest loss, 0.20; the best of ours, the pool, has 0.30 and "
        "is ahead on none of 2 splits."
    )


def test_the_picture_names_every_method(tmp_path):
    png, svg = draw_digits(lines(pool=(0.1, 0.2)), 50, tmp_path)
    assert png.stat().st_size > 10_000
    drawn = svg.read_text()
    assert all(f"<!-- {title} -->" in drawn for title in TITLES.values())
