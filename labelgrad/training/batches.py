"""Minibatches as a function of the step: rows by their numbers, never a copy of the data.

Batches have no position to lose. The batch of step i is worked out from the seed and i, so a
resumed run draws what an undisturbed one would have drawn, and two trainings on one tensor never
disturb each other.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch.utils.weak import WeakIdKeyDictionary

from labelgrad.functional import mixed_seed
from labelgrad.reasons import reason_of
from labelgrad.schedules import describe
from labelgrad.step import Batch

Transform = Callable[[Tensor], Tensor]  # rows as they are stored to rows as a network sees them
CHUNK = 2**24  # bytes that are looked at at once


@dataclass(frozen=True, eq=False)
class Examples:
    """Some rows of the data as a network sees them: nothing is copied before it is asked for.

    `x` is a tensor, or anything that an array of row numbers can index, such as a memory-mapped
    file. `rows` says which rows (all, if it does not); `y` has a label for every row of `x`.

    >>> x = torch.arange(8).view(4, 2)
    >>> some = Examples(x, rows=torch.tensor([3, 1]), transform=lambda x: x / 2)
    >>> len(some), some.take(torch.tensor([0]))
    (2, tensor([[3.0000, 3.5000]]))
    """

    x: Any
    y: Tensor | None = None
    rows: Tensor | None = None
    transform: Transform | None = None

    def __post_init__(self) -> None:
        if self.y is not None:
            object.__setattr__(self, "y", as_labels(self.y))
        if self.y is not None and len(self.x) != len(self.y):
            rows = f"{len(self.x)} and {len(self.y)} rows"
            raise ValueError(f"`x` and `y` must have one row for each example, got {rows}.")

    def __len__(self) -> int:
        return len(self.x) if self.rows is None else len(self.rows)

    @property
    def labels(self) -> Tensor | None:
        """The labels of these rows, or none."""
        return self.y if self.y is None or self.rows is None else self.y[self.rows]

    def labels_at(self, places: Tensor) -> Tensor | None:
        """The labels at these places, counted among the rows."""
        if self.y is None:
            return None
        return self.y[self.rows_at(places).to(self.y.device)]

    def take(self, places: Tensor) -> Tensor:
        """The examples at these places, counted among the rows."""
        rows = self.rows_at(places)
        is_tensor = isinstance(self.x, Tensor)
        found = torch.as_tensor(self.x[rows.to(self.x.device) if is_tensor else rows.numpy()])
        return found if self.transform is None else self.transform(found)

    __getitem__ = take

    def parts(self, size: int = 1000) -> Iterator[Tensor]:
        """All of them in their order, so many at a time."""
        for places in torch.arange(len(self)).split(size):
            yield self.take(places)

    def rows_at(self, places: Tensor) -> Tensor:
        """The numbers of the rows at these places."""
        return places if self.rows is None else self.rows[places]

    def fingerprint(self) -> str:
        """A digest of the data, all of them, and of which rows these are."""
        parts = [self.x, *(part for part in (self.y, self.rows) if part is not None)]
        changed = [] if self.transform is None else [describe(self.transform)]
        return ", ".join([*map(content_digest, parts), *changed])


@dataclass(frozen=True)
class Shuffle:
    """Which places are drawn in which step: each once before any is drawn again.

    >>> order = Shuffle(count=5, batch_size=2, seed=3, kind=0)
    >>> torch.cat([order.places(step) for step in range(5)]).bincount()
    tensor([2, 2, 2, 2, 2])
    """

    count: int
    batch_size: int
    seed: int
    kind: int  # labeled and unlabeled batches of one seed and length must not shuffle alike

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= self.count:
            given, most = self.batch_size, f"the {self.count} examples there are"
            raise ValueError(f"`batch_size` must be from 1 to {most}, got {given}.")

    def places(self, step: int) -> Tensor:
        """The places of a step's batch; it spans two epochs at most."""
        epoch, offset = divmod(step * self.batch_size, self.count)
        places = _epoch(self, epoch)[offset : offset + self.batch_size]
        rest = self.batch_size - len(places)
        return torch.cat([places, _epoch(self, epoch + 1)[:rest]]) if rest else places


@lru_cache(maxsize=4)  # a step of two kinds of batches, each across the end of an epoch
def _epoch(shuffle: Shuffle, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed(mixed_seed(shuffle.seed, shuffle.kind, epoch))
    return torch.randperm(shuffle.count, generator=generator)


class Batches:
    """What a training draws from: examples in the order of a seed, the batch of any step.

    Labeled and unlabeled examples shuffle differently.
    """

    def __init__(self, examples: Examples, batch_size: int, seed: int):
        self.examples, self.batch_size, self.seed = examples, batch_size, seed
        self.order = Shuffle(len(examples), batch_size, seed, 0 if examples.y is None else 1)

    def __len__(self) -> int:
        """How many examples there are to draw."""
        return len(self.examples)

    @property
    def labels(self) -> Tensor | None:
        """The labels of all of them, or none."""
        return self.examples.labels

    def batch(self, step: int) -> Batch:
        """The batch of the given step."""
        places = self.order.places(step)
        return Batch(self.examples.take(places), self.examples.labels_at(places), places)

    def fingerprint(self) -> str:
        """A text that changes when any of the data, or the order they are drawn in, changes."""
        return self._described(self.examples.x.shape[1:], self.examples.fingerprint())

    def _described(self, shape: Sequence[int], digest: str) -> str:
        size = f"{len(self)} examples of {tuple(shape)} in batches of {self.batch_size}"
        return f"{size}, seed {self.seed}, {digest}"


class TensorBatches(Batches):
    """Shuffled minibatches, without end, of a tensor in memory or of some of its rows.

    NumPy arrays will do: what they hold is not copied, unless it must be made 32 bits.

    `transform` turns the stored rows of a batch into what a network sees, so that images can stay
    bytes. Trainings that share `x` share its memory.

    >>> batches = TensorBatches(torch.arange(5.0), batch_size=2, seed=3)
    >>> batches.batch(0).x.shape
    torch.Size([2])
    >>> some = TensorBatches(torch.arange(9.0), rows=torch.tensor([2, 4, 6]), batch_size=3)
    >>> some.batch(0).x.sort().values
    tensor([2., 4., 6.])
    """

    def __init__(
        self,
        x: Tensor | ArrayLike,
        y: Tensor | ArrayLike | None = None,
        *,
        rows: Tensor | None = None,
        batch_size: int,
        seed: int = 0,
        transform: Transform | None = None,
    ):
        x = as_tensor("x", x)
        labels = None if y is None else as_labels(y)
        super().__init__(Examples(x, labels, rows, transform), batch_size, seed)
        _check_finite(x)


class DatasetBatches(Batches):
    """Shuffled minibatches that are read as they are needed: data larger than memory.

    `data` is any PyTorch `Dataset`, or anything that an array of row numbers can index, such as a
    memory-mapped file. It must give the same example each time; of an item that is a tuple, the
    first part is the example. `y` has a label for every example. With `workers`, so many processes
    read the batches to come while the present one is trained on.

    To tell whether a run goes on with the data it began with, all of them are read once, unless a
    `fingerprint` is given: a text that changes whenever they do, such as a version.

    >>> import numpy as np
    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> DatasetBatches(rows, batch_size=3).batch(0).x.shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        data: Any,
        y: Tensor | None = None,
        *,
        rows: Tensor | None = None,
        batch_size: int,
        seed: int = 0,
        transform: Transform | None = None,
        workers: int = 0,
        fingerprint: str | None = None,
    ):
        if workers < 0:
            raise ValueError(f"`workers` must be at least 0, got {workers}.")
        readable = _ByItem(data) if isinstance(data, Dataset) else data
        super().__init__(Examples(readable, y, rows, transform), batch_size, seed)
        self.workers, self._fingerprint = workers, fingerprint
        self._ahead = threading.local()  # each thread has a reader, and the step it gives next

    def batch(self, step: int) -> Batch:
        places = self.order.places(step)
        x = self._read_ahead(step) if self.workers else self.examples.take(places)
        if x.dtype.is_floating_point and not torch.isfinite(x).all():
            wrong = self.examples.rows_at(places)[~torch.isfinite(x.flatten(1)).all(1)][0]
            raise ValueError(f"the data must be finite, got NaN or infinity in example {wrong}.")
        return Batch(x, self.examples.labels_at(places), places)

    def fingerprint(self) -> str:
        first = self.examples.take(torch.arange(1))
        if self._fingerprint is None:
            found = self.examples.parts(max(1, CHUNK // max(1, first.nbytes)))
            self._fingerprint = _digest_of_parts(found)
        parts = [part for part in (self.examples.y, self.examples.rows) if part is not None]
        known = ", ".join([self._fingerprint, *map(content_digest, parts)])
        return self._described(first.shape[1:], known)

    def _read_ahead(self, step: int) -> Tensor:
        if getattr(self._ahead, "step", None) != step:
            loader = DataLoader(
                cast("Dataset[Tensor]", self.examples),
                sampler=map(self.order.places, count(step)),
                batch_size=None,
                num_workers=self.workers,
                generator=torch.Generator(),  # its own: PyTorch's would be drawn from
            )
            self._ahead.batches = iter(loader)
        self._ahead.step = step + 1
        found: Tensor = next(self._ahead.batches)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_ahead"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _ahead=threading.local())


class _ByItem:
    """A PyTorch `Dataset`, indexed by an array of rows."""

    def __init__(self, data: Dataset[Any]):
        self.data: Any = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, rows: Any) -> Tensor:
        listed = rows.tolist()
        many = getattr(self.data, "__getitems__", None)
        items = many(listed) if many is not None else [self.data[row] for row in listed]
        examples = [item[0] if isinstance(item, tuple) else item for item in items]
        for example in examples:
            _check_no_dictionary("an item of the data", example)
        return torch.stack([torch.as_tensor(example) for example in examples])


def as_labels(y: Tensor | ArrayLike) -> Tensor:
    """Labels as losses take them: whole numbers of any size in 64 bits, values as they are.

    >>> as_labels(torch.tensor([0, 1], dtype=torch.int32)).dtype
    torch.int64
    """
    labels = as_tensor("y", y)
    is_value = labels.dtype.is_floating_point or labels.dtype.is_complex
    return labels if is_value else labels.long()


def as_tensor(name: str, given: Any) -> Tensor:
    """A tensor as it is, and an array as one; NumPy's usual 64 bits become PyTorch's usual 32.

    >>> as_tensor("x", [[1.0]])
    tensor([[1.]])
    """
    if isinstance(given, Tensor):
        return given
    _check_no_dictionary(f"`{name}`", given)
    try:
        array = np.asarray(given)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be a tensor or an array of numbers, got a {type(given).__name__} "
            f"({reason_of(error)})."
        ) from None


def _check_no_dictionary(what: str, given: object) -> None:
    if isinstance(given, Mapping):
        names = ", ".join(map(str, given))
        raise ValueError(
            f"{what} must be one tensor of examples, got a dictionary of {names}; "
            f"give the tokens as a tensor, and let the model make the dictionary of it."
        )


# Of data that many trainings share, by the version that was looked at.
_digests: WeakIdKeyDictionary = WeakIdKeyDictionary()
_finite: WeakIdKeyDictionary = WeakIdKeyDictionary()


def content_digest(data: Any) -> str:
    """A short name for all of an array's content and no other; worked out once for each array.

    A tensor that is written to is looked at anew, but for a write through NumPy, which PyTorch does
    not hear of.

    >>> one, two = torch.ones(3), torch.tensor([1.0, 1, 2])
    >>> content_digest(one) == content_digest(torch.ones(3))
    True
    >>> content_digest(one) == content_digest(two)
    False
    """
    version = data._version if isinstance(data, Tensor) else None
    known = _digests.get(data)
    if known is None or known[0] != version or version is None:
        found = _digest_of_parts(_chunks(data), f"{data.dtype} {tuple(data.shape)}")
        known = _digests[data] = (version, found)
    digest: str = known[1]
    return digest


def _digest_of_parts(parts: Iterable[Tensor], head: str = "") -> str:
    content = hashlib.blake2b(head.encode(), digest_size=16)
    for part in parts:
        flat = part.detach().cpu().contiguous().reshape(-1)
        content.update(flat.view(torch.uint8).numpy().data)
    return content.hexdigest()


def _chunks(data: Any) -> Iterator[Tensor]:
    size = max(1, CHUNK * len(data) // max(1, data.nbytes))
    return (torch.as_tensor(data[at : at + size]) for at in range(0, len(data), size))


def _check_finite(x: Tensor) -> None:
    if not x.dtype.is_floating_point or _finite.get(x) == x._version:
        return
    count = sum(int((~torch.isfinite(part)).sum()) for part in _chunks(x))
    if count:
        raise ValueError(f"`x` must be finite, got NaN or infinity in {count} places.")
    _finite[x] = x._version
