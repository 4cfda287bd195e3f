"""The paper's claims, looked for in lines whose answer is known."""

import pytest

from experiments.paper.claims import (
    CLAIMS,
    Difference,
    claims_table,
    difference,
    over_all,
    paper_difference,
)


def lines_of(**errors):
    """A line for each method and seed at 250 labels, with the same number for error and loss."""
    return [
        {
            "method": method.replace("_and_", "+"),
            "labels": 250,
            "seed": seed,
            "test_error": value,
            "test_loss": value,
        }
        for method, values in errors.items()
        for seed, value in enumerate(values)
    ]


def test_differences_are_taken_seed_by_seed():
    """Seeds that differ much from each other do not hide a difference that each of them shows."""
    found = difference(lines_of(lga=(0.1, 0.5, 0.3), supervised=(0.12, 0.53, 0.32)), CLAIMS[0], 250)
    assert found.values == pytest.approx((-0.02, -0.03, -0.02))
    assert found.outcome == "holds"


def test_the_interval_is_students():
    one = Difference((0.1, 0.2, 0.3))
    assert one.half_width == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-5)


def test_a_sum_is_measured_against_the_better_of_its_terms():
    claim = next(claim for claim in CLAIMS if claim.method == "lga+vat")
    found = difference(
        lines_of(lga=(0.3, 0.3), vat=(0.2, 0.21), lga_and_vat=(0.25, 0.24)), claim, 250
    )
    assert found.values == pytest.approx((0.05, 0.03))


def test_only_seeds_that_all_methods_have_are_compared():
    found = difference(lines_of(lga=(0.1, 0.2, 0.9), supervised=(0.2, 0.2)), CLAIMS[0], 250)
    assert found.values == pytest.approx((-0.1, 0.0))
    assert difference(lines_of(lga=(0.1,)), CLAIMS[0], 250) is None


def test_a_claim_about_svhn_is_looked_for_there_alone():
    lines = lines_of(lga=(0.3, 0.4), vat=(0.2, 0.2))
    about_vat = "VAT's error is below LGA's"
    assert about_vat in claims_table("svhn", lines)
    assert about_vat not in claims_table("cifar10", lines)
    assert "LGA's error is below supervised's" not in claims_table("svhn", lines)


def test_over_all_counts_each_seed_is_one_value():
    found = over_all(
        {250: Difference((0.1, 0.3)), 500: Difference((0.2, 0.0)), 1000: Difference((0.3,))}
    )
    assert found.values == pytest.approx((0.2,))


def test_the_papers_own_numbers_stand_below_ours():
    lines = lines_of(lga=(0.3, 0.4), supervised=(0.2, 0.2), vat=(0.2, 0.2))
    _, _, *rows = claims_table("svhn", lines).splitlines()
    ours, theirs, *_ = (row[2:-2].split(" | ") for row in rows)
    assert ours[0] == CLAIMS[0].text
    assert theirs[0] == "the paper's own"
    above = paper_difference("svhn", CLAIMS[0], 250)
    assert above > 0  # in the paper, too, LGA's error is above supervised's there
    assert theirs[1:] == [f"{100 * above:.1f}"] * 2 + ["at 0 of 1"]
    assert paper_difference("svhn", CLAIMS[0], 300) is None
