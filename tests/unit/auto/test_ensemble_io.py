"""A saved ensemble predicts what it predicted, and a crafted file is refused before it is used."""

import json
import shutil

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from labelgrad import load
from labelgrad.auto.ensemble_io import check_estimator, load_state
from labelgrad.auto.run import Manifest, write_result_files
from labelgrad.auto.task import Classification
from tests.unit.auto.small_fit import arrays, small_fit

skops = pytest.importorskip("skops.io")

CLASSES = "linear,lga-metric,lga-kernel,self-training,random forest,extra trees,"
CLASSES += "neighbours,label spreading,majority,lga-linear,gaussian process,lga"
FEW = "linear,neighbours,lga-linear,lga"
VALUES = "linear,random forest,extra trees,neighbours,ard gaussian process,majority,lga"


def fit_equal(folder, models, *, values=False):
    """A run with equal weights, as stacking may keep a single model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labelgrad.auto.stacking.fit_weights", lambda *given: given[3])
        data = arrays(values=values)
        return small_fit(*data, out=folder, base_models=models, steps=5, keep_ensemble=True)


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    return fit_equal(tmp_path_factory.mktemp("few") / "run", FEW)


@pytest.mark.parametrize("models", [CLASSES, VALUES])
def test_every_base_model_comes_back_as_it_was(tmp_path, models):
    fitted = fit_equal(tmp_path / "run", models, values=models == VALUES)
    loaded = load(fitted.folder)
    new = np.random.default_rng(1).normal(size=(7, 4))
    one, two = (each.predict(new, ensemble=True) for each in (fitted, loaded))
    np.testing.assert_allclose(two.prediction, one.prediction, rtol=1e-5, atol=1e-6)
    assert not [note for note in loaded.notes if "ensemble lacks" in note]
    saved = json.loads((fitted.folder / "ensemble" / "ensemble.json").read_bytes())
    used = {name for name, weight in fitted.ensemble.weights.items() if weight}
    assert {model["name"] for model in saved["models"]} == used


def test_a_model_that_cannot_be_saved_is_named(tmp_path):
    result = small_fit(
        *arrays(), out=tmp_path / "run", base_models="support vectors", keep_ensemble=True
    )
    (note,) = [note for note in result.notes if "ensemble lacks" in note]
    assert "'support vectors'" in note
    assert "CalibratedClassifierCV, which is not allowed" in note


@pytest.fixture
def refusal(few, tmp_path):
    """The sentence that refuses a run whose files are changed, with digests that are right."""
    run = shutil.copytree(few.folder, tmp_path / "run")

    def of(change):
        files = {name: (run / name).read_bytes() for name in Manifest.of(run).files}
        change(files)
        write_result_files(run, files)
        with pytest.raises(ValueError, match=r"cannot be used .*; fit again") as refused:
            load(run).predict(arrays()[0], ensemble=True)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    return of


@pytest.mark.parametrize(
    "change",
    [
        lambda saved: saved["models"][0].update(weight=-1.0),
        lambda saved: saved["models"][0].update(kind="pickle"),
        lambda saved: saved["models"][0].update(factor=0.0),
        lambda saved: saved["models"].clear(),
        lambda saved: saved["models"].append(saved["models"][0]),
        lambda saved: saved.update(prior=[0.5]),
        lambda saved: saved.pop("class_priors"),
    ],
)
def test_an_index_with_wild_values_is_refused(refusal, change):
    def changed(files):
        saved = json.loads(files["ensemble/ensemble.json"])
        change(saved)
        files["ensemble/ensemble.json"] = json.dumps(saved).encode()

    assert "ensemble" in refusal(changed)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("neighbours", lambda state: {"neighbours": 10**6}, "1000000 neighbours of 60 examples"),
        ("neighbours", lambda state: {"neighbours": 0.5}, "0.5 neighbours"),
        ("neighbours", lambda state: {"mass": state["mass"][:-1]}, "mass has no finite numbers"),
        ("neighbours", lambda state: {"X": state["X"] * np.nan}, "X has no finite numbers"),
        ("lga-linear", lambda state: {"bias": state["bias"][:1]}, "bias has no finite numbers"),
        (
            "lga",
            lambda state: {"temperature": 0.0},
            "`temperature` must be positive",
        ),
        ("lga", lambda state: {"weights": {}}, "Error"),
        ("linear", lambda state: {"read": "eval"}, "eval"),
        ("linear", lambda state: {"estimator": SVC()}, "sklearn.svm._classes.SVC, which is not"),
    ],
)
def test_a_model_with_wild_values_is_refused(refusal, name, change, reason):
    def changed(files):
        file = next(each for each in files if each.endswith(f"-{name}.skops"))
        state = load_state(files[file])
        files[file] = skops.dumps(state | change(state))

    assert reason in refusal(changed)


def test_types_hidden_inside_an_allowed_estimator_are_refused():
    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    for hidden in (print, np.load, SVC(), {"deep": [SVC]}):
        model.extra_ = hidden
        with pytest.raises(ValueError, match="which is not allowed"):
            load_state(skops.dumps(model))


def test_a_file_that_is_huge_when_unpacked_is_refused(monkeypatch):
    content = skops.dumps(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))
    monkeypatch.setattr("labelgrad.auto.ensemble_io.MOST_BYTES", 100)
    with pytest.raises(ValueError, match="bytes when unpacked"):
        load_state(content)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("left_child", 0, "branches lead nowhere"),
        ("right_child", 10**6, "branches lead nowhere"),
        ("feature", 10**6, "columns that do not exist"),
        ("feature", -7, "columns that do not exist"),
    ],
)
def test_a_tree_that_leads_out_of_itself_is_refused(field, value, reason):
    X = np.random.default_rng(0).normal(size=(40, 4))
    forest = RandomForestClassifier(2, random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    tree = forest.estimators_[0].tree_
    state = tree.__getstate__()
    state["nodes"] = state["nodes"].copy()
    state["nodes"][field][0] = value
    tree.__setstate__(state)
    with pytest.raises(ValueError, match=reason):
        check_estimator(load_state(skops.dumps(forest)), Classification(("a", "b")))


def test_trees_and_classes_must_be_those_of_the_run():
    X = np.random.default_rng(0).normal(size=(40, 4))
    forest = RandomForestClassifier(2, random_state=0).fit(X, np.arange(40) % 3)
    check_estimator(forest, Classification(("a", "b", "c")))
    with pytest.raises(ValueError, match="classes are not those of the run"):
        check_estimator(forest, Classification(("a", "b")))
    forest.n_features_in_ = 2
    with pytest.raises(ValueError, match="different numbers of columns"):
        check_estimator(forest, Classification(("a", "b", "c")))
