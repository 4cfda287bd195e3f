"""Where each example stands on the report's map: the two directions of the features' spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgrad.fitting.labels import ImputedLabel, shown
from labelgrad.inputs.base import Dataset, Scale
from labelgrad.inputs.features import features
from labelgrad.report.data import ExampleMap, MapDot

MOST_UNLABELED, MOST_LABELED = 2000, 500  # dots on the map
AT_ONCE = 250  # examples


def example_map(
    dataset: Dataset,
    transform: Scale,
    labels: Sequence[ImputedLabel],
    *,
    seed: int = 0,
    most_unlabeled: int = MOST_UNLABELED,
    most_labeled: int = MOST_LABELED,
) -> ExampleMap | None:
    """A dot for each example, or for some of them drawn at random; labeled ones come last.

    `labels` are those of the unlabeled examples in their order. There is no map where all examples
    are the same.

    >>> y = torch.tensor([0, -1, 1])
    >>> x = torch.tensor([[-1.0, 0.0], [0.0, 0.5], [1.0, 0.0]])
    >>> pets = Dataset("arrays", x, y, "classification", ("cat", "dog"), ["0", "1", "2"])
    >>> labels = [ImputedLabel("1", "cat", 0.6, "cat", 0.7, True, 0.6, 1)]
    >>> found = example_map(pets, Scale(1.0, 0.0), labels)
    >>> [(dot.name, dot.label, dot.given) for dot in found.dots]
    [('1', 'cat', False), ('0', 'cat', True), ('2', 'dog', True)]
    """
    random = np.random.default_rng(seed)
    given = dataset.labeled.nonzero().squeeze(1).numpy()
    unlabeled = (~dataset.labeled).nonzero().squeeze(1).numpy()[: len(labels)]
    # In random order, so that no class is drawn over all the others.
    some = random.permutation(len(unlabeled))[:most_unlabeled]
    own = random.permutation(given)[:most_labeled]
    rows = np.concatenate([unlabeled[some], own])
    if len(rows) < 2:
        return None
    # Piece by piece in single precision: a page should not need as much memory as the data.
    seen = [
        features(dataset.x[piece], transform).astype(np.float32)
        for piece in torch.from_numpy(rows).split(AT_ONCE)
    ]
    points, spread = _two_directions(np.concatenate(seen), seed)
    if spread is None:
        return None
    x, y = points[:, 0].tolist(), points[:, 1].tolist()
    is_value = dataset.task == "regression"
    dots = []
    for place, row in enumerate(some.tolist()):
        label, sure = labels[row].label, labels[row].label_probability
        value = float(label) if is_value else None
        dots.append(MapDot(x[place], y[place], labels[row].name, shown(label), sure, value))
    for place, row in enumerate(own.tolist(), len(some)):
        value = float(dataset.y[row]) if is_value else None
        label_given = dataset.classes[int(dataset.y[row])] if value is None else shown(value)
        name = dataset.names[row]
        dots.append(MapDot(x[place], y[place], name, label_given, None, value, given=True))
    return ExampleMap(dots, spread, len(given), len(unlabeled))


def _two_directions(x: NDArray[Any], seed: int) -> tuple[NDArray[Any], float | None]:
    """The rows in the two directions of widest spread, and what part of it they carry."""
    from sklearn.decomposition import PCA

    if not np.ptp(x, axis=0).any():
        return np.zeros((len(x), 2)), None
    directions = min(2, *x.shape)
    solver = {"svd_solver": "randomized", "random_state": seed % 2**32}
    fitted = PCA(directions, copy=False, **solver)
    points = np.zeros((len(x), 2))
    points[:, :directions] = fitted.fit_transform(x)
    return points, float(fitted.explained_variance_ratio_.sum())
