"""The estimators keep scikit-learn's contract, and learn from rows without labels."""

import pickle
from datetime import date, timedelta

import numpy as np
import pandas
import polars
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

import labelgrad
from labelgrad import LGAClassifier, LGARegressor
from labelgrad.fitting.cross_validation import CrossValidation
from labelgrad.fitting.plan import make_plan
from labelgrad.inputs.kinds import read

MINUS_ONE_IS_A_CLASS = {
    "check_classifiers_classes": "uses -1 as a class, which here means a row without a label"
}


def check(estimator):
    results = check_estimator(estimator, expected_failed_checks=MINUS_ONE_IS_A_CLASS, on_fail=None)
    failed = [r for r in results if r["status"] == "failed"]
    assert not failed, failed
    return {r["check_name"] for r in results if r["status"] == "xfail"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y has no unlabeled row")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
def test_classifier_passes_scikit_learns_checks():
    assert check(LGAClassifier(steps=100, learning_rate=3e-3)) == set(MINUS_ONE_IS_A_CLASS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y has no unlabeled row")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_regressor_passes_scikit_learns_checks():
    assert check(LGARegressor(steps=100, learning_rate=3e-3)) == set()


def iris(every=10, seed=0):
    X, y = load_iris(return_X_y=True)
    labeled = np.random.default_rng(seed).permutation(len(y)) % every == 0
    return X, y, np.where(labeled, y, -1)


@pytest.fixture(scope="module")
def fitted():
    X, y, partly = iris()
    return LGAClassifier(steps=300, random_state=0).fit(X, partly), X, y, partly


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
    assert len(model.history_) == 300
    assert {"step", "loss", "lga/loss", "lga/gap", "lga/cosine"} <= set(model.history_[0])
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    np.testing.assert_array_equal(model.predict_proba(X).argmax(1), model.predict(X))


def test_same_number_same_result_and_the_world_is_left_alone():
    X, _, partly = iris()
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    one, two = (LGAClassifier(steps=50, random_state=3).fit(X, partly) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    other = LGAClassifier(steps=50, random_state=4).fit(X, partly)
    assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_pickled_and_cloned(fitted):
    model, X, _, _ = fitted
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_lives_in_a_pipeline_and_a_grid_search():
    X, _, partly = iris(every=3)
    pipeline = make_pipeline(StandardScaler(), LGAClassifier(steps=60, random_state=0))
    grid = {"lgaclassifier__label_rate": [0.02, 0.1]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, partly)
    assert search.best_params_["lgaclassifier__label_rate"] in (0.02, 0.1)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_regressor_lives_in_a_grid_search_with_gaps_in_y():
    X, y = load_diabetes(return_X_y=True)
    partly = np.where(np.arange(len(y)) % 3 == 0, y, np.nan)
    search = GridSearchCV(LGARegressor(steps=60), {"learning_rate": [1e-3, 3e-3]}, cv=2)
    search.fit(X, partly)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_score_leaves_unlabeled_rows_out(fitted):
    model, X, y, _ = fitted
    half = np.where(np.arange(len(y)) % 2 == 0, y, -1)
    assert model.score(X, half) == model.score(X[::2], y[::2])


def test_classes_may_be_words():
    X, y, partly = iris()
    words = np.array(["setosa", "versicolor", "virginica"], dtype=object)
    named = np.where(partly == -1, np.array(-1, dtype=object), words[y])
    model = LGAClassifier(steps=100, random_state=0).fit(X, named)
    assert set(model.predict(X)) <= set(words)
    assert set(model.transduction_) <= set(words)


def test_values_come_back_in_their_own_units():
    X, y = load_diabetes(return_X_y=True)
    partly = np.where(np.arange(len(y)) % 7 == 0, y, np.nan)
    model = LGARegressor(steps=600, random_state=0).fit(X, partly)
    labeled = ~np.isnan(partly)
    np.testing.assert_array_equal(model.transduction_[labeled], y[labeled])
    assert np.isfinite(model.transduction_).all()
    assert model.score(X, y) > 0.3
    scaled = LGARegressor(steps=600, random_state=0).fit(X, 1000 * partly + 5)
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
        module=Pictures if as_function else module, steps=200, learning_rate=3e-3, random_state=0
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
        model = LGAClassifier(steps=300, learning_rate=1e-3, random_state=0).fit(X, y)
    assert "lga/loss" not in model.history_[0]
    np.testing.assert_array_equal(model.transduction_, y)
    assert model.score(X, y) > 0.9


def test_columns_that_share_a_range_share_a_scale():
    X, y = load_digits(return_X_y=True)
    pixels = LGAClassifier(steps=1).fit(X, np.where(np.arange(len(y)) < 50, y, -1))
    assert len(set(pixels.preprocessing_["scale"])) == 1
    X, y = load_wine(return_X_y=True)
    columns = LGAClassifier(steps=1).fit(X, np.where(np.arange(len(y)) % 5 == 0, y, -1))
    scale = np.array(columns.preprocessing_["scale"])
    np.testing.assert_allclose(scale / scale[0], X.std(0) / X[:, 0].std())


def test_rows_have_a_common_length_however_many_columns_there_are():
    for load in (load_iris, load_wine, load_digits):
        X, y = load(return_X_y=True)
        model = LGAClassifier(steps=1).fit(X, np.where(np.arange(len(y)) % 5 == 0, y, -1))
        lengths = model._prepare(X).square().sum(1)
        assert lengths.mean().sqrt().item() == pytest.approx(3.0, rel=0.05)


def bad(change):
    X, _, partly = iris()
    X, partly = X.copy(), partly.copy()
    change(X, partly)
    return X, partly


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: X.__setitem__((3, 1), np.inf), "Input X contains infinity"),
        (lambda X, y: y.fill(-1), "at least one labeled row, got none: all 150 are marked"),
        (lambda X, y: y.__setitem__(y != -1, 1), "at least two classes, got one class: 1"),
    ],
)
def test_bad_data_is_named_before_training(change, message):
    with pytest.raises(ValueError, match=message):
        LGAClassifier().fit(*bad(change))


def test_lengths_must_match():
    X, _, partly = iris()
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[150, 149\]"):
        LGAClassifier().fit(X, partly[:-1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "`steps` must be at least 1, got 0"),
        ({"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
        (
            {"learning_rate": -1e-3},
            "`learning_rate` must be .* at least 0, got -0.001",
        ),
        ({"label_rate": -0.1}, "`label_rate` must be a finite number of at least 0, got -0.1"),
        ({"label_rate": "fast"}, "`label_rate` must be .* got 'fast'"),
        ({"hidden": (0,)}, "at least one unit"),
        ({"module": nn.Linear(4, 7)}, "`module` must give 3 outputs .* got the shape \\(1, 7\\)"),
    ],
)
def test_bad_settings_are_named_before_training(settings, message):
    X, _, partly = iris()
    with pytest.raises(ValueError, match=message):
        LGAClassifier(**settings).fit(X, partly)


@pytest.mark.parametrize("label", [np.nan, np.inf])
def test_a_class_that_is_no_number_is_named(label):
    X, y, _ = iris()
    with pytest.raises(ValueError, match="Input y contains"):
        LGAClassifier().fit(X, np.where(y == 1, label, y))


def test_a_value_that_is_infinite_is_named():
    with pytest.raises(ValueError, match="Input y contains infinity"):
        LGARegressor().fit(np.zeros((3, 2)), [1.0, np.inf, np.nan])


def weights(module):
    return [value.double() for value in module.state_dict().values()]


@pytest.mark.parametrize("task", ["classes", "values"])
def test_the_command_and_the_estimator_are_one_product(task):
    """The same rows, seed and settings: equal weights through either door."""
    if task == "classes":
        X, y = load_digits(return_X_y=True)
        partly = np.where(np.arange(len(y)) < 60, y, -1)
        model = LGAClassifier(steps=150, random_state=3)
    else:
        X, y = load_diabetes(return_X_y=True)
        partly = np.where(np.arange(len(y)) < 60, y, np.nan)
        model = LGARegressor(random_state=3)
    model.fit(X, partly)
    dataset = read(X, partly)
    steps = 150 if task == "classes" else None
    trained = CrossValidation(dataset, make_plan(dataset, steps=steps, seed=3))
    for _ in trained.records():
        pass
    fitted = trained.trainer("lga-evidence")
    assert fitted.index == len(model.history_)
    for one, two in zip(weights(model.module_), weights(fitted.model), strict=True):
        assert torch.equal(one, two)
    imputed = trained.label_table("lga-evidence").labels()
    if task == "classes":
        found = model.label_distributions_[partly == -1]
    else:
        imputed = trained.in_units(imputed[:, 0])
        found = model.transduction_[np.isnan(partly)]
    np.testing.assert_allclose(found, imputed.numpy(), rtol=1e-12)


def mixed_frame(library, rows=90, first="size"):
    """Numbers, whole ones with gaps, categories, yes and no, dates, and a column of nothing new."""
    random = np.random.default_rng(0)
    size, kind = random.normal(size=rows), np.arange(rows) % 3
    legs = [None if row % 7 == 0 else int(2 + 2 * (row % 3)) for row in range(rows)]
    columns = {
        first: (size + 2 * kind).tolist(),
        "legs": legs,
        "colour": [["red", "blue", None][row % 3] if row % 5 else "red" for row in range(rows)],
        "tame": [None if row % 11 == 0 else bool(row % 2) for row in range(rows)],
        "born": [date(2020, 1, 1) + timedelta(days=10 * row) for row in range(rows)],
        "planet": ["earth"] * rows,
    }
    if library == "polars":
        return polars.DataFrame(columns), kind
    frame = pandas.DataFrame(columns)
    types = {"legs": "Int64", "tame": "boolean", "colour": "category"}
    return frame.astype(types).assign(born=pandas.to_datetime(frame["born"])), kind


@pytest.mark.filterwarnings("ignore:Left out")
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_with_columns_of_every_kind(library):
    X, kind = mixed_frame(library)
    words = np.array(["cat", "dog", "eel"])[kind]
    partly = [word if row < 45 else None for row, word in enumerate(words)]
    y = (pandas if library == "pandas" else polars).Series(partly)
    model = LGAClassifier(steps=400, random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["cat", "dog", "eel"]
    assert model.score(X, words) > 0.8
    assert (model.transduction_[:45] == words[:45]).all()
    again = LGAClassifier(steps=400, random_state=0).fit(X, np.where(np.arange(90) < 45, kind, -1))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    values = pandas.array([row / 9 if row < 45 else None for row in range(90)], dtype="Float64")
    regressor = LGARegressor(steps=50).fit(X, pandas.Series(values))
    assert np.isfinite(regressor.predict(X)).all()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(mixed_frame(library, first="weight")[0])


@pytest.mark.filterwarnings("ignore:Left out")
def test_the_two_libraries_give_the_same_and_so_does_fit():
    y = np.where(np.arange(90) < 45, np.arange(90) % 3, -1)
    pairs = [mixed_frame(library)[0] for library in ("pandas", "polars")]
    found = [LGAClassifier(steps=30, random_state=1).fit(X, y).predict_proba(X) for X in pairs]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-6)
    result = labelgrad.fit(pairs[0], y, steps=30, seed=1, method="lga-evidence")
    assert len(result.predict(pairs[1])) == 90


def test_a_table_of_numbers_may_come_as_frame_or_array_and_have_gaps():
    X, _, partly = iris()
    X = X.copy()
    X[::9, 2] = np.nan
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = LGAClassifier(steps=100, random_state=0).fit(frame, partly)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        by_place = model.predict_proba(X)
    np.testing.assert_array_equal(by_place, model.predict_proba(frame))


def test_the_device_is_passed_on_and_a_strange_one_is_an_error():
    X, _, partly = iris()
    assert LGAClassifier(steps=2, device="cpu").fit(X, partly).predict(X).shape == (150,)
    with pytest.raises(ValueError, match="`device` must be one PyTorch has here"):
        LGAClassifier(steps=2, device="nowhere").fit(X, partly)


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


def test_a_frame_without_names_of_text_and_an_array_are_the_same():
    X, _, partly = iris()
    model = LGAClassifier(steps=20, random_state=0).fit(pandas.DataFrame(X), partly)
    np.testing.assert_array_equal(model.predict(X), model.predict(pandas.DataFrame(X)))


def test_a_column_that_counts_is_data_in_a_frame_and_what_is_left_out_is_said():
    y = np.where(np.arange(60) < 20, np.arange(60) / 7, np.nan)
    counting = pandas.DataFrame({"t": np.arange(60)})
    found = LGARegressor(steps=20, random_state=0).fit(counting, y).predict(counting)
    array = LGARegressor(steps=20, random_state=0).fit(counting.to_numpy(), y)
    np.testing.assert_allclose(found, array.predict(counting.to_numpy()), atol=1e-6)
    with pytest.warns(UserWarning, match=r"Left out \(always the same\): 'planet'"):
        LGARegressor(steps=2).fit(counting.assign(planet="earth"), y)
