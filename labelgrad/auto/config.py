"""Every option of `fit`, once.

`FitConfig` is the Python interface, the command line, what a run folder saves, what `resume` loads
and overrides, and what the reference page shows. To add an option, add a field here with its help
and a key to `Options`, and use it where it acts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from torch import nn

TASKS = ("classification", "regression")
DATE_ORDERS = ("day-first", "month-first")
QUALITIES = ("fast", "best")
LABEL_SAMPLINGS = ("random", "by-class", "unknown")
# May come as a path, or as the number of a column.
TEXTS = ("target", "id", "method", "labels", "unlabeled_value", "cache", "weak_labels")
OWN = "own"  # what a saved configuration has for an object that only Python can hand over


def option(default: Any, help: str, **more: Any) -> Any:
    """A field with its help; `choices`, `metavar` and `python_only` are for the command line."""
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """All options of a fit.

    >>> config = FitConfig(target="kind", base_models="linear, extra trees")
    >>> config.base_models
    ('linear', 'extra trees')
    >>> FitConfig.from_dict(config.to_dict()) == config
    True
    >>> config.override({"seed": 3}).seed
    3
    """

    # Data
    target: str | None = option(None, "Column of a table that holds the labels.", metavar="COLUMN")
    id: str | None = option(
        None, "Column of a table that names its rows; not a feature.", metavar="COLUMN"
    )
    ignore: tuple[str, ...] = option((), "Columns that are not features.", metavar="COLUMN,…")
    labels: str | None = option(None, "CSV file with the columns file and label.", metavar="FILE")
    unlabeled: str | None = option(
        None, "Table or folder with more examples, whose labels are not used.", metavar="PATH"
    )
    unlabeled_value: str | None = option(
        None,
        "Value that means no label, such as unknown; '' if all values are classes.",
        metavar="VALUE",
    )
    task: str | None = option(None, "Guessed from the labels by default.", choices=TASKS)
    dates: str | None = option(None, "Order of ambiguous dates.", choices=DATE_ORDERS)
    text: tuple[str, ...] = option((), "Columns that hold text.", metavar="COLUMN,…")
    groups: str | tuple[str, ...] | None = option(
        None,
        "Column with the group of each example, such as a person or device; a group is held out "
        "together.",
        metavar="COLUMN",
    )
    size: int | None = option(None, "Side of images in pixels.", metavar="PIXELS")
    strict: bool = option(False, "Fail on a damaged image instead of skipping it.")
    encoder: str | nn.Module | None = option(  # noqa: RUF009
        None,
        "Pretrained encoder: a name, a folder of weights, or none. Defaults to the recommended "
        "encoder that is installed.",
        metavar="NAME",
    )
    download: bool = option(False, "Allow downloading an encoder's weights.")
    cache: str | None = option(None, "Cache folder for features and decoded data.", metavar="DIR")
    # Models
    quality: str = option(
        "best",
        "fast: on tables three base models, and a student that learns from fewer rows.",
        choices=QUALITIES,
    )
    base_models: tuple[str, ...] | None = option(
        None,
        "Base models to stack, such as linear,extra trees; a training method such as lga+vat is "
        "a network trained by it.",
        metavar="NAME,…",
    )
    estimators: Mapping[str, Any] | None = option(
        None, "scikit-learn estimators by name, to be stacked as well.", python_only=True
    )
    method: str | None = option(
        None, "Training method of an additional network, such as lga+vat.", metavar="METHOD"
    )
    network: str | nn.Module | None = option(  # noqa: RUF009
        None, "Architecture of the networks: mlp, mlp-64-64, linear, wrn-10-1.", metavar="NAME"
    )
    steps: int | None = option(None, "Training steps of each network.", metavar="N")
    time_budget: float | None = option(
        None, "Minutes that training the networks may take, instead of steps.", metavar="MINUTES"
    )
    mirror: bool = option(False, "Images may be flipped horizontally.")
    fine_tune: float = option(
        0.0,
        "Fine-tune the encoder with this fraction of the head's learning rate, such as 0.01.",
        metavar="RATE",
    )
    weak_labels: str | None = option(
        None, "CSV file of labels by rules, models or crowds, a column for each.", metavar="FILE"
    )
    # Labels
    class_prior: Mapping[str, float] | None = option(
        None, "Frequency of each class, such as cat=0.2,dog=0.8.", metavar="CLASS=SHARE,…"
    )
    label_sampling: str = option(
        "unknown", "How the labeled examples were chosen.", choices=LABEL_SAMPLINGS
    )
    # Computation
    keep_ensemble: bool = option(False, "Save the ensemble, for predict --ensemble.")
    seed: int = option(0, "Seeds folds, base models, networks and the student.", metavar="N")
    device: str = option("cpu", "Where networks are trained: cpu or cuda.", metavar="DEVICE")
    workers: int = option(1, "Processes that fit base models side by side.", metavar="N")
    model_timeout: float = option(
        600.0, "Seconds after which a base model is given up.", metavar="SECONDS"
    )

    def __post_init__(self) -> None:
        for name in ("ignore", "text", "base_models"):
            object.__setattr__(self, name, listed_names(getattr(self, name)))
        groups = self.groups if isinstance(self.groups, str | None) else [*map(str, self.groups)]
        object.__setattr__(self, "groups", tuple(groups) if isinstance(groups, list) else groups)
        for name in TEXTS:
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else str(value))
        if self.unlabeled is not None:  # it is read again when the run is opened elsewhere
            where = Path(self.unlabeled).expanduser().absolute()
            object.__setattr__(self, "unlabeled", str(where))
        for each in fields(self):
            choices, value = each.metadata.get("choices"), getattr(self, each.name)
            if choices and value is not None and value not in choices:
                raise ValueError(
                    f"`{each.name}` must be one of {', '.join(choices)}, got {value!r}."
                )
        for name, least in (("size", 1), ("steps", 1), ("seed", 0), ("workers", 1)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Integral) and int(value) >= least):
                raise ValueError(
                    f"`{name}` must be a whole number of at least {least}, got {value!r}."
                )
        if not 0 <= self.fine_tune <= 1:
            raise ValueError(f"`fine_tune` must be from 0 to 1, got {self.fine_tune!r}.")
        if self.time_budget is not None and not self.time_budget > 0:
            raise ValueError(f"`time_budget` must be positive minutes, got {self.time_budget}.")

    def override(self, options: Mapping[str, Any]) -> FitConfig:
        """The same configuration with other values for the options that are given."""
        known = {each.name for each in fields(self)}
        for name in options:
            if name not in known:
                from labelgrad.nearest import did_you_mean

                hint = did_you_mean(name, known, "see help(labelgrad.fit).")
                raise TypeError(f"fit has no option {name!r}; {hint}")
        return dataclasses.replace(self, **options) if options else self

    def to_dict(self) -> dict[str, Any]:
        """The options that differ from their defaults, as JSON can hold them."""
        return {
            each.name: _plain(getattr(self, each.name))
            for each in fields(self)
            if getattr(self, each.name) != each.default
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> FitConfig:
        """The configuration that `to_dict` wrote down."""
        return cls(**saved)


class Options(TypedDict, total=False):
    """The options of `FitConfig` as keywords of `fit`, for type checkers."""

    target: str | None
    id: str | None
    ignore: str | Sequence[str]
    labels: str | None
    unlabeled: str | None
    unlabeled_value: str | None
    task: str | None
    dates: str | None
    text: str | Sequence[str]
    groups: str | Sequence[Any] | None
    size: int | None
    strict: bool
    encoder: str | nn.Module | None
    download: bool
    cache: str | None
    quality: str
    base_models: str | Sequence[str] | None
    estimators: Mapping[str, Any] | None
    method: str | None
    network: str | nn.Module | None
    steps: int | None
    time_budget: float | None
    mirror: bool
    fine_tune: float
    weak_labels: str | None
    class_prior: Mapping[str, float] | None
    label_sampling: str
    keep_ensemble: bool
    seed: int
    device: str
    workers: int
    model_timeout: float


def listed_names(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Names as a tuple, from a sequence or a text with commas; "none" is no name.

    >>> listed_names("linear, extra trees")
    ('linear', 'extra trees')
    """
    if given is None:
        return None
    listed = given.split(",") if isinstance(given, str) else given
    names = (str(name).strip() for name in listed)
    return tuple(name for name in names if name not in ("", "none"))


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; objects that only Python can hand over become `OWN`."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | float | bool) else OWN
