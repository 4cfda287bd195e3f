"""Of very many unlabeled examples, those that a fit learns from.

A few hundred thousand show what there is to see, and no training of some thousand steps comes by
more. Witnesses would take hours for ten million, and a graph of them many gigabytes. So from
`MOST` unlabeled examples on some are drawn at random; the networks, the witnesses, their pool and
the student learn from these and from all labels, and the model that is kept labels the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labelgrad.encoders.cache import cache_folder
from labelgrad.fitting.plan import BATCH, MOST_STEPS
from labelgrad.functional import mixed_seed
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.mapped import roomy

MOST, FEWEST = 300_000, 20_000  # unlabeled examples
AT_ONCE = 2**10  # that are copied


@dataclass(frozen=True, eq=False)
class Sample:
    """Some examples of a dataset as one of its own, and the rows of the whole that they are."""

    dataset: Dataset
    rows: Tensor

    @property
    def note(self) -> str:
        """What is done, before it is."""
        some = int((~self.dataset.labeled).sum())
        return (
            f"There are more than {MOST:,} unlabeled examples: networks and witnesses learn from "
            f"{some:,} of them, drawn at random, and the model that is kept labels the others."
        )


def sample_to_learn_from(dataset: Dataset, steps: int, seed: int) -> Sample | None:
    """All labeled examples, and as many others as so many steps come by, within bounds.

    None where there are few enough for all of them to be learned from.

    >>> y = torch.tensor([0, 1] * 5 + [-1] * 90)
    >>> names = [str(row) for row in range(100)]
    >>> data = Dataset("arrays", torch.zeros(100, 2), y, "classification", ("a", "b"), names)
    >>> sample_to_learn_from(data, steps=2, seed=0) is None
    True
    """
    unlabeled = (~dataset.labeled).nonzero().squeeze(1)
    if len(unlabeled) <= MOST:
        return None
    count = min(MOST, max(FEWEST, min(steps, MOST_STEPS) * BATCH))
    generator = torch.Generator().manual_seed(mixed_seed(seed, 6))
    drawn = unlabeled[torch.randperm(len(unlabeled), generator=generator)[:count]]
    labeled = dataset.labeled.nonzero().squeeze(1)
    rows = torch.cat([labeled, drawn]).sort().values
    return Sample(some_of(dataset, rows), rows)


def some_of(dataset: Dataset, rows: Tensor) -> Dataset:
    """The examples of these rows.

    >>> y, x = torch.tensor([0, -1, 1]), torch.eye(3)
    >>> pets = Dataset("arrays", x, y, "classification", ("cat", "dog"), ["0", "1", "2"])
    >>> some = some_of(pets, torch.tensor([1, 2]))
    >>> some.names, some.x[0], some.y
    (['1', '2'], tensor([0., 1., 0.]), tensor([-1,  1]))
    """
    places = rows.tolist()
    originals = dataset.originals
    return replace(
        dataset,
        x=_taken(dataset.x, rows),
        y=dataset.y[rows],
        names=[dataset.names[row] for row in places],
        originals=None if originals is None else [originals[row] for row in places],
        raw=None if dataset.raw is None else _taken(dataset.raw, rows),
    )


def _taken(x: Tensor, rows: Tensor) -> Tensor:
    """Rows of a tensor; pictures may be larger than memory, and those drawn of them, too."""
    copied = roomy((len(rows), *x.shape[1:]), x[:0].numpy().dtype, cache_folder())
    for first in range(0, len(rows), AT_ONCE):
        copied[first : first + AT_ONCE] = x[rows[first : first + AT_ONCE]].numpy()
    return torch.from_numpy(copied)
