"""The witness that is a linear head by LGA: who judges its step, and what it then says."""

import numpy as np
import pytest
import torch

from labelgrad.witnesses import aligned
from labelgrad.witnesses.aligned import Aligned, judging, parts_of, walk
from labelgrad.witnesses.base import normalized
from labelgrad.witnesses.hearing import Case

CLASSES = 3


@pytest.fixture(autouse=True)
def short_paths(monkeypatch):
    monkeypatch.setattr(aligned, "STEPS", (120, 120))


def data(*, rows=90, labeled=24, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(rows) % CLASSES
    x = rng.normal(size=(rows, 8)) + 1.2 * rng.normal(size=(CLASSES, 8))[truth]
    return x, truth, np.where(np.arange(rows) < labeled, truth, -1)


def versions_of(y, folds):
    return Case(np.zeros((len(y), 1)), y, folds, CLASSES).versions


def test_every_fold_judges_the_others_and_none_judges_itself():
    y = data()[2]
    folds = [frozenset(range(n * 6, n * 6 + 6)) for n in range(4)]
    parts = parts_of(y, [*folds, frozenset()])
    assert parts == folds
    for fold in folds:
        judged = judging(fold, parts)
        assert len(judged) == 3
        for path, rows in judged:
            assert fold < path  # hidden on the path, too
            assert set(rows) <= path
            assert not set(rows) & fold
    assert [path for path, _ in judging(frozenset(), parts)] == folds


@pytest.mark.parametrize("hidden", [[()], [range(6), ()], [range(6), range(6, 12), ()]])
def test_where_too_few_labels_are_hidden_others_are_dealt(hidden):
    y = data()[2]
    hidden = [frozenset(rows) for rows in hidden]
    parts = parts_of(y, hidden)
    assert len(parts) == aligned.PARTS
    assert sorted(row for part in parts for row in part) == list(range(24))  # each once
    assert all(judging(mine, parts) for mine in hidden)


def test_a_class_of_one_label_is_in_no_part_and_nobody_judges_one_label_of_each():
    assert parts_of(np.array([0, 1, 2, -1]), [frozenset()]) == []
    parts = parts_of(np.array([0, 1, 1, 0, 2]), [frozenset()])
    assert 4 not in {row for part in parts for row in part}


def test_the_point_is_that_of_the_lowest_loss_of_hidden_labels_with_a_pull_to_the_end():
    x, _, y = data()
    parts = parts_of(y, [frozenset()])
    paths = [frozenset(), *parts]
    scaled = torch.from_numpy((x - x.mean(0)) / x.std()).float()
    walked = walk(scaled, y, np.arange(24, 90), paths, CLASSES, 0)
    point, sureness = walked.chosen(y, judging(frozenset(), parts))

    def loss(point, sureness):
        total = aligned.PULL * np.log((point + 1) / len(walked.heads)) ** 2
        for part in parts:
            rows = np.array(sorted(part))
            weight, bias = walked.head(part, point)
            said = normalized(sureness * (scaled[rows].double().numpy() @ weight + bias))
            total -= said[np.arange(len(rows)), y[rows]].sum()
            total -= aligned.DOUBT / 24 * said.mean(1).sum()
        return total

    losses = {(p, s): loss(p, s) for p in range(len(walked.heads)) for s in aligned.SURENESS}
    assert losses[point, sureness] == pytest.approx(min(losses.values()), rel=1e-6)


def test_the_judged_labels_have_no_say_in_what_is_said_of_them():
    """Whatever the labels of a fold are: what is said of it with them hidden stays the same."""
    x, _, y = data()
    folds = [np.arange(24)[np.arange(24) // 3 % 4 == n] for n in range(4)]
    rng = np.random.default_rng(1)
    for place, fold in enumerate(folds):
        mixed = y.copy()
        mixed[fold] = rng.integers(0, CLASSES, len(fold))
        before, after = (
            Aligned().hear(x, versions_of(labels, folds), CLASSES, 0)[place].of_rows(np.arange(90))
            for labels in (y, mixed)
        )
        assert np.array_equal(before, after)


def test_more_classes_than_can_be_judged_take_the_last_step(monkeypatch):
    x, _, y = data()
    monkeypatch.setattr(aligned, "WIDEST", 3)
    (opinion,) = Aligned().hear(x, [y], CLASSES, 0)
    scaled = torch.from_numpy((x - x.mean(0)) / x.std()).float()
    walked = walk(scaled, y, np.arange(24, 90), [frozenset()], CLASSES, 0)
    weight, bias = walked.head(frozenset(), -1)
    said = normalized(scaled.double().numpy() @ weight + bias)
    assert np.allclose(opinion.of_rows(np.arange(90)), said, atol=1e-5)


def test_scale_and_place_of_the_columns_do_not_matter():
    x, _, y = data()
    (one,), (other,) = (Aligned().hear(each, [y], CLASSES, 0) for each in (x, 100 * x + 7))
    assert np.allclose(one.of_new(x[:9]), other.of_new(100 * x[:9] + 7), atol=1e-3)


def test_many_unlabeled_rows_are_learned_from_in_part(monkeypatch):
    x, truth, y = data()
    monkeypatch.setattr(aligned, "MOST_UNLABELED", 40)
    (opinion,) = Aligned().hear(x, [y], CLASSES, 0)
    assert (opinion.of_rows(np.arange(90)).argmax(1) == truth).mean() > 0.8


def test_values_and_rows_that_all_have_labels_are_refused():
    x, truth, y = data()
    with pytest.raises(ValueError, match="it is for classes"):
        Aligned().hear(x, [y.astype(float)], 0, 0)
    with pytest.raises(ValueError, match="it needs unlabeled rows"):
        Aligned().hear(x, [truth], CLASSES, 0)


def test_a_rare_class_is_rare_though_there_are_as_many_labels_of_it(monkeypatch):
    monkeypatch.setattr(aligned, "STEPS", (600, 600))
    rng = np.random.default_rng(2)
    truth = (np.arange(400) >= 340).astype(int)
    x = rng.normal(size=(400, 40)) + 0.6 * rng.normal(size=40) * truth[:, None]
    y = np.full(400, -1)
    y[:10], y[-10:] = 0, 1
    right = {}
    for constant in (aligned.CONSTANT, aligned.UNEVEN):
        monkeypatch.setattr(aligned, "UNEVEN", constant)
        (opinion,) = Aligned().hear(x, [y], 2, 0)
        right[constant] = (opinion.of_rows(np.arange(400)).argmax(1) == truth).mean()
    assert right[aligned.UNEVEN] > right[aligned.CONSTANT] + 0.03
