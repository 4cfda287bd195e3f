"""What a person asks of a fit: checked, and made into objects, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn

from labelgrad.encoders.found import Given
from labelgrad.encoders.hub import Allow
from labelgrad.files import partial_path
from labelgrad.fitting.cross_validation import OnProgress
from labelgrad.fitting.plan import FILE, Plan
from labelgrad.fitting.pooling import NETWORK
from labelgrad.fitting.run_folder import LOCK
from labelgrad.fitting.verdict import POOL, STUDENT
from labelgrad.inputs.base import Dataset, Encoding, join_few
from labelgrad.inputs.kinds import read
from labelgrad.witnesses.base import Witness
from labelgrad.witnesses.models import given
from labelgrad.witnesses.named import witnesses_named
from labelgrad.witnesses.opinions import read_opinions


def encoding_of(
    encoder: Given | Sequence[Given] | None,
    download: Allow = False,
    cache: str | Path | None = None,
    device: str = "cpu",
    on_note: Callable[[str], None] | None = None,
    on_progress: OnProgress | None = None,
) -> Encoding:
    """How encoders are to be used, of what a person says about them."""
    several: Sequence[Any] = encoder if isinstance(encoder, list | tuple) else [encoder]
    tell = on_progress or (lambda name, done, total, loss: None)
    return Encoding(
        tuple(one for one in several if one is not None),
        download,
        None if cache is None else Path(cache),
        device,
        on_note,
        lambda column, done, total: tell(
            f"features of {column}" if column else "features", done, total, math.nan
        ),
        lambda done, total: tell("download, bytes", done, total, math.nan),
        lambda done, total: tell("pictures", done, total, math.nan),
    )


@dataclass(frozen=True)
class Reading:
    """How data are to be read, as `labelgrad.inputs.kinds.read` takes it."""

    labels: str | Path | None
    target: str | None
    task: str | None
    size: int | None
    strict: bool
    dates: str | None
    text: str | Sequence[str] | None
    picture: str | Sequence[str] | None

    def dataset(
        self, data: str | Path | ArrayLike | Dataset, y: ArrayLike | None, encoding: Encoding
    ) -> Dataset:
        """The data that were given, read; a `Dataset` is as it is, and nothing is said of it."""
        if not isinstance(data, Dataset):
            return read(data, y, **vars(self), encoding=encoding)
        said = [value for name, value in vars(self).items() if name != "strict"]
        if any(value is not None for value in (y, *said)):
            raise ValueError(
                "A `Dataset` has its labels in it; give it without `y` and what is read."
            )
        return data


def all_witnesses(
    dataset: Dataset,
    plan: Plan,
    estimators: Mapping[str, Any] | None,
    opinions: str | Path | None,
    by_name: Witness | None = None,
) -> list[Witness]:
    """The plan's witnesses, models of one's own, who knows classes by name, and those of a file."""
    found = witnesses_named([name for name in plan.witnesses.split(",") if name])
    found += [given(model, name) for name, model in (estimators or {}).items()]
    found += [] if by_name is None else [by_name]
    if opinions is not None:
        known = dataset.y[dataset.labeled].double()
        is_value = dataset.task == "regression"
        mean, spread = (float(known.mean()), float(known.std(correction=0))) if is_value else (0, 1)
        found += read_opinions(
            opinions, dataset.names, dataset.classes, mean=mean, spread=spread or 1.0
        )
    names = [witness.name for witness in found]
    taken = [POOL, STUDENT, *(NETWORK + method for method in plan.methods)]
    doubled = {name for name in names if names.count(name) > 1 or name in taken}
    if doubled:
        raise ValueError(
            f"Every witness needs a name of its own, got {join_few(sorted(doubled))} twice; rename "
            f"the model or the column."
        )
    return found


def checked_shares(dataset: Dataset, shares: Mapping[str, float] | None) -> Sequence[float] | None:
    """The classes' shares among all rows, in the order of the classes."""
    if shares is None:
        return None
    if dataset.task == "regression":
        raise ValueError("`shares` are of classes, and the data have values; leave them out.")
    given = shares if isinstance(shares, Mapping) else {}
    usable = all(isinstance(s, Real) and 0 < float(s) < math.inf for s in given.values())
    if set(given) != set(dataset.classes) or not usable:
        raise ValueError(
            f"`shares` needs a number above 0 for each of the classes {join_few(dataset.classes)}, "
            f"got {shares!r}."
        )
    return [shares[name] for name in dataset.classes]


def check_folder(folder: Path | None, *, resume: bool) -> None:
    """Refuse a folder that has something in it, unless it is a run to go on with."""
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"A run needs a folder, and {folder} is a file; choose another.")
    if (folder / FILE).exists() and not resume:
        raise ValueError(
            f"{folder} holds a run already; go on with it by --resume, or choose another folder."
        )
    begun = {LOCK, partial_path(folder / FILE).name}  # killed before there was a plan
    if not (folder / FILE).exists() and {path.name for path in folder.iterdir()} - begun:
        raise ValueError(f"{folder} is not empty and holds no run; choose another folder.")


def check_asked(
    model: object, time_budget: object, witnesses: object, estimators: object, shares: object
) -> None:
    """Refuse what is of another kind than it must be, before anything is read."""
    if model is not None and not isinstance(model, str | nn.Module):
        raise ValueError(
            f"`model` must be a name such as mlp, or a network of your own (an nn.Module that is "
            f"built), got {model!r}."
        )
    is_time = isinstance(time_budget, Real) and 0 < float(time_budget) < math.inf
    if time_budget is not None and not is_time:
        raise ValueError(
            f"`time_budget` must be a number of more than 0 minutes, and finite, got {time_budget}."
        )
    words = [witnesses] if witnesses is None or isinstance(witnesses, str) else witnesses
    if not isinstance(words, Sequence) or not all(isinstance(w, str | None) for w in words):
        raise ValueError(f"`witnesses` must be names, with commas between, got {witnesses!r}.")
    for name, named in (("estimators", estimators), ("shares", shares)):
        if named is not None and not isinstance(named, Mapping):
            raise ValueError(f"`{name}` must be a dictionary by their names, got {named!r}.")


def check_device(device: str) -> None:
    """Refuse a device that is not there, before anything is written."""
    try:
        torch.zeros(1, device=device).item()  # the device "meta" has no numbers
    except (RuntimeError, AssertionError, TypeError):
        raise ValueError(
            f"`device` must be one PyTorch has here, cpu or cuda, got {device!r}."
        ) from None
