"""The demo: a line for each method, a table, two sentences, a figure."""

import pytest

from experiments.tabular.demo import TITLES, conclusion, results_table
from tests.experiments.command import experiment, one_sentence
from tests.experiments.test_bench import lines_in


def lines(**values):
    """Two splits of every method; those that are not named have 0.5 on both."""
    every = dict.fromkeys(TITLES, (0.5, 0.5)) | values
    counts = {"unlabeled": 100, "right": 80, "sure": 50, "sure_right": 50, "seconds": 2}
    return [
        {"seed": seed, "method": name, "error": value[seed], "loss": value[seed]} | counts
        for name, value in every.items()
        for seed in (0, 1)
    ]


def test_the_table_has_a_dash_where_no_label_is_confident():
    found = lines(pool=(0.1, 0.3))
    none = {"sure": 0, "sure_right": 0}
    rows = results_table([x | none if x["method"] == "student" else x for x in found])
    assert "20.0 ± 14.1" in rows
    assert "| – |" in next(row for row in rows.splitlines() if row.startswith("| student"))


def test_the_sentence_names_the_best_whichever_it_is():
    ours = conclusion(lines(student=(0.1, 0.2), **{"label-spreading-knn": (0.3, 0.1)}), "error")
    assert ours.startswith("Lowest error: student, 15.0 %; the best of scikit-learn is label spr")
    theirs = conclusion(lines(pool=(0.3, 0.3), **{"logistic-regression": (0.2, 0.2)}), "loss")
    assert theirs.endswith("logistic regression, 0.20; the best of ours is ensemble, 0.30.")


@pytest.mark.slow
def test_the_demo_fits_draws_and_does_not_fit_again(tmp_path):
    order = ("demo", "--seeds", 1, "--labels", 10, "--steps", 5, "--workers", 1, "--out", "out")
    said = experiment(*order, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    for word in ("error %", "label spreading", "LGA network", "student", "Lowest loss"):
        assert word in said.stdout
    assert (tmp_path / "out" / "digits.png").stat().st_size > 10_000
    found = lines_in(tmp_path / "out" / "10-labels-5-steps")
    assert [line["method"] for line in found] == list(TITLES)
    networks = [x["loss"] for x in found if x["method"] not in ("pool", "logistic-regression")]
    assert len(set(networks)) == 4
    again = experiment(*order, cwd=tmp_path)
    assert "done" not in again.stdout
    assert lines_in(tmp_path / "out" / "10-labels-5-steps") == found


def test_a_bad_count_of_labels_is_one_sentence():
    said = one_sentence(experiment("demo", "--labels", 55))
    assert said == "error: `labels` must be a multiple of 10 from 10 to 1000, got 55."
