"""Networks as base models: architectures, their defaults, training, and the trained network.

A network sees `Examples.raw` (uint8 images or token ids) where there is one, else `Examples.X`.
"""

from __future__ import annotations

import copy
import hashlib
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labelgrad.augment.views import ImageViews, Noise
from labelgrad.auto.base_models.base import FittedModel, in_parts
from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.dataset import Dataset, Examples
from labelgrad.auto.task import Array, Regression, Task
from labelgrad.functional import one_thread
from labelgrad.labels.alignment import usable_slope
from labelgrad.methods import SUPERVISED, Problem, every_method, method, parts
from labelgrad.models.mlp import MLP, linear_head
from labelgrad.models.wide_resnet import WideResNet
from labelgrad.objective import Objective
from labelgrad.schedules import Drop, Schedule, value_at
from labelgrad.sklearn import REGRESSION_RATE, REGRESSION_STEPS, ROW_LENGTH, STEPS_PER_LABEL
from labelgrad.step import Views
from labelgrad.training.batches import TensorBatches
from labelgrad.training.evaluation import predict
from labelgrad.training.recipe import Recipe, Run

ARCHITECTURES = "mlp, mlp-WIDTH-WIDTH…, linear or wrn-DEPTH-WIDTH such as wrn-10-1"
OWN, FINE_TUNED = "own", "fine-tuned"  # architectures that are modules, not names
HIDDEN = (128, 128)  # of "mlp"
MAX_LAYERS = 1000
BATCH_NORM_MOMENTUM = 0.05
LARGE_IMAGE = 24  # pixels; a stem of stride 2 halves such images
BATCH = 50  # labeled examples, and as many unlabeled ones
DROP_AT = 0.8  # of the steps; then the learning rate of image networks falls
CHECKPOINTS = 40  # in a training
PREDICT_BATCH = 1000  # examples
WARM_UP_STEPS, MEASURED_STEPS, MAX_MEASURING = 2, 20, 2.0  # seconds


@dataclass(frozen=True)
class InputScale:
    """What a network's input is: the stored examples times `factor` plus `shift`.

    >>> InputScale(factor=2.0, shift=-1.0)(torch.tensor([0, 1]))
    tensor([-1.,  1.])
    """

    factor: float = 1.0
    shift: float = 0.0

    def __call__(self, x: Tensor) -> Tensor:
        return x.float() * self.factor + self.shift


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network with all that it takes to predict; `to_dict` and `state_dict` save it."""

    network: nn.Module
    architecture: str
    shape: tuple[int, ...]  # of one example
    scale: InputScale
    task: Task
    std: float = 1.0  # of regression targets
    temperature: float = 1.0

    @in_parts
    def predict(self, examples: Examples) -> Array:
        """A prediction for each example."""
        size = getattr(self.network, "predict_batch", PREDICT_BATCH)
        x = self.scale(network_inputs(examples)[0])
        found: Array = predict(self.network, x, batch_size=size).double().numpy()
        outputs = found.reshape(len(examples), self.task.outputs)
        return self.task.from_outputs(outputs / self.temperature, self.std)

    def to_dict(self) -> dict[str, Any]:
        """All but the weights and the task, as JSON can hold it."""
        about = {"architecture": self.architecture, "shape": list(self.shape)}
        numbers = {"std": self.std, "temperature": self.temperature}
        return about | asdict(self.scale) | numbers

    @classmethod
    def from_dict(
        cls, saved: Mapping[str, Any], task: Task, module: nn.Module | None = None
    ) -> TrainedNetwork:
        """The network that `to_dict` described, with weights still to be loaded.

        `module` is needed for the architectures "own" and "fine-tuned".
        """
        architecture, shape = str(saved["architecture"]), tuple(map(int, saved["shape"]))
        network = module or build_network(architecture, shape, task.outputs)
        scale = InputScale(float(saved["factor"]), float(saved["shift"]))
        numbers = float(saved["std"]), float(saved["temperature"])
        return cls(network.eval(), architecture, shape, scale, task, *numbers)


@dataclass(frozen=True, eq=False)
class Network:
    """A network trained by a method, such as "supervised" or "lga+vat".

    With a `folder` each training has checkpoints in a subfolder, and goes on from the last one to
    the same result, bit for bit.

    >>> from labelgrad.auto.task import Classification
    >>> X = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
    >>> y = np.where(np.arange(40) % 4, -1, np.arange(40) // 20)
    >>> network = Network("lga", "mlp-8", steps=50, learning_rate=1e-2)
    >>> fitted = network.fit(Examples(X), y, task=Classification(("a", "b")), seed=0)
    >>> fitted.predict(Examples(X[[0, -1]])).argmax(1)
    array([0, 1])
    """

    name: str  # of the method
    architecture: str
    steps: int
    learning_rate: float | Schedule
    vat_radius: float = 0.3
    module: nn.Module | None = field(default=None, repr=False)  # of "own" and "fine-tuned"
    encoder_rate: float = 0.0  # of a fine-tuned encoder, as a fraction of the head's
    mirror: bool = False
    device: str = "cpu"
    folder: Path | None = None
    trusted: bool = True
    is_network: bool = True

    @property
    def uses_unlabeled(self) -> bool:
        """Whether the method has a term for unlabeled examples."""
        return self.name != SUPERVISED

    def fit(self, examples: Examples, y: Array, *, task: Task, seed: int) -> FittedModel:
        """Train the network to its last step."""
        with one_thread(examples.raw is None):
            run = self.run(examples, y, task, seed=seed).finish()
            return self.trained(run.trainer.evaluated, examples, task)

    def run(
        self,
        examples: Examples,
        y: Array,
        task: Task,
        *,
        seed: int = 0,
        objective: Callable[[], Objective] | None = None,
        unlabeled: Array | None = None,
        tag: str | None = None,
    ) -> Run:
        """A training by the method, or by any objective.

        `unlabeled` are the rows of the objective's unlabeled batches, and `tag` names the folder of
        its checkpoints.
        """
        if objective is None:
            unlabeled = np.flatnonzero(~task.is_labeled(y)) if self.uses_unlabeled else None
            count = 0 if unlabeled is None else len(unlabeled)
            objective = partial(self._objective, examples, task, count)
        x, scale = network_inputs(examples)
        labels = torch.from_numpy(y).float() if isinstance(task, Regression) else y

        def batches(rows: Array, *labels: Any) -> TensorBatches:
            size, places = min(BATCH, len(rows)), torch.from_numpy(rows)
            return TensorBatches(
                x, *labels, rows=places, batch_size=size, seed=seed, transform=scale
            )

        rate = self.learning_rate
        if examples.raw is not None and isinstance(rate, float):
            rate = Drop(rate, at=DROP_AT * self.steps)
        recipe = Recipe(
            partial(self.make, examples, task),
            objective,
            batches(np.flatnonzero(task.is_labeled(y)), labels),
            None if unlabeled is None else batches(unlabeled),
            steps=self.steps,
            learning_rate=rate,
            loss=task.loss,
            views=self._views(examples),
            groups=self._groups(),
            seed=seed,
            device=self.device,
        )
        folder = None
        if self.folder is not None:
            seen = hashlib.blake2b(y.tobytes() + str(seed).encode(), digest_size=6).hexdigest()
            folder = self.folder / f"{tag or self.name}-{seen}"
        every = max(-(-self.steps // CHECKPOINTS), min(25, self.steps))
        return recipe.run(folder=folder, evaluate_every=every, checkpoint_every=every)

    def trained(self, module: nn.Module, examples: Examples, task: Task) -> TrainedNetwork:
        """A trained module with all that it takes to predict."""
        x, scale = network_inputs(examples)
        return TrainedNetwork(module.cpu().eval(), self.architecture, (*x.shape[1:],), scale, task)

    def make(self, examples: Examples, task: Task) -> nn.Module:
        """The module before its training, with random first weights unless it is given."""
        if self.module is not None:
            return copy.deepcopy(self.module)
        return build_network(self.architecture, network_inputs(examples)[0].shape[1:], task.outputs)

    def _objective(self, examples: Examples, task: Task, unlabeled: int) -> Objective:
        slope = "forward-mode"
        if self.module is not None and parts(self.name):
            x, scale = network_inputs(examples[slice(0, 2)])
            slope = usable_slope(self.module, scale(x))
        problem = Problem(
            unlabeled, task.outputs, min(BATCH, unlabeled), self.steps, task.loss, slope=slope
        )
        return method(self.name, problem, {"vat": {"eps": self.vat_radius}})

    def _views(self, examples: Examples) -> Views | None:
        if examples.raw is None:
            compares = any(every_method()[term].views for term in parts(self.name))
            unit = network_inputs(examples)[1].factor  # a standard deviation of a column
            return Noise(0.1 * unit, 0.5 * unit) if compares else None
        if examples.raw.ndim != 4:
            return None
        side = min(examples.raw.shape[2:])
        return ImageViews(mirror=self.mirror, pixels=0 if side < 4 else max(1, side // 16))

    def _groups(self) -> Callable[[nn.Module], Sequence[dict[str, Any]]] | None:
        if self.architecture != FINE_TUNED:
            return None
        from labelgrad.auto.encoders.fine_tuning import parameter_groups

        rate = value_at(self.learning_rate, 0)
        return partial(parameter_groups, learning_rate=rate, fraction=self.encoder_rate)


# How a network is trained unless the user says otherwise.
TABLE = Network(SUPERVISED, "mlp", 2000, 1e-3)
FEATURES = Network(SUPERVISED, "linear", 300, 5e-3)  # a head on an encoder's features
IMAGES = Network(SUPERVISED, "wrn-10-1", 1000, 1e-3, vat_radius=1.0)
FINE_TUNING = Network(SUPERVISED, FINE_TUNED, 200, 5e-3, vat_radius=1.0)


def network_for(
    name: str,
    dataset: Dataset,
    config: FitConfig,
    *,
    folder: Path | None = None,
    module: nn.Module | None = None,
    trusted: bool = True,
) -> Network:
    """The network of a method with the options of a fit, and defaults for the kind of data.

    `module` is the encoder with a head to fine-tune, if it has been built already.
    """
    if config.fine_tune:
        module = module or module_to_fine_tune(dataset, config)
    elif isinstance(config.network, nn.Module):
        module = config.network
    try:
        torch.empty(0, device=config.device)
    except (RuntimeError, AssertionError):
        hint = "leave it out for the CPU"
        raise ValueError(f"There is no `device` {config.device!r} here; {hint}.") from None
    usual = _usual_network(dataset, config)
    if module is not None:
        architecture = FINE_TUNED if config.fine_tune else OWN
    else:
        architecture = str(config.network or usual.architecture)
        shape = network_inputs(dataset.examples)[0].shape[1:]
        check_architecture(architecture, shape, dataset.task)
    return replace(
        usual,
        name=name,
        architecture=architecture,
        steps=usual.steps if config.steps is None else config.steps,
        module=module,
        encoder_rate=config.fine_tune,
        mirror=config.mirror,
        device=config.device,
        folder=folder,
        trusted=trusted,
    )


def encoder_state(preprocessor: Any) -> dict[str, Any] | None:
    """The state of the one encoder that all features come from, if there is one."""
    columns: Sequence[Any] = getattr(preprocessor, "columns", ())
    only = columns[0] if len(columns) == 1 else None
    state: dict[str, Any] | None = getattr(preprocessor, "state", getattr(only, "state", None))
    return state


def module_to_fine_tune(dataset: Dataset, config: FitConfig) -> nn.Module:
    """The encoder of a data set with a linear head."""
    from labelgrad.auto.encoders.fine_tuning import fine_tuned_network

    state = encoder_state(dataset.preprocessor)
    if state is None or dataset.raw is None:
        raise ValueError(
            "`fine_tune` needs images or texts that one encoder encodes, and nothing beside them; "
            "name an `encoder`, or leave `fine_tune` out."
        )
    if config.network is not None:
        raise ValueError(
            "`fine_tune` trains the encoder with a linear head, so there is no other `network`; "
            "leave one of them out."
        )
    return fine_tuned_network(state, dataset.task.outputs, config)


def _usual_network(dataset: Dataset, config: FitConfig) -> Network:
    if config.fine_tune:
        return FINE_TUNING
    if dataset.raw is not None:
        return IMAGES
    is_regression = isinstance(dataset.task, Regression)
    if dataset.has_encoded_features and not is_regression and config.network in (None, "linear"):
        return FEATURES
    if not is_regression:
        return TABLE
    steps = int(np.clip(STEPS_PER_LABEL * len(dataset.labeled), *REGRESSION_STEPS))
    return replace(TABLE, steps=steps, learning_rate=REGRESSION_RATE)


def usable_method(name: str, dataset: Dataset) -> str:
    """The method as the data allow it: without unlabeled examples it is "supervised"."""
    terms = parts(name)
    supported = [term for term, known in every_method().items() if known.values]
    if isinstance(dataset.task, Regression) and terms not in ([], *([t] for t in supported)):
        raise ValueError(
            f"Regression supports the methods supervised, {' and '.join(supported)}, got {name}; "
            f"choose one of those, or the task classification."
        )
    if dataset.raw is not None and dataset.raw.ndim == 2:
        changing = [term for term in terms if every_method()[term].changes_inputs]
        if changing:
            raise ValueError(
                f"{' and '.join(changing)} needs randomly changed examples, which fine-tuned texts "
                f"do not have; choose supervised, lga, entmin or pseudo-label."
            )
    return "+".join(terms) if terms and len(dataset.unlabeled) >= 2 else SUPERVISED


def network_inputs(examples: Examples) -> tuple[Tensor, InputScale]:
    """The stored examples that networks see, in the same memory, and how they become inputs.

    Rows of a table get the length 3, pixels are from -1 to 1, and tokens stay as they are.
    """
    with warnings.catch_warnings():  # nobody writes to it
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        x = torch.from_numpy(np.asarray(examples.X if examples.raw is None else examples.raw))
    if examples.raw is None:
        return x, InputScale(ROW_LENGTH / math.sqrt(x.shape[1]))
    return x, InputScale(2 / 255, -1.0) if x.ndim == 4 else InputScale()


def build_network(name: str, shape: Sequence[int], outputs: int) -> nn.Module:
    """The network of a name for examples of a shape, with random first weights.

    >>> build_network("wrn-10-1", (1, 8, 8), 10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    >>> build_network("mlp-32", (5,), 1)(torch.zeros(2, 5)).shape
    torch.Size([2, 1])
    """
    sizes = [int(size) for size in re.findall(r"-(\d{1,4})(?=-|$)", name)]
    layers = sizes[0] if name.startswith("wrn-") and sizes else len(sizes)
    if layers > MAX_LAYERS:
        raise ValueError(f"`network` may have {MAX_LAYERS} layers, got {layers} in {name[:40]}.")
    if name == "linear" or re.fullmatch(r"mlp(-\d{1,4})*", name):
        inputs = math.prod(shape)
        is_linear = name == "linear"
        plain = linear_head(inputs, outputs) if is_linear else MLP(inputs, sizes or HIDDEN, outputs)
        return plain if len(shape) == 1 else nn.Sequential(nn.Flatten(), plain)
    if not re.fullmatch(r"wrn-\d{1,4}-\d{1,4}", name) or sizes[1] < 1:
        raise ValueError(f"`network` must be {ARCHITECTURES}, got {name!r}.")
    if len(shape) != 3:
        raise ValueError(f"`network` {name} needs images, got a table; choose mlp.")
    model = WideResNet(
        *sizes,
        classes=outputs,
        channels=shape[0],
        stem_stride=2 if min(shape[1:]) >= LARGE_IMAGE else 1,
        momentum=BATCH_NORM_MOMENTUM,
    )
    # Faster on a CPU and on a GPU; PyTorch's own annotations lack this form of the call.
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def check_architecture(name: str, shape: Sequence[int], task: Task) -> None:
    """Raise a ValueError for a name that means nothing, or a network larger than memory."""
    with torch.device("meta"):  # shapes alone
        built = build_network(name, tuple(shape), task.outputs)
    needed = sum(each.nbytes for each in built.state_dict().values())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if os.name == "posix" else 0
    if needed > memory > 0:
        raise ValueError(
            f"`network` {name} has {needed / 2**30:.0f} GB of weights, and this machine "
            f"{memory / 2**30:.0f} GB of memory; choose a smaller one."
        )


def seconds_per_step(network: Network, dataset: Dataset) -> float:
    """How long a training step takes, by a few steps that are discarded."""
    tried = replace(network, folder=None)
    with one_thread(dataset.raw is None):
        trainer = tried.run(dataset.examples, dataset.y, dataset.task).trainer
        for _ in range(WARM_UP_STEPS):
            trainer.step()
        began, steps = time.perf_counter(), 0
        while steps < MEASURED_STEPS and time.perf_counter() - began < MAX_MEASURING:
            trainer.step()
            steps += 1
    return (time.perf_counter() - began) / steps
