"""The pool: weights are the best there are, and no label judges weights that it has set."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from labelgrad.witnesses.pool import (
    MOST,
    PULL,
    Pool,
    _slope_of_classes,
    _slope_of_values,
    combine,
    fit_pool,
    fitted_weights,
    losses,
    modest,
    with_shares,
)
from labelgrad.witnesses.shares import (
    believed_shares,
    estimated_shares,
    evenly_drawn,
    label_shares,
)


def normal(logs):
    return np.log(np.exp(logs) / np.exp(logs).sum(-1, keepdims=True))


def random_opinions(seed, *, witnesses=3, rows=12, classes=3):
    rng = np.random.default_rng(seed)
    return normal(rng.normal(size=(witnesses, rows, classes))), rng.integers(classes, size=rows)


def random_values(seed, *, witnesses=3, rows=12):
    rng = np.random.default_rng(seed)
    means, spreads = rng.normal(size=(witnesses, rows)), rng.uniform(0.3, 2, (witnesses, rows))
    return np.stack([means, spreads], axis=-1), rng.normal(size=rows)


def says(y, right, seed, *, classes=2, sure=0.8):
    """The opinions of one that names the true class so often."""
    rng = np.random.default_rng(seed)
    others = (y + rng.integers(1, classes, size=len(y))) % classes
    named = np.where(rng.random(len(y)) < right, y, others)
    rest = (1 - sure) / (classes - 1)
    return np.log(np.where(np.eye(classes)[named] > 0, sure, rest))


def slow_loss(heard, y, known, weights, start):
    """The loss as it is written down: row by row, class by class."""
    total = 0.0
    for row, label in enumerate(y):
        if len(known):
            odds = [
                np.log(known[c])
                + sum(
                    w * (h[row, c] - np.log(known[c])) for w, h in zip(weights, heard, strict=True)
                )
                for c in range(len(known))
            ]
            total -= odds[label] - np.log(sum(np.exp(odd) for odd in odds))
        else:
            powers = [w / h[row, 1] ** 2 for w, h in zip(weights, heard, strict=True)]
            mean = sum(p * h[row, 0] for p, h in zip(powers, heard, strict=True)) / sum(powers)
            total += -0.5 * np.log(sum(powers)) + (label - mean) ** 2 * sum(powers) / 2
    away = sum((w - s) ** 2 for w, s in zip(weights, start, strict=True))
    return total / len(y) + PULL / len(y) * away


# Weights


@pytest.mark.parametrize("seed", range(3))
def test_weights_have_the_lowest_loss_that_a_search_without_slopes_finds(seed):
    heard, y = random_opinions(seed, witnesses=2)
    known, start = label_shares(y, 3), np.full(2, 0.5)
    found = fitted_weights(heard, y, known, start)
    grid = np.linspace(0, MOST, 13)
    on_grid = min(slow_loss(heard, y, known, pair, start) for pair in product(grid, grid))
    mine = slow_loss(heard, y, known, found, start)
    assert mine <= on_grid
    searched = minimize(
        lambda weights: slow_loss(heard, y, known, weights, start),
        start,
        bounds=[(0, MOST)] * 2,
        method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-9},
    )
    assert mine == pytest.approx(searched.fun, abs=1e-5)
    assert found == pytest.approx(searched.x, abs=5e-3)


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_values_have_the_lowest_loss_too(seed):
    heard, y = random_values(seed, witnesses=2)
    start = np.full(2, 0.5)
    found = fitted_weights(heard, y, np.zeros(0), start)
    searched = minimize(
        lambda weights: slow_loss(heard, y, np.zeros(0), weights, start),
        start,
        bounds=[(1e-3, MOST)] * 2,
        method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-9},
    )
    assert found == pytest.approx(searched.x, abs=5e-3)


@given(seed=st.integers(0, 1000), values=st.booleans())
def test_slopes_are_those_of_the_loss(seed, values):
    heard, y = random_values(seed) if values else random_opinions(seed)
    known = np.zeros(0) if values else label_shares(y, 3)
    weights = np.random.default_rng(seed).uniform(0.2, 2, size=3)
    slope = _slope_of_values if values else _slope_of_classes
    found = slope(modest(heard, known), weights, combine(heard, weights, known), y, known)
    for place in range(3):
        step = 1e-6 * np.eye(3)[place]
        above, below = (
            losses(combine(heard, weights + sign * step, known), y).mean() for sign in (1, -1)
        )
        assert found[place] == pytest.approx((above - below) / 2e-6, abs=1e-5, rel=1e-4)


def test_few_labels_leave_weights_near_equal_and_many_do_not():
    def ratio(labels):
        y, folds = np.arange(labels) % 2, np.arange(labels) // 2 % 4
        heard = {"good": says(y, 0.85, 1), "poor": says(y, 0.55, 2)}
        weights = fit_pool(heard, y, y, 2, folds).pool.weights
        return weights["poor"] / weights["good"]

    assert ratio(10) > 0.4
    assert ratio(1000) < 0.2


def test_a_useless_witness_fades_and_a_harmful_one_gets_no_weight():
    y, folds = np.arange(400) % 2, np.arange(400) // 2 % 4
    heard = {"good": says(y, 0.9, 1), "useless": says(y, 0.5, 2), "harmful": says(y, 0.1, 3)}
    weights = fit_pool(heard, y, y, 2, folds).pool.weights
    assert weights["useless"] < 0.2 * weights["good"]
    assert weights["harmful"] == 0
    rng = np.random.default_rng(0)
    values = rng.normal(size=400)
    heard = {
        "good": np.stack([values + 0.3 * rng.normal(size=400), np.full(400, 0.3)], 1),
        "harmful": np.stack([-values, np.full(400, 0.3)], 1),
    }
    weights = fit_pool(heard, values, values, 0, folds).pool.weights
    assert weights["good"] == pytest.approx(1, abs=0.2)
    assert weights["harmful"] < 0.05


def test_where_all_are_useless_the_pool_says_the_frequencies_and_has_gained_nothing():
    y, folds = (np.arange(1000) % 4 == 0).astype(int), np.arange(1000) // 4 % 4
    wild = says(y, 0.5, 5, sure=0.999)
    found = fit_pool({"wild": wild}, y, y, 2, folds)
    assert found.gain <= 1e-3
    said = np.exp(found.pool.combined({"wild": wild}))
    assert abs(said - [0.75, 0.25]).max() < 0.06
    good = says(y, 0.9, 1)
    assert fit_pool({"wild": wild, "good": good}, y, y, 2, folds).gain > 0.1


def test_a_weightless_pool_says_exactly_the_shares_or_the_mean_of_all_values():
    heard, _ = random_opinions(0)
    shares = np.array([0.5, 0.3, 0.2])
    assert np.exp(combine(heard, np.zeros(3), shares)) == pytest.approx(np.tile(shares, (12, 1)))
    values, _ = random_values(0)
    nothing = combine(values, np.zeros(3), np.zeros(0))
    assert nothing.tolist() == [[0.0, 1.0]] * 12


def test_a_value_that_one_witness_knows_is_not_lost_where_nobody_knows_another():
    heard = np.array([[[3.0, 0.5], [0.0, 1e6]]])
    assert combine(heard, np.ones(1), np.zeros(0)) == pytest.approx(np.array([[3, 0.5], [0, 1]]))


def test_values_are_a_product_of_gaussians():
    heard = np.array([[[1.0, 0.5]], [[3.0, 1.0]]])
    weights = np.array([0.5, 2.0])
    first, second = 0.5 / 0.25, 2.0 / 1.0  # precisions: 2 and 2
    mean, spread = combine(heard, weights, np.zeros(0))[0]
    assert mean == pytest.approx((first * 1 + second * 3) / (first + second))
    assert spread == pytest.approx((first + second) ** -0.5)
    grid = np.linspace(-5, 9, 20001)
    density = np.exp(-0.5 * (0.5 * ((grid - 1) / 0.5) ** 2 + 2 * (grid - 3) ** 2))
    assert mean == pytest.approx(np.average(grid, weights=density), abs=1e-6)
    assert spread**2 == pytest.approx(np.average((grid - mean) ** 2, weights=density), abs=1e-6)


# Who judges


@pytest.mark.parametrize("values", [False, True])
def test_the_labels_of_a_fold_do_not_change_what_it_is_judged_by(values):
    heard, y = random_values(3, rows=24) if values else random_opinions(3, rows=24)
    folds, classes = np.arange(24) % 4, 0 if values else 3
    named = dict(zip("abc", heard, strict=True))
    before = fit_pool(named, y, y, classes, folds)
    mixed = y.copy()
    mixed[folds == 2] = np.roll(y[folds == 2], 1)  # the same labels of other rows: the shares stay
    after = fit_pool(named, mixed, mixed, classes, folds)
    assert np.array_equal(before.judged[folds == 2], after.judged[folds == 2])
    assert np.array_equal(before.weights_of[2], after.weights_of[2])
    assert not np.array_equal(before.judged[folds != 2], after.judged[folds != 2])
    for fold in range(4):
        others = folds != fold
        known, start = before.pool.known, np.full(3, 1 / 3)
        alone = fitted_weights(heard[:, others], y[others], known, start)
        assert np.array_equal(before.weights_of[fold], alone)


def test_one_fold_is_judged_by_parts_of_itself():
    y = np.arange(100) % 2
    heard = np.stack([says(y, 0.8, 1), says(y, 0.6, 2)])
    found = fit_pool(dict(zip("ab", heard, strict=True)), y, y, 2, np.zeros(100, dtype=int))
    weights = np.array(list(found.pool.weights.values()))
    assert list(found.weights_of) == [0]
    assert np.array_equal(found.weights_of[0], weights)
    with_all = combine(heard, weights, found.pool.known)
    assert found.judged == pytest.approx(with_all, abs=0.5)
    assert not np.allclose(found.judged, with_all)


def test_one_hidden_label_is_judged_by_equal_weights():
    y, heard = np.array([1]), {"a": np.log([[0.2, 0.8]]), "b": np.log([[0.4, 0.6]])}
    found = fit_pool(heard, y, np.array([0, 1, 1]), 2, np.zeros(1, dtype=int))
    equal = combine(np.stack(list(heard.values())), np.full(2, 0.5), found.pool.known)
    assert found.judged == pytest.approx(equal)


def test_where_no_label_could_be_hidden_weights_are_equal_but_for_those_that_must_show_first():
    nothing = {name: np.zeros((0, 2)) for name in "abc"}
    y, none = np.zeros(0, dtype=int), np.zeros(0, dtype=int)
    found = fit_pool(nothing, y, np.array([0, 1]), 2, none)
    assert found.pool.weights == pytest.approx(dict.fromkeys("abc", 1 / 3))
    assert found.judged.shape == (0, 2)
    assert found.gain is None
    found = fit_pool(nothing, y, np.array([0, 1]), 2, none, presumed=["a", "b"])
    assert found.pool.weights == {"a": 0.5, "b": 0.5, "c": 0.0}
    found = fit_pool(nothing, y, np.array([0, 1]), 2, none, presumed=["elsewhere"])
    assert found.pool.weights == pytest.approx(dict.fromkeys("abc", 1 / 3))


def test_a_thousand_classes_and_a_class_of_one_label_are_pooled():
    rng = np.random.default_rng(0)
    y = rng.integers(1000, size=30)
    logs = normal(rng.normal(size=(30, 1000)) + 8 * np.eye(1000)[y])
    all_labels = np.concatenate([y, np.arange(1000)])
    found = fit_pool({"a": logs, "b": logs}, y, all_labels, 1000, np.arange(30) % 4)
    assert np.isfinite(found.judged).all()
    assert (found.judged.argmax(1) == y).mean() > 0.9
    y = np.array([0, 0, 0, 0, 1, 1])  # the only label of the third class is never hidden
    opinions = {"a": says(y, 0.9, 0, classes=3)}
    found = fit_pool(opinions, y, np.append(y, 2), 3, np.array([0, 1, 2, 3, 0, 1]))
    assert found.pool.known == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert np.isfinite(found.judged).all()


def test_the_pool_takes_names_in_any_order():
    pool = Pool({"a": 1.0, "b": 0.5}, np.full(2, 0.5), np.full(2, 0.5))
    said = {"b": np.log([[0.3, 0.7]]), "a": np.log([[0.6, 0.4]])}
    assert np.array_equal(pool.combined(said), pool.combined(dict(reversed(said.items()))))
    assert pool.without("a") == {"b": 0.5}


# The classes' shares


@pytest.mark.parametrize("seed", range(3))
def test_estimated_shares_are_the_likeliest_on_a_grid(seed):
    rng = np.random.default_rng(seed)
    truth = rng.random(300) < 0.2
    evidence = np.where(truth, 1.5, -1.5) + rng.normal(size=300)
    logs = normal(np.stack([np.zeros(300), evidence], axis=1))
    known = np.array([0.5, 0.5])
    grid = np.linspace(0.001, 0.999, 999)
    likelihood = [
        np.log(np.exp(logs[:, 0]) / 0.5 * (1 - share) + np.exp(logs[:, 1]) / 0.5 * share).sum()
        for share in grid
    ]
    best = grid[int(np.argmax(likelihood))]
    assert estimated_shares(logs, known, pull=0)[1] == pytest.approx(best, abs=2e-3)
    pulled = estimated_shares(logs, known)[1]
    assert min(best, 0.5) < pulled < max(best, 0.5)


def rows_of_a_rare_class(sure):
    truth = np.arange(1000) % 10 == 0
    return np.log(np.where(np.eye(2)[truth.astype(int)] > 0, sure, 1 - sure))


def test_even_labels_of_uneven_rows_are_corrected_where_witnesses_are_good():
    y = np.arange(40) % 2
    found = believed_shares(rows_of_a_rare_class(0.98), y, 2, error=0.02)
    assert found[1] < 0.2
    assert found.sum() == pytest.approx(1)


def test_shares_that_errors_could_explain_are_not_believed():
    y = np.arange(40) % 2
    found = believed_shares(rows_of_a_rare_class(0.98), y, 2, error=0.3)
    assert found.tolist() == [0.5, 0.5]
    found = believed_shares(rows_of_a_rare_class(0.98), np.array([0, 1]), 2, error=0.02)
    assert found.tolist() == [0.5, 0.5]  # two labels cannot tell that there are few errors


def test_labels_drawn_at_random_are_never_corrected():
    y = np.array([0] * 19 + [1] * 21)
    assert not evenly_drawn(y, 2)
    found = believed_shares(rows_of_a_rare_class(0.99), y, 2, error=0.0)
    assert found == pytest.approx([19 / 40, 21 / 40])


def fitted_evenly():
    y, folds = np.arange(40) % 2, np.arange(40) // 2 % 4
    return fit_pool({"a": says(y, 0.95, 0, sure=0.95)}, y, y, 2, folds), y


def test_given_shares_win_and_move_what_is_judged_by_their_odds():
    fitted, y = fitted_evenly()
    found = with_shares(fitted, rows_of_a_rare_class(0.98), y, y, [3.0, 1.0])
    assert found.pool.shares == pytest.approx([0.75, 0.25])
    moved = (found.judged[:, 0] - found.judged[:, 1]) - (fitted.judged[:, 0] - fitted.judged[:, 1])
    assert moved == pytest.approx(np.full(40, np.log(3)))
    said = {"a": np.log([[0.5, 0.5]])}
    assert np.exp(found.pool.combined(said)) == pytest.approx(np.array([[0.75, 0.25]]))


def test_shares_are_estimated_where_nobody_gives_them_and_stay_without_unlabeled_rows():
    fitted, y = fitted_evenly()
    assert with_shares(fitted, rows_of_a_rare_class(0.98), y, y, None).pool.shares[1] < 0.25
    nothing = with_shares(fitted, np.zeros((0, 2)), y, y, None)
    assert nothing.pool.shares.tolist() == [0.5, 0.5]
