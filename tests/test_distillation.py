"""Students: the loss under given labels, what the pool says of them, and what they learn."""

import copy

import numpy as np
import pytest
import torch

from labelgrad import Batch, CrossEntropy, SquaredError, Step
from labelgrad.fitting.cross_validation import CrossValidation
from labelgrad.fitting.plan import make_plan
from labelgrad.fitting.pooling import NETWORK, case_of, hear_witnesses, heard_network
from labelgrad.fitting.student import LESSONS, mixed_rows, train_student
from labelgrad.inputs.base import Scale
from labelgrad.inputs.features import features
from labelgrad.inputs.kinds import read
from labelgrad.objectives.distillation import Distillation
from labelgrad.witnesses.hearing import Case
from labelgrad.witnesses.named import witnesses_named
from labelgrad.witnesses.neighbours import Neighbours
from labelgrad.witnesses.opinions import Said
from labelgrad.witnesses.pool import combine


def step_on(rows, *, width=3):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, width).double()
    x = torch.randn(10, 4).double()
    labeled = Batch(x[:2], torch.zeros(2, dtype=torch.long), torch.arange(2))
    return Step(model, labeled, Batch(x[rows], None, torch.tensor(rows))), model(x).detach()


# The loss


def test_the_loss_is_the_mean_cross_entropy_under_the_rows_own_labels():
    rows = [7, 2, 5]
    step, outputs = step_on(rows)
    labels = torch.rand(10, 3).softmax(1)
    slow = 0.0
    for row in rows:
        logs = outputs[row].log_softmax(0)
        slow -= sum(float(labels[row, c]) * float(logs[c]) for c in range(3)) / len(rows)
    assert Distillation(labels)(step).item() == pytest.approx(slow, rel=1e-6)


def test_the_loss_of_values_is_half_the_squared_distance():
    rows = [1, 9]
    step, outputs = step_on(rows, width=1)
    labels = torch.randn(10, 1)
    slow = sum(0.5 * float(outputs[row, 0] - labels[row, 0]) ** 2 for row in rows) / 2
    found = Distillation(labels, loss=SquaredError())(step)
    assert found.item() == pytest.approx(slow, rel=1e-6)


def test_labels_stay_as_they_are_and_get_no_gradient():
    step, _ = step_on([0, 1, 2])
    labels = torch.full((10, 3), 1 / 3)
    term = Distillation(labels)
    term(step).backward()
    assert not term.labels.requires_grad
    assert torch.equal(term.labels, torch.full((10, 3), 1 / 3))
    assert "labels" not in term.state_dict()  # they are the pool's, not the training's


def test_labels_of_another_number_or_shape_are_refused():
    with pytest.raises(ValueError, match=r"the shape \(rows, width\), got \(10,\)"):
        Distillation(torch.zeros(10))
    with pytest.raises(ValueError, match="it has 10 rows, and the data 12"):
        Distillation(torch.zeros(10, 3)).begin(torch.nn.Linear(4, 3), CrossEntropy(), 12)


# Features


def test_features_of_a_table_have_unit_spread_and_do_not_depend_on_the_others():
    x = np.random.default_rng(0).normal(5, 3, size=(200, 6))
    dataset = read(x, np.where(np.arange(200) < 20, np.arange(200) % 2, -1))
    found = features(dataset.x, Scale(1.0, 0.0))
    assert found.std(0) == pytest.approx(np.ones(6), abs=1e-5)
    assert np.array_equal(features(dataset.x[3:5], Scale(1.0, 0.0)), found[3:5])


def test_features_of_pictures_are_means_of_their_pixels():
    pictures = torch.randint(0, 256, (3, 2, 32, 32), dtype=torch.uint8)
    found = features(pictures, Scale(2 / 255, -1.0)).reshape(3, 2, 16, 16)
    corner = (pictures[1, 1, 2:4, 6:8].double() * 2 / 255 - 1).mean() / 0.5
    assert found[1, 1, 1, 3] == pytest.approx(float(corner), abs=1e-6)
    small = torch.randint(0, 256, (2, 1, 8, 5), dtype=torch.uint8)
    assert features(small, Scale(2 / 255, -1.0)).shape == (2, 40)


# The student


def trained_on(*, values=False, pictures=False, steps=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 4)).astype(np.float32)
    truth = x[:, 0] + x[:, 1] if values else (x[:, 0] + x[:, 1] > 0).astype(int)
    if pictures:
        x = (rng.integers(0, 100, size=(80, 1, 8, 8)) + 100 * truth[:, None, None, None]).astype(
            "u1"
        )
    y = np.where(np.arange(80) < 24, truth, np.nan if values else -1)
    dataset = read(x, y if values else y.astype(int))
    model = "mlp-16"
    trained = CrossValidation(dataset, make_plan(dataset, steps=steps, model=model, witnesses=""))
    for _ in trained.records():
        pass
    return trained


@pytest.fixture(scope="module")
def taught():
    trained = trained_on(steps=400)
    pooled = hear_witnesses(trained, [Neighbours()])
    return trained, pooled, train_student(trained, pooled)


def test_the_student_says_nearly_what_the_pool_says(taught):
    trained, pooled, student = taught
    rows = trained.unlabeled
    with torch.no_grad():
        said = student.network(trained.transform(trained.dataset.x[rows])).softmax(1).numpy()
    pool = np.exp(pooled.of_rows(rows.numpy()))
    assert abs(said - pool).mean() < 0.1
    assert (said.argmax(1) == pool.argmax(1)).mean() > 0.9


def test_the_student_says_nearly_what_the_pool_says_of_new_rows_too(taught):
    trained, pooled, student = taught
    new = torch.from_numpy(np.random.default_rng(5).normal(size=(200, trained.dataset.x.shape[1])))
    new = new.to(trained.dataset.x)
    with torch.no_grad():
        said = student.network(trained.transform(new)).softmax(1).numpy()
    assert abs(said - np.exp(pooled.of_new(new))).mean() < 0.1


def test_lessons_are_mixed_of_rows_column_by_column(taught):
    trained, pooled, _ = taught
    x, mixed = trained.dataset.x, mixed_rows(trained, pooled)
    assert len(mixed) + len(trained.unlabeled) == LESSONS
    for column in range(x.shape[1]):
        assert set(mixed[:, column].tolist()) <= set(x[:, column].tolist())
    alike = (mixed[:50, None] == x).sum(-1)  # columns that a mixed row has in common with each
    assert (alike.topk(2).values.sum(1) >= x.shape[1]).all()  # two rows, and no others, made it
    assert torch.equal(mixed, mixed_rows(trained, pooled))


def test_nothing_is_mixed_where_a_file_speaks_of_the_rows_alone():
    trained = trained_on(steps=5)
    truth = (np.arange(80) % 2).astype(float)
    truth[trained.labeled.numpy()] = trained.y[trained.labeled].numpy()
    pooled = hear_witnesses(trained, [Said("a file", truth), Neighbours()])
    assert pooled.pool.weights["a file"] > 0
    assert len(mixed_rows(trained, pooled)) == 0


def test_students_of_folds_are_asked_about_the_labels_hidden_from_them(taught):
    _, pooled, student = taught
    hidden = pooled.case.hidden
    assert student.out_of_fold.shape == (len(hidden), 2)
    right = student.out_of_fold.argmax(1).numpy() == pooled.case.y[hidden]
    assert right.mean() > 0.7


def test_the_pool_of_a_fold_is_made_of_opinions_and_weights_without_it(taught):
    trained, pooled, _ = taught
    rows = trained.unlabeled.numpy()
    for fold in range(4):
        said = np.stack([heard.folds[fold].of_rows(rows) for heard in pooled.heard])
        expected = combine(said, pooled.fitted.weights_of[fold], pooled.pool.known)
        found = pooled.of_fold(fold, rows)
        assert np.exp(found) == pytest.approx(np.exp(expected), abs=3e-4)
    assert not np.allclose(pooled.of_fold(0, rows), pooled.of_rows(rows))


def test_out_of_fold_opinions_are_those_of_each_fold_in_order(taught):
    _, pooled, _ = taught
    for heard in pooled.heard:
        said = [o.of_rows(rows) for o, rows in zip(heard.folds, pooled.case.folds, strict=True)]
        np.testing.assert_allclose(heard.out_of_fold, np.concatenate(said))


def test_networks_are_witnesses_that_say_the_same_of_rows_and_of_new_examples(taught):
    trained, pooled, _ = taught
    assert list(pooled.pool.weights) == [
        "neighbours",
        NETWORK + "supervised",
        NETWORK + "lga-evidence",
    ]
    network = pooled.heard[-1].opinion
    np.testing.assert_allclose(
        network.of_rows(np.arange(5)), network.of_new(trained.dataset.x[:5]), atol=1e-6
    )
    assert [heard.presumed for heard in pooled.heard] == [True, False, True]
    assert [heard.name for heard in pooled.others] == ["neighbours"]
    assert pooled.importance.tolist() == [1.0] * len(pooled.case.hidden)


def test_the_case_has_the_labels_and_folds_of_the_trainings(taught):
    trained, _, _ = taught
    case = case_of(trained)
    assert isinstance(case, Case)
    assert case.classes == 2
    assert [fold.tolist() for fold in case.folds] == [r.tolist() for r in trained.held_out_rows()]
    assert np.array_equal(np.sort(case.unlabeled), trained.unlabeled.numpy())


def test_a_network_of_values_has_the_spread_of_its_errors():
    trained = trained_on(values=True)
    heard = heard_network(trained, "lga-evidence")
    hidden = torch.cat(trained.held_out_rows())
    off = heard.out_of_fold[:, 0] - trained.y[hidden].numpy()
    spread = (off**2).mean() ** 0.5
    assert heard.out_of_fold[:, 1] == pytest.approx(np.full(len(hidden), spread))
    assert heard.opinion.of_rows(np.arange(3))[:, 1] == pytest.approx(np.full(3, spread))
    pooled = hear_witnesses(trained, witnesses_named(["linear"]))
    student = train_student(trained, pooled)
    assert student.out_of_fold.shape == (len(hidden), 1)
    assert pooled.outputs(pooled.fitted.judged).shape == (len(hidden), 1)


def test_of_pictures_no_students_of_folds_are_trained():
    trained = trained_on(pictures=True, steps=5)
    pooled = hear_witnesses(trained, [])
    before = copy.deepcopy(pooled.heard[0].opinion.network.state_dict())
    told = []
    student = train_student(trained, pooled, on_step=lambda *step: told.append(step[:2]))
    assert student.out_of_fold is None
    assert told == [(done, 5) for done in range(1, 6)]
    for name, tensor in pooled.heard[0].opinion.network.state_dict().items():
        assert torch.equal(tensor, before[name])
