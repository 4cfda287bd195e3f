"""Labels that learn by evidence: the closed form, and what it does not depend on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelgrad import (
    LGA,
    CrossEntropy,
    Evidence,
    LabelTable,
    SquaredError,
)
from labelgrad.labels.rules import LEAD


def slopes_of(seed, visits=7, size=4, width=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(visits, size, width, generator=generator, dtype=torch.float64)


def weighed(slopes, loss, scale=0.7):
    rule, values = Evidence(scale), torch.zeros(*slopes.shape[1:], dtype=torch.float64)
    values = torch.stack([values] * 3, 1)
    for visit, slope in enumerate(slopes, 1):
        rule.step(values, slope, visit, loss)
    return values[:, 0]


@given(seed=st.integers(0, 1000))
def test_values_are_the_sum_of_slopes_over_their_scatter(seed):
    slopes = slopes_of(seed)
    found = weighed(slopes, SquaredError())
    for row in range(slopes.shape[1]):
        for target in range(slopes.shape[2]):
            mine = slopes[:, row, target].tolist()
            scatter = sum(slope**2 for slope in mine) ** 0.5
            assert float(found[row, target]) == pytest.approx(-0.7 * sum(mine) / scatter)


@given(seed=st.integers(0, 1000))
def test_classes_have_its_square_as_log_odds_and_no_lead_above_the_bound(seed):
    slopes = slopes_of(seed)
    found = weighed(slopes, CrossEntropy(), scale=100.0)
    for row in range(slopes.shape[1]):
        mine = slopes[:, row]
        t = -mine.sum(0) / sum(float(slope.norm()) ** 2 for slope in mine) ** 0.5
        odds = [100 * float(value) * abs(float(value)) for value in t]
        leads = [min(max(odds) - value, LEAD) for value in odds]
        assert (found[row].max() - found[row]).tolist() == pytest.approx(leads)
    assert found.softmax(1).max() <= 1 / (1 + 2 * torch.tensor(-LEAD).exp()) + 1e-6


def test_an_unlikely_class_more_changes_nothing():
    """What a slope says of two classes weighs the same beside classes that nobody thinks of."""
    slopes = slopes_of(5, width=2)
    among_many = torch.cat([slopes, torch.zeros(7, 4, 8, dtype=torch.float64)], 2)
    few, many = (weighed(each, CrossEntropy(), 0.1) for each in (slopes, among_many))
    assert torch.allclose(few[:, 0] - few[:, 1], many[:, 0] - many[:, 1])


@pytest.mark.parametrize("loss", [CrossEntropy(), SquaredError()])
def test_labels_do_not_depend_on_the_unit_of_the_slopes_nor_on_their_order(loss):
    slopes = slopes_of(3)
    assert torch.allclose(weighed(1e-6 * slopes, loss), weighed(slopes, loss))
    assert torch.allclose(weighed(slopes.flip(0), loss), weighed(slopes, loss))


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_a_label_can_always_be_surer_than_what_is_called_sure(classes):
    slope = torch.ones(50, 1, classes, dtype=torch.float64)
    slope[:, :, 0] = 1 - classes
    assert float(weighed(slope, CrossEntropy(), 5.0).softmax(1)[0, 0]) >= 0.97 - 1e-9


def test_a_row_without_slopes_stays_undecided():
    assert weighed(torch.zeros(3, 2, 4), CrossEntropy()).softmax(1).tolist() == [[0.25] * 4] * 2


def test_a_table_by_evidence_moves_only_what_it_draws_and_lives_in_a_file_too(tmp_path):
    for folder in (None, tmp_path):
        table = LabelTable(5, 3, rule=Evidence(5.0), folder=folder)
        table.update(table.draw(torch.tensor([1, 3])), torch.randn(2, 3))
        undecided = (table.labels() - 1 / 3).abs().max(1).values < 1e-6
        assert undecided.tolist() == [True, False, True, False, True]


@pytest.mark.parametrize("scale", [-1.0, float("nan")])
def test_a_scale_that_is_no_scale_is_refused(scale):
    with pytest.raises(ValueError, match="`scale` must be"):
        LGA(5, 2, rule=Evidence(scale))
