"""`labelgrad.fit`: data with few labels in, a model and a label for every example out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from torch import nn

from labelgrad.encoders.found import Given
from labelgrad.encoders.hub import Allow
from labelgrad.fitting.asked import (
    Reading,
    all_witnesses,
    check_asked,
    check_device,
    check_folder,
    checked_shares,
    encoding_of,
)
from labelgrad.fitting.audits import Audits
from labelgrad.fitting.conclusion import Whole, finalize
from labelgrad.fitting.corrections import (
    CHECKPOINT,
    corrected,
    has_corrections,
    restart_if_corrected,
)
from labelgrad.fitting.cross_validation import OnProgress, Record
from labelgrad.fitting.example_map import PCA, check_map
from labelgrad.fitting.fine_tuning import asked_encoder_rate, for_fine_tuning
from labelgrad.fitting.jobs import most_workers, used_workers
from labelgrad.fitting.kept_pool import check_can_keep, has_pool
from labelgrad.fitting.plan import (
    FILE,
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
from labelgrad.fitting.provenance import check_drawn, origins
from labelgrad.fitting.result import Result
from labelgrad.fitting.run_folder import check_not_in_use, in_use
from labelgrad.fitting.sample import sample_to_learn_from
from labelgrad.fitting.source import load_source, source_of
from labelgrad.fitting.train import affordable_steps, one_thread, stopping, train
from labelgrad.group import here
from labelgrad.inputs.base import Dataset
from labelgrad.schedules import check_count
from labelgrad.witnesses.zero_shot import read_descriptions, zero_shot

CONCLUDING = "the result is being worked out, and will be kept; Ctrl-C once more ends at once."


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
    executor: Executor | None = None,
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
    asks for more than one does so below `if __name__ == "__main__":`. With an `executor`, any
    `concurrent.futures.Executor`, they go there, with the data, and come back at their end; the
    rest is done here. Under `torchrun` each of them is trained by all its processes, and the first
    one hears the witnesses and writes.

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
    by_others = workers > 1 or executor is not None
    if by_others and group.size > 1:
        raise ValueError(
            f"`workers` are processes of one's own, and torchrun has started {group.size} that "
            f"train together; leave `workers` at 1 and `executor` out, got {workers} workers."
        )
    share = asked_encoder_rate(fine_tune, model, folder)
    if on_record is not None and by_others:
        got = f"{workers} workers" if executor is None else "an executor"
        raise ValueError(f"`on_record` needs the training in this process, got {got}.")
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
    reading = Reading(labels, target, task, size, strict, dates, text, picture)
    given = group.in_turn(lambda: reading.dataset(data, y, encoding))
    tuned, slope = None, Plan.slope
    if share:
        given, tuned, slope = for_fine_tuning(given, encoding)
    dataset = given
    if folder is not None and has_corrections(folder):
        dataset = corrected(given, folder)
    if on_data is not None:
        on_data(dataset)
    mine = None if group.rank else folder  # of several processes the first has the folder
    with in_use(mine), one_thread(by_others or has_columns(dataset)):
        check_folder(mine, resume=resume)  # another process may have begun there meanwhile
        asked: dict[str, Any] = {"method": method, "steps": steps, "seed": seed, "mirror": mirror}
        if witnesses is not None:
            asked["witnesses"] = ",".join([witnesses] if isinstance(witnesses, str) else witnesses)
        if fine_tune:
            asked["encoder_rate"] = share
        named = model if tuned is None else tuned
        planned = group.first(lambda: folder is not None and (folder / FILE).exists())
        if folder is not None and planned:
            plan = group.first(
                lambda: taken_up(folder, given, drawn, network=network_name(named), **asked)
            )
        else:
            plan = make_plan(given, model=named, slope=slope, **asked)
            plan = replace(plan, drawn=drawn or Plan.drawn)
            if time_budget is not None and steps is None:
                built = own if tuned is None else tuned
                tried = sample_to_learn_from(given, MOST_STEPS, plan.seed)
                some = given if tried is None else tried.dataset
                found = affordable_steps(some, plan, built, device, time_budget, workers=workers)
                plan = replace(plan, steps=found)
        whole, sample = dataset, sample_to_learn_from(dataset, plan.steps, plan.seed)
        was_labeled = given.labeled
        if sample is not None:
            dataset, was_labeled = sample.dataset, was_labeled[sample.rows]
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
        notes = [] if sample is None else [sample.note]
        for note in notes + unseen_notes(dataset, plan):
            dataset = replace(dataset, notes=[*dataset.notes, note])
            if on_note is not None:
                on_note(note)
        place = None if folder is None else folder / CHECKPOINT
        built = own if tuned is None else tuned
        if executor is not None:
            workers = most_workers(plan)
        trained = train(
            dataset, plan, built, place, device, workers, on_progress, on_record, executor
        )
        name = str(data) if isinstance(data, str | Path) else dataset.kind
        audited = Audits(folder).drawn if folder else ()
        with stopping(warn=CONCLUDING, pressed=trained.step < plan.steps):
            return finalize(
                trained,
                heard,
                name=name,
                folder=folder,
                origins=origins(was_labeled, dataset, plan.drawn, audited),
                whole=None if sample is None else Whole(whole, sample.rows),
                shares=wanted,
                keep_pool=keep_pool,
                map_by=map_by or PCA,
                workers=used_workers(workers, plan),
                on_progress=on_progress,
            )


def taken_up(folder: Path, given: Dataset, drawn: str | None, **asked: Any) -> Plan:
    """The plan of a run that has begun; what is asked now must agree with it."""
    plan = restart_if_corrected(folder, load_plan(folder, given, **asked), given)
    if drawn not in (None, plan.drawn):  # no training depends on it
        plan = replace(plan, drawn=drawn or plan.drawn)
        save_plan(folder, plan, given, corrections=begun_with(folder))
    return plan
