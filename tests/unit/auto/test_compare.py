"""A comparison is paired, covers as it should, and continues where it was stopped."""

import numpy as np
import pytest

from labelgrad import compare
from labelgrad.auto.base_models.estimators import EstimatorModel
from labelgrad.auto.compare import interval, rank
from labelgrad.auto.events import Events
from tests.unit.auto.small_fit import arrays

QUICK = {"models": "linear,majority", "seeds": 2}


def test_the_best_is_found_and_told_from_chance():
    found = compare(*arrays(rows=200, labeled=120), **QUICK)
    assert found.best.name == "linear"
    table = found.table()
    assert table["model"].to_list() == ["linear", "majority"]
    assert table["difference"].to_list()[0] is None
    assert table["difference_low"][1] > 0
    assert "linear has the lowest error" in found.summary
    assert "better than majority by more than chance" in found.summary
    assert found.title == "2 seeds, 120 held-out labels"


def test_values_and_training_methods_are_compared_too():
    X, y = arrays(rows=80, labeled=40, values=True)
    found = compare(X, y, base_models="linear,majority,lga,student", seeds=2, steps=20)
    assert found.best.name == "linear"
    assert {model.name for model in found.models} == {"linear", "majority", "lga", "student"}


def test_finished_trials_are_not_repeated(tmp_path, monkeypatch):
    X, y = arrays()
    whole = compare(X, y, **QUICK, out=tmp_path / "whole")
    fitted, fit = [], EstimatorModel.fit

    def counted(self, *args, **more):
        fitted.append(self.name)
        if len(fitted) == 7:
            raise KeyboardInterrupt
        return fit(self, *args, **more)

    monkeypatch.setattr(EstimatorModel, "fit", counted)
    with pytest.raises(KeyboardInterrupt):
        compare(X, y, **QUICK, out=tmp_path / "out")
    kept = (tmp_path / "out" / "results.jsonl").read_text()
    assert kept.count("\n") == 1
    monkeypatch.setattr(EstimatorModel, "fit", fit)
    again = compare(X, y, **QUICK, out=tmp_path / "out")
    assert (tmp_path / "out" / "results.jsonl").read_text().startswith(kept)
    assert again.table().drop("seconds").equals(whole.table().drop("seconds"))
    more = QUICK | {"models": "linear,majority,ensemble", "out": tmp_path / "out"}
    stacked = compare(X, y, **more)
    monkeypatch.setattr(EstimatorModel, "fit", counted)
    fitted.clear()
    compare(X, y, **QUICK, out=tmp_path / "out")
    assert compare(X, y, **more).table().equals(stacked.table())
    assert not fitted
    monkeypatch.setattr(EstimatorModel, "fit", fit)
    alone, ensemble = compare(X, y, **more | {"models": "linear,ensemble"}).models
    assert (ensemble.name, ensemble.error) == ("ensemble", alone.error)


def test_other_data_or_damage_are_refused(tmp_path):
    X, y = arrays()
    compare(X, y, **QUICK, out=tmp_path)
    with pytest.raises(ValueError, match="holds results with data"):
        compare(X + 1e-3 * y[:, None], y, **QUICK, out=tmp_path)
    with pytest.raises(ValueError, match="holds results with steps"):
        compare(X, y, **QUICK, steps=9, out=tmp_path)
    (tmp_path / "results.jsonl").write_text('{"model": "linear"}\n')
    with pytest.raises(ValueError, match="damaged or of another kind"):
        compare(X, y, **QUICK, out=tmp_path)


def test_a_model_that_cannot_be_fitted_is_left_out_with_a_note():
    noted = []

    class Heard(Events):
        def note(self, sentence):
            noted.append(sentence)

    X, y = arrays(values=True)
    models = "linear,majority,lga-linear"
    found = compare(X, y, models=models, seeds=1, events=Heard())
    assert [model.name for model in found.models] == ["linear", "majority"]
    assert any("'lga-linear' is left out" in note for note in noted)
    assert found.notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": "linear"}, "two or more different models"),
        ({"models": "linear,extratrees"}, "There is no base model 'extratrees'; did you mean"),
        ({"models": "linear,majority", "seeds": 0}, "`seeds` must be at least 1"),
    ],
)
def test_wrong_calls_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        compare(*arrays(), **options)


def test_intervals_cover_the_difference():
    """Models that differ by 0.1 with noise by seed and by label: few intervals miss it."""
    rng, missed = np.random.default_rng(0), 0
    for _ in range(400):
        table = 0.1 + 0.1 * rng.normal(size=(4, 1)) + 0.5 * rng.normal(size=(1, 40))
        found = interval(table + 0.2 * rng.normal(size=(4, 40)), 0.95)
        missed += not found.low <= 0.1 <= found.high
    assert missed / 400 < 0.06


def test_labels_that_one_seed_never_held_out_do_no_harm():
    lines = [
        {"model": m, "seed": s, "loss": 1.0, "seconds": 1.0, "rows": rows, "mistakes": wrong}
        for s, rows in ((0, [1, 2, 3]), (1, [2, 3, 4]))
        for m, wrong in (("a", [0, 0, 1]), ("b", [1, 1, 1]))
    ]
    found = rank("classification", ["a", "b"], lines, 2)
    assert (found.best.name, found.labels) == ("a", 4)
    assert found.models[1].difference.value == pytest.approx(2 / 3)
