"""Properties that every base model has, and those of single ones."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

from labelgrad import FitConfig
from labelgrad.auto.base_models.base import BaseModel
from labelgrad.auto.base_models.networks import (
    Network,
    TrainedNetwork,
    check_architecture,
    network_for,
)
from labelgrad.auto.base_models.registry import (
    BASE_MODELS,
    base_models,
    default_base_models,
    with_steps_for_budget,
)
from labelgrad.auto.base_models.weak_labels import read_weak_labels
from labelgrad.auto.data.dataset import Dataset, Examples
from labelgrad.auto.task import Array, Classification, Regression, Task

OPTIONAL = {"catboost", "tabicl"}
NETWORKS = [Network("supervised", "mlp-16", 60, 1e-2), Network("lga", "mlp-16", 60, 1e-2)]


def blobs(n: int = 90, seed: int = 0) -> tuple[Examples, Array, Array, Classification]:
    """Three classes that are easy to tell apart, with four labels each."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    X = rng.normal(size=(n, 4)) + 6 * np.eye(4)[truth]
    X = (X - X.mean(0)) / X.std(0)
    y = np.where(np.arange(n) < 12, truth, -1)
    return (
        Examples(X.astype(np.float32), rows=np.arange(n)),
        y,
        truth,
        Classification(("a", "b", "c")),
    )


def line(n: int = 80) -> tuple[Examples, Array, Array, Regression]:
    """A linear function with little noise, and twenty labels."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    values = X @ [1.0, -0.5, 0.2] + 0.05 * rng.normal(size=n)
    values /= values.std()
    y = np.where(np.arange(n) < 20, values, np.nan)
    return Examples(X.astype(np.float32), rows=np.arange(n)), y, values, Regression(3.0, 2.0)


def dataset(raw: Array | None = None, task: Task | None = None, **more: bool) -> Dataset:
    examples, y, _, classes = blobs()
    ids = [str(i) for i in range(len(y))]
    if isinstance(task, Regression):
        y = np.where(y < 0, np.nan, y)
    return Dataset(examples.X, y, task or classes, ids, None, raw=raw, **more)  # type: ignore[arg-type]


def of_registry(task: Task) -> list[BaseModel]:
    classes_only = {"self-training", "label spreading", "logistic regression"}
    classes_only |= {"lga-linear", "lga-metric", "lga-kernel"}
    values_only = {"ard gaussian process"}
    left_out = OPTIONAL | (classes_only if isinstance(task, Regression) else values_only)
    return [make() for name, make in BASE_MODELS.items() if name not in left_out] + NETWORKS


@pytest.mark.parametrize("model", of_registry(blobs()[-1]), ids=lambda model: model.name)
def test_a_classifier_predicts_known_and_new_examples_alike(model: BaseModel) -> None:
    examples, y, truth, task = blobs()
    fitted = model.fit(examples, y, task=task, seed=0)
    known = fitted.predict(examples)
    assert known.shape == (90, 3)
    assert np.allclose(np.exp(known).sum(1), 1)
    if model.name != "majority":
        assert task.error(known, truth) < 0.1
    new = fitted.predict(Examples(examples.X.copy()))
    assert (new.argmax(1) == known.argmax(1)).mean() > 0.95
    assert fitted.predict(examples[:0]).shape == (0, 3)
    some = np.array([50, 3])
    np.testing.assert_allclose(fitted.predict(examples[some]), known[some], atol=1e-4)
    again = pickle.loads(pickle.dumps(model)).fit(examples, y, task=task, seed=0)
    np.testing.assert_array_equal(again.predict(examples), known)


@pytest.mark.parametrize("model", of_registry(line()[-1]), ids=lambda model: model.name)
def test_a_regressor_predicts_a_mean_and_a_standard_deviation(model: BaseModel) -> None:
    examples, y, values, task = line()
    prediction = model.fit(examples, y, task=task, seed=0).predict(examples)
    assert prediction.shape == (80, 2)
    assert (prediction[:, 1] > 0).all()
    if model.name != "majority":
        assert task.error(prediction, values) < 0.95 * task.scale


@pytest.mark.parametrize(
    "name", ["linear", "random forest", "extra trees", "gaussian process", "logistic regression"]
)
def test_models_that_use_labels_only_ignore_unlabeled_examples(name: str) -> None:
    examples, y, _, task = blobs()
    model = BASE_MODELS[name]()
    assert not model.uses_unlabeled
    labeled = np.flatnonzero(y >= 0)
    alone = model.fit(examples[labeled], y[labeled], task=task, seed=0)
    both = model.fit(examples, y, task=task, seed=0)
    np.testing.assert_array_equal(alone.predict(examples), both.predict(examples))


def test_graph_prediction_solves_its_equation() -> None:
    examples, y, _, task = blobs(n=30)
    fitted = BASE_MODELS["neighbours"]().fit(examples, y, task=task, seed=0)
    graph = fitted.graph  # type: ignore[attr-defined]
    sources = np.zeros((30, 3))
    sources[np.flatnonzero(y >= 0), y[y >= 0]] = 1
    expected = np.linalg.solve(np.eye(30) - 0.9 * graph.smooth.toarray(), sources)
    np.testing.assert_allclose(graph.spread(sources), expected, atol=1e-10)


def test_examples_that_were_not_fitted_on_are_new_whatever_their_rows() -> None:
    examples, y, truth, task = blobs()
    first = np.arange(60)
    fitted = BASE_MODELS["neighbours"]().fit(examples[first], y[first], task=task, seed=0)
    both = fitted.predict(examples)
    np.testing.assert_array_equal(both[:60], fitted.predict(examples[first]))
    assert (both.argmax(1) == truth).mean() > 0.95


def test_weak_labels_are_read_from_columns_and_probabilities(tmp_path) -> None:
    file = tmp_path / "rules.csv"
    file.write_text("row,rule,llm:a,llm:b\n1,b,0.2,0.6\n3,,1,0\n")
    rule, llm = read_weak_labels(file, ["1", "2", "3"], Classification(("a", "b")))
    np.testing.assert_array_equal(rule.labels, [1, np.nan, np.nan])
    np.testing.assert_allclose(llm.labels, [[0.25, 0.75], [np.nan] * 2, [1, 0]])
    values = tmp_path / "values.csv"
    values.write_text("row,model\n2,5\n")
    (model,) = read_weak_labels(values, ["1", "2"], Regression(3.0, 2.0))
    np.testing.assert_array_equal(model.labels, [np.nan, 1.0])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("row\n1\n", "header"),
        ("row,rule\n9,a\n", "not in the data"),
        ("row,rule\n1,a\n1,b\n", "repeated"),
        ("row,rule\n1,a,b\n", "as many cells"),
        ("row,rule\n1,zebra\n", "classes of the data"),
        ("row,x:a\n1,0.5\n", "lacks 'b'"),
        ("row,x:a,x:b\n1,0.5,7\n", "from 0 to 1"),
        ("row,x:a,x:b\n1,0.5,nan\n", "finite"),
    ],
)
def test_wrong_weak_labels_are_refused(tmp_path, content: str, reason: str) -> None:
    file = tmp_path / "rules.csv"
    file.write_text(content)
    with pytest.raises(ValueError, match=reason):
        read_weak_labels(file, ["1", "2"], Classification(("a", "b")))


def test_weak_labels_worse_than_chance_abstain(tmp_path) -> None:
    examples, y, truth, task = blobs()
    file = tmp_path / "rules.csv"
    wrong = [task.classes[(label + 1) % 3] for label in truth]
    file.write_text("row,rule\n" + "".join(f"{i},{name}\n" for i, name in enumerate(wrong)))
    (model,) = read_weak_labels(file, [str(i) for i in range(90)], task)
    prediction = model.fit(examples, y, task=task, seed=0).predict(examples)
    np.testing.assert_allclose(np.exp(prediction), 1 / 3, atol=1e-6)


def test_defaults_have_networks_only_where_they_see_pixels() -> None:
    table, encoded = dataset(), dataset(has_encoded_features=True)
    images = dataset(raw=np.zeros((90, 1, 8, 8), np.uint8))
    assert "linear" in default_base_models(table)
    assert "lga-evidence" not in default_base_models(table)
    assert default_base_models(table, "fast") == ("lga-metric", "extra trees", "neighbours")
    assert default_base_models(encoded) == ("linear", "nearest features", "lga-linear")
    assert default_base_models(images)[-2:] == ("supervised", "lga-evidence")
    models = {model.name: model for model in base_models(None, FitConfig(), images)}
    assert models["supervised"].architecture == "wrn-10-1"  # type: ignore[attr-defined]
    assert not models["supervised"].trusted  # type: ignore[attr-defined]


def test_base_models_take_methods_estimators_and_weak_labels(tmp_path) -> None:
    file = tmp_path / "rules.csv"
    file.write_text("row,rule\n1,a\n")
    estimators = {"mine": LogisticRegression(), "ridge": Ridge()}
    config = FitConfig(
        method="lga+vat", network="mlp-8", steps=7, estimators=estimators, weak_labels=file
    )
    models = base_models(("linear",), config, dataset())
    assert [model.name for model in models] == ["linear", "lga+vat", "mine", "ridge", "rule"]
    with pytest.raises(ValueError, match="did you mean 'linear'"):
        base_models(("linaer",), FitConfig(), dataset())
    with pytest.raises(ValueError, match="two named 'linear'"):
        base_models(("linear",), FitConfig(estimators={"linear": Ridge()}), dataset())


def test_a_method_must_suit_the_task_and_the_data() -> None:
    with pytest.raises(ValueError, match="Regression supports"):
        base_models(("vat",), FitConfig(), dataset(task=Regression()))
    tokens = dataset(raw=np.zeros((90, 5), np.int32))
    with pytest.raises(ValueError, match="randomly changed"):
        base_models(("vat",), FitConfig(), tokens)
    whole = replace(dataset(), y=blobs()[2])
    (network,) = base_models(("lga",), FitConfig(), whole)
    assert network.name == "supervised"


def test_a_network_resumes_to_the_same_bits(tmp_path) -> None:
    examples, y, _, task = blobs()
    whole = Network("lga", "mlp-8", 60, 1e-2)
    expected = whole.fit(examples, y, task=task, seed=0).predict(examples)
    kept = Network("lga", "mlp-8", 60, 1e-2, folder=tmp_path)
    run = kept.run(examples, y, task)
    for record in run:
        if record["step"] == 40:
            break
    assert any(tmp_path.iterdir())
    np.testing.assert_array_equal(
        kept.fit(examples, y, task=task, seed=0).predict(examples), expected
    )


def test_a_network_of_images_sees_raw_pixels_and_is_saved_as_numbers() -> None:
    rng, truth = np.random.default_rng(0), np.arange(40) % 2
    raw = rng.integers(0, 90, size=(40, 1, 8, 8)).astype(np.uint8)
    raw[truth == 1, :, :, 4:] += 150
    examples = Examples(np.zeros((40, 1), np.float32), raw, np.arange(40))
    y, task = np.where(np.arange(40) < 10, truth, -1), Classification(("l", "r"))
    fitted = Network("lga", "wrn-10-1", 25, 1e-2, mirror=False).fit(examples, y, task=task, seed=0)
    assert isinstance(fitted, TrainedNetwork)
    again = TrainedNetwork.from_dict(fitted.to_dict(), task)
    again.network.load_state_dict(fitted.network.state_dict())
    np.testing.assert_array_equal(again.predict(examples), fitted.predict(examples))
    assert task.error(fitted.predict(examples), truth) < 0.2


def test_an_own_module_is_copied_and_trained() -> None:
    examples, y, _, task = blobs()
    module = nn.Linear(4, 3)
    before = module.weight.clone()
    config = FitConfig(network=module, steps=100)
    (model,) = base_models(("supervised",), config, dataset())
    prediction = model.fit(examples, y, task=task, seed=0).predict(examples)
    assert prediction.shape == (90, 3)
    assert torch.equal(module.weight, before)


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        ("transformer", (4,), "must be mlp"),
        ("wrn-10-1", (4,), "needs images"),
        ("wrn-9999-1", (3, 8, 8), "layers"),
        ("mlp-9999-9999-9999-9999" + "-9999" * 500, (9,), "GB of weights"),
    ],
)
def test_wrong_architectures_are_refused(name: str, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_architecture(name, shape, Regression())


class Halves(nn.Module):
    """An encoder with a head, as fine-tuning builds it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = nn.Flatten(), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x))


def test_fine_tuning_needs_an_encoder_and_trains_its_network() -> None:
    config = FitConfig(fine_tune=0.1, steps=20)
    with pytest.raises(ValueError, match="one encoder"):
        base_models(("lga",), config, dataset())
    raw = np.random.default_rng(0).integers(0, 255, size=(90, 1, 2, 2)).astype(np.uint8)
    images = dataset(raw=raw, has_encoded_features=True)
    network = network_for("lga", images, config, module=Halves())
    assert (network.architecture, network.encoder_rate) == ("fine-tuned", 0.1)
    fitted = network.fit(images.examples, images.y, task=images.task, seed=0)
    assert fitted.predict(images.examples).shape == (90, 3)


def test_a_time_budget_becomes_steps() -> None:
    config = FitConfig(base_models="lga", time_budget=0.05)
    few = with_steps_for_budget(config, dataset())
    assert few.steps is not None
    more = with_steps_for_budget(config.override({"time_budget": 5.0}), dataset())
    assert more.steps is not None
    assert more.steps > 5 * few.steps
    assert with_steps_for_budget(FitConfig(steps=3, time_budget=1.0), dataset()).steps == 3
