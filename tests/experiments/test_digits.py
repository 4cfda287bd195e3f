"""The digits are split anew for every seed, and the same way each time."""

import pytest
import torch

from experiments.datasets.digits import digits


@pytest.mark.parametrize("seed", [0, 7])
def test_the_parts_of_a_split_share_no_image_of_the_data(seed):
    split = digits(labels=50, seed=seed)
    assert split.labeled[1].bincount().tolist() == [5] * 10
    assert sum(len(part[0]) for part in (split.labeled, split.unlabeled, split.test)) == 1797
    assert torch.equal(split.test[0], digits(labels=50, seed=seed).test[0])
