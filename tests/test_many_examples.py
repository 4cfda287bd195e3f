"""A fit on very many unlabeled examples learns from some of them, and labels all."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch

import labelgrad
from labelgrad.fitting import many_labels, sample
from labelgrad.fitting.corrections import take_corrections
from labelgrad.fitting.labels import examples_csv, labels_csv
from labelgrad.fitting.many_labels import ManyExamples, ManyLabels, both, column
from labelgrad.fitting.predictor import save_parts
from labelgrad.fitting.promises import promised_labels
from labelgrad.fitting.result import load
from labelgrad.fitting.review import review_queue, save_sure_labels, sure_labels
from labelgrad.fitting.sample import sample_to_learn_from, some_of

ROWS, LABELED, LEARNED = 300, 40, 60
QUICK = {"witnesses": "linear", "steps": 30, "drawn": "random"}


def written(place, *, values=False):
    """A table whose label follows from its first column."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3)).round(3)
    named = [f"{a:.2f}" if values else ("no", '"yes"')[int(a > 0)] for a in x[:, 0]]
    path = place / "t.csv"
    with path.open("w", newline="") as file:
        write = csv.writer(file).writerow
        write(["a", "b", "c", "label"])
        for i, (row, label) in enumerate(zip(x.tolist(), named, strict=True)):
            write([*row, label if i % 7 == 0 and i < 280 else ""])
    return path


@pytest.fixture(scope="module", params=[False, True], ids=["classes", "values"])
def run(request, tmp_path_factory):
    """A run whose examples are too many, and the folder that it is in."""
    place = tmp_path_factory.mktemp("many")
    path, said = written(place, values=request.param), []
    with pytest.MonkeyPatch.context() as patch:
        few_are_many(patch)
        result = labelgrad.fit(
            path, target="label", out=place / "run", on_note=said.append, **QUICK
        )
    return result, path, said


def few_are_many(patch):
    patch.setattr(sample, "MOST", 2 * LEARNED)
    patch.setattr(sample, "FEWEST", LEARNED)
    patch.setattr(sample, "BATCH", 1)
    patch.setattr(many_labels, "NUMBERS_AT_ONCE", 50)
    patch.setattr(many_labels, "AT_ONCE", 7)


def test_all_examples_have_labels_and_that_they_are_sampled_is_said(run):
    result, _, said = run
    assert any("networks and witnesses learn from 60 of them, drawn at random" in s for s in said)
    assert any("60 of them" in note for note in result.summary.notes)
    assert (len(result.labels), len(result.examples)) == (ROWS - LABELED, ROWS)
    assert result.summary.counts.unlabeled == ROWS - LABELED
    assert result.summary.learned_from == LEARNED
    assert [example.name for example in result.examples] == [str(i) for i in range(1, ROWS + 1)]
    given = [example for example in result.examples if example.given is not None]
    assert len(given) == LABELED
    assert {example.origin for example in given} == {"random draw"}


def test_labels_are_the_pools_where_it_learned_and_else_the_models(run):
    result, path, _ = run
    said = result.predict(path)
    by_name = dict(zip(said.names, said.labels, strict=True))
    near = {example.name for example in result.examples if example.neighbours is not None}
    assert len(near) == LEARNED
    for row in result.labels:
        said_of_it = by_name[row.name]
        is_value = isinstance(said_of_it, float)
        assert row.prediction == (pytest.approx(said_of_it) if is_value else said_of_it)
        if row.name not in near:
            assert row.label == row.prediction
            assert row.agree
            assert row.visits is None
    if result.predictor.config.classes:
        sure = {n: float(p.max()) for n, p in zip(said.names, said.values, strict=True)}
        for row in result.labels:
            assert row.prediction_probability == pytest.approx(sure[row.name], abs=1e-6)
        others = [e for e in result.examples if e.given is None]
        assert all(0 <= example.margin <= 1 for example in others)


def test_what_is_kept_is_what_was_found(run):
    result, *_ = run
    again = load(result.folder)
    assert list(again.labels) == list(result.labels)
    assert list(again.examples) == list(result.examples)
    assert again.summary.learned_from == LEARNED
    assert (result.folder / "labels.csv").read_bytes() == labels_csv(list(result.labels), "row")
    examples = (result.folder / "examples.csv").read_bytes()
    assert examples == examples_csv(list(result.examples), "row")
    held = again.held_out["rows"]
    assert [again.examples[row].given is not None for row in held] == [True] * len(held)


def test_predictions_in_parts_are_those_of_all(run, tmp_path):
    result, path, _ = run
    whole = result.predict(path)
    whole.save(tmp_path / "whole.csv")
    rows = [slice(first, first + 70) for first in range(0, ROWS, 70)]
    parts = [replace(whole, names=whole.names[r], values=whole.values[r]) for r in rows]
    assert save_parts(parts, tmp_path / "parts.csv") == (ROWS, [])
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    found = list(result.predict_in_parts(path))
    assert torch.equal(torch.cat([part.values for part in found]), whole.values)


def test_nothing_is_written_of_predictions_that_break_off(run, tmp_path):
    result, path, _ = run

    def broken():
        yield result.predict(path)
        raise ValueError("the second part cannot be read")

    with pytest.raises(ValueError, match="the second part"):
        save_parts(broken(), tmp_path / "said.csv")
    assert list(tmp_path.iterdir()) == []


def test_the_sure_and_the_doubtful_are_those_of_a_list(run, tmp_path):
    result, *_ = run
    plain = replace(result, labels=list(result.labels), examples=list(result.examples))
    assert review_queue(result, 25) == review_queue(plain, 25)
    out = {plain.labels[0].name, review_queue(plain, 1)[0].name}
    assert review_queue(result, 25, leave_out=out) == review_queue(plain, 25, leave_out=out)
    if not result.predictor.config.classes:
        return
    for above in (0.0, 0.6, 1.0):
        many, few = sure_labels(result, above), sure_labels(plain, above)
        assert list(many) == list(few)
        save_sure_labels(many, "row", tmp_path / "many.csv")
        save_sure_labels(few, "row", tmp_path / "few.csv")
        assert (tmp_path / "many.csv").read_bytes() == (tmp_path / "few.csv").read_bytes()
    assert many[-1:] == list(few)[-1:]


def test_random_labels_promise_nothing_where_labels_are_not_the_pools(run):
    result, *_ = run
    with pytest.raises(ValueError, match="A promise"):
        promised_labels(result, 0.1)


def test_corrections_are_taken_and_trained_with(run, tmp_path, monkeypatch):
    result, path, _ = run
    name = result.labels[-1].name
    label = result.predictor.config.classes[0] if result.predictor.config.classes else "0.25"
    (tmp_path / "c.csv").write_text(f'row,label\n{name},"{label.replace(chr(34), chr(34) * 2)}"\n')
    assert take_corrections(result, tmp_path / "c.csv").new == 1
    (tmp_path / "c.csv").write_text("row,label\n999,a\n")
    with pytest.raises(ValueError, match="not in the data: '999'"):
        take_corrections(result, tmp_path / "c.csv")
    few_are_many(monkeypatch)
    again = labelgrad.fit(path, target="label", out=result.folder, resume=True)
    assert len(again.labels) == ROWS - LABELED - 1
    assert again.examples[int(name) - 1].origin == "correction"
    assert str(again.examples[int(name) - 1].given) == label


def test_damaged_records_are_refused(run):
    result, *_ = run
    folder = result.folder
    content = (folder / "records.npy").read_bytes()
    (folder / "records.npy").unlink()
    (folder / "records.npy").write_bytes(content[:-9] + b"123456789")
    with pytest.raises(ValueError, match=r"records.npy is damaged"):
        load(folder)
    (folder / "records.npy").unlink()
    with pytest.raises(ValueError, match=r"records.npy cannot be read"):
        load(folder)
    (folder / "records.npy").write_bytes(content)
    (folder / "labels.csv").write_text("row,label\n")
    assert load(folder).notes == [
        "labels.csv was changed after the run; of so many examples it is not read again."
    ]


def test_the_sample_has_all_labels_and_is_drawn_by_the_seed(tmp_path):
    y = torch.full((1000,), -1)
    y[::10] = torch.arange(100) % 2
    names = [str(row) for row in range(1000)]
    x = torch.arange(2000.0).view(1000, 2)
    data = labelgrad.inputs.base.Dataset("arrays", x, y, "classification", ("a", "b"), names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample, "MOST", 300)
        patch.setattr(sample, "FEWEST", 50)
        patch.setenv("LABELGRAD_MEMORY", "0")  # so that rows are copied to a file
        patch.setenv("LABELGRAD_CACHE", str(tmp_path))
        assert sample_to_learn_from(some_of(data, torch.arange(300)), 1, seed=0) is None
        for steps, count in ((0, 50), (2, 100), (10**12, 300)):
            found = sample_to_learn_from(data, steps, seed=3)
            assert (found.dataset.labeled.sum(), (~found.dataset.labeled).sum()) == (100, count)
            assert torch.equal(found.dataset.x, x[found.rows])
            assert torch.equal(found.dataset.y, y[found.rows])
            assert found.dataset.names == [names[row] for row in found.rows]
            assert torch.equal(found.rows, sample_to_learn_from(data, steps, seed=3).rows)
            assert not torch.equal(found.rows, sample_to_learn_from(data, steps, seed=4).rows)


def test_columns_are_those_of_the_rows():
    records = np.zeros(4, many_labels.record_type(("a", "b")))
    records["given"], records["origin"] = [0, -1, 1, -1], -1
    records["margin"], records["visits"] = [np.nan, 0.5, np.nan, 0.25], -1
    labels, examples = both(["w", "x", "y", "z"], ("a", "b"), records)
    assert isinstance(labels, ManyLabels)
    assert isinstance(examples, ManyExamples)
    assert [row.name for row in labels] == ["x", "z"]
    np.testing.assert_array_equal(column(examples, "margin"), column(list(examples), "margin"))
    np.testing.assert_array_equal(column(labels, "agree"), column(list(labels), "agree"))
