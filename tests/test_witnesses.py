"""Witnesses: what each says, that hidden labels stay hidden, and that nonsense is left out."""

import pickle
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from labelgrad.witnesses import aligned, models, named, neighbours
from labelgrad.witnesses.base import LEAST, NARROWEST, checked, log_probabilities
from labelgrad.witnesses.hearing import Case, hear_all, hear_one, within
from labelgrad.witnesses.models import Model, given
from labelgrad.witnesses.named import BY_NAME, usual_witnesses, witness_names, witnesses_named
from labelgrad.witnesses.neighbours import Graph, Neighbours

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FOR_CLASSES = [n for n in usual_witnesses("classification") if n != "catboost"]
FOR_CLASSES += [name for name in ("kernel", "lga-linear") if name not in FOR_CLASSES]
FOR_VALUES = [n for n in usual_witnesses("regression") if n != "catboost"]


ALL_STRENGTHS = models.STRENGTHS


@pytest.fixture(autouse=True)
def few_trees_strengths_and_steps(monkeypatch):
    monkeypatch.setattr(aligned, "STEPS", (150, 150))
    monkeypatch.setattr(models, "TREES", 10)
    monkeypatch.setattr(models, "STRENGTHS", np.array([0.1, 1.0, 10.0]))


def clusters(*, rows=40, labeled=16, seed=0):
    """Two clusters, and the labels of some rows."""
    rng = np.random.default_rng(seed)
    truth = np.arange(rows) % 2
    x = rng.normal(size=(rows, 3)) + 3 * truth[:, None]
    return x, truth, np.where(np.arange(rows) < labeled, truth, -1)


def line(*, rows=40, labeled=16, seed=0):
    x = np.random.default_rng(seed).normal(size=(rows, 3))
    y = x @ [1.0, -0.5, 0.2]
    y = (y - y.mean()) / y.std()
    return x, y, np.where(np.arange(rows) < labeled, y, np.nan)


def case_of(x, y, classes, *, folds=4, seed=0):
    labeled = np.flatnonzero(~np.isnan(y) if not classes else y >= 0)
    fold_of = np.arange(len(labeled)) // 2 % folds
    return Case(x, y, [labeled[fold_of == fold] for fold in range(folds)], classes, seed)


def heard(witness, x, y, classes, seed=0):
    (opinion,) = witness.hear(x, [y], classes, seed)
    return opinion


# All of them


@pytest.mark.parametrize("name", FOR_CLASSES)
def test_every_witness_of_classes_gives_probabilities_and_knows_two_clusters(name):
    x, truth, y = clusters()
    found = hear_one(BY_NAME[name](), case_of(x, y, 2))
    everything = checked(found.opinion.of_rows(np.arange(40)), 40, 2)
    assert (everything.argmax(1) == truth).mean() > 0.9
    assert (found.out_of_fold.argmax(1) == truth[case_of(x, y, 2).hidden]).mean() > 0.8
    assert checked(found.opinion.of_new(x + 0.01), 40, 2).argmax(1).tolist() == pytest.approx(
        everything.argmax(1).tolist()
    )


@pytest.mark.parametrize("name", FOR_VALUES)
def test_every_witness_of_values_gives_a_mean_and_a_spread(name):
    x, truth, y = line()
    found = hear_one(BY_NAME[name](), case_of(x, y, 0))
    said = checked(found.opinion.of_rows(np.arange(40)), 40, 0)
    assert np.corrcoef(said[:, 0], truth)[0, 1] > 0.6
    assert (said[:, 1] >= NARROWEST).all()
    assert checked(found.opinion.of_new(x[:5]), 5, 0).shape == (5, 2)


@pytest.mark.parametrize("name", FOR_CLASSES)
def test_hidden_labels_change_nothing(name):
    """The labels of a fold are mixed: what is said with them hidden stays the same."""
    x, _, y = clusters()
    case = case_of(x, y, 2)
    mixed = y.copy()
    mixed[case.folds[1]] = 1 - y[case.folds[1]]
    other = Case(x, mixed, case.folds, 2, case.seed)
    before, after = (
        BY_NAME[name]().hear(x, c.versions, 2, 0)[1].of_rows(np.arange(40)) for c in (case, other)
    )
    assert np.array_equal(before, after)


@pytest.mark.parametrize("name", FOR_VALUES)
def test_hidden_values_change_nothing(name):
    x, _, y = line()
    case = case_of(x, y, 0)
    mixed = y.copy()
    mixed[case.folds[1]] += 100
    other = Case(x, mixed, case.folds, 0, case.seed)
    before, after = (
        BY_NAME[name]().hear(x, c.versions, 0, 0)[1].of_rows(np.arange(40)) for c in (case, other)
    )
    assert np.array_equal(before, after)


@pytest.mark.parametrize("name", ["self-training", "label spreading"])
def test_those_for_classes_are_left_out_of_values_with_a_sentence(name):
    x, _, y = line()
    found, notes = hear_all([BY_NAME[name]()], case_of(x, y, 0))
    assert found == []
    assert notes == [f"The witness {name!r} is left out: it is for classes."]


def test_a_name_that_means_no_witness_gets_the_nearest():
    with pytest.raises(ValueError, match="no witness 'neighbors'; did you mean 'neighbours'"):
        witnesses_named(["neighbors"])
    with pytest.raises(ValueError, match="there are linear, "):
        witness_names("linear,xyz")
    assert witness_names(" linear , random forest,") == "linear,random forest"


# Linear


def test_few_labels_leave_the_strength_near_the_usual_one(monkeypatch):
    monkeypatch.setattr(models, "STRENGTHS", ALL_STRENGTHS)
    x, _, y = clusters(labeled=8)

    def factors_of_ten_away():
        return abs(np.log10(heard(models.linear(), 10 * x, y, 2).model.C))

    assert factors_of_ten_away() <= 1
    monkeypatch.setattr(models, "PULL_TO_USUAL", 0.0)
    assert factors_of_ten_away() > 1


def test_many_labels_choose_the_strength_themselves(monkeypatch):
    monkeypatch.setattr(models, "STRENGTHS", ALL_STRENGTHS)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 20))
    y = (rng.random(300) < 0.5).astype(int)  # nothing to learn: the weaker, the better
    assert heard(models.linear(), x, y, 2).model.C < 0.1


def test_one_label_of_a_class_is_enough_for_a_line():
    x, truth, _ = clusters()
    y = np.where(np.arange(40) < 2, truth, -1)
    opinion = heard(models.linear(), x, y, 2)
    assert (opinion.of_rows(np.arange(40)).argmax(1) == truth).mean() > 0.9


@pytest.mark.parametrize("name", ["linear", "random forest", "neighbours", "label spreading"])
def test_a_class_that_is_missing_keeps_the_least_probability(name):
    x, _, y = clusters()
    said = np.exp(heard(BY_NAME[name](), x, y, 3).of_rows(np.arange(40)))
    assert (said[:, 2] > 0).all()
    assert (said[:, 2] < 0.05).all()
    if name != "neighbours":
        assert said[:, 2] == pytest.approx(np.full(40, LEAST), rel=1e-3)


# Trees


def test_a_forest_counts_the_votes_and_half_a_vote_of_doubt():
    x, _, y = clusters()
    opinion = heard(models.forest(), x, y, 2)
    trees = [tree.predict_proba(x) for tree in opinion.model.estimators_]
    for row in range(40):
        votes = sum(float(tree[row, 1]) for tree in trees)
        expected = (votes + models.DOUBT / 2) / (models.TREES + models.DOUBT)
        assert np.exp(opinion.of_rows(np.array([row]))[0, 1]) == pytest.approx(expected)
    assert np.exp(opinion.of_rows(np.arange(40))).max() < 1


def test_trees_of_values_are_as_unsure_as_they_differ():
    x, _, y = line()
    opinion = heard(models.extra_trees(), x, y, 0)
    each = [tree.predict(x[[20]])[0] for tree in opinion.model.estimators_]
    mean, spread = opinion.of_rows(np.array([20]))[0]
    assert mean == pytest.approx(np.mean(each))
    assert spread == pytest.approx(np.std(each) + models.DOUBT_OF_VALUES)


def test_the_kernel_refuses_more_labels_than_it_can_take(monkeypatch):
    monkeypatch.setattr(models, "MOST_FOR_KERNEL", 10)
    x, _, y = clusters()
    _, notes = hear_all([models.kernel()], case_of(x, y, 2))
    assert notes == ["The witness 'kernel' is left out: it is for up to 10 labels."]


# Models of one's own


def test_a_classifier_of_ones_own_is_copied_and_says_what_it_would_say():
    x, _, y = clusters()
    mine = make_pipeline(StandardScaler(), GaussianNB())
    opinion = heard(given(mine, "bayes"), x, y, 2)
    assert not hasattr(mine[-1], "classes_")
    known = y >= 0
    expected = make_pipeline(StandardScaler(), GaussianNB()).fit(x[known], y[known])
    found = np.exp(opinion.of_new(x))
    assert found == pytest.approx(np.clip(expected.predict_proba(x), LEAST, 1), abs=2 * LEAST)


def test_a_model_that_is_no_estimator_is_copied_too():
    class Bare:
        seen = 0

        def fit(self, x, y):
            self.seen, self.classes_ = len(x), np.unique(y)
            return self

        def predict_proba(self, x):
            return np.full((len(x), 2), 0.5)

    x, _, y = clusters()
    mine = Bare()
    opinion = heard(given(mine, "bare"), x, y, 2)
    assert mine.seen == 0
    assert opinion.model.seen == 16


def test_a_regressor_of_ones_own_gets_the_spread_of_its_cross_validated_errors():
    x, truth, y = line(labeled=20)
    noisy = y + np.random.default_rng(1).normal(size=40)
    mine = LinearRegression()
    opinion = heard(given(mine, "ols"), x, noisy, 0)
    assert not hasattr(mine, "coef_")
    spread = opinion.of_new(x)[0, 1]
    assert 0.6 < spread < 1.8
    assert (opinion.of_new(x)[:, 1] == spread).all()
    exact = heard(given(LinearRegression(), "ols"), x, y, 0).of_new(x)
    assert exact[:, 0] == pytest.approx(truth)
    assert exact[0, 1] == NARROWEST


def test_a_regressor_that_cannot_be_cross_validated_is_left_out():
    x, _, y = line(labeled=5)
    _, notes = hear_all([given(KNeighborsRegressor(30), "knn")], case_of(x, y, 0))
    assert len(notes) == 1
    assert "'knn' is left out" in notes[0]


def test_a_classifier_without_probabilities_is_left_out_with_a_sentence():
    x, _, y = clusters()
    found, notes = hear_all([given(LinearSVC(), "svm"), Neighbours()], case_of(x, y, 2))
    assert [each.name for each in found] == ["neighbours"]
    assert len(notes) == 1
    assert "'svm' is left out" in notes[0]
    assert "predict_proba" in notes[0]


# Neighbours


def slow_graph(x, k):
    """W of the formula, row by row, without the row itself."""
    weights = np.zeros((len(x), len(x)))
    for i, row in enumerate(x):
        distances = np.sqrt(((x - row) ** 2).sum(1))
        distances[i] = np.inf
        nearest = np.argsort(distances, kind="stable")[:k]
        for j in nearest:
            weights[i, j] = np.exp(-((distances[j] / distances[nearest[-1]]) ** 2))
    weights = np.maximum(weights, weights.T)
    degree = weights.sum(1)
    return weights / np.sqrt(degree[:, None] * degree)


def test_what_arrives_is_the_solution_of_the_dense_equations():
    x, _, y = clusters(rows=25, labeled=6)
    opinion = heard(Neighbours(neighbours=4), x, y, 2)
    smooth = slow_graph(x, 4)
    assert opinion.graph.smooth.toarray() == pytest.approx(smooth)
    sources = np.stack([y == 0, y == 1], axis=1).astype(float)
    arrived = np.linalg.solve(np.eye(25) - 0.9 * smooth, sources)
    assert opinion.arrived == pytest.approx(arrived)
    masses = (np.array([3, 3]) + neighbours.PRIOR) / (6 + 2 * neighbours.PRIOR)
    scaled = arrived * masses / arrived.sum(0)
    expected = scaled / scaled.sum(1, keepdims=True)
    found = np.exp(opinion.of_rows(np.arange(25)))
    assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("values", [False, True])
def test_step_by_step_it_is_the_same_as_at_once(monkeypatch, values):
    x, _, y = line() if values else clusters()
    classes = 0 if values else 2
    at_once = heard(Neighbours(), x, y, classes).of_rows(np.arange(40))
    monkeypatch.setattr(neighbours, "SOLVED_AT_ONCE", 10)
    steps = heard(Neighbours(), x, y, classes).of_rows(np.arange(40))
    assert steps == pytest.approx(at_once, abs=1e-3)


def test_values_are_means_of_what_arrives():
    x, _, y = line(rows=25, labeled=8)
    opinion = heard(Neighbours(neighbours=4), x, y, 0)
    known = ~np.isnan(y)
    sources = np.stack([np.where(known, y, 0), known], axis=1).astype(float)
    arrived = np.linalg.solve(np.eye(25) - 0.9 * slow_graph(x, 4), sources)
    found = opinion.of_rows(np.arange(25))
    assert found[:, 0] == pytest.approx(arrived[:, 0] / arrived[:, 1], abs=0.02)
    assert found[:, 1] == pytest.approx(np.full(25, y[known].std()))


def test_a_new_row_that_is_one_of_the_graph_gets_a_similar_opinion():
    x, truth, y = clusters()
    opinion = heard(Neighbours(neighbours=5), x, y, 2)
    old, new = np.exp(opinion.of_rows(np.arange(40))), np.exp(opinion.of_new(x))
    assert abs(old - new).mean() < 0.1
    assert new.argmax(1).tolist() == truth.tolist()


def test_an_opinion_of_a_row_does_not_depend_on_who_else_is_asked_about():
    x, _, y = clusters()
    opinion = heard(Neighbours(), x, y, 2)
    together, new = opinion.of_rows(np.arange(40)), opinion.of_new(x)
    for row in (0, 17, 39):
        assert np.array_equal(opinion.of_rows(np.array([row]))[0], together[row])
        assert opinion.of_new(x[[row]])[0] == pytest.approx(new[row], abs=1e-12)


def test_rows_that_are_alike_have_no_edge_to_themselves():
    x, _, y = clusters()
    x = np.repeat(x[:8], 5, axis=0)
    y = np.where(np.arange(40) % 5 == 0, np.arange(40) // 5 % 2, -1)
    opinion = heard(Neighbours(neighbours=6), x, y, 2)
    assert (opinion.graph.smooth.diagonal() == 0).all()
    said = checked(opinion.of_rows(np.arange(40)), 40, 2).argmax(1)
    assert said.tolist() == (np.arange(40) // 5 % 2).tolist()
    same = heard(Neighbours(), np.zeros((40, 2)), y, 2)
    assert np.isfinite(same.of_rows(np.arange(40))).all()
    assert np.isfinite(same.of_new(np.zeros((3, 2)))).all()


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_fewer_rows_than_neighbours_are_enough(rows):
    x, truth, _ = clusters(rows=rows)
    y = np.where(np.arange(rows) < 2, truth, -1)
    opinion = heard(Neighbours(), x, y, 2)
    assert checked(opinion.of_rows(np.arange(rows)), rows, 2).shape == (rows, 2)
    assert checked(opinion.of_new(x[:1] + 1), 1, 2).shape == (1, 2)


class Descent:
    """What pynndescent offers, found exactly."""

    def __init__(self, x, n_neighbors, random_state):
        self.exact = NearestNeighbors(n_neighbors=n_neighbors).fit(x)
        self.neighbor_graph = self.query(x, n_neighbors)

    def query(self, x, k):
        distances, places = self.exact.kneighbors(x, k)
        return places, distances


def test_neighbours_that_are_found_approximately_can_be_pickled(monkeypatch):
    x, _, y = clusters()
    exact = heard(Neighbours(), x, y, 2)
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 10)
    monkeypatch.setitem(sys.modules, "pynndescent", SimpleNamespace(NNDescent=Descent))
    found = pickle.loads(pickle.dumps(heard(Neighbours(), x, y, 2)))
    assert isinstance(found.graph.search, neighbours.Approximate)
    np.testing.assert_allclose(found.of_rows(np.arange(40)), exact.of_rows(np.arange(40)))
    np.testing.assert_allclose(found.of_new(x + 0.1), exact.of_new(x + 0.1))


def test_the_graph_of_one_row_is_empty():
    assert Graph(np.zeros((1, 2)), 0, 0).smooth.nnz == 0


# Hearing


@dataclass(frozen=True)
class Odd:
    """A witness that says the same of every row, whatever it is."""

    name: str
    says: object
    sees_unlabeled: bool = False

    def hear(self, x, labels, classes, seed):
        if isinstance(self.says, Exception):
            raise self.says
        return [self] * (len(labels) + (self.name == "talkative"))

    def of_rows(self, rows):
        return np.tile(self.says, (len(rows), 1))

    def of_new(self, x):
        return np.tile(self.says, (len(x), 1))


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (RuntimeError("no license.\nmore about it"), "no license"),
        (RuntimeError(), "RuntimeError"),
        ([np.nan, np.nan], "it gave numbers that are not finite"),
        ([-np.inf, 0.0], "it gave numbers that are not finite"),
        ([np.log(0.5)] * 3, "it gave the shape (4, 3) for 4 rows and 2 columns"),
        (np.log([0.5, 0.6]), "its probabilities add up to 1.1 in a row"),
    ],
)
def test_a_witness_of_nonsense_is_left_out_by_its_name_and_the_others_are_heard(says, reason):
    x, _, y = clusters()
    found, notes = hear_all([Odd("odd", says), Neighbours()], case_of(x, y, 2))
    assert [each.name for each in found] == ["neighbours"]
    assert notes == [f"The witness 'odd' is left out: {reason}."]


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ([0.0, np.inf], "it gave numbers that are not finite"),
        ([0.0, 0.0], "it gave a spread that is not positive"),
        ([0.0, -1.0], "it gave a spread that is not positive"),
    ],
)
def test_values_without_a_spread_are_left_out(says, reason):
    x, _, y = line()
    found, notes = hear_all([Odd("odd", says), models.linear()], case_of(x, y, 0))
    assert [each.name for each in found] == ["linear"]
    assert notes == [f"The witness 'odd' is left out: {reason}."]


@pytest.mark.parametrize("wrong", [[1.2, -0.2], [0.9, 0.9], [np.nan, 0.5]])
def test_a_model_whose_probabilities_are_none_is_left_out(wrong):
    class Wrong(DummyClassifier):
        def predict_proba(self, X):
            return np.tile(wrong, (len(X), 1))

    x, _, y = clusters()
    found, notes = hear_all([given(Wrong(), "wrong"), Neighbours()], case_of(x, y, 2))
    assert [each.name for each in found] == ["neighbours"]
    assert len(notes) == 1
    assert "'wrong' is left out" in notes[0]


def test_spreads_of_values_become_as_large_as_the_errors_on_hidden_ones():
    """A witness that is never far off counts for more than it says, and one that errs for less."""
    x, truth, y = line()
    case = case_of(x, y, 0)

    @dataclass(frozen=True)
    class Says:
        off: float
        spread: float
        name: str = "says"
        sees_unlabeled: bool = False

        def hear(self, x, labels, classes, seed):
            return [self] * len(labels)

        def of_rows(self, rows):
            return np.stack([truth[rows] + self.off, np.full(len(rows), self.spread)], 1)

        def of_new(self, x):
            return self.of_rows(np.arange(len(x)))

    for off, spread in ((0.2, 1.0), (0.5, 0.1)):
        found = hear_one(Says(off, spread), case)
        factor = (((off / spread) ** 2 * 16 + 1) / 17) ** 0.5
        for said in (
            found.out_of_fold,
            found.opinion.of_rows(np.arange(40)),
            found.opinion.of_new(x),
        ):
            assert said[:, 1] == pytest.approx(np.full(len(said), spread * factor))
        assert found.folds[0].of_rows(np.arange(3))[:, 0] == pytest.approx(truth[:3] + off)
    silent = hear_one(Says(0.0, 1e6), case)
    assert silent.out_of_fold[0, 1] == pytest.approx(1e6)


def test_a_witness_that_fails_on_some_unlabeled_row_alone_is_left_out():
    class Blind(LogisticRegression):
        def predict_proba(self, X):
            found = super().predict_proba(X)
            return np.where(X[:, :1] == 7.0, np.nan, found)

    x, _, y = clusters()
    x[30] = 7.0
    _, notes = hear_all([given(Blind(), "blind")], case_of(x, y, 2))
    assert notes == ["The witness 'blind' is left out: it gave numbers that are not finite."]


def test_a_witness_with_an_opinion_too_many_is_left_out():
    x, _, y = clusters()
    _, notes = hear_all([Odd("talkative", np.log([0.5, 0.5]))], case_of(x, y, 2))
    assert notes == ["The witness 'talkative' is left out: it gave 6 opinions for 5 versions."]


def test_boosting_is_not_heard_on_hundreds_of_columns(monkeypatch):
    monkeypatch.setattr(named, "WHERE_INSTALLED", ("catboost",))
    monkeypatch.setattr(named, "find_spec", lambda name: name == "catboost")
    assert "catboost" in usual_witnesses("classification", columns=300)
    assert "catboost" not in usual_witnesses("classification", columns=301)


def test_a_witness_that_hangs_is_left_out_and_leaves_warnings_alone():
    goes_on = threading.Event()

    class Hanging(DummyClassifier):
        def fit(self, X, y):
            goes_on.wait(30)
            return super().fit(X, y)

    x, _, y = clusters()
    filters, began = list(warnings.filters), time.perf_counter()
    witnesses = [given(Hanging(), "slow"), Odd("quick", np.log([0.5, 0.5]))]
    found, notes = hear_all(witnesses, case_of(x, y, 2), budget=0.2)
    assert time.perf_counter() - began < 10
    assert warnings.filters == filters
    goes_on.set()
    assert [each.name for each in found] == ["quick"]
    assert notes == ["The witness 'slow' took more than 0.2 s: left out."]
    time.sleep(0.1)
    assert warnings.filters == filters


def test_an_error_within_the_time_is_the_error():
    with pytest.raises(ZeroDivisionError):
        within(5.0, lambda: 1 / 0)
    with pytest.raises(TimeoutError):
        within(0.05, time.sleep, 0.5)


def test_witnesses_are_heard_in_order_and_told_about():
    x, _, y = clusters()
    told = []
    witnesses = witnesses_named(["extra trees", "linear", "neighbours"])
    found, notes = hear_all(witnesses, case_of(x, y, 2), on_witness=told.append)
    assert [each.name for each in found] == told == ["extra trees", "linear", "neighbours"]
    assert [each.sees_unlabeled for each in found] == [False, False, True]
    assert notes == []
    assert all(len(each.folds) == 4 for each in found)


@pytest.mark.parametrize("name", FOR_CLASSES)
def test_the_same_seed_gives_the_same_opinions(name):
    x, _, y = clusters()
    one, two = (hear_one(BY_NAME[name](), case_of(x, y, 2)) for _ in range(2))
    assert np.array_equal(one.out_of_fold, two.out_of_fold)
    assert np.array_equal(one.opinion.of_rows(np.arange(40)), two.opinion.of_rows(np.arange(40)))


def test_another_seed_grows_other_trees():
    x, _, y = clusters()
    one, two = (hear_one(models.extra_trees(), case_of(x, y, 2, seed=seed)) for seed in (0, 1))
    assert not np.array_equal(
        one.opinion.of_rows(np.arange(40)), two.opinion.of_rows(np.arange(40))
    )


def test_where_nothing_can_be_hidden_witnesses_are_heard_all_the_same():
    x, truth, _ = clusters()
    y = np.where(np.arange(40) < 2, truth, -1)
    found, _ = hear_all([models.linear(), Neighbours()], Case(x, y, [], 2))
    assert [each.out_of_fold.shape for each in found] == [(0, 2), (0, 2)]
    assert (found[1].opinion.of_rows(np.arange(40)).argmax(1) == truth).mean() > 0.9


def test_log_probabilities_are_none_below_the_least_and_add_up_to_one():
    found = np.exp(log_probabilities([[1.0, 0.0]], [0, 3], 4))
    assert found.sum() == pytest.approx(1)
    assert found[0, 1:] == pytest.approx(np.full(3, LEAST), rel=1e-3)


def test_a_model_learns_from_known_rows_alone_unless_it_sees_the_unlabeled():
    seen = []

    class Counting(LogisticRegression):
        def fit(self, X, y):
            seen.append((len(X), int((y < 0).sum())))
            return super().fit(X, np.maximum(y, 0))

    x, _, y = clusters()
    for sees in (False, True):
        made = Model("m", lambda *_: Counting(), models.probabilities_or_values, sees)
        made.hear(x, [y], 2, 0)
    assert seen == [(16, 0), (40, 24)]


def test_a_linear_model_of_more_columns_than_labels_is_the_same_in_their_span(monkeypatch):
    monkeypatch.setattr(models, "MANY_COLUMNS", 10**6)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 50)), np.arange(30) % 3
    x += 2 * rng.normal(size=(3, 50))[y]
    search = models._linear(y, 50, 0)
    whole, part = search.search.fit(x, y).best_estimator_, models._linear(y, 50, 0).fit(x, y)
    assert isinstance(part, models.InSpan)
    assert part.best_estimator_.C == whole.C
    new = rng.normal(size=(20, 50))
    found, wanted = (m.predict_proba(new) for m in (part.best_estimator_, whole))
    assert np.allclose(found, wanted, atol=2e-3)  # both within the tolerance of a search
