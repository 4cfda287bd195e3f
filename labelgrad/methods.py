"""Methods by name: `method("lga+vat", ...)` is the sum the name says, with usual settings.

A name is a sum of the names in `METHODS`. Every sum has the labeled loss in it, with weight 1, or
with LGA's smaller weight where LGA hands over what the labels say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from labelgrad.labels.evidence import SCALE
from labelgrad.labels.rate import label_schedule
from labelgrad.nearest import did_you_mean
from labelgrad.objective import Objective
from labelgrad.objectives.entmin import EntMin
from labelgrad.objectives.fixmatch import FixMatch
from labelgrad.objectives.flexmatch import FlexMatch
from labelgrad.objectives.freematch import FreeMatch
from labelgrad.objectives.lga import LGA
from labelgrad.objectives.mean_teacher import MeanTeacher
from labelgrad.objectives.pi_model import PiModel
from labelgrad.objectives.pseudo_label import PseudoLabel
from labelgrad.objectives.softmatch import SoftMatch
from labelgrad.objectives.supervised import Supervised
from labelgrad.objectives.vat import VAT
from labelgrad.schedules import Ramp, SmoothRamp

SUPERVISED_WEIGHT = 0.1  # T, where LGA is one of the terms
LGA_TERMS = ("lga", "lga-evidence")


@dataclass(frozen=True)
class Problem:
    """What a method may need to know before it is built."""

    rows: int  # unlabeled examples
    classes: int
    batch_size: int
    steps: int

    def rise(self, top: float) -> SmoothRamp:
        """A weight that rises over the first two fifths of the run, as the protocol has it."""
        return SmoothRamp(0.4 * self.steps, top)


@dataclass(frozen=True)
class Method:
    """A term by name, what it costs beside the labeled gradient, and how it is built.

    `build` takes the problem and, by name, the settings that can be changed; they have defaults.
    """

    paper: str
    passes: int  # forward passes of the unlabeled batch; a gradient is three
    build: Callable[..., Objective]
    strong_views: bool = False


def _lga(problem: Problem, speed: float = 1.0) -> Objective:
    """`speed` is how fast the labels learn, in units of the rule in `labels.rate`."""
    size = problem.rows, problem.classes
    rate = label_schedule(*size, problem.batch_size, problem.steps)
    return LGA(*size, label_rate=Ramp(rate.steps, speed * rate.top))


def _lga_evidence(problem: Problem, scale: float = SCALE["classes"]) -> Objective:
    """LGA whose labels learn without a rate; `scale` is how much their evidence weighs."""
    return LGA(problem.rows, problem.classes, evidence=scale)


def _vat(problem: Problem, weight: float = 0.3, eps: float = 6.0) -> Objective:
    return problem.rise(weight) * VAT(eps=eps)


def _entmin(problem: Problem, weight: float = 0.1) -> Objective:
    return weight * EntMin()


def _pi_model(problem: Problem, weight: float = 20.0) -> Objective:
    return problem.rise(weight) * PiModel()


def _mean_teacher(problem: Problem, weight: float = 8.0, decay: float = 0.95) -> Objective:
    return problem.rise(weight) * MeanTeacher(decay=decay)


def _pseudo_label(problem: Problem, weight: float = 1.0, threshold: float = 0.95) -> Objective:
    return problem.rise(weight) * PseudoLabel(threshold=threshold)


def _fixmatch(problem: Problem, weight: float = 1.0, threshold: float = 0.95) -> Objective:
    return weight * FixMatch(threshold)


def _flexmatch(problem: Problem, weight: float = 1.0) -> Objective:
    return weight * FlexMatch(problem.rows, problem.classes)


def _freematch(problem: Problem, weight: float = 1.0) -> Objective:
    return weight * FreeMatch(problem.classes)


def _softmatch(problem: Problem, weight: float = 1.0) -> Objective:
    return weight * SoftMatch(problem.classes)


METHODS = {
    "lga": Method("Jackson & Schulman, 2019", 5, _lga),
    "lga-evidence": Method("LGA without a rate: ours", 5, _lga_evidence),
    "vat": Method("Miyato et al., 2018", 6, _vat),
    "entmin": Method("Grandvalet & Bengio, 2005", 3, _entmin),
    "pi-model": Method("Laine & Aila, 2017", 4, _pi_model),
    "mean-teacher": Method("Tarvainen & Valpola, 2017", 4, _mean_teacher),
    "pseudo-label": Method("Lee, 2013", 3, _pseudo_label),
    "fixmatch": Method("Sohn et al., 2020", 4, _fixmatch, strong_views=True),
    "flexmatch": Method("Zhang et al., 2021", 4, _flexmatch, strong_views=True),
    "freematch": Method("Wang et al., 2023", 4, _freematch, strong_views=True),
    "softmatch": Method("Chen et al., 2023", 4, _softmatch, strong_views=True),
}


def parts(name: str) -> list[str]:
    """The terms of a name, apart from the labeled loss, each checked.

    >>> parts("lga + vat"), parts("supervised")
    (['lga', 'vat'], [])
    """
    found = [part.strip().lower().replace("_", "-") for part in name.split("+")]
    for part in found:
        if part not in (*METHODS, "supervised"):
            names = (*METHODS, "supervised")
            hint = did_you_mean(part, names, f"there are {', '.join(METHODS)}.")
            raise ValueError(f"there is no method {part!r}; {hint}")
    if len(set(found)) < len(found):
        raise ValueError(f"a method needs each of its terms once, got {name!r}.")
    return [part for part in found if part != "supervised"]


def method(
    name: str, problem: Problem, settings: Mapping[str, Mapping[str, float]] | None = None
) -> Objective:
    """The objective that a name stands for; `settings` replace a term's own, by the term's name.

    `{"supervised": {"weight": 0.5}}` is the weight of the labeled loss.

    >>> problem = Problem(rows=100, classes=10, batch_size=50, steps=1000)
    >>> method("vat+entmin", problem, {"vat": {"eps": 2.0}})
    Supervised() + SmoothRamp(steps=400.0, top=0.3) * VAT(eps=2.0, xi=0.001, power_iterations=1) \
+ 0.1 * EntMin()
    """
    chosen, own = parts(name), settings or {}
    usual = SUPERVISED_WEIGHT if any(term in chosen for term in LGA_TERMS) else 1
    weight = own.get("supervised", {}).get("weight", usual)
    objective: Objective = Supervised() if weight == 1 else weight * Supervised()
    for part in chosen:
        objective = objective + METHODS[part].build(problem, **own.get(part, {}))
    return objective
