"""The paper's numbers, and ours beside them."""

from math import sqrt

import pytest

from experiments.paper.numbers import paper_curves
from experiments.paper.synthetic_results import differences, our_curve


def test_the_paper_s_numbers_are_in_the_package():
    accuracy, loss = (paper_curves(f"synthetic_{name}")["lga"] for name in ("accuracy", "loss"))
    assert accuracy.at(575)[0] == pytest.approx(0.742, abs=5e-4)
    assert min(loss.mean) == pytest.approx(0.568, abs=5e-4)
    assert paper_curves("synthetic_loss")["supervised"].at(575)[0] == pytest.approx(0.751, abs=5e-4)
    assert len(accuracy.x) == len(accuracy.mean) == len(accuracy.std) == 24
    # Every mean accuracy is a whole number of right answers over 25 trials of 25,000 points.
    right = [mean * 25 * 25_000 for mean in accuracy.mean]
    assert right == pytest.approx([round(count) for count in right], abs=0.02)


def test_differences_are_in_the_paper_s_own_deviations():
    mean, std = paper_curves("synthetic_loss")["lga"].at(300)
    lines = [
        {"method": "lga", "step": 300, "loss": mean + 2 * std + shift} for shift in (-0.1, 0.1)
    ]
    (found,) = differences(lines, "lga", "loss", theirs="lga")
    assert found.deviations == pytest.approx(2)
    assert our_curve(lines, "lga", "loss").std == [pytest.approx(0.1 * sqrt(2))]
