"""Which rows of a data set are labeled, unlabeled, for validation: a function of the seed.

The facts are those of the protocol of Oliver et al. (2018): one permutation for a seed, validation
rows first, then as many labels of each class as of any other; the unlabeled rows are all the rest,
the labeled ones among them. Of a sample of these, at most a fifth are labeled ones.
What that paper shows to matter can be asked for: uneven labeled
classes, and unlabeled examples of classes that no label is of.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    y: Tensor,
    *,
    labels: int,
    seed: int,
    validation: int,
    unlabeled: int | None = None,
    keep_labeled: bool = True,
    imbalance: float = 1.0,
    known: Sequence[int] | None = None,
    foreign: float | None = None,
) -> Rows:
    """Split the rows of a training set by role.

    There are `labels` labeled rows, the largest class `imbalance` times the smallest, `validation`
    rows, and `unlabeled` ones (all that are left if none is said). With `keep_labeled` the labeled
    rows are among these: all of them, or so many that they are a fifth. Where only some classes are
    `known`, labeled and validation rows are of these, and `foreign` is the part of the unlabeled
    rows that is of the others.

    >>> rows = split_rows(torch.arange(100) % 10, labels=20, seed=0, validation=30)
    >>> [len(part) for part in (rows.labeled, rows.unlabeled, rows.validation)]
    [20, 70, 30]
    """
    classes = sorted(set(y.tolist())) if known is None else sorted(known)
    generator, kinds = np.random.default_rng(seed), y.numpy()
    order = generator.permutation(len(y))
    held_out = order[np.isin(kinds[order], classes)][:validation]
    if len(held_out) < validation:
        raise ValueError(f"there are {len(held_out)} rows of the known classes, not {validation}.")
    rest = order[~np.isin(order, held_out)]
    counts = class_counts(labels, len(classes), imbalance)
    labeled = _first_of_each(rest, kinds[rest], dict(zip(classes, counts, strict=True)))
    # What is left is shuffled anew: the known classes have given up their first rows.
    others = generator.permutation(rest[~np.isin(rest, labeled)])
    pool = others
    if keep_labeled:
        most = len(labeled) if unlabeled is None else int(LABELED_PART * unlabeled)
        # Labeled rows are class by class; a part of them is to be of all classes.
        kept = labeled if len(labeled) <= most else generator.permutation(labeled)
        pool = np.concatenate([kept[:most], others, kept[most:]])
    if foreign is not None:
        pool = _mixed(pool, np.isin(kinds[pool], classes), foreign, unlabeled)
    found = (labeled, _first(pool, unlabeled), held_out)
    return Rows(*(torch.from_numpy(np.sort(part)) for part in found))


def class_counts(labels: int, classes: int, imbalance: float = 1.0) -> list[int]:
    """How many labels each class gets: falling by a constant factor from the first to the last.

    >>> class_counts(40, 4), class_counts(40, 4, imbalance=8.0)
    ([10, 10, 10, 10], [21, 11, 5, 3])
    """
    if imbalance < 1:
        raise ValueError(f"`imbalance` is the largest class over the smallest, got {imbalance}.")
    if imbalance == 1 and labels % classes:
        raise ValueError(
            f"{labels} labels can not be {classes} classes of one size; ask for a multiple of "
            f"{classes}."
        )
    shares = imbalance ** -(np.arange(classes) / max(1, classes - 1))
    ends = np.rint(np.cumsum(shares) / shares.sum() * labels).astype(int)
    counts: list[int] = np.diff(ends, prepend=0).tolist()
    if min(counts) < 1:
        raise ValueError(
            f"each of {classes} classes needs a label, and {labels} labels with imbalance "
            f"{imbalance:g} leave one without; ask for more labels."
        )
    return counts


def _first_of_each(rows: np.ndarray, kinds: np.ndarray, counts: dict[int, int]) -> np.ndarray:
    found = []
    for kind, count in counts.items():
        mine = rows[kinds == kind]
        if len(mine) < count:
            raise ValueError(
                f"the split needs {count} labels of class {kind}, and {len(mine)} rows are left; "
                f"ask for fewer labels or fewer validation rows."
            )
        found.append(mine[:count])
    return np.concatenate(found)


def _mixed(rows: np.ndarray, at_home: np.ndarray, foreign: float, wanted: int | None) -> np.ndarray:
    """The first of both kinds of rows, such that the given part is foreign: `wanted`, or most."""
    if not 0 <= foreign <= 1:
        raise ValueError(f"`foreign` is a part of the unlabeled rows, from 0 to 1, got {foreign}.")
    limits = [at_home.sum() / (1 - foreign)] if foreign < 1 else []
    limits += [(~at_home).sum() / foreign] if foreign > 0 else []
    total = int(min(limits)) if wanted is None else min(wanted, int(min(limits)))
    abroad = round(total * foreign)
    return np.concatenate([rows[at_home][: total - abroad], rows[~at_home][:abroad]])


def _first(rows: np.ndarray, count: int | None) -> np.ndarray:
    if count is not None and count > len(rows):
        raise ValueError(f"there are {len(rows)} rows for `unlabeled`, not {count}; ask for fewer.")
    return rows[:count]
