"""A training put together, and the run of it: train, evaluate, keep the best, write it all down.

A `Recipe` is the one assembly of network, batches, objective and optimizer. The `Run` it makes
survives being killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labelgrad.functional import random_numbers
from labelgrad.group import Group
from labelgrad.losses import CrossEntropy, Loss
from labelgrad.objective import Objective
from labelgrad.schedules import Schedule
from labelgrad.step import Views
from labelgrad.training import table_rows
from labelgrad.training.batches import Batches, Examples
from labelgrad.training.checkpoint import Checkpoints, Log, State, revision
from labelgrad.training.errors import CheckpointError, TrainingDivergedError
from labelgrad.training.evaluation import OURS, Metric, check_metrics, evaluate
from labelgrad.training.stackable import stacks
from labelgrad.training.stacked import advance
from labelgrad.training.trainer import ADAM, Groups, MakeOptimizer, Trainer

EvaluatedOn = Examples | tuple[Tensor, Tensor]
OnRecord = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, eq=False)
class Recipe:
    """All that a training is made of; `run` starts it.

    `fit`, the estimators, the demo, the bench and the paper's experiments all build one of these,
    and nothing else puts a training together. `network` and `objective` are functions that make new
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
    steps: int = field(default=1000, kw_only=True)
    learning_rate: float | Schedule = field(default=1e-3, kw_only=True)
    loss: Loss = field(default_factory=CrossEntropy, kw_only=True)
    views: Views | None = field(default=None, kw_only=True)
    optimizer: MakeOptimizer = field(default=ADAM, kw_only=True)
    groups: Groups | None = field(default=None, kw_only=True)
    weight_average: float | None = field(default=None, kw_only=True)
    clip_norm: float | None = field(default=None, kw_only=True)
    accumulate: int = field(default=1, kw_only=True)
    autocast: torch.dtype | None = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    network_seed: int | None = field(default=None, kw_only=True)
    device: str | torch.device = field(default="cpu", kw_only=True)

    def trainer(self, *, group: Group | None = None) -> Trainer:
        """The training at its first step, to be moved step by step."""
        seed = self.seed if self.network_seed is None else self.network_seed
        objective = self.objective
        with random_numbers(torch.device("cpu"), seed):
            given = self.network
            network = given if isinstance(given, nn.Module) else given()
        return Trainer(
            network.to(self.device),
            objective if isinstance(objective, Objective) else objective(),
            self.labeled,
            self.unlabeled,
            learning_rate=self.learning_rate,
            optimizer=self.optimizer,
            groups=self.groups,
            loss=self.loss,
            views=self.views,
            weight_average=self.weight_average,
            clip_norm=self.clip_norm,
            accumulate=self.accumulate,
            autocast=self.autocast,
            seed=self.seed,
            group=group,
        )

    def run(
        self,
        *,
        group: Group | None = None,
        folder: str | Path | None = None,
        examples: Mapping[str, EvaluatedOn] | None = None,
        truth: Tensor | None = None,
        evaluate_every: int = 100,
        checkpoint_every: int = 1000,
        best_by: str = "error",
        metrics: Mapping[str, Metric] | None = None,
        on_record: OnRecord | None = None,
    ) -> Run:
        """The training as a run, which evaluates, keeps the best and survives being killed."""
        return Run(
            self.trainer(group=group),
            steps=self.steps,
            folder=folder,
            examples=examples,
            truth=truth,
            evaluate_every=evaluate_every,
            checkpoint_every=checkpoint_every,
            best_by=best_by,
            metrics=metrics,
            on_record=on_record,
        )


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

    def __init__(
        self,
        trainer: Trainer,
        *,
        steps: int,
        folder: str | Path | None = None,
        examples: Mapping[str, EvaluatedOn] | None = None,
        truth: Tensor | None = None,
        evaluate_every: int = 100,
        checkpoint_every: int = 1000,
        best_by: str = "error",
        metrics: Mapping[str, Metric] | None = None,
        on_record: OnRecord | None = None,
    ):
        if min(steps, evaluate_every, checkpoint_every) < 1:
            raise ValueError(
                f"`steps`, `evaluate_every` and `checkpoint_every` must be at least 1, got "
                f"{steps}, {evaluate_every} and {checkpoint_every}."
            )
        self.trainer, self.steps, self.truth, self.best_by = trainer, steps, truth, best_by
        self.examples = dict(examples or {})
        self.metrics, self.on_record = dict(metrics or {}), on_record
        check_metrics(self.metrics)
        if best_by not in (*OURS, *self.metrics):
            known = ", ".join((*OURS, *self.metrics))
            raise ValueError(f"`best_by` must be one of {known}, got {best_by!r}.")
        self.evaluate_every, self.checkpoint_every = evaluate_every, checkpoint_every
        self.group, self._is_kept = trainer.group, folder is not None
        mine = None if folder is None or self.group.rank else Path(folder)  # one process writes
        self.checkpoints = None if mine is None else Checkpoints(mine / "checkpoints")
        self.log = Log(None if mine is None else mine / "metrics.jsonl")
        self.best: State | None = None
        self.seconds = 0.0
        self._begun = self._resumed()

    @property
    def history(self) -> list[dict[str, Any]]:
        """The evaluations so far, one record each."""
        return self.log.records

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for _, record in side_by_side([self], self.steps):
            yield record

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

    def _diverged(self, error: TrainingDivergedError) -> TrainingDivergedError:
        files = self.checkpoints.files() if self.checkpoints else []
        kept = f" The last good checkpoint is {files[-1]}." if files else ""
        return TrainingDivergedError(f"{error}{kept}")

    def _evaluate(self) -> dict[str, float]:
        model = self.trainer.evaluated
        results: dict[str, float] = {}
        for name, given in self.examples.items():
            x, y = (given, _known(name, given)) if isinstance(given, Examples) else given
            measured = evaluate(model, x, y, loss=self.trainer.loss, metrics=self.metrics)
            results |= {f"{name}_{key}": value for key, value in measured.items()}
            if name == "validation":
                self._keep_if_best(measured)
        if self.truth is not None:
            for term in self.trainer.objective.leaves():
                results |= term.measure(self.truth)
        return results

    def _keep_if_best(self, measured: dict[str, float]) -> None:
        # A small validation set ties often in error, and then the loss decides.
        rank = [measured[self.best_by], measured["loss"]]
        if self.best is None or rank < self.best.info["rank"]:
            weights = self.trainer.evaluated.state_dict()
            copy = {name: value.detach().clone() for name, value in weights.items()}
            self.best = State(copy, {"step": self.trainer.index, "rank": rank, **measured})

    def _save(self) -> None:
        if not self._is_kept:
            return
        state = self.trainer.state
        failure = table_rows.collect(state, self.trainer.tables, self.checkpoints)
        self.group.first(lambda: self._write(state, failure))
        for term in self.trainer.objective.leaves():
            term.after_checkpoint()

    def _write(self, state: State, failure: CheckpointError | None) -> None:
        assert self.checkpoints is not None
        if failure is not None:
            raise failure
        state.info |= {
            "settings": self.trainer.settings,
            "seconds": self.seconds,
            "log": self.log.position,
            "log_digest": self.log.digest,
            "best": None if self.best is None else self.best.info,
        }
        if self.best is not None:
            state.tensors |= {f"best.{name}": value for name, value in self.best.tensors.items()}
        self.checkpoints.save(state)

    def _begin(self) -> None:
        """Write down what the run is, and its state before the first step."""
        if self._begun:
            return
        self._begun = True
        if self._is_kept:
            self.group.first(
                lambda: self.log.begin({"settings": self.trainer.settings, **revision()})
            )
            self._save()

    def _resumed(self) -> bool:
        """Go on from the last checkpoint, and say whether there is one."""
        state = self.group.first(self._last) if self._is_kept else None
        if state is None:
            return False
        try:
            self._take_up(state)
        except CheckpointError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
            reason = (str(error).splitlines() or [""])[0].rstrip(".:") or type(error).__name__
            place = self.checkpoints.folder.parent if self.checkpoints else "it"
            raise CheckpointError(
                f"the checkpoint in {place} cannot be taken up: {reason}; remove that folder to "
                f"train anew, or use another."
            ) from error
        return True

    def _last(self) -> State | None:
        """The last checkpoint, as the process that writes finds it."""
        assert self.checkpoints is not None
        return self.checkpoints.load()

    def _take_up(self, state: State) -> None:
        info, device = state.info, self.trainer.device
        self.group.first(lambda: _check_settings(info["settings"], self.trainer.settings))
        state.tensors = {name: value.to(device) for name, value in state.tensors.items()}
        files = table_rows.make_room(state, self.trainer.tables)
        self.trainer.load(state)
        table_rows.hand_out(files, self.trainer.tables, self.checkpoints, self.group)
        self.seconds = float(info["seconds"])
        self.log.records = self.group.first(
            lambda: self.log.resume(info["log"], info["log_digest"])
        )
        if info["best"] is not None:
            rank = [float(number) for number in info["best"]["rank"]]
            self.best = State(state.part("best"), {**info["best"], "rank": rank})


def side_by_side(runs: Sequence[Run], until: int) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Take runs to a step, or to their ends; a record of each step with the run it is of.

    Those of one kind advance together, kind after kind (see `labelgrad.training.stacked`).

    >>> from labelgrad import MLP, Recipe, Supervised, TensorBatches
    >>> batches = TensorBatches(torch.randn(30, 4), torch.arange(30) % 2, batch_size=10)
    >>> recipe = Recipe(lambda: MLP(4, (8,), 2), Supervised, batches, steps=20)
    >>> runs = [recipe.run() for _ in range(2)]
    >>> [(runs.index(run), record["step"]) for run, record in side_by_side(runs, until=2)]
    [(0, 1), (1, 1), (0, 2), (1, 2)]
    """
    unfinished = [run for run in runs if run.trainer.index < min(until, run.steps)]
    for run in runs:
        run._begin()
    for places in stacks([run.trainer for run in unfinished]):
        together = [unfinished[place] for place in places]
        end = min(until, *(run.steps for run in together))
        yield from _advance(together, end)


def _advance(runs: Sequence[Run], end: int) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Take runs of one stack to a step."""
    trainers, last = [run.trainer for run in runs], time.perf_counter()
    steps = advance(trainers, end - trainers[0].index)
    while trainers[0].index < end:
        try:
            records = next(steps)
        except TrainingDivergedError as error:  # it happened to the first that was left behind
            raise min(runs, key=lambda run: run.trainer.index)._diverged(error) from None
        now = time.perf_counter()
        for run in runs:
            run.seconds += (now - last) / len(runs)
        last = now
        for run, record in zip(runs, records, strict=True):
            yield run, run._after_step(record)


def _known(name: str, examples: Examples) -> Tensor:
    if examples.labels is None:
        raise ValueError(f"the examples {name!r} must have labels to be evaluated by.")
    return examples.labels


def _check_settings(saved: dict[str, str], wanted: dict[str, str]) -> None:
    for name, value in wanted.items():
        if saved.get(name) != value:
            raise CheckpointError(
                f"the checkpoint is of another configuration: its {name} is {saved.get(name)}, "
                f"and the run's is {value}; use another folder or the settings it was made with."
            )
