"""The digits are split anew for every seed, and the same way each time."""

import numpy as np
import pytest

from experiments.tabular.demo import digits


@pytest.mark.parametrize("seed", [0, 7])
def test_the_parts_of_a_split_share_no_image_of_the_data(seed):
    split = digits(50, seed)
    assert np.bincount(split.y[split.given]).tolist() == [5] * 10
    assert len(split.y) + len(split.y_test) == 1797
    assert np.array_equal(split.x_test, digits(50, seed).x_test)
