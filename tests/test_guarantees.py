"""Promises, intervals and suspects, beside slow computations, published numbers and chance."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgrad.guarantees.binomial import audits_needed, ruled_out, upper_bound
from labelgrad.guarantees.conformal import handed_back_on_average
from labelgrad.guarantees.evidence import Evidence, stand_ins
from labelgrad.guarantees.learning_curve import continued, error_draws
from labelgrad.guarantees.pac import allowed_by_rank, handed_back, more_audits, surest_rows
from labelgrad.guarantees.ppi import powered, powered_share, share_by_labels
from labelgrad.guarantees.suspects import rank_suspects


def chance_of_so_few(mistakes, rows, wrong, audited):
    """Slowly: the chance of at most so many wrong ones among those drawn."""
    ways = [comb(wrong, m) * comb(rows - wrong, audited - m) for m in range(mistakes + 1)]
    return sum(ways) / comb(rows, audited)


def test_as_many_audits_as_the_exact_binomial_needs():
    assert [audits_needed(0.02, m) for m in (0, 1, 2)] == [149, 236, 313]
    assert [audits_needed(0.05, m) for m in (0, 1, 2)] == [59, 93, 124]
    assert upper_bound(0, 50) == pytest.approx(0.058, abs=5e-4)
    assert upper_bound(7, 7) == 1.0
    assert audits_needed(0.02, rows=20) == 19  # where every wrong row must be found


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_wrong_rows_are_ruled_out_by_the_hypergeometric_chance(data):
    rows = data.draw(st.integers(1, 60))
    audited = data.draw(st.integers(0, rows))
    mistakes = data.draw(st.integers(0, audited))
    possible = range(mistakes, rows - audited + mistakes + 1)
    kept = [w for w in possible if chance_of_so_few(mistakes, rows, w, audited) > 0.05]
    assert ruled_out(mistakes, audited, rows) == max(kept) + 1
    assert upper_bound(mistakes, audited, rows=rows) == max(kept) / rows


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.3]), st.booleans())
def test_the_surest_rows_up_to_the_first_hypothesis_that_stands(seed, most, rest_by_hand):
    rng = np.random.default_rng(seed)
    rows, audited = 120, int(rng.integers(5, 110))
    wrong = rng.random(rows) < rng.uniform(0, 0.4) * np.linspace(0, 2, rows)
    looked_at = rng.permutation(rows)[:audited]
    found = surest_rows(
        np.arange(rows) / rows, looked_at, wrong[looked_at], most, rest_by_hand=rest_by_hand
    )
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


def test_where_no_threshold_passes_nothing_is_handed_back():
    """50 labels cannot carry 2 %, however sure the model is."""
    none_wrong = np.zeros(50, dtype=bool)
    for rest_by_hand in (False, True):
        rows = surest_rows(
            np.zeros(2000), np.arange(50), none_wrong, 0.02, rest_by_hand=rest_by_hand
        )
        assert len(rows) == 0
    assert more_audits(np.zeros(10**6, dtype=int), 50, 0.02) == 149 - 50


@pytest.mark.parametrize("rest_by_hand", [False, True])
@pytest.mark.parametrize(("audited", "most"), [(60, 0.05), (150, 0.02), (300, 0.02), (300, 0.1)])
def test_the_promise_is_kept_even_where_the_labels_are_just_too_bad(audited, most, rest_by_hand):
    """One row more is wrong than allowed, and nobody knows which: the hardest case there is."""
    rng, rows, runs = np.random.default_rng(0), 2000, 2000
    wrong = np.arange(rows) <= most * rows
    order = rng.permuted(np.tile(wrong, (runs, 1)), axis=1)
    drawn = rng.permuted(np.tile(np.arange(rows) < audited, (runs, 1)), axis=1)
    allowed = allowed_by_rank(rows, audited, most, rest_by_hand=rest_by_hand)
    surest = handed_back((order & drawn).cumsum(1), allowed)
    handed = np.arange(rows) < surest[:, None]
    errors = (order & handed & ~drawn).sum(1)
    of = rows if rest_by_hand else np.maximum((handed | drawn).sum(1), 1)
    broken = (errors > most * of).mean()
    assert broken <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5
    # What is not allowed is not merely rare: before audits are put in, all rows break the promise.
    assert (surest == rows).mean() <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.3]))
def test_on_average_is_benjamini_and_hochberg_on_conformal_p_values(seed, most):
    rng = np.random.default_rng(seed)
    rows, audited = 100, int(rng.integers(5, 90))
    wrong = rng.random(rows) < rng.uniform(0, 0.3) * np.linspace(0, 2, rows)
    drawn = np.zeros(rows, dtype=bool)
    drawn[rng.permutation(rows)[:audited]] = True
    surest = int(handed_back_on_average((wrong & drawn).cumsum(), drawn.cumsum(), most))
    others = np.flatnonzero(~drawn)
    p = [(1 + (wrong & drawn)[: row + 1].sum()) / (1 + audited) for row in others]
    passing = [k for k in range(1, len(p) + 1) if sorted(p)[k - 1] <= most * k / len(p) + 1e-12]
    assert (~drawn[:surest]).sum() == max(passing, default=0)


def test_more_audits_are_enough_and_no_fewer_are():
    rng = np.random.default_rng(1)
    looked_at = rng.permutation(1000)[:80]
    wrong = looked_at > 900
    known = Evidence(np.arange(1000) / 1000, looked_at, wrong)
    for most, rest_by_hand in ((0.02, False), (0.02, True), (0.01, False)):
        more = known.more_audits(most, rest_by_hand=rest_by_hand)
        mistakes = np.array([(wrong & (looked_at < k)).sum() for k in range(1, 1001)])
        tried = {
            n: handed_back(mistakes, allowed_by_rank(1000, n, most, rest_by_hand=rest_by_hand))
            for n in (80 + more - 1, 80 + more)
        }
        assert more > 0
        assert [int(many) > 0 for many in tried.values()] == [False, True]


def test_labels_trained_on_stand_in_by_their_order_alone():
    rows = np.linspace(0, 0.1, 101)  # the kept model is surer than those of the folds
    placed = stand_ins(rows, np.array([0.5, 0.2, 0.3, 0.4]))
    assert np.argsort(placed).tolist() == [1, 2, 3, 0]
    assert placed == pytest.approx([0.0875, 0.0125, 0.0375, 0.0625])


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_a_promise_of_nothing_or_of_everything_is_refused(bad):
    with pytest.raises(ValueError, match=r"must be above 0 and below 1, such as 0\.02 for"):
        surest_rows(np.zeros(10), np.arange(5), np.zeros(5, dtype=bool), bad)
    with pytest.raises(ValueError, match="`confidence` must be above 0 and below 1"):
        surest_rows(np.zeros(10), np.arange(5), np.zeros(5, dtype=bool), 0.05, confidence=bad)


def test_a_powered_interval_covers_and_is_narrower_than_the_labels_alone():
    """A class of 10 %, a model right nine times in ten, 50 labels of 2,000 rows."""
    rng, rows, labels, runs = np.random.default_rng(0), 2000, 50, 400
    covered, narrower = [], []
    for _ in range(runs):
        y = rng.random(rows) < 0.1
        f = np.where(y, 0.8, 0.02) + rng.uniform(-0.02, 0.02, rows)
        f = np.where(rng.random(rows) < 0.02, 1 - f, f)  # now and then sure and wrong
        drawn = rng.permutation(rows)[:labels]
        found = powered_share(f.mean(), y[drawn] - f[drawn], rows, seen=int(y[drawn].sum()))
        alone = share_by_labels(int(y[drawn].sum()), labels)
        covered.append(found.low <= y.mean() <= found.high)
        narrower.append(found.width / alone.width)
    assert np.mean(covered) >= 0.95 - 3 * (0.05 * 0.95 / runs) ** 0.5
    assert np.mean(narrower) < 0.8


def test_where_every_row_was_looked_at_the_share_is_known():
    y, f = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.5, 0.5, 0.2, 0.9])
    value, low, high = powered(f.mean(), y - f, 4, one_more=1.0)
    assert value == low == high == pytest.approx(y.mean())


def test_an_interval_needs_two_labels():
    with pytest.raises(ValueError, match="at least 2 labels drawn at random, got 1"):
        powered(0.5, [0.1], 100)


def test_suspects_are_those_that_speak_for_another_class():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 400)
    logits = 3.0 * np.eye(4)[truth] + rng.normal(size=(400, 4))
    said = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    flipped = rng.permutation(400)[:20]
    y = truth.copy()
    y[flipped] = (y[flipped] + rng.integers(1, 4, 20)) % 4
    found = rank_suspects(said, y)
    assert set(found.order) == set(range(400))
    assert np.isin(found.order[:20], flipped).sum() >= 15
    assert (found.other != y).all()
    own = said[np.arange(400), y]
    assert found.margin == pytest.approx(own - said[np.arange(400), found.other])
    spoken = found.order[: found.suspect]
    usual = np.array([own[y == label].mean() for label in range(4)])
    assert all((np.delete(said[row] >= usual, y[row])).any() for row in spoken)


def test_a_curve_is_continued_as_it_fell():
    sizes = [25, 50, 100]
    errors = np.array([0.8 * np.array(sizes) ** -0.5] * 4)
    anchor = error_draws(8, 100, seed=0)
    found = continued(sizes, errors, anchor, 100, 100, [100, 300])
    now, twice, four_times = (each.error for each in found.ahead)
    assert found.slope.value == pytest.approx(0.5)
    assert twice.value == pytest.approx(now.value / 2**0.5)
    assert four_times.value == pytest.approx(now.value / 2)
    assert all(each.error.low < each.error.value < each.error.high for each in found.ahead)
    assert [each.left.value for each in found.ahead] == pytest.approx([1, 2**-0.5, 0.5])
    rising = continued(sizes, errors[:, ::-1], anchor, 100, 100, [100])
    assert rising.slope.value == 0.0  # more labels are never said to do harm
