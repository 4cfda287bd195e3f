"""A training put together, and the run of it: train, evaluate, keep the best, write it all down.

A `Recipe` is the one assembly of network, batches, objective and optimizer. The `Run` it makes
survives being killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

import labelgrad
from labelgrad.distributed import Group, current_group
from labelgrad.files import digest_of
from labelgrad.functional import random_numbers
from labelgrad.objective import Objective
from labelgrad.reasons import reason_of
from labelgrad.schedules import check_count
from labelgrad.training.batches import Batches, Examples
from labelgrad.training.checkpoint import CheckpointError, Checkpoints, Log, State
from labelgrad.training.evaluation import OURS, Metric, evaluate
from labelgrad.training.trainer import Trainer, TrainingDivergedError, TrainingSettings

EvaluatedOn = Examples | tuple[Tensor, Tensor]
OnRecord = Callable[[dict[str, Any]], None]


class RunSettings(TypedDict, total=False):
    """What `Recipe.run` takes; `Run` says what each is."""

    folder: str | Path | None
    examples: Mapping[str, EvaluatedOn] | None
    truth: Tensor | None
    evaluate_every: int
    checkpoint_every: int
    metrics: Mapping[str, Metric] | None
    on_record: OnRecord | None


@dataclass(eq=False)
class Recipe(TrainingSettings):
    """All that a training is made of; `run` starts it.

    `fit`, the estimators and the experiments all build one of these, and nothing else puts a
    training together. `network` and `objective` are functions that make new
    ones, or objects, which are then trained as they are. A network that is made gets its first
    weights from `network_seed`, or from `seed` where there is none. The rest is as in `Trainer`.

    >>> from labelgrad import LGA, MLP, Supervised, TensorBatches
    >>> x, y = torch.randn(60, 4), torch.arange(60) % 2
    >>> labeled = TensorBatches(x, y, rows=torch.arange(20), batch_size=10)
    >>> unlabeled = TensorBatches(x, rows=torch.arange(20, 60), batch_size=10)
    >>> recipe = Recipe(
    ...     lambda: MLP(4, (8,), 2),
    ...     lambda: 0.1 * Supervised() + LGA(rows=40, width=2),
    ...     labeled,
    ...     unlabeled,
    ...     steps=20,
    ... )
    >>> recipe.run().finish().trainer.index
    20
    """

    network: nn.Module | Callable[[], nn.Module]
    objective: Objective | Callable[[], Objective]
    labeled: Batches
    unlabeled: Batches | None = None
    _: KW_ONLY
    steps: int = 1000
    network_seed: int | None = None
    device: str | torch.device = "cpu"

    def trainer(self, *, group: Group | None = None) -> Trainer:
        """The training at its first step, to be moved step by step."""
        seed = self.seed if self.network_seed is None else self.network_seed
        network, objective = self.network, self.objective
        with random_numbers(torch.device("cpu"), seed):
            network = network if isinstance(network, nn.Module) else network()
        return Trainer(
            network.to(self.device),
            objective if isinstance(objective, Objective) else objective(),
            self.labeled,
            self.unlabeled,
            group=group or current_group(),
            **{each.name: getattr(self, each.name) for each in fields(TrainingSettings)},
        )

    def run(self, *, group: Group | None = None, **settings: Unpack[RunSettings]) -> Run:
        """The training as a run with these settings of `Run`, which survives being killed."""
        return Run(self.trainer(group=group), steps=self.steps, **settings)


@dataclass(eq=False)
class Run:
    """Train for `steps` steps; iterate to get a record of each. A `Recipe` builds it.

    `examples` are evaluated every `evaluate_every` steps under their names, and the model that
    does best on those named `"validation"` is kept in `best`; nothing else is ever used to choose.
    `truth` is the unlabeled rows' true labels, where an experiment knows them. `metrics` of your
    own, functions of outputs and labels, are evaluated beside the usual ones, and `on_record` is
    handed every record as it comes, for a logger of your own.

    With a `folder`, evaluations are appended to `metrics.jsonl` there and a checkpoint is written
    every `checkpoint_every` steps. The same run built again on the same folder goes on from the
    last one and ends, bit for bit, where an undisturbed run would have. Of several processes the
    first one writes, and any number of them can go on.

    >>> from labelgrad import MLP, Recipe, Supervised, TensorBatches
    >>> import torch
    >>> x, y = torch.randn(30, 4), torch.arange(30) % 2
    >>> batches = TensorBatches(x, y, batch_size=10)
    >>> recipe = Recipe(lambda: MLP(4, (8,), 2), Supervised(), batches, steps=20)
    >>> run = recipe.run(examples={"validation": (x, y)}, evaluate_every=10)
    >>> records = list(run)
    >>> len(records), [line["step"] for line in run.history]
    (20, [10, 20])
    """

    trainer: Trainer
    _: KW_ONLY
    steps: int
    folder: str | Path | None = None
    examples: Mapping[str, EvaluatedOn] | None = None
    truth: Tensor | None = None
    evaluate_every: int = 100
    checkpoint_every: int = 1000
    metrics: Mapping[str, Metric] | None = None
    on_record: OnRecord | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "evaluate_every", "checkpoint_every"):
            check_count(name, getattr(self, name))
        if taken := set(OURS).intersection(self.metrics or ()):
            raise ValueError(f"{min(taken)!r} is always measured; choose another name.")
        self.group = self.trainer.group
        folder = None if self.folder is None else Path(self.folder)
        self.checkpoints = None if folder is None else Checkpoints(folder / "checkpoints")
        self.log = Log(None if folder is None or self.group.rank else folder / "metrics.jsonl")
        self.best: State | None = None
        self.seconds = 0.0
        self._started = self._resume()

    @property
    def history(self) -> list[dict[str, Any]]:
        """The evaluations so far, one record each."""
        return self.log.records

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._start()
        while self.trainer.index < self.steps:
            start = time.perf_counter()
            try:
                record: dict[str, Any] = dict(self.trainer.step())
            except TrainingDivergedError as error:
                files = self.checkpoints.files() if self.checkpoints else []
                last = f" The last good checkpoint is {files[-1]}." if files else ""
                raise TrainingDivergedError(f"{error}{last}") from None
            self.seconds += time.perf_counter() - start
            yield self._after_step(record)

    def finish(self) -> Run:
        """Train to the end, without looking at the records."""
        for _ in self:
            pass
        return self

    def _due(self, every: int) -> bool:
        return self.trainer.index % every == 0 or self.trainer.index == self.steps

    def _after_step(self, record: dict[str, Any]) -> dict[str, Any]:
        """Evaluate and keep what is due after a step, and give its record."""
        if self._due(self.evaluate_every):
            record |= {"seconds": round(self.seconds, 3)} | self._evaluate()
            self.log.append(record)
        if self._due(self.checkpoint_every):
            self._save()
        if self.on_record is not None and self.group.rank == 0:
            self.on_record(record)
        return record

    def _evaluate(self) -> dict[str, float]:
        results: dict[str, float] = {}
        for name, examples in (self.examples or {}).items():
            x, y = examples if isinstance(examples, tuple) else (examples, examples.labels)
            if y is None:
                raise ValueError(f"the examples {name!r} must have labels to be evaluated by.")
            model, loss = self.trainer.evaluated, self.trainer.loss
            measured = evaluate(model, x, y, loss=loss, metrics=self.metrics)
            results |= {f"{name}_{key}": value for key, value in measured.items()}
            if name == "validation":
                self._keep_if_best(measured)
        if self.truth is not None:
            for term in self.trainer.objective.leaves():
                results |= term.measure(self.truth)
        return results

    def _keep_if_best(self, measured: dict[str, float]) -> None:
        # A small validation set ties often in error, and then the loss decides.
        rank = [measured["error"], measured["loss"]]
        if self.best is None or rank < self.best.info["rank"]:
            weights = self.trainer.evaluated.state_dict()
            copy = {name: value.detach().clone() for name, value in weights.items()}
            self.best = State(copy, {"step": self.trainer.index, "rank": rank, **measured})

    def _save(self) -> None:
        if self.checkpoints is None:
            return
        state = self.trainer.state
        self.checkpoints.collect_rows(state, self.trainer.tables, self.group)
        state.info |= {
            "settings": self.trainer.settings,
            "seconds": self.seconds,
            "log": len(self.log.content),
            "log_digest": digest_of(self.log.content),
            "best": None if self.best is None else self.best.info,
        }
        if self.best is not None:
            state.tensors |= {f"best.{name}": value for name, value in self.best.tensors.items()}
        self.group.on_rank_zero(partial(self.checkpoints.save, state))

    def _start(self) -> None:
        """Write what the run is, and its state before the first step."""
        if self.checkpoints is not None and not self._started:
            versions = {"labelgrad": labelgrad.__version__, "torch": torch.__version__}
            head = {"settings": self.trainer.settings, **versions}
            self.group.on_rank_zero(partial(self.log.begin, head))
            self._save()
        self._started = True

    def _resume(self) -> bool:
        """Go on from the last checkpoint; whether there is one."""
        if self.checkpoints is None:
            return False
        state = self.group.on_rank_zero(self.checkpoints.load)
        if state is None:
            return False
        try:
            self._load(state, self.checkpoints)
        except CheckpointError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
            raise CheckpointError(
                f"the checkpoint in {self.folder} cannot be resumed: {reason_of(error)}; remove "
                f"that folder to start again, or use another."
            ) from error
        return True

    def _load(self, state: State, checkpoints: Checkpoints) -> None:
        info, trainer, group = state.info, self.trainer, self.group
        group.on_rank_zero(partial(_check_settings, info["settings"], trainer.settings))
        state.tensors = {name: each.to(trainer.device) for name, each in state.tensors.items()}
        checkpoints.restore_rows(state, trainer.tables, trainer.load, group)
        self.seconds = float(info["seconds"])
        resume = partial(self.log.resume, info["log"], info["log_digest"])
        self.log.records = group.on_rank_zero(resume)
        if info["best"] is not None:
            rank = [float(number) for number in info["best"]["rank"]]
            self.best = State(state.part("best"), {**info["best"], "rank": rank})


def _check_settings(saved: dict[str, str], wanted: dict[str, str]) -> None:
    for name, value in wanted.items():
        if saved.get(name) != value:
            raise CheckpointError(
                f"the checkpoint is of another configuration: its {name} is {saved.get(name)}, "
                f"and the run's is {value}; use another folder or the settings it was made with."
            )
