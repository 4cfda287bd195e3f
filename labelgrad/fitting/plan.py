"""What will be trained, decided before the first step and kept beside the result."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labelgrad.encoders.bag_of_words import NAME as BAG_OF_WORDS
from labelgrad.encoders.base import NONE
from labelgrad.encoders.fine_tuned import FineTuned
from labelgrad.files import read_json, read_sealed, sealed_json, write_whole
from labelgrad.fitting.verdict import BASELINE
from labelgrad.inputs.base import Dataset, Defaults
from labelgrad.inputs.kinds import kind_named
from labelgrad.inputs.raw import raw_views
from labelgrad.inputs.table import DEFAULTS as TABLE
from labelgrad.labels.alignment import SLOPES
from labelgrad.losses import CrossEntropy, Loss, SquaredError
from labelgrad.methods import Problem, every_method, parts
from labelgrad.methods import method as method_named
from labelgrad.models.mlp import MLP, linear_head
from labelgrad.models.wide_resnet import WideResNet
from labelgrad.objective import Objective
from labelgrad.plain_values import built
from labelgrad.schedules import Drop, Schedule, check_count, check_rate
from labelgrad.step import Views
from labelgrad.training.batches import content_digest
from labelgrad.witnesses.named import usual_witnesses, witness_names

METHOD = "lga-evidence"  # where none is asked for
METHOD_OF_FEATURES = "lga-linear"  # where encoders have made the features, and there are classes
HEAD, HEAD_STEPS, HEAD_RATE = "linear", 300, 5e-3  # what is then trained
REGRESSION_STEPS, STEPS_A_LABEL = (300, 5000), 5  # at least and at most, and between
RATE_OF_VALUES = 2e-4  # of rows of a table; pictures have theirs
DROP_AT = 0.8  # of the steps, where the learning rate of pictures falls
BATCH = 50  # labeled, and again as many unlabeled
MOST_STEPS = 10**9  # weeks of the fastest ones
FILE, VERSION = "plan.json", 4
OWN = "own"  # the name of a network that a person brings
FINE_TUNED = "fine-tuned"  # of an encoder that is trained, with a linear head
FINE_TUNED_STEPS = 200
NETWORKS = "mlp, mlp-WIDTH-WIDTH…, linear, or wrn-DEPTH-WIDTH such as wrn-10-1 and wrn-16-2"
HIDDEN = (128, 128)  # of "mlp"
MOST_LAYERS = 1000
MOMENTUM = 0.05  # of batch norm: the averages go back over twenty steps
NAMES_AT_ONCE = 2**16
LARGE = 24  # pixels; a stem of stride 2 halves such pictures at once


@dataclass(frozen=True)
class Plan:
    """The method, the network, how long, and from which seed.

    >>> Plan("lga", "mlp", steps=100).methods
    ('supervised', 'lga')
    """

    method: str
    network: str
    steps: int
    learning_rate: float = 1e-3
    seed: int = 0
    mirror: bool = False
    witnesses: str = ""  # beside the networks, by their names
    drawn: str = "unknown"  # how the labels were: "random", "by-class" or "unknown"
    encoder_rate: float = 0.0  # the learning rate of a fine-tuned encoder, as a part of the head's
    slope: str = "forward-mode"  # of LGA's labels, as the network allows it

    def __post_init__(self) -> None:
        parts(self.method)
        check_count("steps", self.steps, most=MOST_STEPS)
        check_count("seed", self.seed, least=0, most=2**63 - 1)  # what PyTorch takes
        check_rate("learning_rate", self.learning_rate)
        check_encoder_rate(self.encoder_rate)
        if self.slope not in SLOPES:
            raise ValueError(f"`slope` must be one of {', '.join(SLOPES)}, got {self.slope!r}.")

    @property
    def methods(self) -> tuple[str, ...]:
        """What is trained side by side: the baseline, and the method where it is another.

        A method that is heard as a witness of its name is not trained again.

        >>> Plan("lga-linear", "linear", 100, witnesses="neighbours,lga-linear").methods
        ('supervised',)
        """
        heard = self.method in self.witnesses.split(",") and self.network != FINE_TUNED
        return (BASELINE,) if self.method == BASELINE or heard else (BASELINE, self.method)


def make_plan(
    dataset: Dataset,
    *,
    method: str | None = None,
    model: str | nn.Module | None = None,
    steps: int | None = None,
    seed: int | None = None,
    mirror: bool | None = None,
    witnesses: str | None = None,
    encoder_rate: float | None = None,
    slope: str = Plan.slope,
) -> Plan:
    """What was asked for, and what is usual for such data in place of what was not."""
    usual = usual_for(dataset, model)
    name = network_name(model) or usual.network
    if name not in (OWN, FINE_TUNED):
        check_network(name, dataset)
    return Plan(
        usable_method(dataset, method or (METHOD_OF_FEATURES if is_head(dataset) else METHOD)),
        name,
        usual_steps(dataset, model) if steps is None else steps,
        rate_for(loss_for(dataset), usual.learning_rate)
        if has_columns(dataset)
        else usual.learning_rate,
        seed or 0,
        bool(mirror),
        ",".join(
            usual_witnesses(
                dataset.task,
                features=dataset.frozen_features,
                columns=math.prod(dataset.x.shape[1:]),
            )
        )
        if witnesses is None
        else witness_names(witnesses),
        encoder_rate=encoder_rate or 0.0,
        slope=slope,
    )


def network_name(model: str | nn.Module | None) -> str | None:
    """What a plan calls the network that is given, if one is."""
    if isinstance(model, FineTuned):
        return FINE_TUNED
    return OWN if isinstance(model, nn.Module) else model


def check_encoder_rate(share: float) -> None:
    """Refuse a learning rate of the encoder that is no part of the head's."""
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= share <= 1:
        raise ValueError(
            f"The learning rate of a fine-tuned encoder must be from 0 to 1 times the head's, got "
            f"{share!r}."
        )


def is_head(dataset: Dataset) -> bool:
    """Whether what is trained is the head of a network that stays as it is, and tells classes."""
    is_frozen = dataset.frozen_features and dataset.raw is None
    return is_frozen and dataset.task == "classification"


def usual_for(dataset: Dataset, model: str | nn.Module | None = None) -> Defaults:
    """What is trained where nothing else is asked for than a model, if at all."""
    usual = kind_named(dataset.kind).defaults(tuple(seen_by_network(dataset).shape[1:]))
    if dataset.raw is not None:
        return usual._replace(network=FINE_TUNED, steps=FINE_TUNED_STEPS, learning_rate=HEAD_RATE)
    if not is_head(dataset) or model not in (None, HEAD):
        return usual
    return usual._replace(network=HEAD, steps=HEAD_STEPS, learning_rate=HEAD_RATE)


def network(name: str, shape: Sequence[int], outputs: int) -> nn.Module:
    """The network of a name for examples of a shape; its first weights are drawn by PyTorch.

    >>> network("wrn-10-1", (1, 8, 8), 10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    >>> network("mlp-32", (5,), 1)(torch.zeros(2, 5)).shape
    torch.Size([2, 1])
    """
    sizes = layer_sizes(name)
    check_layers(name)
    if name == HEAD or re.fullmatch(r"mlp(-\d{1,4})*", name):
        inputs = math.prod(shape)
        plain = (
            linear_head(inputs, outputs) if name == HEAD else MLP(inputs, sizes or HIDDEN, outputs)
        )
        return plain if len(shape) == 1 else nn.Sequential(nn.Flatten(), plain)
    if not re.fullmatch(r"wrn-\d{1,4}-\d{1,4}", name) or sizes[1] < 1:
        raise ValueError(f"`model` must be {NETWORKS}, got {name!r}.")
    if len(shape) != 3:
        raise ValueError(f"{name} is for pictures, and the data are a table; use `model` mlp.")
    depth, width = sizes
    model = WideResNet(
        depth,
        width,
        classes=outputs,
        channels=shape[0],
        stem_stride=2 if min(shape[1:]) >= LARGE else 1,
        momentum=MOMENTUM,
    )
    # Faster on a CPU and on a GPU; PyTorch's own annotations lack this form of the call.
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def layer_sizes(name: str) -> list[int]:
    """The numbers in the name of a network.

    >>> layer_sizes("wrn-16-2")
    [16, 2]
    """
    return [int(size) for size in re.findall(r"-(\d{1,4})(?=-|$)", name)]


def check_layers(name: str, most: int = MOST_LAYERS) -> None:
    """Refuse a network of more layers than there may be, by its name, before any is built."""
    sizes = layer_sizes(name)
    layers = sizes[0] if name.startswith("wrn-") and sizes else len(sizes)
    if layers > most:
        raise ValueError(f"`model` must have at most {most} layers, and {name[:40]} has {layers}.")


def check_network(name: str, dataset: Dataset) -> None:
    """Refuse at once a name that means nothing, and one of a network that no memory here holds."""
    with torch.device("meta"):  # shapes alone
        built = network(name, tuple(dataset.x.shape[1:]), outputs_for(dataset))
    needed = sum(each.nbytes for each in built.state_dict().values())
    check_fits(f"`model` {name}", "weights", needed)


def check_fits(what: str, of: str, needed: int) -> None:
    """Refuse what is larger than the memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if os.name == "posix" else 0
    if needed > memory > 0:
        raise ValueError(
            f"{what} has {needed / 2**30:.0f} GB of {of}, and this machine "
            f"{memory / 2**30:.0f} GB of memory; choose a smaller one."
        )


def rate_for(loss: Loss, for_classes: float = TABLE.learning_rate) -> float:
    """The learning rate where nobody says; of rows of a table, if nothing else is said.

    >>> rate_for(CrossEntropy()), rate_for(SquaredError())
    (0.001, 0.0002)
    """
    return for_classes if isinstance(loss, CrossEntropy) else RATE_OF_VALUES


def usual_steps(dataset: Dataset, model: str | nn.Module | None = None) -> int:
    """How long to train where nobody says."""
    return steps_for(loss_for(dataset), int(dataset.labeled.sum()), usual_for(dataset, model).steps)


def steps_for(loss: Loss, labels: int, for_classes: int = TABLE.steps) -> int:
    """How long to train on so many labels; of rows of a table, if nothing else is said.

    >>> steps_for(CrossEntropy(), 50), steps_for(SquaredError(), 100)
    (2000, 500)
    """
    if isinstance(loss, CrossEntropy):
        return for_classes
    # Values that are learned by heart are worse than values half learned: few labels, few steps.
    few, many = REGRESSION_STEPS
    return min(max(few, STEPS_A_LABEL * labels), many)


def unseen_notes(dataset: Dataset, plan: Plan) -> list[str]:
    """A sentence where the steps are too few to come by every unlabeled example once.

    >>> x, y = torch.zeros(250, 3), torch.tensor([0, 1] * 15 + [-1] * 220)
    >>> rows = Dataset("arrays", x, y, "classification", ("a", "b"), [str(i) for i in range(250)])
    >>> unseen_notes(rows, Plan("lga", "mlp", steps=2))
    ['2 steps of 50 come by 100 of the 220 unlabeled examples; for each to be seen once it takes \
5 steps (--steps 5).']
    >>> unseen_notes(rows, Plan("lga", "mlp", steps=5))
    []
    """
    unlabeled = int((~dataset.labeled).sum())
    needed = math.ceil(unlabeled / BATCH)
    if plan.steps >= needed:
        return []
    return [
        f"{plan.steps} steps of {BATCH} come by {plan.steps * BATCH} of the {unlabeled} unlabeled "
        f"examples; for each to be seen once it takes {needed} steps (--steps {needed})."
    ]


def usable_method(dataset: Dataset, name: str) -> str:
    """The method of a name as the data allow it: without unlabeled examples it is supervised."""
    terms = parts(name)
    for_values = [term for term, method in every_method().items() if method.values]
    if dataset.task == "regression" and terms not in ([], *([term] for term in for_values)):
        raise ValueError(
            f"Regression can be learned by supervised, {' and '.join(for_values)}, and {name} "
            f"needs classes; choose one of those, or --task classification."
        )
    if dataset.raw is not None and dataset.raw.ndim == 2:
        changing = [term for term in terms if every_method()[term].changes_inputs]
        if changing:
            raise ValueError(
                f"Texts that an encoder is fine-tuned on are not changed at random, and "
                f"{' and '.join(changing)} needs changed examples; choose supervised, lga, entmin "
                f"or pseudo-label, or leave --fine-tune out."
            )
    unlabeled = int((~dataset.labeled).sum())
    return "+".join(terms) if terms and unlabeled >= 2 else BASELINE


def outputs_for(dataset: Dataset) -> int:
    """How many outputs a network needs: one for each class, or one for values."""
    return len(dataset.classes) or 1


def loss_for(dataset: Dataset) -> Loss:
    """What is made small: cross-entropy of classes, squared distances of values."""
    return CrossEntropy() if dataset.task == "classification" else SquaredError()


def objective(method: str, plan: Plan, dataset: Dataset) -> Objective:
    """The objective of a method, for classes or for values."""
    rows = int((~dataset.labeled).sum())
    size = rows, outputs_for(dataset), min(BATCH, rows), plan.steps
    radius = kind_named(dataset.kind).defaults(tuple(seen_by_network(dataset).shape[1:])).vat_radius
    problem = Problem(*size, loss_for(dataset), slope=plan.slope)
    return method_named(method, problem, {"vat": {"eps": radius}})


def views(method: str, plan: Plan, dataset: Dataset) -> Views | None:
    """How examples are changed at random: pictures always, rows where a method compares views."""
    kind, shape = kind_named(dataset.kind), tuple(dataset.x.shape[1:])
    if dataset.raw is not None:
        return raw_views(dataset, mirror=plan.mirror)
    if has_columns(dataset) and not any(every_method()[term].views for term in parts(method)):
        return None
    return kind.views(shape, kind.transform(dataset.preprocessing, dataset.x), plan.mirror)


def learning_rate(plan: Plan, dataset: Dataset) -> float | Schedule:
    """The rate of every step: the same to the end for rows, less towards it for pictures."""
    rate = plan.learning_rate
    return rate if has_columns(dataset) else Drop(rate, at=DROP_AT * plan.steps)


def has_columns(dataset: Dataset) -> bool:
    """Whether its examples are rows of a table, trained on as `LGAClassifier` does."""
    return dataset.x.ndim == 2 and dataset.raw is None


def seen_by_network(dataset: Dataset) -> Tensor:
    """The examples as networks are shown them: what was read, or what an encoder takes."""
    return dataset.x if dataset.raw is None else dataset.raw


def save_plan(
    folder: Path, plan: Plan, dataset: Dataset, *, corrections: str | None = None
) -> None:
    """Keep the plan, what the data were, who encoded them, and the corrections' fingerprint."""
    data = dataset.summary | {"fingerprint": fingerprint(dataset)}
    kept = {"version": VERSION, "plan": asdict(plan), "data": data, "corrections": corrections}
    write_whole(folder / FILE, sealed_json(kept | {"encoders": dataset.encoders}))


def fingerprint(dataset: Dataset) -> str:
    """A short name for all that was read, examples, labels and names, and for nothing else."""
    before = json.dumps([dataset.kind, dataset.task, dataset.classes])[:-1]
    digests = [content_digest(dataset.x), content_digest(dataset.y)]
    content = hashlib.blake2b("\n".join([*digests, f"{before}, ["]).encode(), digest_size=16)
    for start in range(0, len(dataset.names), NAMES_AT_ONCE):
        some = json.dumps(list(dataset.names[start : start + NAMES_AT_ONCE]))
        content.update(f"{', ' * bool(start)}{some[1:-1]}".encode())
    content.update(f"], {json.dumps(dataset.preprocessing)}]".encode())
    return content.hexdigest()


def load_plan(folder: Path, dataset: Dataset, **asked: Any) -> Plan:
    """The plan of a run that was begun; what is asked for now must be what was asked for then."""
    kept = _kept(folder)
    plan = kept.plan
    for field in fields(Plan):
        wanted, had = asked.get(field.name), getattr(plan, field.name)
        if field.name == "method" and wanted is not None:
            wanted = usable_method(dataset, wanted)
        if field.name == "witnesses" and wanted is not None:
            wanted = witness_names(wanted)
        if wanted is not None and wanted != had:
            raise ValueError(
                f"The run in {folder} was begun with {field.name} {had}, got {wanted}; leave it "
                f"out, or begin in another folder."
            )
    if kept.encoders != dataset.encoders:
        begun, now = (", ".join(c) or NONE for c in (kept.encoders, dataset.encoders))
        other = " with other weights or another size" if begun == now else ""
        raise ValueError(
            f"The run in {folder} was begun with the encoder {begun}, got {now}{other}; leave it "
            f"out, or begin in another folder."
        )
    had, has = kept.data, dataset.summary
    if had | {"fingerprint": None} != has | {"fingerprint": None}:
        raise ValueError(
            f"The data are not those the run in {folder} was begun with: it had {had['labeled']} "
            f"labeled and {had['unlabeled']} unlabeled examples, got {has['labeled']} labeled and "
            f"{has['unlabeled']} unlabeled examples; begin in another folder."
        )
    if plan.network not in (OWN, FINE_TUNED):
        check_network(plan.network, dataset)
    if had["fingerprint"] != fingerprint(dataset):
        raise ValueError(
            f"The data are not those the run in {folder} was begun with: there are as many "
            f"examples, and some are others; begin in another folder, or put the data back."
        )
    return plan


def kept_encoders(folder: Path) -> list[str]:
    """The names of the encoders that a run was begun with, for it to go on with them."""
    return [name for name in _kept(folder).encoders if name != BAG_OF_WORDS] or [NONE]


def kept_encoder_rate(folder: Path) -> float:
    """The learning rate of the encoder that a run was begun with; 0 where it is not trained."""
    return _kept(folder).plan.encoder_rate


def begun_with(folder: Path) -> str | None:
    """The fingerprint of the corrections that a run was begun with, if there were any."""
    return _kept(folder).corrections


@dataclass(frozen=True)
class _Kept:
    """The content of `plan.json`."""

    version: int
    plan: Plan
    data: dict[str, Any]
    encoders: dict[str, Any]
    corrections: str | None = None

    def __post_init__(self) -> None:
        if not {"labeled", "unlabeled", "fingerprint"} <= self.data.keys():
            raise ValueError("it does not say what the data were")


def _kept(folder: Path) -> _Kept:
    try:
        content = (folder / FILE).read_bytes()
        version = read_json(content)["version"]
        if version != VERSION:
            raise ValueError(f"it is of version {version}, and this is {VERSION}")
        return built(_Kept, read_sealed(content))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder / FILE} cannot be used ({error}); begin in another folder."
        ) from None
