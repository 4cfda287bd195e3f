"""Splits: each row has the roles it may have and no other, whatever is asked for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.paper.splits import LABELED_PART, split_rows

KINDS = torch.arange(600) % 6


def as_set(rows):
    return set(rows.tolist())


@given(
    seed=st.integers(0, 2**31),
    labels=st.sampled_from([6, 30, 120]),
    validation=st.integers(0, 100),
    unlabeled=st.none() | st.integers(130, 300),
)
def test_no_row_leaks_into_another_role(seed, labels, validation, unlabeled):
    rows = split_rows(
        KINDS,
        labels=labels,
        seed=seed,
        validation=validation,
        unlabeled=unlabeled,
    )
    labeled, others, held_out = map(as_set, (rows.labeled, rows.unlabeled, rows.validation))
    assert not held_out & (labeled | others)
    left_out = max(0, labels - int(LABELED_PART * unlabeled)) if unlabeled else 0
    assert len(labeled - others) == left_out
    assert (len(labeled), len(held_out)) == (labels, validation)
    left = 600 - validation
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


def test_the_seed_alone_decides_and_validation_does_not_depend_on_the_labels():
    few, many = (split_rows(KINDS, labels=n, seed=3, validation=50) for n in (6, 60))
    assert torch.equal(few.validation, many.validation)
    assert as_set(few.labeled) < as_set(many.labeled)
    again = split_rows(KINDS, labels=6, seed=3, validation=50)
    assert torch.equal(few.labeled, again.labeled)
    other = split_rows(KINDS, labels=6, seed=4, validation=50)
    assert not torch.equal(few.labeled, other.labeled)


def test_a_sample_as_large_as_all_rows_is_all_of_them():
    rows = split_rows(KINDS, labels=480, seed=3, validation=30, unlabeled=600)
    assert len(rows.unlabeled) == 570
    assert as_set(rows.labeled) < as_set(rows.unlabeled)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"labels": 7}, "7 labels can not be 6 classes of one size"),
        ({"labels": 6000}, "needs 1000 labels of each class"),
    ],
)
def test_what_can_not_be_had_is_said(wanted, sentence):
    with pytest.raises(ValueError, match=sentence):
        split_rows(KINDS, **({"seed": 0, "validation": 30} | wanted))
