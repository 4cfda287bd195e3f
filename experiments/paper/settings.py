"""The settings every method of the picture experiments is run with, and where they are from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.common import Line, Results
from labelgrad.methods import SearchRange, every_method, parts

Terms = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Hyperparameters:
    """A learning rate, and what differs from the usual settings of a method's terms."""

    learning_rate: float
    terms: Terms = field(default_factory=dict)


def _published(learning_rate: float, term: str, weight: float) -> Hyperparameters:
    # The protocol divides sums over 50 labeled and over 50 unlabeled images by 100: ½·L + ½·w·U.
    return Hyperparameters(
        learning_rate, {"supervised": {"weight": 0.5}, term: {"weight": weight / 2}}
    )


# Oliver et al. (2018) tuned these for 500,000 steps of WRN-28-2.
PUBLISHED = {
    "supervised": Hyperparameters(3e-3),
    "vat": _published(3e-3, "vat", 0.3),
    "entmin": _published(3e-3, "entmin", 0.1),
    "pi-model": _published(3e-4, "pi-model", 20.0),
    "mean-teacher": _published(4e-4, "mean-teacher", 8.0),
    "pseudo-label": _published(3e-4, "pseudo-label", 1.0),
}
# VAT's radius there: the one of CIFAR-10 is for whitened pictures, SVHN's for those from -1 to 1.
WHITENED_RADIUS, RADIUS = {"cifar10": 6.0}, 1.0

# A laptop's scale. LGA's usual values were found by hand on Fashion-MNIST with 250 labels, the
# split of seed 100, in nine runs of 1,800 to 3,000 steps; the others are published ones or one.
# Every method is searched along its learning rate and one setting of its own, so LGA's weight of
# the true labels stays as it was found.
LEARNING_RATE = SearchRange(1e-3, 3e-4, 1e-2)
# The best of four trials of each term: `tune fashion-mnist`, 1,000 labels;
# docs/image-methods.md.
_ALIGNED = {"lga": {"speed": 0.231}, "supervised": {"weight": 1.0}}
_CERTAIN = {"lga-certain": {"speed": 0.231}, "supervised": {"weight": 1.0}}
TUNED = {
    "supervised": Hyperparameters(4.37e-3),
    "lga": Hyperparameters(4.37e-3, _ALIGNED),
    "lga-certain": Hyperparameters(4.37e-3, _CERTAIN),
    "vat": Hyperparameters(2.23e-3, {"vat": {"eps": 7.72}}),
    "pi-model": Hyperparameters(4.37e-3, {"pi-model": {"weight": 4.15}}),
    "mean-teacher": Hyperparameters(4.37e-3, {"mean-teacher": {"weight": 4.15}}),
    "pseudo-label": Hyperparameters(4.37e-3, {"pseudo-label": {"weight": 0.345}}),
    "fixmatch": Hyperparameters(4.37e-3, {"fixmatch": {"weight": 0.693}}),
    # Sums, as sums: eight trials each. All have LGA's settings as it was found by itself.
    "lga+vat": Hyperparameters(4.37e-3, {**_ALIGNED, "vat": {"eps": 7.72}}),
    "lga+fixmatch": Hyperparameters(4.37e-3, {**_ALIGNED, "fixmatch": {"weight": 0.693}}),
    "lga+softmatch": Hyperparameters(4.37e-3, {**_ALIGNED, "softmatch": {"weight": 0.599}}),
    "lga-certain+fixmatch": Hyperparameters(4.37e-3, {**_CERTAIN, "fixmatch": {"weight": 0.599}}),
    "lga-certain+flexmatch": Hyperparameters(4.37e-3, {**_CERTAIN, "flexmatch": {"weight": 0.599}}),
}
# What was not searched for has its usual settings, and the learning rate of what is most like it.
ALIKE = {
    "lga-evidence": "lga",
    "lga-linear": "lga",
    "entmin": "supervised",
    "flexmatch": "fixmatch",
    "freematch": "fixmatch",
    "softmatch": "fixmatch",
}


def own_settings(method: str) -> dict[str, SearchRange]:
    """The main settings of all terms of a method, each as "term.setting".

    >>> list(own_settings("lga+vat"))
    ['lga.speed', 'supervised.weight', 'vat.eps']
    """
    known = every_method()
    return {
        setting if "." in setting else f"{part}.{setting}": own
        for part in parts(method)
        for setting, own in known[part].search.items()
    }


def budget(method: str, trials: int) -> int:
    """How many trials a search of the method has where a term has so many: a sum has its terms'.

    >>> budget("vat", 4), budget("lga+vat", 4), budget("supervised", 4)
    (4, 8, 4)
    """
    return trials * max(1, len(parts(method)))


def first_settings(method: str) -> list[dict[str, float]]:
    """Where a search begins, by the names that it has for settings.

    First with the usual values. A sum also begins with what its terms were found to need, at the
    highest of their learning rates: at the lowest, one term's settings hold the others back.

    >>> [settings["learning_rate"] for settings in first_settings("lga+vat")]
    [0.001, 0.00437]
    """
    own, terms = own_settings(method), parts(method)
    usual = {name: setting.usual for name, setting in own.items()}
    first = [{"learning_rate": LEARNING_RATE.usual, **usual}]
    if len(terms) > 1:
        found = [_found(term) for term in terms]
        known = _flat(_together(found).terms)
        rate = max(one.learning_rate for one in found)
        first.append({"learning_rate": rate, **usual, **{n: known[n] for n in own if n in known}})
    return first


def _flat(terms: Terms) -> dict[str, float]:
    return {f"{term}.{name}": value for term, own in terms.items() for name, value in own.items()}


def choice(method: str, scale: str, data: str) -> Hyperparameters:
    """The settings that are frozen for a method, whatever the number of labels.

    A sum that was searched for as a sum has what was found; another has the settings of its terms,
    and the lowest of their learning rates. At the paper's scale VAT's radius is that of the data.

    >>> choice("vat+entmin", "paper", "svhn").learning_rate
    0.003
    >>> [choice("vat", "paper", data).terms["vat"] for data in ("cifar10", "svhn")]
    [{'weight': 0.15, 'eps': 6.0}, {'weight': 0.15, 'eps': 1.0}]
    """
    terms = parts(method) or ["supervised"]
    if scale != "paper":
        as_a_sum = [found for name, found in TUNED.items() if sorted(parts(name)) == sorted(terms)]
        return as_a_sum[0] if as_a_sum else _together([_found(term) for term in terms])
    # LGA's settings are not in its paper, and FixMatch and its kin used SGD: 1e-3 is a guess.
    found = [PUBLISHED.get(term, Hyperparameters(1e-3)) for term in terms]
    if any(term.split("-")[0] == "lga" for term in terms):  # the labeled loss has LGA's weight
        found = [Hyperparameters(one.learning_rate) for one in found]
    together = _together(found)
    if "vat" not in terms:
        return together
    vat = {**together.terms.get("vat", {}), "eps": WHITENED_RADIUS.get(data, RADIUS)}
    return Hyperparameters(together.learning_rate, {**together.terms, "vat": vat})


def searched(folder: Path, methods: Iterable[str], scale: str) -> dict[str, Hyperparameters]:
    """The best settings of each method in the folder of a search, one at the same scale."""
    lines = [line for line in Results(folder, {}).lines if "settings" in line]
    mine = [line for line in lines if line["scale"] == scale]
    known = dict.fromkeys(line["method"] for line in mine)
    for name in methods:
        if name not in known:
            has = ", ".join(known) or (f"one at {lines[0]['scale']}" if lines else "none")
            raise ValueError(
                f"--tuned needs a search of {name} at --scale {scale}, and {folder} has {has}; "
                f"run `tune` with --methods {name} first, or name --methods."
            )
    return {name: Hyperparameters(**best_of(mine, name)["settings"]) for name in methods}


def best_of(lines: Sequence[Line], method: str) -> Line:
    """The line of a method with the lowest validation error, the earliest of several."""
    mine = [line for line in lines if line["method"] == method]
    return min(mine, key=lambda line: (line["validation_error"], line["number"]))


def _found(term: str) -> Hyperparameters:
    usual = {name: setting.usual for name, setting in own_settings(term).items()}
    rate = TUNED[ALIKE.get(term, "supervised")].learning_rate
    return TUNED.get(term) or Hyperparameters(rate, by_term(usual))


def by_term(settings: Mapping[str, float]) -> Terms:
    """Settings that are named "term.setting", as those of each term.

    >>> by_term({"lga.speed": 0.4, "vat.eps": 2.0})
    {'lga': {'speed': 0.4}, 'vat': {'eps': 2.0}}
    """
    own: dict[str, dict[str, float]] = {}
    for name, value in settings.items():
        term, setting = name.split(".")
        own.setdefault(term, {})[setting] = value
    return own


def _together(found: list[Hyperparameters]) -> Hyperparameters:
    terms = {name: own for one in found for name, own in one.terms.items()}
    return Hyperparameters(min(one.learning_rate for one in found), terms)
