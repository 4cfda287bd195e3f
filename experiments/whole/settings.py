"""What a trial at scale `whole` is: its data, its method, and every number that can be searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

# Of the protocol of Oliver et al. (2018); the test sets are the authors' own.
VALIDATION = {"cifar10": 5_000, "svhn": 7_326, "fashion-mnist": 5_000, "digits": 300}
MIRRORED = ("cifar10", "fashion-mnist")  # sets whose mirrored images keep their class


@dataclass(frozen=True)
class Settings:
    """A trial; the names are those of `--set NAME=VALUE`.

    Examples
    --------
    >>> Settings(method="lga").changed(["rate=0.2", "visits=3"]).rate
    0.2

    """

    data: str = "cifar10"
    method: str = "supervised"
    labels: int = 4_000
    seed: int = 0
    width: int = 16  # channels of the first group
    visits: float = 8.0  # how often each unlabeled image is drawn; sets the number of steps
    labeled_batch: int = 50
    unlabeled_batch: int = 150
    learning_rate: float = 4e-3  # at its highest
    warm_up: float = 0.1  # fraction of the steps over which the learning rate rises
    weight_decay: float = 5e-4
    label_smoothing: float = 0.0
    weight_average: float = 0.995
    autocast: bool = True  # bfloat16
    pixels: int = 2  # of the shift in a weak view
    half_strong: bool = False  # whether half of a supervised batch are strong views
    labeled_weight: float = 1.0  # T
    rate: float = 0.1  # of LazyAdam, at its highest
    scale: float = 5.0  # of evidence
    decay: float = 0.8  # of older evidence, at each visit
    power: float = 0.25  # of the metric under evidence; Algorithm 1 has 0.5
    gradient_decay: float = 0.9  # of the average of the labeled gradient
    eps: float = 2.0  # VAT's distance
    vat_weight: float = 0.3
    match_weight: float = 1.0  # of FixMatch and FlexMatch
    evaluations: int = 16

    def changed(self, assignments: Sequence[str]) -> Settings:
        """The settings after assignments such as `rate=0.2`."""
        types = {field.name: type(getattr(self, field.name)) for field in fields(self)}
        changes: dict[str, Any] = {}
        for assignment in assignments:
            name, _, text = assignment.partition("=")
            if name not in types or not text:
                raise ValueError(
                    f"a setting must be NAME=VALUE with one of {', '.join(types)}, got "
                    f"{assignment!r}."
                )
            changes[name] = text == "True" if types[name] is bool else types[name](text)
        return replace(self, **changes)

    def steps(self, unlabeled: int) -> int:
        """The steps in which so many unlabeled images are drawn `visits` times each."""
        return max(1, round(self.visits * unlabeled / self.unlabeled_batch))

    @property
    def name(self) -> str:
        """A name for the trial's folder: its method, labels, seed, and what is not usual."""
        usual = asdict(Settings(method=self.method, labels=self.labels, seed=self.seed))
        others = {k: v for k, v in asdict(self).items() if usual[k] != v}
        words = [self.method, f"{self.labels}", f"seed{self.seed}"]
        return "-".join([*words, *(f"{name}={value}" for name, value in others.items())])
