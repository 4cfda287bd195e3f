"""From examples to an evaluation: folds, cross-fitting, stacking, distillation, scores."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from scipy.special import log_softmax

from labelgrad import FitConfig
from labelgrad.auto.base_models.base import FittedModel
from labelgrad.auto.base_models.networks import Network
from labelgrad.auto.base_models.registry import base_models
from labelgrad.auto.cross_fit import CrossFit, cross_fit, make_folds
from labelgrad.auto.data.dataset import Dataset, Examples
from labelgrad.auto.distillation import distill
from labelgrad.auto.evaluation import evaluate
from labelgrad.auto.events import Events
from labelgrad.auto.stacking import combine, fit_weights, stack, stacked_weights
from labelgrad.auto.task import Classification, Regression


def table(task: Task, n: int = 120, labels: int = 24, seed: int = 0) -> tuple[Dataset, np.ndarray]:
    """A small table of two overlapping classes or of values, with all true targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    truth = X[:, 0] + 0.3 * X[:, 1] + 0.3 * rng.normal(size=n)
    if isinstance(task, Classification):
        truth = (truth > 0).astype(int)
    y = task.unlabeled(n)
    y[:labels] = truth[:labels]
    ids = [str(i) for i in range(n)]
    return Dataset(X.astype(np.float32), y, task, ids, SimpleNamespace(kind="table")), truth  # type: ignore[arg-type]


Task, Fits = Classification | Regression, tuple[SimpleNamespace, Dataset, np.ndarray]
TWO = Classification(("no", "yes"))
QUICK = FitConfig(base_models="linear, extra trees, neighbours", steps=60, label_sampling="random")
TWO_WORKERS = FitConfig(workers=2)


def fit_all(dataset: Dataset, config: FitConfig = QUICK) -> SimpleNamespace:
    """Examples, cross-fitting, stacking, distillation, evaluation."""
    task = dataset.task
    folds = make_folds(dataset.y, task, config.seed)
    models = base_models(config.base_models, config, dataset)
    fits, _ = cross_fit(models, dataset, folds, config)
    ensemble = stack(fits, dataset, folds, config)
    student = distill(ensemble, dataset, config)
    scores = evaluate(ensemble, student)
    return SimpleNamespace(folds=folds, ensemble=ensemble, student=student, evaluation=scores)


@pytest.fixture(scope="module")
def classes() -> Fits:
    dataset, truth = table(TWO)
    return fit_all(dataset), dataset, truth


@pytest.mark.parametrize("labels", [0, 1, 8, 50, 399, 400, 1000])
def test_folds_hold_every_label_out_once_and_never_only_one_fold(labels: int) -> None:
    for task in (TWO, Regression()):
        dataset, _ = table(task, n=1200, labels=labels)
        folds = make_folds(dataset.y, task, seed=3)
        assert len(np.unique(folds.rows)) == len(folds.rows)
        assert len(folds) != 1
        if labels >= 8:
            assert sorted(folds.rows) == list(range(labels))
            assert len(folds) == (3 if labels >= 400 else 4)
            assert np.ptp(np.bincount(folds.of)) <= 1
        for fold in range(len(folds)):
            masked = folds.masked(dataset.y, fold, task)
            assert not task.is_labeled(masked[folds.held_out(fold)]).any()


@dataclass(frozen=True)
class Spy:
    """Predicts the label of each example that it has seen, which no held-out one may have."""

    name: str = "spy"
    uses_unlabeled: bool = True

    def fit(self, examples: Examples, y: np.ndarray, *, task: Task, seed: int) -> FittedModel:
        seen = np.where(y < 0, 0.5, np.where(y == 1, 0.9, 0.1))
        prediction = np.log(np.stack([1 - seen, seen], axis=1))
        return SimpleNamespace(predict=lambda shown: prediction[shown.rows])  # type: ignore[return-value]


@dataclass(frozen=True)
class Bad:
    """Raises, sleeps or predicts nonsense."""

    how: str
    uses_unlabeled: bool = False
    seconds: float = 0.5

    @property
    def name(self) -> str:
        return self.how

    def fit(self, examples: Examples, y: np.ndarray, *, task: Task, seed: int) -> FittedModel:
        if self.how == "raises":
            raise RuntimeError("no luck.\nreally")
        if self.how == "sleeps":
            time.sleep(self.seconds)
        value = {"not finite": np.nan, "sleeps": np.log(0.5)}.get(self.how, 0.0)
        columns = 7 if self.how == "shape" else 2
        return Constant(value, columns)


@dataclass(frozen=True)
class Constant:
    value: float
    columns: int

    def predict(self, examples: Examples) -> np.ndarray:
        return np.full((len(examples), self.columns), self.value)


def test_a_held_out_example_keeps_its_features_and_loses_its_label() -> None:
    dataset, _ = table(TWO)
    folds = make_folds(dataset.y, TWO, 0)
    (fit,), _ = cross_fit([Spy()], dataset, folds)
    np.testing.assert_allclose(np.exp(fit.out_of_fold), 0.5)
    final = fit.final.predict(dataset.examples)
    assert TWO.error(final[dataset.labeled], dataset.y[dataset.labeled]) == 0


def test_models_that_fail_are_left_out_with_a_note() -> None:
    dataset, _ = table(TWO)
    folds = make_folds(dataset.y, TWO, 0)
    bad = [Bad(how) for how in ("raises", "shape", "not finite", "does not sum", "sleeps")]
    fits, notes = cross_fit([*bad, Spy()], dataset, folds, FitConfig(model_timeout=0.2))
    assert [fit.name for fit in fits] == ["spy"]
    expected = ["no luck.", "shape (6, 7)", "not finite", "sum to 2", "more than 0.2 s"]
    assert len(notes) == 5
    for note, reason in zip(notes, expected, strict=True):
        assert note.startswith("Base model ")
        assert reason in note


@pytest.mark.slow
def test_workers_and_this_process_give_the_same_bits() -> None:
    dataset, _ = table(TWO)
    folds = make_folds(dataset.y, TWO, 0)
    models = [
        *base_models(("linear", "neighbours"), FitConfig(), dataset),
        Network("lga", "mlp-8", 20, 1e-2),
        Bad("does not sum"),
    ]
    alone, _ = cross_fit(models[:3], dataset, folds)
    seen: list[tuple[int, int]] = []
    events = Events()
    events.progress = lambda stage, done, total: seen.append((done, total))  # type: ignore[method-assign]
    many, notes = cross_fit(models, dataset, folds, TWO_WORKERS, events)
    assert seen[-1][0] == seen[-1][1] == len(seen)
    assert "sum to 2" in notes[0]
    for one, other in zip(alone, many, strict=True):
        np.testing.assert_array_equal(one.out_of_fold, other.out_of_fold)
        np.testing.assert_array_equal(
            one.final.predict(dataset.examples), other.final.predict(dataset.examples)
        )


@pytest.mark.slow
def test_a_model_that_takes_too_long_in_a_worker_is_killed() -> None:
    dataset, _ = table(TWO)
    folds = make_folds(dataset.y, TWO, 0)
    linear = base_models(("linear",), FitConfig(), dataset)
    get_reusable_executor().shutdown(wait=True)
    began = time.perf_counter()
    cross_fit(linear, dataset, folds, TWO_WORKERS)  # how long new workers take on this machine
    limit = 5.0 + 2 * round(time.perf_counter() - began)
    config = replace(TWO_WORKERS, model_timeout=limit)
    fits, notes = cross_fit([Bad("sleeps", seconds=900.0), *linear], dataset, folds, config)
    assert notes == [f"Base model 'sleeps' is left out: it took more than {limit:g} s."]
    assert [fit.name for fit in fits] == ["linear"]
    assert time.perf_counter() - began < 600


def test_weights_for_a_fold_never_saw_its_labels(classes: Fits) -> None:
    ensemble = classes[0].ensemble
    dataset, folds, equal = ensemble.dataset, ensemble.folds, FitConfig(label_sampling="random")
    others_changed = False
    for fold in range(len(folds)):
        rows, permuted = folds.held_out(fold), dataset.y.copy()
        permuted[rows] = permuted[rows][::-1]  # as many labels of each class
        before = stack(ensemble.cross_fits, dataset, folds, equal)
        after = stack(ensemble.cross_fits, replace(dataset, y=permuted), folds, equal)
        mine = folds.of == fold
        np.testing.assert_array_equal(after.fold_weights[fold], before.fold_weights[fold])
        np.testing.assert_array_equal(after.out_of_fold[mine], before.out_of_fold[mine])
        others_changed |= not np.array_equal(after.fold_weights, before.fold_weights)
    assert others_changed


def test_the_ensemble_combines_in_log_odds_against_the_prior(
    classes: Fits,
) -> None:
    fitted, dataset, truth = classes
    ensemble, examples = fitted.ensemble, dataset.examples
    prior = np.log(ensemble.prior)
    slow = np.tile(prior, (len(examples), 1))
    for name, prediction in ensemble.base_predictions(examples).items():
        slow += ensemble.weights[name] * (prediction - prior)
    slow = log_softmax(slow, axis=-1)
    clipped = np.exp(ensemble.predict(examples))
    assert abs(clipped - np.exp(slow)).max() < 0.05  # models are clipped at 0.01 beforehand
    assert TWO.error(ensemble.predict(examples), truth) < 0.25
    fewer = ensemble.without("linear")
    assert list(fewer.weights) == ["extra trees", "neighbours"]
    with pytest.raises(ValueError, match="some, not all"):
        ensemble.without("forest")


@pytest.mark.parametrize("task", [TWO, Regression()])
def test_the_gradient_of_the_stacking_loss_is_right(task: Task) -> None:
    rng = np.random.default_rng(0)
    if isinstance(task, Classification):
        predictions = log_softmax(rng.normal(size=(3, 30, 2)), axis=-1)
        y, prior = rng.integers(2, size=30), np.array([0.4, 0.6])
    else:
        predictions = np.stack([rng.normal(size=(3, 30)), 0.5 + rng.random((3, 30))], axis=-1)
        y, prior = rng.normal(size=30), np.zeros(0)
    start = np.array([0.5, 0.3, 0.2])
    best = stacked_weights(predictions, y, start, prior, task)

    def loss(weights: np.ndarray) -> float:
        scale = weights.sum()
        shares = weights / scale
        penalty = (shares * np.log(shares / start)).sum() + np.log(scale) ** 2
        combined = combine(predictions, weights, prior)
        return float(task.losses(combined, y).mean() + 2 / 30 * penalty)

    for step in 1e-2 * np.concatenate([np.eye(3), -np.eye(3)]):
        assert loss(np.maximum(best + step, 1e-9)) >= loss(best) - 1e-6


def test_few_labels_never_shrink_predictions_to_the_prior() -> None:
    rng, y = np.random.default_rng(0), np.arange(30) % 2
    noise = log_softmax(2 * rng.normal(size=(6, 30, 2)), axis=-1)  # knows nothing
    weights = stacked_weights(noise, y, np.full(6, 1 / 6), np.array([0.5, 0.5]), TWO)
    assert weights.sum() > 0.2


def test_an_untrusted_model_must_earn_its_weight() -> None:
    y = np.array([0, 1] * 60)
    folds = make_folds(y, TWO, 0)
    labels = y[folds.rows]
    right = np.log(np.where(np.eye(2)[labels] > 0, 0.9, 0.1))
    idle = np.log(np.full((120, 2), 0.5))
    final = Constant(np.log(0.5), 2)
    dataset = Dataset(np.zeros((120, 1), np.float32), y, TWO, [], None)  # type: ignore[arg-type]

    def named(name: str, prediction: np.ndarray, trusted: bool) -> CrossFit:
        return CrossFit(name, False, prediction, [final] * 4, final, trusted=trusted)

    weights = stack([named("a", right, True), named("b", idle, False)], dataset, folds).weights
    assert weights["b"] == 0
    weights = stack([named("a", idle, True), named("b", right, False)], dataset, folds).weights
    assert weights["b"] > 0.5


def test_one_model_is_chosen_only_where_stacking_is_clearly_worse() -> None:
    rng = np.random.default_rng(0)
    y, of = np.arange(20) % 2, np.arange(20) // 2 % 4
    even, start = np.array([0.5, 0.5]), np.full(8, 1 / 8)
    likely = np.log([[0.7, 0.3], [0.3, 0.7]])
    good = np.log([[0.9, 0.1], [0.1, 0.9]])[np.where(np.arange(20) % 10, y, 1 - y)]
    noise = likely[rng.integers(2, size=(7, 20))]
    weights = fit_weights(np.stack([good, *noise]), y, of, start, even, TWO)
    assert weights.tolist() == [1.0] + 7 * [0.0]  # few labels leave every model its share
    alike = likely[np.where(rng.random((8, 20)) < 0.7, y, 1 - y)]  # they err independently
    assert (fit_weights(alike, y, of, start, even, TWO) > 0).all()


def test_a_known_class_prior_moves_predictions(classes: Fits) -> None:
    fitted, dataset, _ = classes
    known = FitConfig(class_prior={"no": 0.9, "yes": 0.1})
    rare = stack(fitted.ensemble.cross_fits, dataset, fitted.folds, known)
    before = np.exp(fitted.ensemble.predict(dataset.examples)).mean(0)
    assert np.exp(rare.predict(dataset.examples)).mean(0)[0] > before[0] + 0.1
    np.testing.assert_allclose(rare.class_prior, [0.9, 0.1])


def test_the_class_prior_of_evenly_drawn_labels_is_estimated() -> None:
    rng = np.random.default_rng(0)
    truth = np.r_[np.tile([0, 1], 20), np.zeros(330, int), np.ones(30, int)]
    X = (rng.normal(size=(400, 2)) + 5 * truth[:, None]).astype(np.float32)
    y = np.where(np.arange(400) < 40, truth, -1)
    dataset = Dataset(X / 3, y, TWO, [str(i) for i in range(400)], None)  # type: ignore[arg-type]
    options = {"base_models": ("linear", "neighbours"), "label_sampling": "unknown"}
    fitted = fit_all(dataset, QUICK.override(options))
    assert fitted.ensemble.class_prior[0] > 0.75
    assert any("class prior" in note for note in fitted.ensemble.notes)
    assert fitted.evaluation.majority_error == pytest.approx(1 - fitted.ensemble.class_prior[0])


def test_the_student_agrees_with_the_ensemble(classes: Fits) -> None:
    fitted, dataset, truth = classes
    student, ensemble = fitted.student, fitted.ensemble
    prediction = student.network.predict(dataset.examples)
    same = prediction.argmax(1) == ensemble.predict(dataset.examples).argmax(1)
    assert same.mean() > 0.9
    assert TWO.error(prediction, truth) < 0.25
    assert student.out_of_fold is not None
    assert student.out_of_fold.shape == (24, 2)
    assert 0.5 < student.network.temperature < 2


def test_the_evaluation_tells_what_came_of_it(classes: Fits) -> None:
    evaluation = classes[0].evaluation
    board = evaluation.leaderboard()
    assert set(board["model"]) == {"linear", "extra trees", "neighbours", "ensemble", "student"}
    assert board["loss"].is_sorted()
    assert ((board["error_low"] <= board["error"]) & (board["error"] <= board["error_high"])).all()
    assert board.filter(group="labels-only").height == 2
    assert "majority class" in evaluation.summary
    alone = {"linear": 0.0, "extra trees": 1.0, "neighbours": 0.0}
    chosen = evaluate(replace(classes[0].ensemble, weights=alone), classes[0].student)
    assert "stacking is no better than extra trees alone" in chosen.summary
    assert chosen.summary.endswith(
        "Next: extra trees alone may be enough (--base-models 'extra trees')."
    )
    guessing = replace(evaluation, majority_error=0.01).summary
    assert guessing.endswith("the ensemble may be no better than the majority class.")
    assert evaluation.score("student").error is not None


def test_regression_from_examples_to_evaluation() -> None:
    task = Regression(mean=10.0, scale=4.0)
    dataset, truth = table(task, labels=40)
    fitted = fit_all(dataset, QUICK.override({"steps": 150}))
    prediction = fitted.ensemble.predict(dataset.examples)
    assert task.error(prediction, truth) < 4.0 * 0.7 * truth.std()
    student = fitted.student.network.predict(dataset.examples)
    assert task.error(student, truth) < 4.0 * 0.8 * truth.std()
    assert 0.1 < student[0, 1] < 1.5
    evaluation = fitted.evaluation
    assert "mean value" in evaluation.summary
    assert evaluation.score("linear").calibration_error is None


def test_one_label_for_each_class_holds_nothing_out() -> None:
    dataset, truth = table(TWO)
    y = TWO.unlabeled(len(dataset))
    for label in (0, 1):
        place = np.flatnonzero(truth == label)[0]
        y[place] = label
    fitted = fit_all(replace(dataset, y=y))
    assert len(fitted.folds) == 0
    assert fitted.evaluation.examples == 0
    assert "No label could be held out" in fitted.evaluation.summary
    np.testing.assert_allclose(list(fitted.ensemble.weights.values()), 1 / 3)
    assert fitted.student.network.predict(dataset.examples).shape == (len(dataset), 2)


def test_the_student_of_images_is_not_trained_for_folds() -> None:
    rng, truth = np.random.default_rng(0), np.arange(40) % 2
    raw = rng.integers(0, 90, size=(40, 1, 8, 8)).astype(np.uint8)
    raw[truth == 1, :, :, 4:] += 150
    X = (raw.reshape(40, -1) / 64).astype(np.float32)
    y = np.where(np.arange(40) < 10, truth, -1)
    dataset = Dataset(X, y, TWO, [str(i) for i in range(40)], None, raw=raw)  # type: ignore[arg-type]
    fitted = fit_all(dataset, FitConfig(base_models="linear, lga", steps=10))
    assert fitted.student.out_of_fold is None
    assert fitted.student.network.architecture == "wrn-10-1"
    assert fitted.evaluation.score("student").error is None
    assert fitted.evaluation.score("lga").group == "unlabeled"


def test_without_unlabeled_examples_the_student_learns_the_labels() -> None:
    dataset, truth = table(TWO, n=40, labels=40)
    for encoded in (False, True):
        whole = replace(dataset, has_encoded_features=encoded)
        fitted = fit_all(whole, FitConfig(base_models="linear, lga", steps=60))
        assert TWO.error(fitted.student.network.predict(whole.examples), truth) < 0.25
        assert fitted.evaluation.summary.startswith("No base model used unlabeled data")


def test_a_student_resumes_from_its_checkpoints(tmp_path, classes) -> None:
    fitted, dataset, _ = classes
    first = distill(fitted.ensemble, dataset, QUICK, folder=tmp_path)
    files = sorted(tmp_path.rglob("*"))
    again = distill(fitted.ensemble, dataset, QUICK, folder=tmp_path)
    assert sorted(tmp_path.rglob("*")) == files
    for student in (first, again):
        np.testing.assert_array_equal(
            student.network.predict(dataset.examples),
            fitted.student.network.predict(dataset.examples),
        )
