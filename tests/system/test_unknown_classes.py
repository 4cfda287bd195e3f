"""Classes that nobody labeled: confident labels stay right, and otherwise nothing changes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits, make_blobs

import labelgrad
from labelgrad.auto.class_prior import probability_known
from labelgrad.auto.queue import review_list

QUICK = {"base_models": "linear,extra trees", "steps": 20}


def digits_without(missing: int, seed: int = 0):
    """Ten labels of each digit but the last ones."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    given = np.full(len(y), -1)
    for one in range(10 - missing):
        rows = rng.permutation(np.flatnonzero(y == one))[:10]
        given[rows] = one
    return X, y, given


def confident(result, y):
    """How many imputed labels are above 0.9, and which share of them is wrong."""
    rows = result.labels.with_row_index("place").filter(pl.col("confidence") > 0.9)
    wrong = rows["label"].cast(pl.String).cast(pl.Int64).to_numpy() != y[rows["place"].to_numpy()]
    return len(rows), float(wrong.mean())


def test_confident_labels_are_right_although_four_classes_have_no_label():
    X, y, given = digits_without(4)
    result = labelgrad.fit(X, given, **QUICK)
    number, wrong = confident(result, y)
    assert number > 300
    assert wrong <= 0.05
    blind = result.labels.with_columns(
        pl.col("confidence") / (1 - pl.col("unknown_probability")).cast(pl.Float64)
    )
    assert confident(type("Run", (), {"labels": blind}), y)[1] > 0.1  # what it would have been
    assert any("look like no labeled class" in note for note in result.about.notes)
    first = review_list(result, 20)
    assert first["reason"].str.contains("looks like no labeled class").sum() >= 15
    places = first["row"].cast(pl.Int64).to_numpy() - 1
    assert (y[places] >= 6).mean() > 0.8


def test_nothing_changes_where_every_class_is_labeled():
    X, _, given = digits_without(0)
    result = labelgrad.fit(X, given, **QUICK)
    imputed = result.labels.filter(pl.col("source") == "imputed")
    assert imputed["unknown_probability"].max() == 0
    assert not any("no labeled class" in note for note in result.about.notes)
    score = imputed["ood_score"]
    assert score.null_count() == 0 and 0.5 < score.median() < 1.5


def test_values_have_a_score_and_no_unknown_class():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) < 30, X @ [1.0, 2.0, 0.0], np.nan)
    labels = labelgrad.fit(X, y, **QUICK).labels
    assert labels["ood_score"].null_count() == 30
    assert labels["unknown_probability"].null_count() == 60


@pytest.mark.parametrize("unknown", [0.0, 0.3, 0.6])
def test_probabilities_of_known_classes_are_calibrated(unknown):
    X, y = make_blobs(3000, 4, centers=6, cluster_std=1.5, random_state=1)
    rng = np.random.default_rng(0)
    is_unknown = (y >= 3) & (rng.random(3000) < unknown / (1 - unknown))
    keep = (y < 3) | is_unknown
    X, is_unknown = X[keep], is_unknown[keep]
    labeled = rng.permutation(np.flatnonzero(~is_unknown))[:100]
    apart = np.linalg.norm(X[:, None] - X[labeled], axis=2)
    own = np.sort(apart[labeled], 1)[:, 1]
    rest = np.setdiff1d(np.arange(len(X)), labeled)
    known = probability_known(own, apart[rest].min(1), np.ones(100))
    assert known.mean() == pytest.approx((~is_unknown[rest]).mean(), abs=0.12)
    if not unknown:
        assert known.min() > 0.5


def test_false_alarms_are_rare():
    """Distances of one distribution: an example looks unknown in at most 5 % of draws."""
    rng = np.random.default_rng(0)
    known = [
        probability_known(rng.gamma(3, size=50), rng.gamma(3, size=500), np.ones(50))
        for _ in range(400)
    ]
    assert np.mean([(each < 0.5).any() for each in known]) <= 0.05
    assert min(each.min() for each in known) > 0  # labels never rule out that a class reaches far
