"""One batch of each kind seen through one model, with every pass made at most once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from labelgrad.distributed import ALONE, Group
from labelgrad.functional import flat_gradient, mixed_seed, normal_like, random_numbers
from labelgrad.losses import CrossEntropy, Loss
from labelgrad.replay import Remembering, Replaying
from labelgrad.shared_norm import SharedNorm, has_batch_norm

T = TypeVar("T")
LABELED, UNLABELED, EXTRA = range(3)  # passes, each with random numbers of its own


@dataclass(frozen=True)
class Batch:
    """Some examples: inputs, labels where there are any, and which rows of the data they are."""

    x: Tensor
    y: Tensor | None
    rows: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device; the row numbers stay with the table that uses them."""
        return Batch(self.x.to(device), None if self.y is None else self.y.to(device), self.rows)

    def cut(self, parts: int) -> list[Batch]:
        """The batch in as many parts of one size."""
        if len(self.x) % parts:
            count = len(self.x)
            raise ValueError(f"`accumulate` must divide the batch size {count}, got {parts}.")
        size = len(self.x) // parts
        return [self[slice(start, start + size)] for start in range(0, len(self.x), size)]

    def __getitem__(self, some: slice | Tensor) -> Batch:
        """Some of the examples, in their order or at these places."""
        labels = None if self.y is None else self.y[some]
        return Batch(self.x[some], labels, self.rows[some])


class once(Generic[T]):  # noqa: N801 - read as a word before what it decorates
    """A property that is computed on first access and then cached.

    Python 3.11's own has one lock for all objects of a class, in which two threads can wait for
    each other.
    """

    def __init__(self, work_out: Callable[[Any], T]):
        self._work_out, self._name, self.__doc__ = work_out, work_out.__name__, work_out.__doc__

    def __get__(self, owner: Any, kind: type | None = None) -> T:
        value = vars(owner)[self._name] = self._work_out(owner)
        return value


class Views(Protocol):
    """Two ways to change examples at random without changing what they are.

    The draws are the generator's, so that a resumed run sees the same views.
    """

    def weak(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A little, as training on labeled examples would: a flip, a small shift."""

    def strong(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A lot: what a model should still see through."""


class Step:
    """What an objective sees: the model, the batches, and the passes already made.

    A forward pass or the labeled gradient is computed on first access, and then cached. Both
    batches are weak views where there are `views`, and `weak_view` and `strong_view` draw others of
    the unlabeled one. Random numbers are those of `seed`: `generator` is for an objective's own
    draws, and what the model draws by itself (dropout) is separate from the rest of the process.
    With `remember`, the unlabeled pass can be replayed in forward mode at two thirds of the cost.
    With `autocast`, such as `torch.bfloat16`, the model's passes are in that precision. Objectives
    report what they measure with `report`.

    With a `joint_pass` both batches go through the model as one, so batch norm sees labeled and
    unlabeled examples together, as in the protocol of Oliver et al. (2018); extra passes have the
    labeled batch beside their inputs, too. Without it each batch is a pass of its own.

    In a `group` of processes the batches are those of all, and `cut` leaves this process its part.
    What a step then says of the whole batch (`gradient`, `all_unlabeled_outputs`) is of all parts.
    Parts are of one size, but for a row. Where the unlabeled rows are `owned`, so many in all, a
    part has the rows that the process owns (`Group.owned`), which may be many or none.

    >>> batch = Batch(torch.ones(4, 3), torch.zeros(4, dtype=torch.long), torch.arange(4))
    >>> step = Step(nn.Linear(3, 2), batch)
    >>> step.labeled_gradient.shape
    torch.Size([8])
    """

    def __init__(  # noqa: PLR0913 - settings
        self,
        model: nn.Module,
        labeled: Batch,
        unlabeled: Batch | None = None,
        *,
        loss: Loss | None = None,
        index: int = 0,
        views: Views | None = None,
        seed: int = 0,
        remember: bool = False,
        keep_graph: bool = True,
        autocast: torch.dtype | None = None,
        group: Group = ALONE,
        owned: int | None = None,
        joint_pass: bool = False,
    ):
        self._joint = joint_pass and unlabeled is not None
        self.model, self.index, self.keep_graph = model, index, keep_graph or self._joint
        self.group, self._shares_norm = group, group.size > 1 and has_batch_norm(model)
        self._owned = owned
        self._bare, self._views, self._remember = bare(model), views, remember
        self._autocast = autocast
        self._seed, self._place = seed, 0  # the place among the parts
        self._nested, self._extra_passes = 0, 0  # calls of terms within terms
        self.counted_passes = 0  # those that batch norm saw
        self._begin: Tensor | None = None  # where the objective's own draws begin
        self.params = {name: p for name, p in self._bare.named_parameters() if p.requires_grad}
        self.generator = torch.Generator(labeled.x.device).manual_seed(seed)
        self.loss: Loss = CrossEntropy() if loss is None else loss
        self.labeled, self._unlabeled, self._clean = labeled, unlabeled, unlabeled
        if views is not None:
            self.labeled = replace(labeled, x=views.weak(labeled.x, self.generator))
        if views is not None and unlabeled is not None:
            self._unlabeled = replace(unlabeled, x=views.weak(unlabeled.x, self.generator))
        # How much this process's part counts beside the others': 1 where parts are of one size.
        self.labeled_share = self.unlabeled_share = 1.0
        self._whole = self._unlabeled  # of all processes
        self._places: list[Tensor] = []  # in it, of each process's part
        self._own: slice | Tensor = slice(None)  # places of this one's
        self._parts: list[Step] = []  # none where the step is its only part: no cycle to collect
        self.records: dict[str, Tensor] = {}  # term/name, of what the terms report
        self.saved: dict[object, Any] = {}  # by objective: what its update needs from `forward`
        self.term = ""  # the name of the term at work

    def cut(self, parts: int) -> list[Step]:
        """The same step in parts of one size, whose gradients are to be averaged.

        Of each part this process has the rows that are its own.
        """
        if parts == self.group.size == 1:
            return [self]
        labeled = self.labeled.cut(parts)
        unlabeled, clean = (
            [None] * parts if batch is None else batch.cut(parts)
            for batch in (self._unlabeled, self._clean)
        )
        pieces: list[Step] = []
        for place in range(parts):
            piece = copy(self)
            piece.labeled, piece._unlabeled = labeled[place], unlabeled[place]
            piece._clean, piece._place, piece.saved = clean[place], place, {}
            piece._parts = pieces if parts > 1 else []
            piece._take_own_rows()
            pieces.append(piece)
        return pieces

    def _take_own_rows(self) -> None:
        """Of the batches of all processes, keep this one's part; views are drawn for all."""
        group, count, self._whole = self.group, len(self.labeled.x), self._unlabeled
        if group.size == 1:
            return
        self.labeled = self.labeled[group.rows(count)]
        self.labeled_share = group.size * len(self.labeled.x) / count
        if self._whole is None:
            return
        whole, count, owned = self._whole, len(self._whole.x), self._owned
        drawn = (torch.arange(count), count) if owned is None else (whole.rows, owned)
        self._places = group.owned(*drawn)
        mine = self._own = self._places[group.rank]
        self.unlabeled_share = group.size * len(mine) / count
        if len(mine):
            self._unlabeled = whole[mine]
        else:  # any example, under the name of a row of its own: it counts nothing
            self._own = torch.zeros(1, dtype=torch.int64)
            first = group.rows(drawn[1]).start
            self._unlabeled = replace(whole[self._own], rows=torch.tensor([first]))

    @property
    def parts(self) -> list[Step]:
        """The steps that the batch was cut into; alone a step is its only part."""
        return self._parts or [self]

    @property
    def unlabeled(self) -> Batch:
        """The unlabeled batch; asking for one that is not there is an error."""
        return _needed(self._unlabeled)

    @property
    def own_rows(self) -> Tensor:
        """The rows of the unlabeled batch that are this process's; none, if one only stands in."""
        return self.unlabeled.rows[: len(self.unlabeled.rows) if self.unlabeled_share else 0]

    def weak_view(self) -> Tensor:
        """Another weak view of the unlabeled inputs; unchanged where there are no views."""
        clean = _needed(self._clean).x
        weak = clean if self._views is None else self._views.weak(clean, self.generator)
        return weak[self._own]

    def strong_view(self) -> Tensor:
        """The unlabeled inputs, strongly changed."""
        if self._views is None:
            raise ValueError("this objective needs strong views; give the trainer `views`.")
        return self._views.strong(_needed(self._clean).x, self.generator)[self._own]

    def noise(self) -> Tensor:
        """Gaussian noise of the unlabeled inputs' shape, which is drawn for all processes' rows."""
        return normal_like(self.whole_unlabeled.x, self.generator)[self._own]

    @once
    def labeled_outputs(self) -> Tensor:
        """The model on the labeled batch."""
        if self._joint:
            return self._clean_outputs[: len(self.labeled.x)]
        return self._counted_pass(self.labeled.x, None, LABELED)

    @once
    def unlabeled_outputs(self) -> Tensor:
        """The model on the unlabeled batch."""
        return self._own_outputs(self._clean_outputs)

    @once
    def _clean_outputs(self) -> Tensor:
        """The model on the unlabeled batch, after the labeled one where the pass is joint."""
        self._memory = Remembering() if self._remember else None
        self._before = _copies(_buffers(self._bare))
        x = self.unlabeled.x
        with self._memory or nullcontext():
            return self._counted_pass(self._with_labeled(x), x, UNLABELED)

    @property
    def whole_unlabeled(self) -> Batch:
        """The unlabeled batch of all processes."""
        return _needed(self._whole)

    @property
    def all_unlabeled_outputs(self) -> Tensor:
        """The model on the unlabeled batches of all parts and processes, without a graph.

        What an objective takes of the whole batch, such as the mean of its confidence, it takes
        here: alone it costs nothing, and an accumulated batch a pass more of each part.
        """
        return torch.cat([part._outputs_without_graph for part in self.parts])

    @once
    def _outputs_without_graph(self) -> Tensor:
        if len(self.parts) == 1:
            return self.gathered(self.unlabeled_outputs.detach())
        with torch.no_grad(), self._numbers(UNLABELED):  # what its own pass draws
            return self.gathered(self._call({}, self.unlabeled.x))

    def gathered(self, mine: Tensor) -> Tensor:
        """A row for each unlabeled example of all processes, of which `mine` are this one's.

        It can be differentiated.
        """
        return self.group.gather_rows(mine, self._places)

    @once
    def labeled_loss(self) -> Tensor:
        """The mean loss of the true labels, by this process's share in the mean over all."""
        if self.labeled.y is None:
            raise ValueError("the labeled batch has no labels.")
        loss = self.loss(self.labeled_outputs, self.labeled.y)
        return loss if self.labeled_share == 1 else self.labeled_share * loss

    @once
    def labeled_gradient(self) -> Tensor:
        """g_ℓ: the gradient of the labeled loss, as one vector, computed once a step."""
        return self.gradient(self.labeled_loss)

    def gradient(self, loss: Tensor) -> Tensor:
        """The gradient of `loss` in the model's parameters, as one vector.

        It is the mean over all processes, each with the loss of its part.
        """
        mine = flat_gradient(loss, self.params, keep_graph=self.keep_graph)
        return self.group.average(mine)

    def weighed(self, value: Tensor) -> Tensor:
        """A mean over the unlabeled batch, by this process's share in the mean over all."""
        return value if self.unlabeled_share == 1 else self.unlabeled_share * value

    def forward(self, x: Tensor) -> Tensor:
        """A pass of the model on other inputs that counts: batch norm sees it.

        MixMatch's mixed examples are such, the passes of FixMatch and VAT are not
        (`extra_forward`).
        """
        self._extra_passes += 1
        return self._counted_pass(x, x, EXTRA, self._extra_passes)

    def _counted_pass(self, x: Tensor, unlabeled: Tensor | None, *which: int) -> Tensor:
        self.counted_passes += 1
        with self._numbers(*which), self._precision(), self._norm(unlabeled):
            return self._full(self.model(x))

    def extra_forward(self, x: Tensor, params: Mapping[str, Tensor] | None = None) -> Tensor:
        """A pass, at other parameters if given, that leaves no trace in buffers."""
        self._extra_passes += 1
        with self._numbers(EXTRA, self._extra_passes):
            return self._call(params or {}, x)

    def replay_unlabeled(self, params: Mapping[str, Tensor]) -> Tensor:
        """The unlabeled pass again at other parameters: same draws and buffers, no trace left."""
        _ = self.unlabeled_outputs  # the pass to be replayed comes first
        with self._numbers(UNLABELED):
            return self._call(params, self.unlabeled.x, self._before)

    def remembered(self) -> AbstractContextManager[object]:
        """A context for a replay in forward mode, at the very same values: they are not redone."""
        _ = self.unlabeled_outputs
        return nullcontext() if self._memory is None else Replaying(self._memory.products)

    @property
    def precision(self) -> float:
        """The distance from 1 to the next number in the precision that passes are computed in."""
        dtype = self._autocast or next(iter(self.params.values())).dtype
        return torch.finfo(dtype).eps

    @contextmanager
    def repeatable_draws(self) -> Iterator[None]:
        """A context for an objective's value, in which it draws what it drew the first time."""
        if self._nested == 0:
            if self._begin is None:
                self._begin = self.generator.get_state()
            else:
                self.generator.set_state(self._begin)
            self._extra_passes = 0
        self._nested += 1
        try:
            yield
        finally:
            self._nested -= 1

    def report(self, name: str, value: Tensor) -> None:
        """Record a measurement of this step, as `term/name` of the term at work."""
        if name == "loss":
            raise ValueError(f"'loss' is recorded by itself; let {self.term} report another name.")
        value = self.weighed(value.detach())
        self.records[f"{self.term}/{name}" if self.term else name] = value

    def release(self) -> None:
        """Let the graphs go: what was computed stays, and can no more be differentiated."""
        for name in ("_clean_outputs", "labeled_outputs", "unlabeled_outputs", "labeled_loss"):
            if name in vars(self):
                vars(self)[name] = vars(self)[name].detach()

    def _numbers(self, *which: int) -> AbstractContextManager[object]:
        """What the model draws by itself in a pass: a function of the step and the pass."""
        # Masks are drawn inside of the model, so processes cannot share those of the whole batch.
        whose = [self.group.rank] if self.group.size > 1 else []
        return random_numbers(
            self.labeled.x.device, mixed_seed(self._seed, self._place, *which, *whose)
        )

    def _precision(self) -> AbstractContextManager[object]:
        if self._autocast is None:
            return nullcontext()
        return torch.autocast(self.labeled.x.device.type, dtype=self._autocast)

    def _norm(self, x: Tensor | None) -> AbstractContextManager[object]:
        """Batch norm sees the batch of all processes, but no example that only stands in."""
        if not self._shares_norm:
            return nullcontext()
        stands_in = x is not None and len(x) == 1 and self.unlabeled_share == 0
        return SharedNorm(self.group, leave_out=int(stands_in))

    def _with_labeled(self, x: Tensor) -> Tensor:
        return torch.cat([self.labeled.x, x]) if self._joint else x

    def _own_outputs(self, outputs: Tensor) -> Tensor:
        """The outputs of a pass without those of the labeled batch beside it."""
        return outputs[len(self.labeled.x) :] if self._joint else outputs

    def _full(self, outputs: Tensor) -> Tensor:
        """Outputs in the parameters' precision: losses are not computed in a smaller one."""
        return outputs if self._autocast is None else outputs.float()

    def _call(
        self,
        params: Mapping[str, Tensor],
        x: Tensor,
        buffers: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        values = {id(self.params[name]): value for name, value in params.items()}
        places = _places(self._bare, nn.Module.named_parameters)
        state = {place: values[id(old)] for place, old in places.items() if id(old) in values}
        # Batch norm writes its statistics in place: the writes of an extra pass go to copies.
        state |= _copies(_buffers(self._bare) if buffers is None else buffers)
        with self._precision(), self._norm(x):
            outputs: Tensor = functional_call(
                self._bare, state, (self._with_labeled(x),), tie_weights=False
            )
        return self._full(self._own_outputs(outputs))


def bare(model: nn.Module) -> nn.Module:
    """The module that `torch.compile` was given, or the model itself.

    Its names are those of its checkpoints, and it can be run at other parameters and in forward
    mode, which a compiled one cannot.
    """
    inner = getattr(model, "_orig_mod", model)
    assert isinstance(inner, nn.Module)
    return inner


def _needed(batch: Batch | None) -> Batch:
    if batch is None:
        raise ValueError("this objective needs unlabeled examples, and the step has none.")
    return batch


def _places(model: nn.Module, named: Callable[..., Iterator[tuple[str, T]]]) -> dict[str, T]:
    """Every place of a module that holds a parameter or buffer, tied ones included.

    `functional_call` can find tied places by itself, but then a module that is used under two names
    is not put back as it was.
    """
    return {
        f"{prefix}.{name}" if prefix else name: value
        for prefix, module in model.named_modules()
        for name, value in named(module, "", False)
    }


def _buffers(model: nn.Module) -> dict[str, Tensor]:
    return _places(model, nn.Module.named_buffers)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of each tensor; what is tied stays tied."""
    copies = {id(tensor): tensor.clone() for tensor in tensors.values()}
    return {name: copies[id(tensor)] for name, tensor in tensors.items()}
