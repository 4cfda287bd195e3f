"""The estimators keep scikit-learn's contract, and learn from rows without labels."""

import pickle

import numpy as np
import pandas
import polars
import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from labelgrad import LGAClassifier, LGALinearClassifier, LGARegressor
from tests.unit.estimator_checks import EXPECTED, check, iris


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y has no unlabeled row")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
def test_scikit_learns_checks_pass():
    assert check(LGAClassifier(steps=40, learning_rate=1e-2, calibrate=False)) == set(EXPECTED)
    assert check(LGARegressor(steps=40, learning_rate=1e-2)) == set()


@pytest.fixture(scope="module")
def fitted():
    X, y, partly = iris()
    return LGAClassifier(steps=100, learning_rate=3e-3, random_state=0).fit(X, partly), X, y, partly


def test_every_row_has_a_label_and_a_distribution(fitted):
    model, _, y, partly = fitted
    assert model.transduction_.shape == y.shape
    assert model.label_distributions_.shape == (len(y), 3)
    np.testing.assert_allclose(model.label_distributions_.sum(1), 1, atol=1e-6)
    labeled = partly != -1
    np.testing.assert_array_equal(model.transduction_[labeled], y[labeled])
    np.testing.assert_array_equal(model.label_distributions_[labeled], np.eye(3)[y[labeled]])
    assert (model.transduction_ == y).mean() > 0.8


def test_attributes_are_scikit_learns(fitted):
    model, X, _, _ = fitted
    assert model.n_features_in_ == 4
    assert model.classes_.tolist() == [0, 1, 2]
    assert len(model.history_) == 100
    assert {"step", "loss", "lga/loss", "lga/gap", "lga/cosine"} <= set(model.history_[0])
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    np.testing.assert_array_equal(model.predict_proba(X).argmax(1), model.predict(X))


def test_same_number_same_result_and_the_world_is_left_alone():
    X, _, partly = iris()
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    one, two = (LGAClassifier(steps=10, random_state=3).fit(X, partly) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    other = LGAClassifier(steps=10, random_state=4).fit(X, partly)
    assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_lives_in_a_pipeline_and_a_grid_search():
    X, _, partly = iris(every=3)
    pipeline = make_pipeline(StandardScaler(), LGAClassifier(steps=10, random_state=0))
    grid = {"lgaclassifier__label_rate": [0.02, 0.1]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, partly)
    assert search.best_params_["lgaclassifier__label_rate"] in (0.02, 0.1)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


NETWORK = LGAClassifier(steps=100, learning_rate=5e-3, random_state=0)


@pytest.mark.parametrize("model", [NETWORK, LGALinearClassifier()])
def test_weights_are_of_labels_and_relative(model):
    X, y, partly = iris(every=5)
    labeled = partly != -1
    wrong = labeled & (np.arange(len(y)) % 2 == 0)
    misled = np.where(wrong, (y + 1) % 3, partly)
    weights = np.where(labeled, np.where(wrong, 0.0, 2.0), 7.0)
    assert model.fit(X, misled).score(X, y) < 0.8 < model.fit(X, misled, weights).score(X, y)
    equal = model.fit(X, partly, np.where(labeled, 3.0, 7.0)).predict_proba(X)
    np.testing.assert_array_equal(equal, model.fit(X, partly).predict_proba(X))


def test_score_leaves_unlabeled_rows_out(fitted):
    model, X, y, _ = fitted
    half = np.where(np.arange(len(y)) % 2 == 0, y, -1)
    assert model.score(X, half) == model.score(X[::2], y[::2])


def test_values_come_back_in_their_own_units():
    X, y = load_diabetes(return_X_y=True)
    partly = np.where(np.arange(len(y)) % 7 == 0, y, np.nan)
    model = LGARegressor(steps=150, learning_rate=5e-3, random_state=0).fit(X, partly)
    labeled = ~np.isnan(partly)
    np.testing.assert_array_equal(model.transduction_[labeled], y[labeled])
    assert np.isfinite(model.transduction_).all()
    assert model.score(X, y) > 0.3
    scaled = LGARegressor(steps=150, learning_rate=5e-3, random_state=0).fit(X, 1000 * partly + 5)
    np.testing.assert_allclose(scaled.predict(X), 1000 * model.predict(X) + 5, rtol=0.05, atol=1e4)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 16, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)
        return self.head(x.flatten(1))


@pytest.mark.parametrize("as_function", [False, True])
def test_a_network_of_ones_own_takes_pictures_and_is_left_as_it_was(as_function):
    X, y = load_digits(return_X_y=True)
    X = X.reshape(-1, 1, 8, 8)[:500] / 16
    partly = np.where(np.arange(500) < 100, y[:500], -1)
    torch.manual_seed(0)
    module = Pictures()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = LGAClassifier(
        module=Pictures if as_function else module, steps=100, learning_rate=5e-3, random_state=0
    )
    model.fit(X, partly)
    assert model.score(X[100:], y[100:500]) > 0.6
    assert model.predict_proba(X[:3]).shape == (3, 10)
    for name, value in module.state_dict().items():
        assert torch.equal(before[name], value)
    pickle.loads(pickle.dumps(model)).predict(X[:2])


def test_no_unlabeled_row_trains_supervised_and_says_so():
    X, y, _ = iris()
    with pytest.warns(UserWarning, match="no unlabeled row"):
        model = LGAClassifier(steps=80, learning_rate=5e-3, random_state=0).fit(X, y)
    assert "lga/loss" not in model.history_[0]
    np.testing.assert_array_equal(model.transduction_, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: y.fill(-1), "needs a labeled row, got 150 marked unlabeled"),
        (lambda X, y: y.__setitem__(y != -1, 1), "needs two classes or more, got one class: 1"),
    ],
)
def test_bad_data_is_named_before_training(change, message):
    X, _, partly = iris()
    change(X, partly)
    with pytest.raises(ValueError, match=message):
        LGAClassifier().fit(X, partly)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "`steps`.* must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size"),
        ({"learning_rate": -1e-3}, "`learning_rate` must be .* at least 0, got -0.001"),
        ({"label_rate": -0.1}, "`rate` must be a finite number of at least 0, got -0.1"),
        ({"label_rate": "fast"}, "`rate` must be .* got fast"),
        ({"hidden": (0,)}, "at least one unit"),
        ({"module": nn.Linear(4, 7)}, "`module` must give 3 outputs .* got \\(1, 7\\)"),
    ],
)
def test_bad_settings_are_named_before_training(settings, message):
    X, _, partly = iris()
    with pytest.raises(ValueError, match=message):
        LGAClassifier(**settings).fit(X, partly)


@pytest.mark.parametrize("library", [pandas, polars])
def test_data_frames_of_numbers_and_series_with_gaps(library):
    X, y, partly = iris()
    X[::9, 2] = np.nan
    frame = library.DataFrame(dict(zip("abcd", X.T, strict=True)))
    words = np.array(["cat", "dog", "eel"])[y]
    named = [word if known >= 0 else None for word, known in zip(words, partly, strict=True)]
    model = LGAClassifier(steps=60, learning_rate=5e-3, random_state=0).fit(
        frame, library.Series(named)
    )
    assert model.classes_.tolist() == ["cat", "dog", "eel"]
    assert model.score(frame, words) > 0.8
    by_array = LGAClassifier(steps=60, learning_rate=5e-3, random_state=0).fit(X, partly)
    np.testing.assert_allclose(by_array.predict_proba(X), model.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename({"a": "z"}) if library is polars else frame.add_prefix("z"))
    values = library.Series([row / 9 if row < 45 else None for row in range(150)])
    assert np.isfinite(LGARegressor(steps=50).fit(frame, values).transduction_).all()


def test_a_series_of_texts_may_have_minus_one_where_there_is_none():
    X, y, partly = iris()
    words = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    named = np.where(partly == -1, np.array(-1, dtype=object), words)
    by_array = LGAClassifier(steps=20, random_state=0).fit(X, named)
    by_series = LGAClassifier(steps=20, random_state=0).fit(X, pandas.Series(named))
    assert by_series.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    np.testing.assert_array_equal(by_series.predict_proba(X), by_array.predict_proba(X))
    assert by_series.score(X, pandas.Series(named)) == by_array.score(X, named)
    whole = LGAClassifier(steps=2).fit(X, pandas.Series(partly.astype(np.int32)))
    assert whole.classes_.dtype == np.int32


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(["cat", "dog", "cat", -1]), "must not hold the text '-1'"),
        (np.array([0, 1, 0, 255], dtype=np.uint8), "got 255 in uint8, which -1 becomes"),
        (np.array(["cat", 1, "cat", -1], dtype=object), "labels of one type"),
    ],
)
def test_targets_in_which_unlabeled_has_become_a_class_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        LGAClassifier(steps=1).fit(np.arange(8.0).reshape(4, 2), y)


def test_what_may_mean_no_label_is_asked_about_and_an_empty_text_does():
    X = np.random.default_rng(0).normal(size=(12, 2))
    y = np.array(["cat", "dog"] * 2 + ["unknown"] * 7 + [""])
    with pytest.raises(ValueError, match="'unknown' in 7 of 11 labels; write None there"):
        LGAClassifier(steps=2).fit(X, y)
    y[4:] = ""
    model = LGAClassifier(steps=2, random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["cat", "dog"]
    assert set(model.transduction_) <= {"cat", "dog"}
