"""How each label of a run came: only labels that were drawn at random allow a promise."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the page reads origins without PyTorch
    from torch import Tensor

    from labelgrad.inputs.base import Dataset

RANDOM, AUDIT = "random draw", "audit"
BY_CLASS, CORRECTION, UNKNOWN = "chosen by class", "correction", "unknown"
DRAWN = {"random": RANDOM, "by-class": BY_CLASS, "unknown": UNKNOWN}  # as a person says it


def check_drawn(drawn: str | None) -> None:
    """Refuse a way of drawing labels that nobody knows.

    >>> check_drawn("stratified")
    Traceback (most recent call last):
    ValueError: `drawn` must be one of random, by-class, unknown, got 'stratified'.
    """
    if drawn is not None and drawn not in DRAWN:
        raise ValueError(f"`drawn` must be one of {', '.join(DRAWN)}, got {drawn!r}.")


def origins(
    was_labeled: Tensor, dataset: Dataset, drawn: str, audited: Collection[str] = ()
) -> list[str | None]:
    """How each example's label came, None where there is none.

    `was_labeled` says which examples had a label when they were read, and `dataset` has corrections
    put in. A label that was drawn at random and then corrected is still one that was drawn at
    random.

    >>> from dataclasses import replace
    >>> import torch
    >>> from labelgrad.inputs.base import Dataset
    >>> y, names = torch.tensor([0, -1, -1, -1]), ["0", "1", "2", "3"]
    >>> pets = Dataset("arrays", torch.zeros(4, 1), y, "classification", ("cat", "dog"), names)
    >>> more = replace(pets, y=torch.tensor([1, 0, 1, -1]))
    >>> origins(pets.labeled, more, "random", audited=["2"])
    ['random draw', 'correction', 'audit', None]
    """
    found: list[str | None] = []
    was, now = was_labeled.tolist(), dataset.labeled.tolist()
    for name, before, after in zip(dataset.names, was, now, strict=True):
        added = AUDIT if name in audited else CORRECTION
        found.append(None if not after else DRAWN[drawn] if before else added)
    return found
