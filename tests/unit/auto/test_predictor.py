"""The saved model comes back from its files, and predicts in parts what it predicts at once."""

import json

import numpy as np
import pytest
from torch import nn

from labelgrad import load
from labelgrad.auto.predictor import Predictions, save_predictions
from labelgrad.auto.run import Manifest, write_result_files
from labelgrad.auto.task import Classification, Regression
from tests.unit.auto.small_fit import arrays, small_fit


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes") / "run"
    small_fit(*arrays(), out=folder, base_models="linear")
    return folder


def test_probabilities_are_those_of_the_table(classes, tmp_path):
    X, _ = arrays()
    found = load(classes).predict(X)
    assert len(found) == len(X)
    np.testing.assert_allclose(found.probabilities.sum(1), 1)
    frame = found.frame()
    assert frame.columns == ["row", "prediction", "confidence", "0", "1"]
    np.testing.assert_allclose(frame["confidence"], found.probabilities.max(1), atol=1e-6)
    assert frame["prediction"].to_list() == found.labels
    found.save(tmp_path / "one.csv")
    count, skipped = save_predictions(load(classes).predict_in_parts(X), tmp_path / "two.csv")
    assert (count, skipped) == (len(X), [])
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_intervals_cover_most_values_and_are_wider_where_the_noise_is(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    noisy = X[:, 0] > 0
    truth = X[:, 1] + np.where(noisy, 1.0, 0.1) * rng.normal(size=1000)
    y = np.where(np.arange(1000) < 150, truth, np.nan)
    run = small_fit(X, y, out=tmp_path / "run", base_models="extra trees", steps=300)
    loaded = load(tmp_path / "run")
    for found in (loaded.predict(X[150:]), run.predict(X[150:], ensemble=True)):
        frame = found.frame()
        assert frame.columns == ["row", "prediction", "low", "high"]
        low, high = frame["low"].to_numpy(), frame["high"].to_numpy()
        np.testing.assert_allclose((high - low) / 2, found.margin)
        assert 0.85 < ((low <= truth[150:]) & (truth[150:] <= high)).mean() < 0.95
        assert found.margin[noisy[150:]].mean() > 1.2 * found.margin[~noisy[150:]].mean()
    with pytest.raises(ValueError, match="values have no probabilities"):
        _ = found.probabilities


def test_many_classes_have_columns_only_on_request():
    task = Classification(tuple(f"c{i}" for i in range(21)))
    found = Predictions(task, "row", ["1"], np.full((1, 21), -np.log(21)))
    assert found.frame().width == 3
    assert found.frame(all_classes=True).width == 24
    named = Predictions(Classification(("row", "dog")), "row", ["1"], np.log([[0.5, 0.5]]))
    assert "probability of row" in named.frame().columns


def test_a_failed_write_leaves_the_old_file(tmp_path):
    def parts():
        yield Predictions(Regression(), "row", ["1"], np.array([[1.0, 1.0]]))
        raise ValueError("no more")

    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(ValueError, match="no more"):
        save_predictions(parts(), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_network_of_ones_own_is_given_again(tmp_path):
    def network():
        return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))

    X, y = arrays()
    fitted = small_fit(X, y, out=tmp_path / "run", base_models="linear", network=network())
    with pytest.raises(ValueError, match=r"network of your own; load it .*network=\.\.\."):
        load(tmp_path / "run")
    loaded = load(tmp_path / "run", network=network())
    np.testing.assert_array_equal(loaded.predict(X).prediction, fitted.predict(X).prediction)
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be used"):
        load(tmp_path / "run", network=nn.Linear(4, 2))


@pytest.mark.parametrize(
    "change",
    [
        lambda saved: saved["network"].update(temperature=0.0),
        lambda saved: saved["network"].update(architecture="mlp-9999-9999-9999"),
        lambda saved: saved["network"].update(architecture="wrn-9999-9999", shape=[3, 8, 8]),
        lambda saved: saved["network"].update(factor=0.0),
        lambda saved: saved["network"].update(shape=[]),
        lambda saved: saved["network"].update(shape=[-4]),
        lambda saved: saved["task"].update(classes=["0", "0"]),
        lambda saved: saved["task"].update(classes=["0", "1", "2"]),
        lambda saved: saved.update(margin=-1.0),
        lambda saved: saved.update(preprocessor={"kind": "nothing"}),
        lambda saved: saved.update(task="classification"),
    ],
)
def test_a_crafted_model_is_refused_in_one_sentence(classes, tmp_path, change):
    files = {name: (classes / name).read_bytes() for name in Manifest.of(classes).files}
    saved = json.loads(files["model.json"])
    change(saved)
    write_result_files(tmp_path, files | {"model.json": json.dumps(saved).encode()})
    with pytest.raises(ValueError, match=r"model\.") as refused:
        load(tmp_path)
    assert "\n" not in str(refused.value)
