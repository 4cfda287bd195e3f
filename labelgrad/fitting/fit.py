"""`labelgrad.fit`: data with few labels in, a model and a label for every example out."""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn

from labelgrad.encoders.found import Given
from labelgrad.encoders.hub import Allow
from labelgrad.files import partial_path
from labelgrad.fitting.audits import Audits
from labelgrad.fitting.conclusion import finalize
from labelgrad.fitting.corrections import (
    CHECKPOINT,
    corrected,
    has_corrections,
    restart_if_corrected,
)
from labelgrad.fitting.cross_validation import (
    CrossValidation,
    OnProgress,
    Record,
    train_shares,
    used_workers,
)
from labelgrad.fitting.example_map import PCA, check_map
from labelgrad.fitting.fine_tuning import asked_encoder_rate, for_fine_tuning
from labelgrad.fitting.kept_pool import check_can_keep, has_pool
from labelgrad.fitting.plan import (
    FILE,
    HEAD,
    MOST_STEPS,
    Plan,
    begun_with,
    has_columns,
    kept_encoders,
    load_plan,
    make_plan,
    network_name,
    save_plan,
    unseen_notes,
)
from labelgrad.fitting.pooling import NETWORK
from labelgrad.fitting.provenance import check_drawn, origins
from labelgrad.fitting.result import Result
from labelgrad.fitting.run_folder import LOCK, check_not_in_use, in_use
from labelgrad.fitting.source import load_source, source_of
from labelgrad.fitting.verdict import POOL, STUDENT
from labelgrad.group import here
from labelgrad.inputs.base import Dataset, Encoding, join_few
from labelgrad.inputs.kinds import read
from labelgrad.schedules import check_count
from labelgrad.training.stackable import stacks
from labelgrad.training.stacked import advance
from labelgrad.training.trainer import Trainer
from labelgrad.witnesses.base import Witness
from labelgrad.witnesses.models import given
from labelgrad.witnesses.named import witnesses_named
from labelgrad.witnesses.opinions import read_opinions
from labelgrad.witnesses.zero_shot import read_descriptions, zero_shot

WARM_UP, MEASURED, LONGEST = 2, 20, 2.0  # steps, steps, seconds: to see how long a step takes
FOR_STEPS = 0.85  # of a time budget; the rest is for evaluation and files
CONCLUDING = "the result is being worked out, and will be kept; Ctrl-C once more ends at once."
TOGETHER = 0.85  # of their number is how much faster several processes are


def fit(
    data: str | Path | ArrayLike | Dataset,
    y: ArrayLike | None = None,
    *,
    labels: str | Path | None = None,
    target: str | None = None,
    task: str | None = None,
    size: int | None = None,
    strict: bool = False,
    dates: str | None = None,
    text: str | Sequence[str] | None = None,
    picture: str | Sequence[str] | None = None,
    encoder: Given | Sequence[Given] | None = None,
    download: Allow = False,
    cache: str | Path | None = None,
    fine_tune: bool | float = False,
    method: str | None = None,
    model: str | nn.Module | None = None,
    steps: int | None = None,
    time_budget: float | None = None,
    seed: int | None = None,
    mirror: bool | None = None,
    witnesses: str | Sequence[str] | None = None,
    estimators: Mapping[str, Any] | None = None,
    opinions: str | Path | None = None,
    descriptions: Mapping[str, str] | str | Path | None = None,
    shares: Mapping[str, float] | None = None,
    drawn: str | None = None,
    keep_pool: bool = False,
    map_by: str | None = None,
    device: str = "cpu",
    workers: int = 1,
    out: str | Path | None = None,
    resume: bool = False,
    on_data: Callable[[Dataset], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    on_progress: OnProgress | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> Result:
    """Hear every witness on data with few labels, pool them, and keep a network they teach.

    `data` is a folder of pictures, a table, an .npz file (how they are read, and what `labels`,
    `target`, `task`, `size`, `strict` and `dates` are, says `labelgrad.inputs.kinds.read`), a
    `Dataset`, or an array, then with `y`: -1 or NaN where there is no label.

    Pictures and texts are read by an `encoder`: a name such as "efficientnet-lite0" or
    "all-minilm-l6-v2", a folder of weights, a network of your own, or "none". Nothing said, it is
    the usual one that is installed. Weights are fetched only where `download` is true, or is a
    function that says so. Features are kept in the folder `cache`, for all runs. `text` and
    `picture` name columns of a table that hold texts, or paths of pictures.

    With `fine_tune` the encoder is trained, too: the networks are all of it with a linear head, and
    see pictures or tokens in place of features, which all others still see. A number is the
    encoder's learning rate as a part of the head's; true is 0.01.

    `method` is a sum such as "lga+vat", `model` a name such as "wrn-10-1" or a network of your
    own, `time_budget` is in minutes and finds the `steps`. `mirror` says that pictures mean the
    same left to right.

    `witnesses` are the names of those that are heard beside the networks, such as "linear,
    neighbours", and "" is none; `estimators` are classifiers or regressors of scikit-learn's kind
    by names of your own, `opinions` a CSV file of what others say (`witnesses.opinions`). An
    encoder with a text side, such as CLIP, is heard on the classes' names, or on `descriptions` of
    them: a dictionary, or a CSV file with the columns class and description. `shares`
    are how often each class occurs among all rows, where the labels do not show it. `drawn` says
    how the labeled rows were chosen: "random" out of all, "by-class", or "unknown"; only random
    ones allow promises (`labelgrad.fitting.promises`), and else it takes an audit.

    The trainings go in as many processes as there are `workers`; a script that
    asks for more than one does so below `if __name__ == "__main__":`. Under `torchrun` each of
    them is trained by all its processes, and the first one hears the witnesses and writes.

    With `out` everything is kept in a new folder, and `resume` goes on there; after corrections it
    trains anew with them, and `before-corrections` has the result before. Ctrl-C ends the training
    and keeps what there is; pressed twice it ends at once. `keep_pool` keeps the witnesses and
    their weights, too, for `predict(..., pool=True)`; a run that does so does so when it goes on,
    and so do `opinions` and `shares`. The page has a map of the examples, by "pca" or, if `map_by`
    says so and it is installed, by "umap".

    `on_data` is given what was read, before the training, and `on_note` what is about to be
    computed or fetched, or that the steps will not do, a sentence each; `on_progress` a name, steps
    done, steps in all and the loss; `on_record` the record of every step, with its part and method.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 4))
    >>> y = np.where(np.arange(60) < 20, x[:, 0] > 0, -1)
    >>> result = fit(x, y, steps=20)
    >>> len(result.labels), result.summary.counts.classes
    (40, {'0': 12, '1': 8})
    >>> len(result.predict(x[:3]))
    3
    """
    folder = None if out is None else Path(out)
    own = model if isinstance(model, nn.Module) else None
    group = here()
    resume = resume or group.restarted
    group.first(lambda: check_not_in_use(folder))
    group.first(lambda: check_folder(folder, resume=resume))
    check_device(device)
    check_drawn(drawn)
    keep_pool = keep_pool or has_pool(folder)
    if keep_pool:
        check_can_keep(folder)
    check_count("workers", workers)
    check_asked(model, time_budget, witnesses, estimators, shares)
    if workers > 1 and group.size > 1:
        raise ValueError(
            f"`workers` are processes of one's own, and torchrun has started {group.size} that "
            f"train together; leave `workers` at 1, got {workers}."
        )
    share = asked_encoder_rate(fine_tune, model, folder)
    if on_record is not None and workers > 1:
        raise ValueError(f"`on_record` needs the training in this process, got {workers} workers.")
    if not encoder and folder is not None and (folder / FILE).exists():
        encoder = kept_encoders(folder)  # whatever has been installed since
    begun = group.first(lambda: None if folder is None else load_source(folder))
    if folder is not None and begun is not None:  # what is not asked for again is as it was
        opinions = begun.opinions(folder) if opinions is None else opinions
        shares = begun.options.get("shares") if shares is None else shares
        descriptions = descriptions or begun.options.get("descriptions")
        map_by = map_by or begun.options.get("map_by")
        if dates is None and isinstance(data, str | Path):
            dates = begun.options.get("dates")
    encoding = encoding_of(encoder, download, cache, device, on_note, on_progress)
    check_map(map_by or PCA)
    if not isinstance(data, Dataset):
        given = group.in_turn(
            lambda: read(
                data,
                y,
                labels=labels,
                target=target,
                task=task,
                size=size,
                strict=strict,
                dates=dates,
                text=text,
                picture=picture,
                encoding=encoding,
            )
        )
    elif any(o is not None for o in (y, labels, target, task, size, dates, text, picture)):
        raise ValueError("A `Dataset` has its labels in it; give it without `y` and what is read.")
    else:
        given = data
    tuned, slope = None, Plan.slope
    if share:
        given, tuned, slope = for_fine_tuning(given, encoding)
    dataset = given
    if folder is not None and has_corrections(folder):
        dataset = corrected(given, folder)
    if on_data is not None:
        on_data(dataset)
    mine = None if group.rank else folder  # of several processes the first has the folder
    with in_use(mine), one_thread(workers > 1 or has_columns(dataset)):
        check_folder(mine, resume=resume)  # another process may have begun there meanwhile
        asked: dict[str, Any] = {"method": method, "steps": steps, "seed": seed, "mirror": mirror}
        if witnesses is not None:
            asked["witnesses"] = ",".join([witnesses] if isinstance(witnesses, str) else witnesses)
        if fine_tune:
            asked["encoder_rate"] = share
        named = model if tuned is None else tuned
        planned = group.first(lambda: folder is not None and (folder / FILE).exists())
        if folder is not None and planned:

            def kept() -> Plan:
                found = load_plan(folder, given, network=network_name(named), **asked)
                found = restart_if_corrected(folder, found, given)
                if drawn not in (None, found.drawn):  # no training depends on it
                    found = replace(found, drawn=drawn or found.drawn)
                    save_plan(folder, found, given, corrections=begun_with(folder))
                return found

            plan = group.first(kept)
        else:
            plan = make_plan(given, model=named, slope=slope, **asked)
            plan = replace(plan, drawn=drawn or Plan.drawn)
            if time_budget is not None and steps is None:
                built = own if tuned is None else tuned
                found = affordable_steps(given, plan, built, device, time_budget, workers=workers)
                plan = replace(plan, steps=found)
        told = read_descriptions(descriptions or {})
        by_name = zero_shot(dataset, encoding, told)
        heard = all_witnesses(dataset, plan, estimators, opinions, by_name)
        wanted = checked_shares(dataset, shares)
        if folder is not None and not planned:  # all that was asked for will do
            save_plan(folder, plan, given)
        if folder is not None:
            source_of(
                data,
                {"labels": labels, "opinions": opinions, "cache": cache},
                {
                    **{"target": target, "task": task, "size": size, "strict": strict},
                    **{"dates": dates, "text": text, "picture": picture, "encoder": encoder},
                    **{"shares": shares and dict(shares), "device": device},
                    **{"descriptions": told, "map_by": map_by},
                },
                {"model": own, "estimators": estimators},
            ).save(folder)
        for note in unseen_notes(dataset, plan):
            dataset = replace(dataset, notes=[*dataset.notes, note])
            if on_note is not None:
                on_note(note)
        place = None if folder is None else folder / CHECKPOINT
        built = own if tuned is None else tuned
        trained = train(dataset, plan, built, place, device, workers, on_progress, on_record)
        name = str(data) if isinstance(data, str | Path) else dataset.kind
        with stopping(warn=CONCLUDING, pressed=trained.step < plan.steps):
            return finalize(
                trained,
                heard,
                name=name,
                folder=folder,
                origins=origins(given, dataset, plan.drawn, Audits(folder).drawn if folder else ()),
                shares=wanted,
                keep_pool=keep_pool,
                map_by=map_by or PCA,
                workers=used_workers(workers, plan),
                on_progress=on_progress,
            )


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
    )


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


def train(
    dataset: Dataset,
    plan: Plan,
    model: nn.Module | None,
    folder: Path | None,
    device: str,
    workers: int,
    on_progress: OnProgress | None,
    on_record: Callable[[Record], None] | None,
) -> CrossValidation:
    """All trainings of a plan, as far as they came before somebody stopped them."""
    if workers > 1 and plan.network != HEAD:  # linear heads are done before a process has begun
        with TemporaryDirectory() as spare:  # what processes learn, they hand over in a folder
            place = Path(spare) if folder is None else folder
            with suppress(KeyboardInterrupt):
                train_shares(dataset, plan, model, place, device, workers, on_progress)
            return CrossValidation(dataset, plan, model=model, folder=place, device=device)
    trained = CrossValidation(dataset, plan, model=model, folder=folder, device=device)
    with stopping() as stopped:
        for record in trained.records():
            if on_record is not None and trained.group.rank == 0:
                on_record(record)
            if on_progress is not None:
                on_progress("training", trained.done, trained.total, record["loss"])
            if trained.group.any(stopped()):
                break
    return trained


def affordable_steps(
    dataset: Dataset,
    plan: Plan,
    model: nn.Module | None,
    device: str,
    minutes: float,
    *,
    workers: int = 1,
) -> int:
    """So many steps as fit into the time, judged by the first few, which are thrown away."""
    tried = CrossValidation(dataset, plan, model=model, device=device)
    longest, each = min(LONGEST, 60 * minutes / 20), 0.0
    for method in plan.methods:
        trainers = [t.run.trainer for t in tried.trainings if t.method == method]
        groups = [[trainers[place] for place in places] for places in stacks(trainers)]
        alone = [group for group in groups if len(group) == 1]
        each += sum(_seconds_a_step(group, longest) for group in groups if len(group) > 1)
        if alone:  # one of them tells for all
            each += len(alone) * _seconds_a_step(alone[-1], longest)
    side_by_side = 1 if workers == 1 else TOGETHER * workers
    steps = max(1, int(min(FOR_STEPS * 60 * minutes * side_by_side / each, MOST_STEPS)))
    return tried.group.first(lambda: steps)  # clocks differ


def _seconds_a_step(trainers: Sequence[Trainer], longest: float) -> float:
    """What a step of trainers that advance together takes."""
    moves = advance(trainers, WARM_UP + MEASURED)
    for _ in range(WARM_UP):
        next(moves)
    began, taken, group = time.perf_counter(), 0, trainers[0].group
    while taken < MEASURED:
        next(moves)
        taken += 1
        if group.any(time.perf_counter() - began >= longest):
            break
    return (time.perf_counter() - began) / taken


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


@contextmanager
def stopping(*, warn: str | None = None, pressed: bool = False) -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C a wish that can be asked for, and the second one the usual end.

    The first is answered by a warning, if there is one. It may have been `pressed` before.
    """
    asked = [signal.SIGINT] if pressed else []

    def ask(signum: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(signal.SIGINT)
        if warn is not None:
            warnings.warn(warn, stacklevel=1)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def one_thread(alone: bool) -> Iterator[None]:
    """Where processes share the cores, or products are too small for threads, one is enough."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if alone else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
