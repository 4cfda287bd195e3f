"""Witnesses of a fit heard on its folds, their pool, and what it says of every example.

The networks are witnesses, too: they were trained on the same folds by `CrossValidation`. All
others see the examples as features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labelgrad.fitting.cross_validation import ALL, CrossValidation
from labelgrad.fitting.predictor import outputs_of
from labelgrad.fitting.verdict import BASELINE
from labelgrad.inputs.base import Dataset, Scale, join_few
from labelgrad.inputs.features import features
from labelgrad.training.batches import Examples
from labelgrad.witnesses.base import Array, Opinion, Witness, not_too_sure, values_with_spread
from labelgrad.witnesses.hearing import BUDGET, Case, Heard, hear_all
from labelgrad.witnesses.pool import Fitted, Pool, combine, fit_pool, with_shares

NETWORK = "network by "  # what a network is called beside the other witnesses, with its method


@dataclass(frozen=True, eq=False)
class NetworkOpinion:
    """What a network that was trained says; it sees examples as they are, not their features."""

    network: nn.Module
    x: Tensor
    transform: Scale
    is_value: bool
    spread: float = 1.0  # of values: how far it was off on hidden labels

    def of_rows(self, rows: Array) -> Array:
        """About rows of the data."""
        return self._said(Examples(self.x, rows=torch.from_numpy(rows), transform=self.transform))

    def of_new(self, x: Any) -> Array:
        """About other examples, as they were read."""
        return self._said(Examples(torch.as_tensor(x), transform=self.transform))

    def _said(self, examples: Examples) -> Array:
        outputs = outputs_of(self.network, examples).double()
        if self.is_value:
            return values_with_spread(outputs[:, 0].numpy(), self.spread)
        return not_too_sure(outputs.log_softmax(-1).numpy())


@dataclass(frozen=True, eq=False)
class Pooled:
    """The witnesses of a fit, how much each counts, and what they say together."""

    case: Case
    heard: list[Heard]
    fitted: Fitted
    transform: Scale
    notes: list[str]
    asked: Sequence[float] | None = None  # the classes' shares, where somebody has said them

    @property
    def pool(self) -> Pool:
        """The weights."""
        return self.fitted.pool

    def of_rows(self, rows: Array) -> Array:
        """What the pool says of rows of the data: log-probabilities, or means and spreads."""
        return self.pool.combined(self.said_of_rows(rows))

    def said_of_rows(self, rows: Array) -> dict[str, Array]:
        """What each witness says of rows of the data, by its name."""
        return {t.name: t.opinion.of_rows(rows) for t in self.heard}

    def of_new(self, x: Tensor, raw: Tensor | None = None) -> Array:
        """What the pool says of other examples, as they were read; `raw` is as in a `Dataset`."""
        return self.pool.combined(self.said_of_new(x, raw))

    def said_of_new(self, x: Tensor, raw: Tensor | None = None) -> dict[str, Array]:
        """What each witness says of other examples, as they were read, by its name."""
        return said_by_each({t.name: t.opinion for t in self.heard}, x, self.transform, raw)

    def of_fold(self, fold: int, rows: Array) -> Array:
        """What the pool says of rows without having heard the labels of a fold."""
        return self._of_fold(fold, [t.folds[fold].of_rows(rows) for t in self.heard])

    def of_fold_new(self, fold: int, x: Tensor) -> Array:
        """The same of other examples, as they were read."""
        opinions = {t.name: t.folds[fold] for t in self.heard}
        said = said_by_each(opinions, x, self.transform)
        return self._of_fold(fold, [said[t.name] for t in self.heard])

    def _of_fold(self, fold: int, said: Sequence[Array]) -> Array:
        known, shares = self.pool.known, self.pool.shares
        found = combine(np.stack(said), self.fitted.weights_of[fold], known)
        return not_too_sure(found + np.log(shares / known)) if len(known) else found

    def without(self, *names: str) -> Pooled:
        """The same with fewer witnesses, weighed anew."""
        fewer = [t for t in self.heard if t.name not in names]
        strangers = [name for name in names if name not in self.pool.weights]
        if strangers or not fewer:
            wrong = f"there is no {join_few(strangers)}" if strangers else "nobody is left"
            raise ValueError(
                f"A pool can do without some of {join_few(self.pool.weights, most=20)}: {wrong}."
            )
        return replace(self, heard=fewer, fitted=weigh(self.case, fewer, self.asked))

    @property
    def others(self) -> list[Heard]:
        """The witnesses that are no networks of ours."""
        return [heard for heard in self.heard if not heard.name.startswith(NETWORK)]

    def outputs(self, said: Array) -> Tensor:
        """An opinion as a network would give it: logits, or values in units of their spread."""
        return torch.from_numpy(said if self.case.classes else said[:, :1])

    @property
    def importance(self) -> Array:
        """How much each hidden label counts in an estimate for all rows, by its class's share."""
        y = self.case.y[self.case.hidden]
        if not self.case.classes:
            return np.ones(len(y))
        ratio: Array = (self.pool.shares / self.pool.known)[y]
        return ratio


def said_by_each(
    opinions: Mapping[str, Opinion], x: Tensor, transform: Scale, raw: Tensor | None = None
) -> dict[str, Array]:
    """What witnesses say of new examples, as they were read, by their names.

    Networks are shown `raw` in its place, where their encoder was trained, too.
    """
    shown = x if raw is None else raw
    networks = {n for n, opinion in opinions.items() if isinstance(opinion, NetworkOpinion)}
    seen = features(x, transform) if len(networks) < len(opinions) else None
    return {n: opinion.of_new(shown if n in networks else seen) for n, opinion in opinions.items()}


def hear_witnesses(
    trained: CrossValidation,
    witnesses: Sequence[Witness],
    *,
    shares: Sequence[float] | None = None,
    budget: float = BUDGET,
    on_witness: Callable[[str], None] | None = None,
) -> Pooled:
    """Hear all witnesses on the folds that the networks were trained on, and weigh them."""
    dataset = trained.dataset
    case = case_of(trained, with_features=bool(witnesses))
    others, notes = hear_all(witnesses, case, budget=budget, on_witness=on_witness)
    heard = [*others, *(heard_network(trained, method) for method in trained.methods)]
    fitted = weigh(case, heard, shares)
    notes += _notes(dataset, fitted, is_told=shares is not None)
    return Pooled(case, heard, fitted, trained.transform, notes, shares)


def case_of(trained: CrossValidation, *, with_features: bool = True) -> Case:
    """What witnesses are asked about: the features, labels and folds of the trainings."""
    dataset, is_value = trained.dataset, trained.dataset.task == "regression"
    nothing = np.zeros((len(dataset.x), 0))  # networks see the examples themselves
    seen = features(dataset.x, trained.transform) if with_features else nothing
    y = trained.y.double().numpy() if is_value else dataset.y.numpy()
    folds = [rows.numpy() for rows in trained.held_out_rows()]
    return Case(seen, y, folds, len(dataset.classes), trained.plan.seed)


def heard_network(trained: CrossValidation, method: str) -> Heard:
    """What a trained network says: on each fold that was hidden from it, and after all labels."""
    is_value = trained.dataset.task == "regression"

    def opinion(network: nn.Module, spread: float = 1.0) -> NetworkOpinion:
        return NetworkOpinion(network, trained.seen, trained.scale, is_value, spread=spread)

    mine = {t.part: t.run.trainer.evaluated for t in trained.trainings if t.method == method}
    folds: list[Opinion] = [opinion(net) for part, net in mine.items() if part != ALL]
    rows = [held_out.numpy() for held_out in trained.held_out_rows()]
    said = [each.of_rows(held_out) for each, held_out in zip(folds, rows, strict=True)]
    width = len(trained.dataset.classes) or 2
    out_of_fold = np.concatenate([*said, np.zeros((0, width))])
    spread = 1.0
    if is_value and len(out_of_fold):
        y = trained.y[torch.from_numpy(np.concatenate(rows))].numpy()
        spread = float(np.sqrt(((out_of_fold[:, 0] - y) ** 2).mean()))
        out_of_fold = values_with_spread(out_of_fold[:, 0], spread)
        folds = [replace(each, spread=spread) for each in folds if isinstance(each, NetworkOpinion)]
    seconds = sum(t.run.seconds for t in trained.trainings if t.method == method)
    return Heard(
        NETWORK + method,
        method != BASELINE,
        out_of_fold,
        opinion(mine[ALL], spread),
        seconds,
        folds,
        # LGA has heard the same labels and more: this one must show what it adds.
        presumed=method != BASELINE or trained.plan.method == BASELINE,
    )


def weigh(case: Case, heard: Sequence[Heard], shares: Sequence[float] | None = None) -> Fitted:
    """The pool of heard, for the classes' shares as given or as they are believed."""
    folds = np.concatenate(
        [np.full(len(rows), number) for number, rows in enumerate(case.folds)]
        + [np.zeros(0, dtype=int)]
    )
    y, hidden = case.y, case.hidden
    known = np.setdiff1d(np.arange(len(y)), case.unlabeled)
    out_of_fold = {t.name: t.out_of_fold for t in heard}
    fitted = fit_pool(
        out_of_fold,
        y[hidden],
        y[known],
        case.classes,
        folds.astype(int),
        presumed=[t.name for t in heard if t.presumed],
    )
    if not case.classes or (shares is None and not len(case.unlabeled)):
        return fitted
    said = np.zeros((0, case.classes))
    if shares is None:
        said = fitted.pool.combined({t.name: t.opinion.of_rows(case.unlabeled) for t in heard})
    return with_shares(fitted, said, y[hidden], y[known], shares)


def _notes(dataset: Dataset, fitted: Fitted, *, is_told: bool) -> list[str]:
    """What a person should know about the weights, and the shares if they have not told them."""
    notes, pool = [], fitted.pool
    if fitted.gain is not None and fitted.gain <= 0:
        what = "the classes' frequencies" if len(pool.known) else "the mean of all values"
        notes.append(
            f"Of hidden labels the witnesses know no more than {what}: do not rely on the labels."
        )
    if len(pool.known) and not is_told and abs(pool.shares - pool.known).max() > 0.01:
        each = [
            f"{name} {100 * share:.0f} %"
            for name, share in zip(dataset.classes, pool.shares, strict=True)
        ]
        listed = ", ".join(each[:10]) + (" …" if len(each) > 10 else "")
        notes.append(
            f"There are as many labels of each class, but not as many rows: their shares are taken "
            f"to be {listed}; say otherwise by `shares`."
        )
    return notes
