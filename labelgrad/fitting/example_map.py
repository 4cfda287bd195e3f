"""Where each example stands on the report's map: the two directions of the features' spread.

Features of an encoder have their classes in many directions at once. UMAP, where it is asked for,
lays them out so that neighbours stay neighbours (McInnes, Healy & Melville, 2018). It takes some
twenty seconds of 2,000 examples, which is more than all the rest of a fit on kept features.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
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
WAYS = PCA, UMAP = "pca", "umap"
FEWEST_FOR_NEIGHBOURS = 50  # examples; of fewer there are no groups to keep together


def example_map(
    dataset: Dataset,
    transform: Scale,
    labels: Sequence[ImputedLabel],
    *,
    seed: int = 0,
    by: str = PCA,
    most_unlabeled: int = MOST_UNLABELED,
    most_labeled: int = MOST_LABELED,
) -> ExampleMap | None:
    """A dot for each example, or for some of them drawn at random; labeled ones come last.

    `labels` are those of the unlabeled examples in their order, and `by` is "pca" or "umap". There
    is no map where all examples are the same.

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
    together = np.concatenate(seen)
    if not np.ptp(together, axis=0).any():
        return None
    if by == UMAP and len(rows) >= FEWEST_FOR_NEIGHBOURS:
        points, spread = _by_neighbours(together, seed), None
    else:
        points, spread = _two_directions(together, seed)
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


def check_map(by: str) -> None:
    """Refuse a way to lay examples out that there is not, before anything is trained."""
    if by not in WAYS:
        raise ValueError(f"`map_by` must be one of {', '.join(WAYS)}, got {by!r}.")
    if by == UMAP and find_spec("umap") is None:
        raise ValueError("A map by umap needs it installed: pip install umap-learn; or take pca.")


def _by_neighbours(x: NDArray[Any], seed: int) -> NDArray[Any]:
    """The rows by UMAP, (n, 2)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import umap

        # A seed takes one thread: several would add in another order each time.
        points = umap.UMAP(random_state=seed % 2**32, n_jobs=1).fit_transform(x)
    found: NDArray[Any] = np.nan_to_num(np.asarray(points, dtype=float))
    return found


def _two_directions(x: NDArray[Any], seed: int) -> tuple[NDArray[Any], float]:
    """The rows in the two directions of widest spread, and what part of it they carry."""
    from sklearn import decomposition

    directions = min(2, *x.shape)
    solver = {"svd_solver": "randomized", "random_state": seed % 2**32}
    fitted = decomposition.PCA(directions, copy=False, **solver)
    points = np.zeros((len(x), 2))
    points[:, :directions] = fitted.fit_transform(x)
    return points, float(fitted.explained_variance_ratio_.sum())
