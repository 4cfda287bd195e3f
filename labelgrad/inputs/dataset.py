"""What reading gives: examples, the labels that are known, and what was decided on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

VERSION = 1  # of a preparation; one of another version is refused, not guessed at


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples with few labels, ready for a model.

    `y` has class indices, -1 where unlabeled, or float64 targets, NaN where unlabeled. `names` are
    files relative to their folder, rows of a table from 1, or rows of an array from 0.
    `preparation` can be written as JSON, and is all that `prepare` needs to treat new data alike.

    >>> y = torch.tensor([0, -1, 1])
    >>> x, classes, names = torch.zeros(3, 2), ("cat", "dog"), ["0", "1", "2"]
    >>> pets = Dataset("arrays", x, y, "classification", classes, names)
    >>> pets.labeled.tolist()
    [True, False, True]
    >>> pets.summary
    {'labeled': 2, 'unlabeled': 1, 'skipped': 0, 'classes': {'cat': 1, 'dog': 1}}
    """

    kind: str  # "pictures", "table" or "arrays"
    x: Tensor  # (n, channels, height, width), or (n, columns) in float32
    y: Tensor  # (n,)
    task: str  # "classification" or "regression"
    classes: tuple[str, ...]
    names: list[str]
    skipped: list[tuple[str, str]] = field(default_factory=list)  # name, reason
    notes: list[str] = field(default_factory=list)  # what was decided and why, a sentence each
    preparation: dict[str, Any] = field(default_factory=dict)

    @property
    def labeled(self) -> Tensor:
        """Which examples have a label."""
        return self.y >= 0 if self.task == "classification" else ~self.y.isnan()

    @property
    def summary(self) -> dict[str, Any]:
        """How many examples of each kind, and of each class."""
        known = int(self.labeled.sum())
        counts: dict[str, Any] = {
            "labeled": known,
            "unlabeled": len(self.y) - known,
            "skipped": len(self.skipped),
        }
        if self.task == "classification":
            each = torch.bincount(self.y[self.labeled], minlength=len(self.classes)).tolist()
            counts["classes"] = dict(zip(self.classes, each, strict=True))
        return counts


class Prepared(NamedTuple):
    """New data as the model was trained to see it."""

    x: Tensor
    names: list[str]
    skipped: list[tuple[str, str]]


def join_few(names: Iterable[object], most: int = 5) -> str:
    """The first few names, and how many more there are.

    >>> join_few(["a", "b"]), join_few(range(9), most=2)
    ("'a', 'b'", '0, 1 and 7 more')
    """
    listed = list(names)
    shown = ", ".join(repr(name) for name in listed[:most])
    return shown if len(listed) <= most else f"{shown} and {len(listed) - most} more"
