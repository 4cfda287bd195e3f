"""The stacked estimators keep scikit-learn's contract, and agree with `labelgrad.fit`."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from labelgrad import StackedClassifier, StackedRegressor
from tests.unit.auto.small_fit import small_fit
from tests.unit.estimator_checks import check, iris

FEW = "linear,neighbours"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y has no unlabeled row")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
def test_scikit_learns_checks_pass():
    assert check(StackedClassifier("logistic regression")) == {"check_classifiers_classes"}
    assert check(StackedRegressor("linear")) == set()


@pytest.fixture(scope="module")
def fitted():
    X, y, partly = iris()
    model = StackedClassifier("linear,neighbours,extra trees", random_state=0)
    return model.fit(X, partly), X, y, partly


def test_every_row_has_a_label_and_a_distribution(fitted):
    model, X, y, partly = fitted
    np.testing.assert_allclose(model.label_distributions_.sum(1), 1, atol=1e-6)
    labeled = partly != -1
    np.testing.assert_array_equal(model.transduction_[labeled], y[labeled])
    assert (model.transduction_ == y).mean() > 0.85
    assert model.score(X, y) > 0.85
    np.testing.assert_array_equal(model.predict_proba(X).argmax(1), model.predict(X))
    assert set(model.predict_proba_by_model(X)) == set(model.weights_)


def test_it_is_what_fit_does(fitted):
    model, X, _, partly = fitted
    result = small_fit(X, partly, base_models="linear,neighbours,extra trees", seed=0)
    assert result.ensemble.weights == pytest.approx(model.weights_)
    found = result.predict(X, ensemble=True).probabilities
    np.testing.assert_allclose(model.predict_proba(X), found, atol=1e-9)


def test_base_models_can_be_left_out_afterwards(fitted):
    model, X, y, _ = fitted
    fewer = model.without("linear")
    assert list(fewer.weights_) == ["neighbours", "extra trees"]
    assert fewer.score(X, y) > 0.8
    assert "linear" in model.weights_
    with pytest.raises(ValueError, match="must be some, not all, of the base models"):
        model.without("nobody")


def test_the_student_predicts_on_request():
    X, y, partly = iris()
    model = StackedClassifier(FEW, predictor="student", steps=100, random_state=0).fit(X, partly)
    assert model.score(X, y) > 0.8
    ensemble = StackedClassifier(FEW, random_state=0).fit(X, partly)
    assert not np.array_equal(model.predict_proba(X), ensemble.predict_proba(X))
    with pytest.raises(ValueError, match="`predictor` must be ensemble or student, got 'both'"):
        StackedClassifier(predictor="both").fit(X, partly)


def test_pickled_cloned_and_searched(fitted):
    model, X, _, _ = fitted
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params() == model.get_params()
    grid = {"base_models": ["linear", "neighbours"]}
    search = GridSearchCV(StackedClassifier(random_state=0), grid, cv=2, error_score="raise")
    assert np.isfinite(search.fit(X, iris(every=3)[2]).best_score_)


def test_own_estimators_and_a_class_prior():
    X, y, partly = iris()
    prior = {0: 0.2, 1: 0.2, 2: 0.6}
    estimators = {"bayes": GaussianNB()}
    model = StackedClassifier("linear", estimators=estimators, class_prior=prior, random_state=0)
    assert list(model.fit(X, partly).weights_) == ["linear", "bayes"]
    plain = StackedClassifier("linear", estimators=estimators, random_state=0).fit(X, partly)
    assert model.predict_proba(X)[:, 2].mean() > plain.predict_proba(X)[:, 2].mean()
    assert model.score(X, y) > 0.7


def test_values_come_back_in_their_own_units():
    X, y = load_diabetes(return_X_y=True)
    partly = np.where(np.arange(len(y)) % 7 == 0, y, np.nan)
    model = StackedRegressor(FEW, random_state=0).fit(X, partly)
    labeled = ~np.isnan(partly)
    np.testing.assert_array_equal(model.transduction_[labeled], y[labeled])
    assert model.score(X, y) > 0.3
    assert (model.std_[labeled] == 0).all()
    assert (model.std_[~labeled] > 10).all()
    assert model.without("neighbours").score(X, y) > 0.3
