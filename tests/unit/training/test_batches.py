"""Batches are functions of the step."""

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelgrad import TensorBatches


@given(st.integers(1, 30), st.data())
def test_every_row_is_drawn_once_before_any_is_drawn_again(rows, data):
    size = data.draw(st.integers(1, rows))
    batches = TensorBatches(torch.arange(rows), batch_size=size, seed=data.draw(st.integers(0, 9)))
    drawn = torch.cat([batches.batch(step).rows for step in range(4 * rows // size + 1)])
    for start in range(0, len(drawn) - rows + 1, rows):
        assert drawn[start : start + rows].sort().values.equal(torch.arange(rows))


def test_a_batch_depends_on_its_step_alone():
    forward = TensorBatches(torch.randn(11, 2), batch_size=4, seed=5)
    backward = TensorBatches(forward.examples.x, batch_size=4, seed=5)
    first = [forward.batch(step).rows for step in range(20)]
    last = [backward.batch(step).rows for step in reversed(range(20))]
    assert all(torch.equal(a, b) for a, b in zip(first, reversed(last), strict=True))


def test_seeds_and_roles_shuffle_differently():
    x, y = torch.randn(50, 1), torch.zeros(50, dtype=torch.long)
    every = [TensorBatches(x, batch_size=50, seed=s) for s in (0, 1)] + [
        TensorBatches(x, y, batch_size=50)
    ]
    orders = {tuple(batches.batch(0).rows.tolist()) for batches in every}
    assert len(orders) == 3


def test_a_stream_can_be_pickled():
    batches = TensorBatches(torch.randn(7, 2), batch_size=3)
    again = pickle.loads(pickle.dumps(batches))
    assert torch.equal(batches.batch(5).x, again.batch(5).x)


@pytest.mark.parametrize(
    ("x", "y", "size", "message"),
    [
        (
            torch.zeros(3, 1),
            None,
            4,
            "`batch_size` must be from 1 to the 3 examples there are, got 4",
        ),
        (torch.zeros(3, 1), None, 0, "got 0"),
        (torch.zeros(3, 1), torch.zeros(2), 1, "one row for each example, got 3 and 2 rows"),
        (
            torch.tensor([[1.0], [torch.nan]]),
            None,
            1,
            "`x` must be finite, got NaN or infinity in 1",
        ),
        (torch.tensor([[torch.inf], [torch.inf]]), None, 1, "infinity in 2 places"),
    ],
)
def test_bad_examples_are_named(x, y, size, message):
    with pytest.raises(ValueError, match=message):
        TensorBatches(x, y, batch_size=size)
