"""What is trained and heard where an encoder has made the features."""

import numpy as np
import pytest
import torch

from labelgrad.fitting.cross_validation import CrossValidation
from labelgrad.fitting.kept_witness import Asked, pack, unpack
from labelgrad.fitting.plan import make_plan, network
from labelgrad.fitting.pooling import hear_witnesses
from labelgrad.fitting.student import train_student
from labelgrad.fitting.train import train
from labelgrad.inputs.base import Dataset
from labelgrad.witnesses import aligned
from labelgrad.witnesses.base import checked
from labelgrad.witnesses.named import BY_NAME, witnesses_named
from labelgrad.witnesses.neighbours import Neighbours


@pytest.fixture(autouse=True)
def short_paths(monkeypatch):
    monkeypatch.setattr(aligned, "STEPS", (100, 100))


def features(*, frozen=True, task="classification", rows=120, labeled=24):
    rng = np.random.default_rng(0)
    truth = np.arange(rows) % 3
    x = rng.normal(size=(rows, 40)) + 2 * rng.normal(size=(3, 40))[truth]
    x = torch.from_numpy(3 * x / x.std() / 40**0.5).float()
    y = np.where(np.arange(rows) < labeled, truth, -1)
    classes: tuple[str, ...] = ("a", "b", "c")
    if task == "regression":
        y, classes = np.where(y < 0, np.nan, x[:, 0].double().numpy()), ()
    names = [str(row) for row in range(rows)]
    blocks = {"blocks": [{"column": ""}]} if frozen else {}
    return Dataset("table", x, torch.from_numpy(y), task, classes, names, preprocessing=blocks)


def test_classes_of_features_are_learned_by_a_linear_head_and_lga():
    plan = make_plan(features())
    assert (plan.method, plan.network) == ("lga-linear", "linear")
    assert plan.methods == ("supervised",)  # LGA is heard as a witness
    assert "lga-linear" in plan.witnesses.split(",")
    assert not {"random forest", "extra trees"} & set(plan.witnesses.split(","))


def test_tables_and_values_are_learned_as_before():
    for dataset in (features(frozen=False), features(task="regression")):
        plan = make_plan(dataset)
        assert (plan.method, plan.network) == ("lga-evidence", "mlp")
    assert "kernel" in make_plan(features(task="regression")).witnesses


def test_what_is_asked_for_is_trained():
    plan = make_plan(features(), witnesses="linear", method="lga-linear", model="mlp-16", steps=7)
    assert plan.methods == ("supervised", "lga-linear")
    assert (plan.network, plan.steps) == ("mlp-16", 7)
    trained = train(features(), plan, None, None, "cpu", 1, None, None)
    assert trained.step == 7


def test_a_linear_head_says_the_same_of_everything_at_first():
    head = network("linear", (40,), 3)
    assert not head(torch.randn(5, 40)).any()
    assert sum(p.numel() for p in head.parameters()) == 3 * 41
    assert network("linear", (1, 4, 4), 2)(torch.zeros(2, 1, 4, 4)).shape == (2, 2)


def test_from_features_to_a_student():
    dataset = features()
    plan = make_plan(dataset)
    trained = CrossValidation(dataset, plan)
    for _ in trained.records():
        pass
    pooled = hear_witnesses(trained, witnesses_named(plan.witnesses.split(",")))
    assert not pooled.notes
    assert [h.name for h in pooled.heard if h.presumed] == plan.witnesses.split(",")
    truth = np.arange(120) % 3
    student = train_student(trained, pooled)
    assert (pooled.of_rows(np.arange(120)).argmax(1) == truth).mean() > 0.95
    assert (student.network(dataset.x).argmax(1).numpy() == truth).mean() > 0.95


def test_nearest_features_are_near_by_direction_and_can_be_kept():
    x, truth = features().x.double().numpy(), np.arange(120) % 3
    y = np.where(np.arange(120) < 24, truth, -1)
    (opinion,) = BY_NAME["nearest features"]().hear(x, [y], 3, 0)
    longer = x * np.random.default_rng(1).uniform(0.1, 10, size=(120, 1))
    (other,) = BY_NAME["nearest features"]().hear(longer, [y], 3, 0)
    rows = np.arange(120)
    assert np.allclose(opinion.of_rows(rows), other.of_rows(rows), atol=1e-9)
    (plain,), (far) = Neighbours().hear(x, [y], 3, 0), Neighbours().hear(longer, [y], 3, 0)[0]
    assert not np.allclose(plain.of_rows(rows), far.of_rows(rows), atol=1e-3)
    again = unpack(pack(opinion), Asked(3, np.full(3, 1 / 3), None, None))
    assert np.allclose(again.of_new(x), opinion.of_new(x), atol=1e-6)
    assert checked(opinion.of_new(x[:0]), 0, 3).shape == (0, 3)
