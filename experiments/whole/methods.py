"""The objectives of scale `whole`, by name."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from experiments.whole.rules import ForgettingEvidence
from experiments.whole.settings import Settings
from labelgrad import LGA, VAT, Certainty, Evidence, FixMatch, FlexMatch, LazyAdam, Supervised
from labelgrad.labels.rules import Rule
from labelgrad.objective import Objective, Weighed
from labelgrad.schedules import Ramp, SmoothRamp
from labelgrad.step import Step

RULES: dict[str, Callable[[Settings, int], Rule]] = {
    "lga": lambda given, steps: LazyAdam(Ramp(0.1 * steps, given.rate)),  # Algorithm 1
    "lga-evidence": lambda given, steps: Evidence(given.scale),
    "lga-forgetting": lambda given, steps: ForgettingEvidence(given.scale, given.decay),
}
METHODS = ("supervised", *RULES, "lga-strong", "vat", "fixmatch", "flexmatch")


class StrongViews(Weighed):
    """LGA whose labels train the model on strong views, each by its certainty.

    The labels learn from weak views as ever: the gap is of the labels' own gradient on these.

    Examples
    --------
    >>> StrongViews(Certainty(), LGA(rows=10, width=3)).name
    'lga'

    """

    shares_graph = False

    def forward(self, step: Step) -> Tensor:
        """The weighted mean loss of the strong views."""
        self.term(step)  # for the update of its labels
        labels = self.term.each(step).labels
        outputs = step.extra_forward(step.strong_view())
        losses = F.cross_entropy(outputs, labels, reduction="none")
        return (self.weight(labels) * losses).mean()

    def __repr__(self) -> str:
        return f"StrongViews({self.term!r})"


def objective(settings: Settings, rows: int, classes: int) -> Objective:
    """The objective that a name such as `lga+vat` stands for.

    Parameters
    ----------
    settings : Settings
        The trial; `method` is a sum of `METHODS`.
    rows : int
        Number of unlabeled images.
    classes : int
        Number of classes.

    Returns
    -------
    Objective
        The labeled loss, times T where there is LGA, plus the other terms.

    Examples
    --------
    >>> objective(Settings(method="fixmatch"), rows=100, classes=10)
    Supervised() + 1.0 * FixMatch(threshold=0.95)

    """
    names = settings.method.split("+")
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise ValueError(f"a method is a sum of {', '.join(METHODS)}, got {settings.method!r}.")
    steps = settings.steps(rows)
    is_lga = any(name.startswith("lga") for name in names)
    total: Objective = settings.labeled_weight * Supervised() if is_lga else Supervised()
    for name in names:
        if name != "supervised":
            total = total + _term(name, settings, rows, classes, steps)
    return total


def _term(name: str, settings: Settings, rows: int, classes: int, steps: int) -> Objective:
    if name.startswith("lga"):
        rule = RULES["lga-forgetting" if name == "lga-strong" else name]
        labels = LGA(
            rows,
            classes,
            rule=rule(settings, steps),
            power=0.5 if name == "lga" else settings.power,
            gradient_decay=settings.gradient_decay,
            slope="finite-difference",
        )
        return StrongViews(Certainty(), labels) if name == "lga-strong" else labels
    if name == "vat":
        return SmoothRamp(0.4 * steps, settings.vat_weight) * VAT(settings.eps)
    match = FlexMatch(rows, classes) if name == "flexmatch" else FixMatch()
    return settings.match_weight * match
