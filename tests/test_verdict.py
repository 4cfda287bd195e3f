"""The verdict: who is judged by what, in numbers that can be counted by hand, and one sentence."""

import numpy as np
import pytest
import torch

import labelgrad
from labelgrad.fitting.verdict import Answers, Verdict, judge
from labelgrad.report.data import Estimate, Judged
from labelgrad.witnesses import models


def outputs(named, classes=2, sure=3.0):
    return sure * torch.nn.functional.one_hot(torch.tensor(named), classes).double()


def wrong_on(y, rows):
    return [1 - label if row in rows else label for row, label in enumerate(y.tolist())]


def classes_judged(**options):
    """Forty labels: linear is wrong on 10, the forest on 8, the pool on 4."""
    y = torch.arange(40) % 2
    answers = [
        Answers("linear", "labels", outputs(wrong_on(y, range(10))), 0.2),
        Answers("forest", "labels", outputs(wrong_on(y, range(8))), 0.4),
        Answers("neighbours", "unlabeled", outputs(wrong_on(y, range(2))), 0.9),
        Answers("pool", "pool", outputs(wrong_on(y, range(4)))),
        Answers("student", "student", None),
    ]
    return y, judge("classification", y, answers, kept="student", **options)


# Numbers


def test_the_pool_is_compared_with_the_best_that_saw_labels_alone():
    _, verdict = classes_judged()
    assert verdict.examples == 40
    assert [row.error.value for row in verdict.rows[:4]] == [0.25, 0.2, 0.05, 0.1]
    assert verdict.beside == "forest"
    assert verdict.difference.value == pytest.approx(0.2 - 0.1)
    assert [row.weight for row in verdict.rows] == [0.2, 0.4, 0.9, None, None]
    assert [row.name for row in verdict.rows if row.kept] == ["student"]


def test_the_interval_of_the_difference_is_that_of_paired_draws():
    """Four labels of 40 differ: the difference is a binomial number of them, over 40."""
    from scipy.stats import binom

    _, verdict = classes_judged()
    low, high = binom(40, 4 / 40).ppf([0.025, 0.975]) / 40
    assert verdict.difference.low == pytest.approx(low, abs=0.026)
    assert verdict.difference.high == pytest.approx(high, abs=0.026)


def test_errors_of_nothing_wrong_are_not_called_certain():
    y = torch.arange(20) % 2
    verdict = judge(
        "classification", y, [Answers("pool", "pool", outputs(y.tolist()))], kept="pool"
    )
    error = verdict.row("pool").error
    z = 1.959964
    assert (error.value, error.low) == (0.0, 0.0)
    assert error.high == pytest.approx(z**2 / (20 + z**2))


def test_a_student_that_was_not_judged_is_known_by_the_pools_numbers():
    _, verdict = classes_judged()
    assert verdict.row("student").error is None
    assert verdict.judged == "pool"
    assert not verdict.pool_is_better


def test_with_importance_errors_and_losses_are_weighted():
    counts = np.where(np.arange(40) < 4, 5.0, 0.5)
    y, verdict = classes_judged(importance=counts)
    total = 4 * 5 + 36 * 0.5
    errors = {"linear": 20 + 6 * 0.5, "forest": 20 + 4 * 0.5, "neighbours": 10, "pool": 20}
    for name, wrong in errors.items():
        assert verdict.row(name).error.value == pytest.approx(wrong / total)
        assert verdict.row(name).error.low <= wrong / total <= verdict.row(name).error.high
    assert verdict.difference.value == pytest.approx((errors["forest"] - errors["pool"]) / total)
    right, false = np.log1p(np.exp(-3)), np.log1p(np.exp(3))
    assert verdict.row("pool").loss == pytest.approx((20 * false + 18 * right) / total)
    assert len(y) == 40


def test_equal_importance_changes_nothing():
    plain, weighted = classes_judged()[1], classes_judged(importance=np.full(40, 1.0))[1]
    assert plain.rows == weighted.rows
    assert plain.difference == weighted.difference


def test_values_are_judged_by_the_root_of_squared_distances_in_their_own_units():
    y = torch.tensor([0.0, 1.0, -1.0, 2.0])
    linear, pool = torch.tensor([[1.0], [1.0], [0.0], [2.0]]), torch.zeros(4, 1) + y[:, None]
    pool[0] = 0.5
    answers = [Answers("linear", "labels", linear), Answers("pool", "pool", pool)]
    verdict = judge("regression", y, answers, kept="pool", spread=10.0)
    assert verdict.row("linear").error.value == pytest.approx(10 * (2 / 4) ** 0.5)
    assert verdict.row("pool").error.value == pytest.approx(10 * (0.25 / 4) ** 0.5)
    assert verdict.row("pool").loss == pytest.approx(0.25 / 4 / 2)
    assert verdict.row("pool").calibration is None
    difference = 10 * ((2 / 4) ** 0.5 - (0.25 / 4) ** 0.5)
    assert verdict.difference.value == pytest.approx(difference)


def test_the_same_seed_gives_the_same_intervals():
    assert classes_judged(seed=1)[1] == classes_judged(seed=1)[1]
    assert classes_judged(seed=1)[1].difference.value == classes_judged(seed=2)[1].difference.value


def test_a_student_that_lost_something_is_told():
    y = torch.arange(60) % 2
    sure = 4.0 * torch.nn.functional.one_hot(y).double()
    noise = torch.randn(60, 2, generator=torch.Generator().manual_seed(0)).double()

    def verdict(student):
        answers = [Answers("pool", "pool", sure), Answers("student", "student", student)]
        return judge("classification", y, answers, kept="student")

    worse = verdict(sure / 2)
    assert worse.pool_is_better
    wanted = torch.nn.functional.cross_entropy
    assert worse.student_behind.value == pytest.approx(float(wanted(sure / 2, y) - wanted(sure, y)))
    assert not verdict(sure + 0.1 * noise).pool_is_better
    assert not verdict(None).pool_is_better


# The sentence


def sentence(value, low, high, *, unlabeled=True, task="classification", kept="student"):
    error = Estimate(0.1, 0.0, 0.2)
    rows = [
        Judged("linear", "labels", Estimate(0.2, 0.1, 0.3), 0.5),
        Judged("pool", "pool", error, 0.4),
        Judged("student", "student", error, 0.4),
    ]
    if unlabeled:
        rows.append(Judged("neighbours", "unlabeled", error, 0.4))
    return Verdict(task, 40, rows, kept, "linear", Estimate(value, low, high)).sentence


def test_the_sentence_says_what_came_of_it():
    what = (
        "error 10.0 % of the pool beside 20.0 % of the best that saw labels alone (linear), on 40 "
        "held-out labels; the student is kept."
    )
    assert sentence(0.1, 0.05, 0.2) == f"The unlabeled data helped: {what}"
    assert (
        sentence(0.1, -0.1, 0.2) == f"The unlabeled data may have helped, or it is chance: {what}"
    )
    assert sentence(0.1, 0.0, 0.2).startswith("The unlabeled data may have helped")
    assert sentence(-0.1, -0.2, -0.05) == f"The unlabeled data did harm: {what}"
    for value in (0.0, -0.1):
        said = sentence(value, -0.2, 0.1)
        assert said == f"The unlabeled data made no difference that shows: {what}"
    alone = sentence(0.1, 0.05, 0.2, unlabeled=False)
    assert alone == f"There was no unlabeled data to learn from: {what}"


def test_values_are_told_in_their_own_units():
    said = sentence(0.1, 0.05, 0.2, task="regression")
    assert "error 0.1 of the pool beside 0.2 of the best" in said


def test_the_sentence_of_what_could_not_be_judged():
    y, none = torch.zeros(0, dtype=torch.long), torch.zeros(0, 2)
    answers = [Answers("linear", "labels", none, 0.5), Answers("pool", "pool", none)]
    verdict = judge("classification", y, answers, kept="pool")
    assert verdict.sentence == (
        "No label could be held out, so nothing was compared; the pool is kept."
    )
    assert verdict.rows[0] == Judged("linear", "labels", None, None, None, 0.5)
    y = torch.tensor([0, 1])
    alone = judge("classification", y, [Answers("pool", "pool", outputs([0, 1]))], kept="pool")
    assert alone.sentence == "The pool is kept, judged by 2 held-out labels."


def test_where_every_row_has_a_label_no_unlabeled_data_is_said_to_have_helped(monkeypatch):
    monkeypatch.setattr(models, "STRENGTHS", np.ones(1))
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = (x[:, 0] > 0).astype(int)
    result = labelgrad.fit(x, y, steps=5, witnesses="neighbours")
    said = result.summary.verdict.sentence
    assert said.startswith("There was no unlabeled data to learn from")
