"""A small form of the played histories: guarantees hold, and invalid evidence would break them."""

import numpy as np
import pytest

from experiments.guarantees import (
    BEHAVIOURS,
    RATES,
    Person,
    coverage,
    play,
    summary,
    worst_case,
)


@pytest.fixture(scope="module")
def played():
    return {behaviour: [play(behaviour, seed) for seed in range(2)] for behaviour in BEHAVIOURS}


def test_few_guarantees_are_broken_over_all_behaviours(played):
    lines = [summary(name, rate, found) for name, found in played.items() for rate in RATES]
    assert np.mean([line["valid_broken"] for line in lines]) <= 0.1
    assert {line["histories"] for line in lines} == {2}


def test_whoever_asks_once_is_given_labels(played):
    assert summary("once", 0.1, played["once"])["valid_selected"] > 200


def test_after_a_training_nothing_is_guaranteed_until_new_audits(played):
    for asks in played["correct"]:
        assert all(ask["evidence"] > 0 for ask in asks[::2])
        assert all(ask["evidence"] == 0 for ask in asks[1::2])


def test_the_same_seed_plays_the_same_history(played):
    assert play("label", 1) == played["label"][1]


def test_random_labels_stop_counting_when_pages_are_accepted():
    person = Person(0, 0, random=True)
    assert person.ask()["evidence"] == 120
    person.accept()
    person.train()
    assert person.ask()["evidence"] == 0


def test_looking_often_breaks_no_more_guarantees_than_it_may():
    found = worst_case(0.05, runs=1000)
    assert found["valid"] <= 0.05 + 2 * (0.05 * 0.95 / 1000) ** 0.5
    assert found["plain"] > found["valid"]


@pytest.mark.parametrize("model", ["good", "constant"])
@pytest.mark.parametrize("share", [0.01, 0.02, 0.5])
def test_prevalences_are_covered_at_rare_classes_by_intervals_that_are_not_too_wide(share, model):
    found = coverage(share, 100, model, draws=500)
    assert found["covered"] >= 0.95 - 3 * (0.05 * 0.95 / 500) ** 0.5
    assert found["width"] <= 1.2 * found["exact_width"]
