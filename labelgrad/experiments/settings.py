"""The settings every method of the picture experiments is run with, and where they are from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labelgrad.methods import parts

Terms = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Choice:
    """A learning rate, and what differs from the usual settings of a method's terms."""

    learning_rate: float
    terms: Terms = field(default_factory=dict)


# Oliver et al. (2018) tuned these for 500,000 steps of WRN-28-2. The labeled loss is divided by the
# number of pictures in both batches there, hence its weight; VAT's radius is for whitened pictures.
HALF = {"supervised": {"weight": 0.5}}
PUBLISHED = {
    "supervised": Choice(3e-3),
    "vat": Choice(3e-3, HALF),
    "entmin": Choice(3e-3, HALF),
    "pi-model": Choice(3e-4, HALF),
    "mean-teacher": Choice(4e-4, HALF),
    "pseudo-label": Choice(3e-4, HALF),
}
UNKNOWN = Choice(1e-3)  # LGA's settings are not in its paper; FixMatch and its kin used SGD
RADIUS = {"vat": {"eps": 1.0}}  # published for pictures that are not whitened

TUNED: dict[str, dict[str, Choice]] = {}


def choice(method: str, data: str, scale: str) -> Choice:
    """The settings that are frozen for a method on a data set, whatever the number of labels.

    A sum that was not tuned itself has the settings of its terms, and the lowest learning rate.

    >>> choice("vat+entmin", "cifar10", "paper").learning_rate
    0.003
    """
    known = PUBLISHED if scale == "paper" else TUNED.get(data, {})
    if method in known:
        return known[method]
    found = [known.get(part, UNKNOWN) for part in parts(method) or ["supervised"]]
    terms: dict[str, Mapping[str, float]] = {}
    for one in found:
        terms |= one.terms
    if "lga" in parts(method):
        terms.pop("supervised", None)  # LGA has a weight of its own for the labeled loss
    return Choice(min(one.learning_rate for one in found), terms)
