"""The pool: how much each witness counts, and what all of them say together.

Of classes the pool is log-linear, in log-odds against the classes' shares π among the labels,

    log p(c|x) = log π_c + Σ_m w_m (log p_m(c|x) − log π_c) + const.          w_m ≥ 0

so that a witness without weight says nothing, and all of them without weight leave the shares. Of
values it is the product of Gaussians with powers w_m: precisions add, means weigh by them.

The weights make the loss of out-of-fold opinions small, with a pull to equal ones that fades as
labels come in: mean loss + PULL/labels · Σ(w_m − 1/M)². What the pool is worth is judged by labels
that set no weights: those of each fold by weights of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labelgrad.witnesses.base import Array, even_parts, normalized, not_too_sure
from labelgrad.witnesses.shares import believed_shares, label_shares

PULL = 5.0  # labels' worth of a preference for equal weights
MOST = 3.0  # of a weight
MODEST = 0.01  # the least that a witness may give one of a few even classes
PARTS = 5  # of the labels, each judged by weights that the others set
UNHEARD = 1e-9  # precision of a value that nobody has an opinion of


@dataclass(frozen=True, eq=False)
class Pool:
    """Witnesses and their weights; `known` and `shares` are the classes' in labels and in rows.

    >>> pool = Pool({"a": 1.0, "b": 0.0}, np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    >>> opinions = {"a": np.log([[0.8, 0.2]]), "b": np.log([[0.1, 0.9]])}
    >>> np.exp(pool.combined(opinions)).round(2)
    array([[0.8, 0.2]])
    """

    weights: dict[str, float]
    known: Array  # (classes,); empty of values
    shares: Array

    def combined(self, opinions: Mapping[str, Array]) -> Array:
        """What all say together: log-probabilities, or means and spreads."""
        heard = np.stack([opinions[name] for name in self.weights])
        said = combine(heard, np.array(list(self.weights.values())), self.known)
        if len(self.known):
            said = not_too_sure(said + np.log(self.shares / self.known))
        return said

    def without(self, *names: str) -> dict[str, float]:
        """The weights of the others."""
        return {name: weight for name, weight in self.weights.items() if name not in names}


def combine(heard: Array, weights: Array, known: Array) -> Array:
    """Opinions (witnesses, rows, columns) as one, by weights; `known` is empty for values."""
    return _weighed(modest(heard, known), weights, known)


def modest(heard: Array, known: Array) -> Array:
    """Opinions of which none is surer than a few labels could have made it.

    Where a witness that is all but certain errs, no weight of the others makes up for it.

    >>> np.exp(modest(np.log([[0.9999, 0.0001]]), np.array([0.5, 0.5]))).round(2)
    array([[0.99, 0.01]])
    """
    if not len(known):
        return heard
    least = min(MODEST, 0.1 / len(known)) * len(known) * known
    return normalized(np.maximum(heard, np.log(least)))


def _weighed(heard: Array, weights: Array, known: Array) -> Array:
    if len(known):
        prior = np.log(known)
        return normalized(prior + np.tensordot(weights, heard - prior, 1))
    mean, spread = heard[..., 0], heard[..., 1]
    precision = weights[:, None] / spread**2  # (witnesses, rows)
    total = precision.sum(0)
    unheard = total < UNHEARD  # values are standardized, so this is what is known of all
    total = np.where(unheard, 1.0, total)
    return np.stack([(precision * mean).sum(0) / total, total**-0.5], axis=1)


def losses(opinion: Array, y: Array) -> Array:
    """Of each label how unlikely it was: −log p of classes, or of values under their Gaussians."""
    if y.dtype.kind != "f":
        return -opinion[np.arange(len(y)), y]
    mean, spread = opinion.T
    found: Array = np.log(spread) + ((y - mean) / spread) ** 2 / 2
    return found


def fitted_weights(heard: Array, y: Array, known: Array, start: Array) -> Array:
    """The weights of the lowest loss on out-of-fold opinions (witnesses, labels, columns).

    `start` is what they are pulled to.
    """
    from scipy.optimize import minimize

    if not len(y):
        return start
    pull, heard = PULL / len(y), modest(heard, known)
    slope = _slope_of_classes if len(known) else _slope_of_values

    def loss(weights: Array) -> tuple[float, Array]:
        said = _weighed(heard, weights, known)
        away = weights - start
        found = losses(said, y).mean() + pull * (away**2).sum()
        return float(found), slope(heard, weights, said, y, known) + 2 * pull * away

    bounds = [(0.0 if len(known) else 1e-3, MOST)] * len(heard)
    best = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    found: Array = np.where(best < 2e-3, 0.0, best)
    return found


def _slope_of_classes(heard: Array, weights: Array, said: Array, y: Array, known: Array) -> Array:
    against = heard - np.log(known)  # (witnesses, labels, classes)
    expected = (np.exp(said) * against).sum(-1)
    found: Array = (expected - against[:, np.arange(len(y)), y]).mean(1)
    return found


def _slope_of_values(heard: Array, weights: Array, said: Array, y: Array, known: Array) -> Array:
    own, precision = heard[..., 0], heard[..., 1] ** -2
    mean, spread = said.T
    square = y**2 - 2 * y * own + 2 * own * mean - mean**2
    found: Array = (0.5 * precision * (square - spread**2)).mean(1)
    return found


@dataclass(frozen=True, eq=False)
class Fitted:
    """A pool, and what it says of each hidden label by weights that were set without it."""

    pool: Pool
    judged: Array
    weights_of: dict[int, Array]  # by fold: set by the labels of the others
    gain: float | None = None  # how much lower the loss of `judged` is than that of the shares


def fit_pool(
    out_of_fold: Mapping[str, Array],
    y: Array,
    all_labels: Array,
    classes: int,
    folds: Array,
    *,
    presumed: Sequence[str] | None = None,
) -> Fitted:
    """Weigh witnesses by what they said about labels `y` that were hidden from them.

    `all_labels` are all there are, also those that could not be hidden, and `folds` says which were
    hidden together. Weights are pulled to equal ones of those `presumed` to know something, which
    are all if nobody says. Where nothing could be hidden, they stay there.

    >>> y, folds = np.array([0, 1] * 10), np.arange(20) % 4
    >>> right, idle = np.where(np.eye(2)[y] > 0, 0.9, 0.1), np.full((20, 2), 0.5)
    >>> found = fit_pool({"right": np.log(right), "idle": np.log(idle)}, y, y, 2, folds)
    >>> {name: round(weight, 1) for name, weight in found.pool.weights.items()}
    {'right': 1.0, 'idle': 0.5}
    """
    names = list(out_of_fold)
    known = label_shares(all_labels, classes) if classes else np.zeros(0)
    heard = np.stack([out_of_fold[name] for name in names])
    counts = np.array([1.0 if presumed is None or name in presumed else 0.0 for name in names])
    start = counts / counts.sum() if counts.any() else np.full(len(names), 1 / len(names))
    if not len(y):
        equal = dict(zip(names, start.tolist(), strict=True))
        return Fitted(Pool(equal, known, known), heard[0], {})
    weights = fitted_weights(heard, y, known, start)
    alone = len(np.unique(folds)) == 1  # one fold of many labels: then its parts judge each other
    parts = even_parts(y, PARTS) if alone else folds
    judged = np.empty_like(heard[0])
    weights_of = {}
    for part in np.unique(parts):
        mine = parts == part
        own = weights_of[int(part)] = fitted_weights(heard[:, ~mine], y[~mine], known, start)
        judged[mine] = combine(heard[:, mine], own, known)
    judged = not_too_sure(judged) if classes else judged
    nothing = combine(heard, np.zeros(len(names)), known)
    gain = float((losses(nothing, y) - losses(judged, y)).mean())
    pool = Pool(dict(zip(names, weights.tolist(), strict=True)), known, known)
    return Fitted(pool, judged, {0: weights} if alone else weights_of, gain)


def with_shares(
    fitted: Fitted,
    unlabeled: Array,
    y: Array,
    all_labels: Array,
    given: Sequence[float] | None,
) -> Fitted:
    """The same pool for the classes' shares among all rows: as `given`, or as they are believed.

    `unlabeled` are the pool's own log-probabilities of the unlabeled rows, `y` the hidden labels.
    """
    known = fitted.pool.known
    if given is not None:
        asked = np.maximum(np.asarray(given, dtype=float), 1e-6)
        shares = asked / asked.sum()
    else:
        error = float((fitted.judged.argmax(1) != y).mean()) if len(y) else 1.0
        shares = believed_shares(unlabeled, all_labels, len(known), error)
    judged = not_too_sure(fitted.judged + np.log(shares / known)) if len(y) else fitted.judged
    return replace(fitted, pool=replace(fitted.pool, shares=shares), judged=judged)
