"""The pooled estimators keep scikit-learn's contract, and are what `labelgrad.fit` does."""

import pickle

import numpy as np
import pandas
import polars
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

import labelgrad
from labelgrad.estimators.pooled import PooledClassifier, PooledRegressor
from labelgrad.fitting.pooling import NETWORK
from labelgrad.witnesses import models

LGA = NETWORK + "lga-evidence"


@pytest.fixture(autouse=True, scope="module")
def few_strengths():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "STRENGTHS", np.ones(1))
        yield


@pytest.mark.filterwarnings("ignore:y has no unlabeled row")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [PooledClassifier("linear", steps=5), PooledRegressor("linear", steps=5)],
    expected_failed_checks=lambda _: {
        "check_classifiers_classes": "uses -1 as a class, which here means a row without a label"
    },
)
def test_scikit_learns_checks_hold(estimator, check):
    check(estimator)


def iris(every=10):
    X, y = load_iris(return_X_y=True)
    return X, y, np.where(np.arange(len(y)) % every == 0, y, -1)


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:120], y[:120]
    return X, y, np.where(np.arange(120) % 3 == 0, y, np.nan)


def classifier(**settings):
    return PooledClassifier("linear", **({"steps": 30, "random_state": 0} | settings))


def regressor(**settings):
    return PooledRegressor("linear", **({"steps": 30, "random_state": 0} | settings))


@pytest.fixture(scope="module")
def fitted(few_strengths):
    X, _, partly = iris()
    return classifier().fit(X, partly)


@pytest.fixture(scope="module")
def fitted_values(few_strengths):
    X, _, partly = diabetes()
    return regressor().fit(X, partly)


# What they give


def test_every_row_has_a_label_and_a_distribution(fitted):
    _, y, partly = iris()
    labeled = partly != -1
    np.testing.assert_allclose(fitted.label_distributions_.sum(1), 1)
    np.testing.assert_array_equal(fitted.label_distributions_[labeled], np.eye(3)[y[labeled]])
    np.testing.assert_array_equal(fitted.transduction_[labeled], y[labeled])
    assert (fitted.transduction_ == y).mean() > 0.85
    assert (fitted.label_distributions_[~labeled] < 1).all()


def test_every_witness_has_a_weight(fitted):
    assert list(fitted.weights_) == ["linear", NETWORK + "supervised", LGA]
    assert all(weight >= 0 for weight in fitted.weights_.values())
    assert sum(fitted.weights_.values()) > 0.5


def test_values_come_back_in_their_own_units(fitted_values):
    X, y, partly = diabetes()
    known = ~np.isnan(partly)
    np.testing.assert_array_equal(fitted_values.transduction_[known], y[known])
    assert fitted_values.spread_[known].max() == 0
    assert 5 < fitted_values.spread_[~known].mean() < 100
    assert fitted_values.score(X[~known], y[~known]) > 0.1
    np.testing.assert_allclose(
        fitted_values.predict(X[~known]), fitted_values.transduction_[~known], rtol=1e-3
    )


def test_rows_that_were_fitted_are_predicted_as_they_were_imputed(fitted):
    X, _, partly = iris()
    said = fitted.predict_proba(X)[partly == -1]
    np.testing.assert_allclose(said, fitted.label_distributions_[partly == -1], atol=1e-5)


def test_score_leaves_unlabeled_rows_out(fitted, fitted_values):
    X, y, _ = iris()
    assert fitted.score(X, np.where(np.arange(150) % 2, -1, y)) == fitted.score(X[::2], y[::2])
    X, y, _ = diabetes()
    half = np.where(np.arange(120) % 2, np.nan, y)
    assert fitted_values.score(X, half) == fitted_values.score(X[::2], y[::2])


# The pool without some, and the student


def test_without_a_witness_the_others_are_weighed_anew(fitted):
    X, _, partly = iris()
    other = fitted.without("linear")
    assert list(other.weights_) == [NETWORK + "supervised", LGA]
    assert "linear" in fitted.weights_
    assert not np.allclose(other.predict_proba(X), fitted.predict_proba(X))
    said = other.predict_proba(X)[partly == -1]
    np.testing.assert_allclose(other.label_distributions_[partly == -1], said, atol=1e-5)
    alone = fitted.without("linear", LGA)
    assert list(alone.weights_) == [NETWORK + "supervised"]


def test_without_a_witness_values_are_imputed_anew(fitted_values):
    before = fitted_values.transduction_.copy()
    other = fitted_values.without(LGA, NETWORK + "supervised")
    assert not np.allclose(other.transduction_, before)
    np.testing.assert_array_equal(fitted_values.transduction_, before)


def test_without_all_or_without_a_stranger_is_refused(fitted):
    with pytest.raises(ValueError, match="nobody is left"):
        fitted.without(*fitted.weights_)
    with pytest.raises(ValueError, match=r"can do without some of 'linear', .* no 'forest'\."):
        fitted.without("forest")


def test_the_student_is_the_same_model_predicting_by_its_network(fitted):
    X, y, _ = iris()
    student = fitted.student_
    assert student.predictor == "student"
    assert fitted.predictor == "pool"
    said = student.predict_proba(X)
    np.testing.assert_allclose(said.sum(1), 1)
    assert not np.allclose(said, fitted.predict_proba(X))
    asked = classifier(predictor="student").fit(X, iris()[2])
    np.testing.assert_array_equal(asked.predict_proba(X), said)
    with torch.no_grad():
        logits = fitted.module_(fitted._prepare(X).double()) / fitted.temperature_
    np.testing.assert_allclose(logits.softmax(1).numpy(), said)
    assert (student.predict(X) == y).mean() > 0.5


def test_what_was_not_fitted_has_no_student_and_no_fewer_witnesses():
    for ask in (lambda m: m.student_, lambda m: m.without("linear"), lambda m: m.predict([[1.0]])):
        with pytest.raises(NotFittedError):
            ask(classifier())


# The same again


@pytest.mark.parametrize("values", [False, True])
def test_pickled_and_cloned(fitted, fitted_values, values):
    model, X = (fitted_values, diabetes()[0]) if values else (fitted, iris()[0])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.student_.predict(X), model.student_.predict(X))
    if not values:
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params() == model.get_params()


def test_a_pool_of_every_kind_of_witness_can_be_pickled(monkeypatch):
    monkeypatch.setattr(models, "TREES", 5)
    X, _, partly = iris()
    names = "neighbours,random forest,extra trees,self-training,label spreading,kernel"
    model = PooledClassifier(names, estimators={"nb": GaussianNB()}, steps=5, random_state=0)
    model.fit(X, partly)
    assert not [note for note in model.notes_ if "left out" in note]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert "nb" in model.weights_


def test_the_same_number_gives_the_same_model_and_the_world_is_left_alone(fitted):
    X, _, partly = iris()
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    again = classifier().fit(X, partly)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    other = classifier(random_state=1).fit(X, partly)
    assert not np.array_equal(other.predict_proba(X), fitted.predict_proba(X))


def test_the_classifier_is_what_fit_does(fitted):
    X, _, partly = iris()
    result = labelgrad.fit(X, partly, steps=30, witnesses="linear", seed=0)
    assert result.pooled.pool.weights == fitted.weights_
    assert [label.name for label in result.labels] == [
        str(row) for row in np.flatnonzero(partly == -1)
    ]
    mine = fitted.label_distributions_[partly == -1]
    theirs = [label.label_probability for label in result.labels]
    np.testing.assert_allclose(theirs, mine.max(1), rtol=1e-14)
    said = [int(label.label) for label in result.labels]
    np.testing.assert_array_equal(said, fitted.transduction_[partly == -1])
    theirs = result.predictor.model.state_dict()
    for name, tensor in fitted.module_.state_dict().items():
        assert torch.equal(tensor, theirs[name].double())
    assert result.predictor.config.temperature == fitted.temperature_


def test_the_regressor_is_what_fit_does(fitted_values):
    X, _, partly = diabetes()
    result = labelgrad.fit(X, partly, steps=30, witnesses="linear", seed=0)
    assert result.pooled.pool.weights == fitted_values.weights_
    found = [label.label for label in result.labels]
    np.testing.assert_array_equal(found, fitted_values.transduction_[np.isnan(partly)])
    theirs = result.predictor.model.state_dict()
    for name, tensor in fitted_values.module_.state_dict().items():
        assert torch.equal(tensor, theirs[name].double())


# What they take


def test_classes_may_be_words(fitted):
    X, y, partly = iris()
    words = np.array(["setosa", "versicolor", "virginica"], dtype=object)
    model = classifier().fit(X, np.where(partly == -1, np.array(-1, dtype=object), words[y]))
    assert model.classes_.tolist() == words.tolist()
    np.testing.assert_array_equal(model.transduction_, words[fitted.transduction_])
    np.testing.assert_array_equal(model.predict(X), words[fitted.predict(X)])


@pytest.mark.parametrize("library", [pandas, polars])
def test_data_frames_are_taken_with_their_words(library):
    X, _, partly = iris()
    frame = library.DataFrame({f"c{at}": column for at, column in enumerate(X.T)})
    words = {"colour": ["red" if row % 2 else "blue" for row in range(150)]}
    with_words = library.DataFrame({name: frame[name] for name in frame.columns} | words)
    model = classifier(steps=10).fit(with_words, partly)
    assert model.predict(with_words).shape == (150,)
    assert model.feature_names_in_.tolist() == ["c0", "c1", "c2", "c3", "colour"]


def test_shares_are_given_by_the_classes_themselves():
    X, _, partly = iris()
    shares = {0: 0.8, 1: 0.1, 2: 0.1}
    model = classifier(steps=10, shares=shares).fit(X, partly)
    np.testing.assert_allclose(model.pooled_.pool.shares, [0.8, 0.1, 0.1])
    assert model.notes_ == []  # nobody needs to be told what they said
    np.testing.assert_allclose(model.without("linear").pooled_.pool.shares, [0.8, 0.1, 0.1])
    usual = classifier(steps=10).fit(X, partly)
    assert model.label_distributions_[:, 0].mean() > usual.label_distributions_[:, 0].mean()


@pytest.mark.parametrize(
    "shares",
    [
        {0: 0.5, 1: 0.5},
        {0: 1, 1: 1, 2: 0},
        {0: 1, 1: 1, 2: -1},
        {"a": 1, "b": 1, "c": 1},
        {0: 1, 1: 1, 2: float("inf")},
        {0: 1, 1: 1, 2: float("nan")},
        {0: 1, 1: 1, 2: "much"},
    ],
)
def test_shares_of_wrong_classes_or_of_none_are_refused(shares):
    X, _, partly = iris()
    with pytest.raises(ValueError, match="a number above 0 for each of the classes '0', '1', '2'"):
        classifier(steps=1, shares=shares).fit(X, partly)
    named = {str(name): share for name, share in shares.items()}
    with pytest.raises(ValueError, match="a number above 0 for each of the classes '0', '1', '2'"):
        labelgrad.fit(X, partly, steps=1, shares=named)


def test_values_have_no_shares():
    X, _, partly = diabetes()
    with pytest.raises(ValueError, match="`shares` are of classes, and the data have values"):
        labelgrad.fit(X, partly, steps=1, shares={"1": 1.0})


@pytest.mark.filterwarnings("ignore:y has no unlabeled row")
def test_given_shares_count_where_every_row_has_a_label():
    X, y, _ = iris()
    model = classifier(steps=5, shares={0: 0.8, 1: 0.1, 2: 0.1}).fit(X, y)
    np.testing.assert_allclose(model.pooled_.pool.shares, [0.8, 0.1, 0.1])


def test_one_label_of_a_class_is_enough():
    X, y, _ = iris()
    partly = np.full(150, -1)
    partly[[0, 60, 120]] = y[[0, 60, 120]]
    model = classifier().fit(X, partly)
    assert model.weights_ == {"linear": 0.5, NETWORK + "supervised": 0.0, LGA: 0.5}
    assert (model.transduction_ == y).mean() > 0.7
    partly[1:10] = 0
    model = classifier(steps=10).fit(X, partly)
    np.testing.assert_allclose(model.label_distributions_.sum(1), 1)


@pytest.mark.parametrize("labels", [1, 2, 3, 5])
def test_few_values_are_enough(labels):
    X, y, _ = diabetes()
    partly = np.where(np.arange(120) < labels, y, np.nan)
    assert np.isfinite(regressor(steps=5).fit(X, partly).predict(X)).all()


def test_values_that_are_all_the_same_are_learned():
    X, _, _ = diabetes()
    model = regressor(steps=30).fit(X, np.where(np.arange(120) < 20, 3.0, np.nan))
    np.testing.assert_allclose(model.predict(X), 3.0, atol=0.05)


def test_where_every_row_has_a_label_no_student_is_needed():
    X, y, _ = iris()
    with pytest.warns(UserWarning, match="y has no unlabeled row"):
        model = classifier().fit(X, y)
    np.testing.assert_array_equal(model.transduction_, y)
    assert list(model.weights_) == ["linear", NETWORK + "supervised"]
    assert (model.predict(X) == y).mean() > 0.8
    assert (model.student_.predict(X) == y).mean() > 0.6
    X, y, _ = diabetes()
    with pytest.warns(UserWarning, match="y has no unlabeled row"):
        values = regressor().fit(X, y)
    np.testing.assert_array_equal(values.transduction_, y)
    assert np.isfinite(values.student_.predict(X)).all()


def test_a_predictor_that_is_none_is_refused():
    X, _, partly = iris()
    with pytest.raises(ValueError, match="`predictor` must be pool or student, got 'both'"):
        classifier(predictor="both").fit(X, partly)


def test_witnesses_may_be_a_list_or_none_at_all():
    X, _, partly = iris()
    listed = PooledClassifier(["linear", "neighbours"], steps=5, random_state=0).fit(X, partly)
    assert list(listed.weights_)[:2] == ["linear", "neighbours"]
    alone = PooledClassifier("", steps=5, random_state=0).fit(X, partly)
    assert list(alone.weights_) == [NETWORK + "supervised", LGA]


def test_a_model_of_ones_own_that_fails_is_told_in_the_notes():
    class Failing(GaussianNB):
        def fit(self, X, y):
            raise RuntimeError("out of paper")

    X, _, partly = iris()
    model = classifier(steps=5, estimators={"printer": Failing()}).fit(X, partly)
    assert model.notes_ == ["The witness 'printer' is left out: out of paper."]
    assert "printer" not in model.weights_


def test_that_nobody_knows_anything_is_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.where(np.arange(120) < 60, rng.permutation(120) % 2, -1)
    (note,) = classifier(steps=60).fit(X, y).notes_
    assert note == (
        "Of hidden labels the witnesses know no more than the classes' frequencies: do not rely on "
        "the labels."
    )
    values = np.where(np.arange(120) < 60, rng.normal(size=120), np.nan)
    (note,) = regressor(steps=60).fit(X, values).notes_
    assert "no more than the mean of all values" in note


def test_even_labels_of_uneven_rows_are_corrected_and_told():
    rng = np.random.default_rng(0)
    truth = np.arange(400) % 10 == 0
    X = rng.normal(size=(400, 2)) + 6 * truth[:, None]
    labeled = [*np.flatnonzero(truth)[:20], *np.flatnonzero(~truth)[:20]]
    y = np.full(400, -1)
    y[labeled] = truth[labeled]
    model = classifier(steps=100).fit(X, y)
    assert model.pooled_.pool.shares[1] < 0.25
    (note,) = model.notes_
    assert "as many labels of each class, but not as many rows" in note
    wrong = (model.transduction_ != truth).mean()
    assert wrong < 0.02
    weights = model.pooled_.importance[: len(model.pooled_.case.hidden)]
    hidden = y[model.pooled_.case.hidden]
    assert weights[hidden == 0].mean() > 1 > weights[hidden == 1].mean()
