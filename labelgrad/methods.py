"""Methods by name: `method("lga+vat", ...)` is the sum the name says, with usual settings.

A name is a sum of terms. What a term is called, where it is from, what it costs and where a search
looks for its settings stands in its own file in `objectives/`, which `register`s it. A sum has the
labeled loss in it, with weight 1, or with LGA's smaller weight, if any, where LGA hands over what
the labels say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules

from labelgrad.losses import CrossEntropy, Loss
from labelgrad.nearest import did_you_mean
from labelgrad.objective import Objective, Sum
from labelgrad.schedules import SmoothRamp

SUPERVISED = "supervised"  # the labeled loss, and nothing else


@dataclass(frozen=True)
class Problem:
    """What a method may need to know before it is built."""

    rows: int  # unlabeled examples
    width: int  # classes, or targets of a regression
    batch_size: int
    steps: int
    loss: Loss = field(default_factory=CrossEntropy)
    slope: str = "forward-mode"  # of LGA's labels, as the network allows it

    def rise(self, top: float) -> SmoothRamp:
        """A weight that rises over the first two fifths of the run, as the protocol has it."""
        return SmoothRamp(0.4 * self.steps, top)


@dataclass(frozen=True)
class SearchRange:
    """A number to be chosen: its value where nobody has searched, and where a search looks."""

    usual: float
    low: float
    high: float


@dataclass
class Method:
    """A term by name, what it costs beside the labeled gradient, and how it is built.

    It is registered as the decorator of the function that builds it, which takes the problem and,
    by name, the settings that can be changed; they have defaults.

    >>> @register("nothing", "ours", passes=0, values=True)
    ... def nothing(problem: Problem) -> Objective:
    ...     return 0 * _registered[SUPERVISED].build(problem)
    >>> every_method()["nothing"].values
    True
    >>> _ = _registered.pop("nothing")
    """

    name: str
    paper: str
    passes: int  # forward passes of the unlabeled batch; a gradient is three
    _: KW_ONLY
    views: bool = False  # whether it compares views, and does nothing without them
    strong_views: bool = False
    values: bool = False  # whether it can learn values, too
    supervised_weight: float = 1.0  # of the labeled loss beside it; 0 leaves it out
    perturbs: bool = False  # whether it moves examples by itself
    search: Mapping[str, SearchRange] = field(default_factory=dict)
    build: Callable[..., Objective] = field(init=False)

    def __call__(self, build: Callable[..., Objective]) -> Callable[..., Objective]:
        """Register the method that `build` builds, and give `build` as it is."""
        known = _registered.get(self.name)
        if known is not None and known.build.__module__ != build.__module__:
            raise ValueError(f"there is a method {self.name!r} already; choose another name.")
        _, *settings = signature(build).parameters.values()
        if bare := [setting.name for setting in settings if setting.default is setting.empty]:
            raise ValueError(
                f"the settings of a method need defaults, and {', '.join(bare)} of {self.name!r} "
                f"has none; add one."
            )
        self.build, self.views = build, self.views or self.strong_views
        _registered[self.name] = self
        return build

    @property
    def changes_inputs(self) -> bool:
        """Whether it needs examples that can be changed a little, as numbers and pixels can."""
        return self.views or self.perturbs


_registered: dict[str, Method] = {}
register = Method  # as a decorator


def every_method() -> dict[str, Method]:
    """All terms beside the labeled loss, by name, those of other packages included.

    >>> every_method()["vat"].paper
    'Miyato et al., 2018'
    """
    _read_files()
    return {name: _registered[name] for name in sorted(_registered) if name != SUPERVISED}


@cache
def _read_files() -> None:
    folder = import_module("labelgrad.objectives")
    for file in iter_modules(folder.__path__):
        import_module(f"labelgrad.objectives.{file.name}")


def parts(name: str) -> list[str]:
    """The terms of a name, apart from the labeled loss, each checked.

    >>> parts("lga + vat"), parts("supervised")
    (['lga', 'vat'], [])
    """
    names = (*every_method(), SUPERVISED)
    if not isinstance(name, str):
        raise ValueError(f"a method must be a name such as lga or lga+vat, got {name!r}.")
    found = [part.strip().lower().replace("_", "-") for part in name.split("+")]
    for part in found:
        if part not in names:
            hint = did_you_mean(part, names, f"there are {', '.join(names)}.")
            raise ValueError(f"there is no method {part!r}; {hint}")
    if len(set(found)) < len(found):
        raise ValueError(f"a method needs each of its terms once, got {name!r}.")
    return [part for part in found if part != SUPERVISED]


def method(
    name: str, problem: Problem, settings: Mapping[str, Mapping[str, float]] | None = None
) -> Objective:
    """The objective that a name stands for; `settings` replace a term's own, by the term's name.

    `{"supervised": {"weight": 0.5}}` is the weight of the labeled loss.

    >>> problem = Problem(rows=100, width=10, batch_size=50, steps=1000)
    >>> method("vat+entmin", problem, {"vat": {"eps": 2.0}})
    Supervised() + SmoothRamp(steps=400.0, top=0.3) * VAT(eps=2.0, xi=None, power_iterations=1) \
+ 0.1 * EntMin()
    """
    chosen, own = [every_method()[part] for part in parts(name)], settings or {}
    usual = min((term.supervised_weight for term in chosen), default=1.0)
    weight = own.get(SUPERVISED, {}).get("weight", usual)
    labeled = _registered[SUPERVISED].build(problem)
    terms = [labeled if weight == 1 else weight * labeled] if weight else []
    terms += [term.build(problem, **own.get(term.name, {})) for term in chosen]
    return terms[0] if len(terms) == 1 else Sum(*terms)
