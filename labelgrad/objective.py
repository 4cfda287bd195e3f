"""Objectives add and scale: `0.1 * Supervised() + LGA(...)` is a method.

Read this first. A method is a sum of weighted terms; each term can be built, called and tested
alone, and keeps its own state, which is part of every checkpoint because a term is an
`nn.Module`. The training loop knows no method: it calls one objective and descends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from labelgrad.distributed import Group
from labelgrad.losses import CrossEntropy, Loss
from labelgrad.schedules import Schedule, describe, value_at
from labelgrad.step import Step


class Labeled(NamedTuple):
    """The labels that a term has for the unlabeled examples, and the loss of each."""

    labels: Tensor  # (rows, classes)
    losses: Tensor  # (rows,)


class Objective(nn.Module):
    """A number to make smaller, given one `Step`; objectives add and scale.

    The gradient follows: `∇(a + w·b) = ∇a + w·∇b`. A weight scales the pull on the model and
    nothing else: `0 * LGA(...)` still learns its labels.

    >>> from labelgrad import Supervised
    >>> 0.1 * Supervised() + Supervised()
    0.1 * Supervised() + Supervised()
    """

    replays = False  # whether a step should remember its unlabeled pass, for forward mode
    shares_graph = True  # whether its value is differentiated through passes that terms share
    averaged = False  # whether its gradient is that of all processes' batches by itself
    owns_rows = False  # whether of several processes each keeps what belongs to its own rows alone

    @property
    def name(self) -> str:
        """How records and error messages call this objective."""
        return type(self).__name__.lower()

    def __call__(self, step: Step) -> Tensor:
        """`forward`, with the same random numbers however often it is called.

        A term's value is a mean over the unlabeled batch, and counts by this process's share of it.
        """
        with step.repeatable_draws():
            value: Tensor = super().__call__(step)
        return value if self.averaged else step.weighed(value)

    def forward(self, step: Step) -> Tensor:
        """The value for one step, differentiable in the model's parameters.

        It changes nothing: a second call returns the same.
        """
        raise NotImplementedError

    def update(self, step: Step) -> None:
        """Learn from the step: label tables, averages and thresholds move here.

        The value and its gradient are known to be finite by now, and the model has not moved yet.
        """

    def each(self, step: Step) -> Labeled:
        """The labels it has for the examples of a step, after `forward`, and the loss of each.

        Only a term with labels of its own can say so.
        """
        raise NotImplementedError

    def leaves(self) -> Iterator[Objective]:
        """The terms that sums and weights are made of."""
        yield self

    def join(self, group: Group) -> None:
        """Be trained by these processes: what each keeps of its own rows is divided here."""

    def begin(self, model: nn.Module, loss: Loss, rows: int) -> None:
        """Check, before the first step, the model, the loss and the count of unlabeled rows."""

    def follow(self, model: nn.Module) -> None:
        """The optimizer has just moved `model`: averages of weights follow it here."""

    def measure(self, truth: Tensor) -> dict[str, float]:
        """What this objective can say of itself where the unlabeled rows' truth is known."""
        return {}

    def __add__(self, other: Objective) -> Sum:
        if not isinstance(other, Objective):
            raise TypeError(f"an objective adds to another objective, not to {other!r}.")
        return Sum(self, other)

    def __rmul__(self, weight: float | Schedule | Certainty) -> Objective:
        if isinstance(weight, Certainty):
            return Weighed(weight, self)
        return Scaled(weight, self)

    def extra_repr(self) -> str:
        """The settings, as they would be written in a call."""
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


class Sum(Objective):
    """The sum of several objectives; nested sums flatten, so `a + b + c` is one list of terms."""

    averaged = True  # where its terms are: it has nothing of its own

    def __init__(self, *terms: Objective):
        super().__init__()
        parts = [term.terms if isinstance(term, Sum) else [term] for term in terms]
        flat = list(chain.from_iterable(parts))
        self.terms: Sequence[Objective] = cast("Sequence[Objective]", nn.ModuleList(flat))
        self._names = _free_names([term.name for term in flat])
        leaves = list(self.leaves())
        if len({id(leaf) for leaf in leaves}) < len(leaves):
            raise ValueError(f"one objective is twice in {self!r}; write a weight instead: 2 * a.")

    def forward(self, step: Step) -> Tensor:
        values: list[Tensor] = []
        for term in self._named_terms(step):
            values.append(term(step))
            step.records[f"{step.term}/loss"] = values[-1].detach()
        return sum(values[1:], values[0])

    def update(self, step: Step) -> None:
        for term in self._named_terms(step):
            term.update(step)

    def _named_terms(self, step: Step) -> Iterator[Objective]:
        """The terms, each under its own name in the step's records."""
        outer = f"{step.term}/" if step.term else ""
        for name, term in zip(self._names, self.terms, strict=True):
            step.term = outer + name
            yield term
        step.term = outer.removesuffix("/")

    def leaves(self) -> Iterator[Objective]:
        for term in self.terms:
            yield from term.leaves()

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


class Scaled(Objective):
    """An objective times a number, or times a schedule of the step."""

    averaged = True  # where its term is

    def __init__(self, weight: float | Schedule, term: Objective):
        super().__init__()
        if not callable(weight) and not math.isfinite(weight):
            raise ValueError(f"the weight of {term!r} must be finite, got {weight}.")
        self.weight, self.term = weight, term

    @property
    def name(self) -> str:
        return self.term.name

    def forward(self, step: Step) -> Tensor:
        value: Tensor = self.term(step)
        return value_at(self.weight, step.index) * value

    def update(self, step: Step) -> None:
        self.term.update(step)

    def leaves(self) -> Iterator[Objective]:
        return self.term.leaves()

    def __repr__(self) -> str:
        inner = f"({self.term!r})" if isinstance(self.term, Sum) else repr(self.term)
        return f"{describe(self.weight)} * {inner}"


@dataclass(frozen=True)
class Certainty:
    """How much an imputed label y of K classes counts, from 0 to 1: c = 1 − H(y) / log K.

    A label that knows nothing, the same for every class, counts nothing, and one that is all for
    one class counts fully. `Certainty() * LGA(...)` is LGA with

        g_θ = ∇θ mean_i c_i · L(θ, x_i, y_i)      in place of g_u

    while the labels learn as they would without: the gap is of g_u itself.

    >>> undecided, half, sure = [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
    >>> Certainty()(torch.tensor([undecided, half, sure]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def __call__(self, labels: Tensor) -> Tensor:
        entropy: Tensor = torch.special.entr(labels).sum(-1)
        return 1 - entropy / math.log(labels.shape[-1])


class Weighed(Objective):
    """An objective whose examples count by how sure their labels are: mean_i c_i·L_i.

    Like any weight it scales the pull on the model alone: the labels learn as they would without.

    >>> from labelgrad import LGA, Certainty
    >>> Certainty() * LGA(rows=100, width=4)  # doctest: +ELLIPSIS
    Certainty() * LGA(rows=100, width=4, ...)
    """

    def __init__(self, weight: Certainty, term: Objective):
        super().__init__()
        if type(term).each is Objective.each:
            raise ValueError(f"{weight!r} needs labels, and {term!r} has none; give it a number.")
        self.weight, self.term = weight, term

    @property
    def name(self) -> str:
        return self.term.name

    def forward(self, step: Step) -> Tensor:
        self.term(step)  # for its update alone
        labels, losses = self.term.each(step)
        certainty = self.weight(labels)
        step.report("certainty", certainty.mean())
        return (certainty * losses).mean()

    def update(self, step: Step) -> None:
        self.term.update(step)

    def begin(self, model: nn.Module, loss: Loss, rows: int) -> None:
        if not isinstance(loss, CrossEntropy):
            raise ValueError(f"{self.weight!r} needs classes, not values; weigh by a number.")

    def leaves(self) -> Iterator[Objective]:
        yield self  # which is differentiated through the pass that its term has made
        yield from self.term.leaves()

    def __repr__(self) -> str:
        return f"{self.weight!r} * {self.term!r}"


def _free_names(names: Sequence[str]) -> list[str]:
    """Each name once: the second of a kind is `name.2`, the third `name.3`."""
    return [
        f"{name}.{names[:place].count(name) + 1}" if name in names[:place] else name
        for place, name in enumerate(names)
    ]
