"""What will be trained, decided before the first step and kept beside the result."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch import nn

from labelgrad.augment.views import Noise, Pictures
from labelgrad.files import write_whole
from labelgrad.fitting.files import json_bytes
from labelgrad.fitting.networks import Scale, network, usual_network
from labelgrad.fitting.verdict import BASELINE
from labelgrad.inputs.dataset import Dataset
from labelgrad.losses import CrossEntropy, Loss, SquaredError
from labelgrad.methods import Problem, parts
from labelgrad.methods import method as method_named
from labelgrad.objective import Objective
from labelgrad.step import Views

METHOD = {"pictures": "lga-evidence", "table": "lga-evidence"}  # where none is asked for
STEPS = {"pictures": 1000, "table": 5000}
REGRESSION_STEPS, STEPS_A_LABEL = (300, 5000), 5  # at least and at most, and between
LEARNING_RATE = {"pictures": 1e-3, "table": 2e-4}
LGA_TERMS = ("lga", "lga-evidence")
VAT_RADIUS = {"pictures": 1.0, "table": 0.3}
BATCH = 50  # labeled, and again as many unlabeled
FILE, VERSION = "plan.json", 1
OWN = "own"  # the name of a network that a person brings


@dataclass(frozen=True)
class Plan:
    """The method, the network, how long, and from which seed.

    >>> Plan("lga", "mlp", steps=100).contenders
    ('supervised', 'lga')
    """

    method: str
    network: str
    steps: int
    learning_rate: float = 1e-3
    seed: int = 0
    mirror: bool = False

    def __post_init__(self) -> None:
        parts(self.method)
        if self.steps < 1:
            raise ValueError(f"`steps` must be at least 1, got {self.steps}.")
        if self.seed < 0:
            raise ValueError(f"`seed` must be at least 0, got {self.seed}.")

    @property
    def contenders(self) -> tuple[str, ...]:
        """What is trained side by side: the baseline, and the method where it is another."""
        return (BASELINE,) if self.method == BASELINE else (BASELINE, self.method)


def make_plan(
    source: Dataset,
    *,
    method: str | None = None,
    model: str | nn.Module | None = None,
    steps: int | None = None,
    seed: int | None = None,
    mirror: bool | None = None,
) -> Plan:
    """What was asked for, and what is usual for such data in place of what was not."""
    kind, shape = _kind(source), tuple(source.x.shape[1:])
    name = OWN if isinstance(model, nn.Module) else model or usual_network(shape)
    if name != OWN:
        network(name, shape, width(source))  # a name that means nothing is told at once
    chosen = usable_method(source, method or METHOD[kind])
    return Plan(
        chosen,
        name,
        _usual_steps(source) if steps is None else steps,
        LEARNING_RATE[kind],
        seed or 0,
        bool(mirror),
    )


def save_plan(folder: Path, plan: Plan, source: Dataset, *, corrections: str | None = None) -> None:
    """Keep the plan, what the data were, and the mark of their corrections, to go on with."""
    kept = {"version": VERSION, "plan": asdict(plan), "data": source.summary}
    write_whole(folder / FILE, json_bytes(kept | {"corrections": corrections}))


def load_plan(folder: Path, source: Dataset, **asked: Any) -> Plan:
    """The plan of a run that was begun; what is asked for now must be what was asked for then."""
    kept, plan = _kept(folder)
    for field in fields(Plan):
        wanted, had = asked.get(field.name), getattr(plan, field.name)
        if wanted is not None and wanted != had:
            raise ValueError(
                f"The run in {folder} was begun with {field.name} {had}, got {wanted}; leave it "
                f"out, or begin in another folder."
            )
    if kept["data"] != source.summary:
        raise ValueError(
            f"The data are not those the run in {folder} was begun with: it had "
            f"{_few(kept['data'])}, got {_few(source.summary)}; begin in another folder."
        )
    return plan


def begun_with(folder: Path) -> str | None:
    """The mark of the corrections that a run was begun with, if there were any."""
    corrections: str | None = _kept(folder)[0].get("corrections")
    return corrections


def width(source: Dataset) -> int:
    """How many outputs a network needs."""
    return len(source.classes) if source.task == "classification" else 1


def views(plan: Plan, source: Dataset) -> Views:
    """How examples may be changed at random: a small shift, or a little noise."""
    if source.x.ndim == 2:
        unit = Scale.of(source).factor  # of a standard deviation
        return Noise(0.1 * unit, 0.5 * unit)
    side = min(source.x.shape[2:])
    pixels = 0 if side < 4 else max(1, side // 16)
    return Pictures(mirror=plan.mirror, pixels=pixels)


def objective(name: str, plan: Plan, source: Dataset, rows: int) -> Objective:
    """The method of a name, for classes or for values."""
    loss: Loss = CrossEntropy() if source.task == "classification" else SquaredError()
    problem = Problem(rows, width(source), min(BATCH, rows), plan.steps, loss)
    return method_named(name, problem, {"vat": {"eps": VAT_RADIUS[_kind(source)]}})


def usable_method(source: Dataset, name: str) -> str:
    """The method of a name as the data allow it: without unlabeled examples it is supervised."""
    terms = parts(name)
    if source.task == "regression" and terms not in ([], *([term] for term in LGA_TERMS)):
        raise ValueError(
            f"Regression can be learned by supervised, {' and '.join(LGA_TERMS)}, and {name} "
            f"needs classes; choose one of those, or --task classification."
        )
    unlabeled = int((~source.labeled).sum())
    return "+".join(terms) if terms and unlabeled >= 2 else BASELINE


def _kept(folder: Path) -> tuple[dict[str, Any], Plan]:
    try:
        kept = json.loads((folder / FILE).read_bytes())
        if kept["version"] != VERSION:
            raise ValueError(f"it is of version {kept['version']}, and this is {VERSION}")
        return kept, Plan(**kept["plan"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder / FILE} cannot be used ({error}); begin in another folder."
        ) from None


def _usual_steps(source: Dataset) -> int:
    if source.task == "classification":
        return STEPS[_kind(source)]
    # Values that are learned by heart are worse than values half learned: few labels, few steps.
    few, many = REGRESSION_STEPS
    return min(max(few, STEPS_A_LABEL * int(source.labeled.sum())), many)


def _kind(source: Dataset) -> str:
    return "table" if source.x.ndim == 2 else "pictures"


def _few(summary: dict[str, Any]) -> str:
    return f"{summary['labeled']} labeled and {summary['unlabeled']} unlabeled examples"
