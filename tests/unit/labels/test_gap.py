"""The smoothed gap and its metric, against the definition written out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelgrad.labels.alignment import Gap, MovingAverage

VALUES = st.lists(st.floats(-10, 10), min_size=1, max_size=20)


@given(VALUES, st.floats(0, 0.99))
def test_the_average_is_the_weighted_mean_of_what_was_seen(values, decay):
    average = MovingAverage(decay)
    for value in values:
        found = average(torch.tensor([value], dtype=torch.float64))
    weights = [decay ** (len(values) - 1 - i) for i in range(len(values))]
    expected = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    assert found.item() == pytest.approx(expected, abs=1e-9)


def test_the_metric_is_the_papers():
    torch.manual_seed(0)
    gap = Gap(gradient_decay=0.8, moment_decay=0.9, epsilon=1e-3)
    truths, pulls = torch.randn(2, 5, 7, dtype=torch.float64)
    gaps = []
    for i in range(5):
        weights = 0.8 ** torch.arange(i, -1, -1.0, dtype=torch.float64)
        smoothed = (weights[:, None] * truths[: i + 1]).sum(0) / weights.sum()
        gaps.append(smoothed - pulls[i])
        weights = 0.9 ** torch.arange(i, -1, -1.0, dtype=torch.float64)
        fourth = (weights[:, None] * torch.stack(gaps) ** 4).sum(0) / weights.sum()
        found, scaled = gap(truths[i], pulls[i])
        torch.testing.assert_close(found, gaps[-1])
        torch.testing.assert_close(scaled, gaps[-1] / (1e-3 + fourth.sqrt()))


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_outside_its_range_is_named(decay):
    with pytest.raises(ValueError, match=f"below 1, got {decay}"):
        MovingAverage(decay)


def test_the_metric_needs_a_positive_floor():
    with pytest.raises(ValueError, match="must be positive, got 0"):
        Gap(epsilon=0)


def test_an_average_can_begin_at_a_value_without_correction():
    average = MovingAverage(0.75)
    average.start(torch.tensor([8.0]))
    assert average.value.item() == 8
    assert average(torch.tensor([0.0])).item() == 6
