"""Guarantees, intervals, label issues: beside slow computations, published numbers and chance."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgrad.auto.guarantees.pac import (
    AuditSample,
    allowed_by_rank,
    audits_needed,
    match_ranks,
    ruled_out,
    selected_count,
)
from labelgrad.auto.guarantees.ppi import prediction_powered, wilson_interval
from labelgrad.auto.label_issues import rank_labels


def chance_of_so_few(mistakes, rows, wrong, audited):
    """Slowly: the chance of at most so many wrong ones among those drawn."""
    ways = [comb(wrong, m) * comb(rows - wrong, audited - m) for m in range(mistakes + 1)]
    return sum(ways) / comb(rows, audited)


def test_as_many_audits_as_the_exact_binomial_needs():
    rows = 10**7
    assert [audits_needed(rate, rows) for rate in (0.02, 0.05)] == [149, 59]
    for rate, audits in ((0.02, (149, 236, 313)), (0.05, (59, 93, 124))):
        for mistakes, needed in enumerate(audits):
            bounds = [(ruled_out(mistakes, n, rows) - 1) / rows for n in (needed - 1, needed)]
            assert bounds[1] <= rate < bounds[0]
    assert audits_needed(0.02, 20) == 19  # where every wrong row must be found


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_wrong_rows_are_ruled_out_by_the_hypergeometric_chance(data):
    rows = data.draw(st.integers(1, 60))
    audited = data.draw(st.integers(0, rows))
    mistakes = data.draw(st.integers(0, audited))
    possible = range(mistakes, rows - audited + mistakes + 1)
    kept = [w for w in possible if chance_of_so_few(mistakes, rows, w, audited) > 0.05]
    assert ruled_out(mistakes, audited, rows) == max(kept) + 1
    sample = AuditSample(np.zeros(rows), np.arange(audited), np.arange(audited) < mistakes)
    assert sample.bound() == max(kept) / rows


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.3]), st.booleans())
def test_the_most_confident_labels_up_to_the_first_hypothesis_that_stands(seed, most, rest_by_hand):
    rng = np.random.default_rng(seed)
    rows, audited = 120, int(rng.integers(5, 110))
    wrong = rng.random(rows) < rng.uniform(0, 0.4) * np.linspace(0, 2, rows)
    looked_at = rng.permutation(rows)[:audited]
    sample = AuditSample(np.arange(rows) / rows, looked_at, wrong[looked_at])
    found = sample.select(most, rest_by_hand=rest_by_hand)
    limits = [int(most * (rows if rest_by_hand else k) + 1e-9) for k in range(1, rows + 1)]

    def rejects(mistakes, limit):
        return chance_of_so_few(mistakes, rows, limit + 1, audited) <= 0.05

    found_by = [int((wrong[looked_at] & (looked_at < k)).sum()) for k in range(1, rows + 1)]
    rejected = [rejects(m, limit) for m, limit in zip(found_by, limits, strict=True)]
    begins = [[rejects(m, limit) for limit in limits] for m in (0, 1, 2)]
    begins = [each.index(True) for each in begins if any(each)]
    begin = max([b for b in begins[1:] if b <= 0.4 * rows] or begins[:1] or [rows])
    expected = begin
    while expected < rows and rejected[expected]:
        expected += 1
    expected = expected if expected > begin else 0
    assert found.tolist() == list(range(expected))


@pytest.mark.parametrize("rest_by_hand", [False, True])
@pytest.mark.parametrize(("audited", "most"), [(60, 0.05), (150, 0.02), (300, 0.02), (300, 0.1)])
def test_the_guarantee_holds_even_where_the_labels_are_just_too_bad(audited, most, rest_by_hand):
    """One row more is wrong than allowed, and nobody knows which: the hardest case there is."""
    rng, rows, runs = np.random.default_rng(0), 2000, 2000
    wrong = np.arange(rows) <= most * rows
    order = rng.permuted(np.tile(wrong, (runs, 1)), axis=1)
    drawn = rng.permuted(np.tile(np.arange(rows) < audited, (runs, 1)), axis=1)
    allowed = allowed_by_rank(rows, audited, most, rest_by_hand=rest_by_hand)
    chosen = selected_count((order & drawn).cumsum(1), allowed)
    selected = np.arange(rows) < chosen[:, None]
    errors = (order & selected & ~drawn).sum(1)
    of = rows if rest_by_hand else np.maximum((selected | drawn).sum(1), 1)
    broken = (errors > most * of).mean()
    assert broken <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5
    # Before audits are corrected, a selection of all rows breaks the guarantee.
    assert (chosen == rows).mean() <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5


def test_more_audits_are_enough_and_no_fewer_are():
    rng = np.random.default_rng(1)
    looked_at = rng.permutation(1000)[:80]
    wrong = looked_at > 900
    known = AuditSample(np.arange(1000) / 1000, looked_at, wrong)
    for most, rest_by_hand in ((0.02, False), (0.02, True), (0.01, False)):
        more = known.more_audits(most, rest_by_hand=rest_by_hand)
        mistakes = np.array([(wrong & (looked_at < k)).sum() for k in range(1, 1001)])
        tried = {
            n: selected_count(mistakes, allowed_by_rank(1000, n, most, rest_by_hand=rest_by_hand))
            for n in (80 + more - 1, 80 + more)
        }
        assert more > 0
        assert [int(many) > 0 for many in tried.values()] == [False, True]


def test_held_out_labels_are_matched_by_rank_alone():
    rows = np.linspace(0, 0.1, 101)  # the final model is more confident than those of the folds
    placed = match_ranks(rows, np.array([0.5, 0.2, 0.3, 0.4]))
    assert np.argsort(placed).tolist() == [1, 2, 3, 0]
    assert placed == pytest.approx([0.0875, 0.0125, 0.0375, 0.0625])


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_a_guarantee_of_nothing_or_of_everything_is_refused(bad):
    sample = AuditSample(np.zeros(10), np.arange(5), np.zeros(5, dtype=bool))
    with pytest.raises(ValueError, match=r"must be above 0 and below 1, such as 0\.02 for"):
        sample.select(bad)
    with pytest.raises(ValueError, match="`confidence` must be above 0 and below 1"):
        sample.select(0.05, confidence=bad)


def test_a_prediction_powered_interval_covers_and_is_narrower_than_the_labels_alone():
    """A class of 10 %, a model right nine times in ten, 50 labels of 2,000 rows."""
    rng, rows, labels, runs = np.random.default_rng(0), 2000, 50, 400
    covered, narrower = [], []
    for _ in range(runs):
        y = rng.random(rows) < 0.1
        f = np.where(y, 0.8, 0.02) + rng.uniform(-0.02, 0.02, rows)
        f = np.where(rng.random(rows) < 0.02, 1 - f, f)  # now and then sure and wrong
        drawn = rng.permutation(rows)[:labels]
        residuals = y[drawn] - f[drawn]
        _, low, high = prediction_powered(f.mean(), residuals, rows, extra_residual=1.0)
        _, *alone = wilson_interval(int(y[drawn].sum()), labels)
        covered.append(low <= y.mean() <= high)
        narrower.append((high - max(low, 0)) / (alone[1] - alone[0]))
    assert np.mean(covered) >= 0.95 - 3 * (0.05 * 0.95 / runs) ** 0.5
    assert np.mean(narrower) < 0.8


def test_where_every_row_was_looked_at_the_share_is_known():
    y, f = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.5, 0.5, 0.2, 0.9])
    value, low, high = prediction_powered(f.mean(), y - f, 4, extra_residual=1.0)
    assert value == low == high == pytest.approx(y.mean())


def test_issues_are_labels_with_another_confident_class():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 400)
    logits = 3.0 * np.eye(4)[truth] + rng.normal(size=(400, 4))
    predicted = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    flipped = rng.permutation(400)[:20]
    y = truth.copy()
    y[flipped] = (y[flipped] + rng.integers(1, 4, 20)) % 4
    found = rank_labels(predicted, y)
    assert set(found.order) == set(range(400))
    assert np.isin(found.order[:20], flipped).sum() >= 15
    assert (found.other != y).all()
    own = predicted[np.arange(400), y]
    issues = found.order[: found.issues]
    usual = np.array([own[y == label].mean() for label in range(4)])
    assert all((np.delete(predicted[row] >= usual, y[row])).any() for row in issues)
