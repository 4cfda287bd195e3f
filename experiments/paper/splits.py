"""Which rows of a data set are labeled, unlabeled, for validation: a function of the seed.

As in the protocol of Oliver et al. (2018): one permutation per seed, validation rows first, then as
many labels of each class as of any other; the unlabeled rows are all the rest, the labeled ones
among them. Of a sample of these, at most a fifth are labeled ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Of a sample of unlabeled rows, at most: 8,000 labels of CIFAR-10 are 18 % of the protocol's rows.
LABELED_PART = 0.2


@dataclass(frozen=True)
class Rows:
    """Row numbers by role. Labeled rows may also be unlabeled ones; validation is neither."""

    labeled: Tensor
    unlabeled: Tensor
    validation: Tensor


def split_rows(
    y: Tensor, *, labels: int, seed: int, validation: int, unlabeled: int | None = None
) -> Rows:
    """Split the rows of a training set by role.

    Without `unlabeled` all rows that are not for validation are unlabeled ones; a smaller number
    draws a sample of them, with all labeled rows or so many that they are a fifth.

    >>> rows = split_rows(torch.arange(100) % 10, labels=20, seed=0, validation=30)
    >>> [len(part) for part in (rows.labeled, rows.unlabeled, rows.validation)]
    [20, 70, 30]
    """
    kinds = y.numpy()
    classes = np.unique(kinds)
    generator = np.random.default_rng(seed)
    held_out, rest = np.split(generator.permutation(len(y)), [validation])
    if labels % len(classes):
        raise ValueError(
            f"{labels} labels can not be {len(classes)} classes of one size; ask for a multiple of "
            f"{len(classes)}."
        )
    count = labels // len(classes)
    by_class = [rest[kinds[rest] == kind] for kind in classes]
    if (fewest := min(map(len, by_class))) < count:
        raise ValueError(
            f"the split needs {count} labels of each class, and one has {fewest} rows left; ask "
            f"for fewer labels or fewer validation rows."
        )
    labeled = np.concatenate([rows[:count] for rows in by_class])
    others = generator.permutation(rest[~np.isin(rest, labeled)])
    if unlabeled is not None and unlabeled >= len(rest):
        unlabeled = None
    most = labels if unlabeled is None else int(LABELED_PART * unlabeled)
    # Labeled rows are class by class; a part of them is to be of all classes.
    kept = labeled if labels <= most else generator.permutation(labeled)
    pool = np.concatenate([kept[:most], others, kept[most:]])
    found = (labeled, pool[:unlabeled], held_out)
    return Rows(*(torch.from_numpy(np.sort(part)) for part in found))
