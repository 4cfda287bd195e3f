"""Splits: each row has the roles it may have and no other, whatever is asked for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelgrad.paper.splits import LABELED_PART, class_counts, split_rows

KINDS = torch.arange(600) % 6


def as_set(rows):
    return set(rows.tolist())


@given(
    seed=st.integers(0, 2**31),
    labels=st.sampled_from([6, 30, 120]),
    validation=st.integers(0, 100),
    unlabeled=st.none() | st.integers(130, 300),
    keep=st.booleans(),
)
def test_no_row_leaks_into_another_role(seed, labels, validation, unlabeled, keep):
    rows = split_rows(
        KINDS,
        labels=labels,
        seed=seed,
        validation=validation,
        unlabeled=unlabeled,
        keep_labeled=keep,
    )
    labeled, others, held_out = map(as_set, (rows.labeled, rows.unlabeled, rows.validation))
    assert not held_out & (labeled | others)
    left_out = max(0, labels - int(LABELED_PART * unlabeled)) if unlabeled else 0
    assert len(labeled - others) == (left_out if keep else labels)
    assert (len(labeled), len(held_out)) == (labels, validation)
    left = 600 - validation - (0 if keep else labels)
    assert len(others) == len(rows.unlabeled) == (left if unlabeled is None else unlabeled)
    assert KINDS[rows.labeled].bincount().tolist() == [labels // 6] * 6


@given(seed=st.integers(0, 2**31), labels=st.sampled_from([60, 120, 300, 480]))
def test_a_sample_of_unlabeled_rows_is_of_all_classes_however_many_are_labeled(seed, labels):
    rows = split_rows(KINDS, labels=labels, seed=seed, validation=60, unlabeled=150)
    counts = KINDS[rows.unlabeled].bincount(minlength=6)
    if labels == 480:  # of 540 rows: what the others lack, labeled ones make up for
        assert len(as_set(rows.unlabeled) & as_set(rows.labeled)) == 150 - (540 - 480)
    else:
        assert len(as_set(rows.unlabeled) & as_set(rows.labeled)) == 30
    assert counts.sum() == 150
    assert counts.min() > 5  # 25 are expected, with a deviation of 4


def test_few_labels_are_all_among_the_unlabeled_rows_and_move_nobody():
    few = split_rows(KINDS, labels=30, seed=3, validation=50, unlabeled=150)
    assert as_set(few.labeled) < as_set(few.unlabeled)
    all_left = split_rows(KINDS, labels=300, seed=3, validation=50)
    assert as_set(all_left.labeled) < as_set(all_left.unlabeled)
    assert len(all_left.unlabeled) == 550


def test_the_seed_alone_decides_and_validation_does_not_depend_on_the_labels():
    few, many = (split_rows(KINDS, labels=n, seed=3, validation=50) for n in (6, 60))
    assert torch.equal(few.validation, many.validation)
    assert as_set(few.labeled) < as_set(many.labeled)
    again = split_rows(KINDS, labels=6, seed=3, validation=50)
    assert torch.equal(few.labeled, again.labeled)
    other = split_rows(KINDS, labels=6, seed=4, validation=50)
    assert not torch.equal(few.labeled, other.labeled)


@given(labels=st.integers(60, 400), classes=st.integers(2, 10), imbalance=st.floats(1.01, 5))
def test_uneven_classes_fall_by_one_factor(labels, classes, imbalance):
    counts = class_counts(labels, classes, imbalance)
    assert sum(counts) == labels
    shares = [imbalance ** -(kind / (classes - 1)) for kind in range(classes)]
    exact = [labels * share / sum(shares) for share in shares]
    assert all(abs(count - share) <= 1 for count, share in zip(counts, exact, strict=True))


@pytest.mark.parametrize("foreign", [0.0, 0.25, 0.5, 1.0])
def test_unlabeled_rows_of_unknown_classes(foreign):
    rows = split_rows(
        KINDS,
        labels=9,
        seed=0,
        validation=30,
        keep_labeled=False,
        known=(0, 2, 5),
        foreign=foreign,
    )
    assert set(KINDS[rows.labeled].tolist()) == {0, 2, 5}
    assert set(KINDS[rows.validation].tolist()) <= {0, 2, 5}
    away = ~torch.isin(KINDS[rows.unlabeled], torch.tensor([0, 2, 5]))
    assert float(away.double().mean()) == pytest.approx(foreign, abs=0.005)
    assert len(rows.unlabeled) > 250  # as many as can be had


def test_subset_of_mixed_rows_keeps_the_mixture():
    rows = split_rows(
        KINDS,
        labels=9,
        seed=0,
        validation=30,
        unlabeled=150,
        keep_labeled=False,
        known=(0, 2, 5),
        foreign=0.5,
    )
    away = ~torch.isin(KINDS[rows.unlabeled], torch.tensor([0, 2, 5]))
    assert int(away.sum()) == 75


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"labels": 7}, "7 labels can not be 6 classes of one size"),
        ({"labels": 6000}, "needs 1000 labels of class 0"),
        ({"labels": 6, "validation": 601}, "600 rows of the known classes, not 601"),
        ({"labels": 6, "unlabeled": 600}, "there are 570 rows for `unlabeled`, not 600"),
        ({"labels": 6, "imbalance": 0.5}, "got 0.5"),
        ({"labels": 6, "imbalance": 100.0}, "ask for more labels"),
        ({"labels": 6, "known": (0, 1), "foreign": 2.0}, "from 0 to 1, got 2.0"),
    ],
)
def test_what_can_not_be_had_is_said(wanted, sentence):
    with pytest.raises(ValueError, match=sentence):
        split_rows(KINDS, **({"seed": 0, "validation": 30} | wanted))
