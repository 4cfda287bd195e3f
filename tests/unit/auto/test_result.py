"""A result tells what was found, and its arrays agree with its table of labels."""

from dataclasses import replace

import numpy as np
import pytest

from labelgrad import load
from labelgrad.auto import assemble
from labelgrad.auto.run import Manifest, write_result_files
from tests.unit.auto.small_fit import arrays, small_fit

NAMES = ("linear", "neighbours")


@pytest.fixture(scope="module", params=[False, True], ids=["classes", "values"])
def result(request):
    return small_fit(*arrays(values=request.param), label_sampling="random")


def test_labels_are_the_ensembles_and_predictions_the_students(result):
    X, _ = arrays()
    imputed = result.labels.filter(result.labels["source"] == "imputed")
    examples = result.predictor.preprocessor.transform(X, result.config).examples
    point = result.task.point(result.predictor.predict(examples))[24:]
    if result.task.classes:
        assert imputed["prediction"].to_list() == result.task.display(point)
    else:
        np.testing.assert_allclose(imputed["prediction"], result.task.display(point), rtol=1e-6)
    assert result.labels["source"][:24].to_list() == ["random"] * 24
    assert (result.about.labeled, result.about.unlabeled) == (24, 36)


def test_confidence_is_supported_by_held_out_labels_only_as_far_as_these_are_right():
    held_out = small_fit(*arrays()).held_out
    predicted = held_out.predictions["ensemble"]
    confidence = np.exp(predicted.max(1))[np.exp(predicted.max(1)) > 0.6]
    right, wrong = (
        replace(held_out, y=found) for found in (predicted.argmax(1), 1 - predicted.argmax(1))
    )
    assert right.support(0.6) == 1
    assert wrong.support(0.6) == pytest.approx(2 / (confidence.sum() + 2))
    assert wrong.support(1.0) == 1  # no label is as confident as that


def test_held_out_predictions_are_of_labeled_examples(result):
    held_out = result.held_out
    assert set(held_out.rows.tolist()) == set(range(24))
    assert set(held_out.predictions) == {*NAMES, "ensemble", "student"}
    error = result.task.error(held_out.predictions["ensemble"], held_out.y)
    assert error == pytest.approx(result.evaluation.score("ensemble").error.value)
    means = held_out.fold_means
    assert means.shape == (4, result.task.columns)
    if result.task.classes:
        np.testing.assert_allclose(means.sum(1), 1, atol=1e-6)


def test_base_models_predictions_and_neighbours(result):
    models = result.base_model_predictions
    assert models.rows.tolist() == list(range(24, 60))
    assert set(models.predictions) == set(NAMES)
    assert models.nearest.shape == (36, 3)
    assert models.nearest.max() < 24
    for one in models.predictions.values():
        assert one.shape == (36, 2)


def test_what_is_shown(result, tmp_path):
    assert repr(result) == "<Result of 24 labels and 36 unlabeled>"
    assert str(result) == result.summary
    assert result.summary.split(".")[0] in result._repr_html_().replace("&#x27;", "'")
    assert result.report(tmp_path / "report.html").read_text() == result.page
    assert result.leaderboard()["model"].len() == 4


def test_many_unlabeled_examples_are_sampled(monkeypatch, tmp_path):
    monkeypatch.setattr(assemble, "MAX_UNLABELED", 100)
    monkeypatch.setattr(assemble, "MIN_UNLABELED", 50)
    X, y = arrays(rows=400, labeled=40)
    result = small_fit(X, y, steps=1, out=tmp_path / "run")
    assert result.about.learned_from == 50
    assert any("50 of them, drawn at random" in note for note in result.notes)
    assert len(result.labels) == 400
    drawn = result.base_model_predictions.rows
    assert len(drawn) == 50
    others = np.setdiff1d(np.arange(40, 400), drawn)
    table = result.labels
    assert (table["label"] == table["prediction"])[others.tolist()].all()
    assert table["neighbours"][others.tolist()].null_count() == len(others)
    assert table["neighbours"][drawn.tolist()].null_count() == 0
    assert set(result.held_out.rows.tolist()) <= set(range(40))
    assert load(tmp_path / "run").labels.equals(table)


@pytest.mark.parametrize("name", ["held_out.safetensors", "predictions.safetensors"])
def test_arrays_that_do_not_fit_are_refused(tmp_path, name):
    from safetensors.numpy import load as load_arrays
    from safetensors.numpy import save

    small_fit(*arrays(), out=tmp_path / "run")
    folder = tmp_path / "run"
    files = {each: (folder / each).read_bytes() for each in Manifest.of(folder).files}
    found = load_arrays(files[name])
    wrong = [
        {"rows": found["rows"] + 60},
        {"prediction/linear": found["prediction/linear"][1:].copy()},
        {"rows": found["rows"].astype(bool)},
    ]
    for change in wrong:
        write_result_files(folder, files | {name: save(found | change)})
        with pytest.raises(ValueError, match=rf"{name} cannot be used"):
            load(folder)
    del found["rows"]
    write_result_files(folder, files | {name: save(found)})
    with pytest.raises(ValueError, match=rf"{name} cannot be used"):
        load(folder)
