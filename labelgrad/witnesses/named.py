"""Witnesses by name: those that come with labelgrad, and which of them are heard by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from labelgrad.nearest import did_you_mean
from labelgrad.witnesses import models
from labelgrad.witnesses.aligned import Aligned
from labelgrad.witnesses.base import Witness
from labelgrad.witnesses.neighbours import Neighbours, nearest_features

BY_NAME: dict[str, Callable[[], Witness]] = {
    "linear": models.linear,
    "self-training": models.self_training,
    "label spreading": models.label_spreading,
    "random forest": models.forest,
    "extra trees": models.extra_trees,
    "neighbours": Neighbours,
    "nearest features": nearest_features,
    "lga-linear": Aligned,
    "kernel": models.kernel,
    "catboost": models.catboost,
    "tabicl": models.tabicl,
}
USUAL = {
    "classification": (
        "linear",
        "self-training",
        "random forest",
        "extra trees",
        "neighbours",
        "label spreading",
    ),
    "regression": ("linear", "random forest", "extra trees", "neighbours", "kernel"),
}
OF_FEATURES = {  # that encoders made: trees would look at one of a thousand columns at a time
    "classification": ("linear", "nearest features", "lga-linear"),
    "regression": ("linear", "nearest features", "kernel"),
}
WHERE_INSTALLED = ("catboost",)
MOST_BOOSTED = 300  # columns: CatBoost takes a minute a fold for 800, and forests seconds


def usual_witnesses(task: str, *, features: bool = False, columns: int = 0) -> tuple[str, ...]:
    """The names of those heard where nobody says: scikit-learn's, and others that are installed.

    Of `features` that encoders made there are others, and of many `columns` fewer.

    >>> usual_witnesses("classification")[0], usual_witnesses("classification", features=True)
    ('linear', ('linear', 'nearest features', 'lga-linear'))
    """
    if features:
        return OF_FEATURES[task]
    more = WHERE_INSTALLED if columns <= MOST_BOOSTED else ()
    return (*USUAL[task], *(name for name in more if find_spec(name)))


def witness_names(text: str) -> str:
    """Names as somebody wrote them, checked: "linear, neighbours" is "linear,neighbours".

    >>> witness_names("linear, extra trees"), witness_names("")
    ('linear,extra trees', '')
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    witnesses_named(names)
    return ",".join(names)


def witnesses_named(names: Sequence[str]) -> list[Witness]:
    """The witnesses of these names.

    >>> [witness.name for witness in witnesses_named(["linear", "neighbours"])]
    ['linear', 'neighbours']
    """
    for name in names:
        if name not in BY_NAME:
            hint = did_you_mean(name, BY_NAME, f"there are {', '.join(BY_NAME)}.")
            raise ValueError(f"there is no witness {name!r}; {hint}")
    return [BY_NAME[name]() for name in names]
