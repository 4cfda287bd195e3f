"""`labelgrad.fit`: data with few labels in, a model and a label for every example out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn

from labelgrad.fitting.afresh import CHECKPOINT, take_up
from labelgrad.fitting.conclusion import conclude
from labelgrad.fitting.contest import Contest, Watch
from labelgrad.fitting.corrections import corrected
from labelgrad.fitting.interruption import stopping
from labelgrad.fitting.pace import affordable_steps
from labelgrad.fitting.plan import FILE, OWN, Plan, load_plan, make_plan, save_plan
from labelgrad.fitting.result import Result
from labelgrad.inputs.base import Dataset
from labelgrad.inputs.kinds import read


def fit(
    data: str | Path | ArrayLike,
    y: ArrayLike | None = None,
    *,
    labels: str | Path | None = None,
    target: str | None = None,
    task: str | None = None,
    size: int | None = None,
    strict: bool = False,
    **options: Any,
) -> Result:
    """Train on data with few labels, beside a supervised baseline, and keep the better model.

    `data` is a folder of pictures, a table, an .npz file (see `labelgrad.inputs.kinds.read`) or
    an array, then with `y`: -1 or NaN where there is no label. `options` are those of `fit_source`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 4))
    >>> y = np.where(np.arange(60) < 20, x[:, 0] > 0, -1)
    >>> result = fit(x, y, steps=20)
    >>> len(result.labels), result.summary["counts"]["classes"]
    (40, {'0': 12, '1': 8})
    >>> len(result.predict(x[:3]))
    3
    """
    reading: dict[str, Any] = {"labels": labels, "target": target, "size": size, "strict": strict}
    source = read(data, y, task=task, **reading)
    name = str(data) if isinstance(data, str | Path) else "arrays"
    return fit_source(source, name=name, **options)


def fit_source(
    source: Dataset,
    *,
    method: str | None = None,
    model: str | nn.Module | None = None,
    steps: int | None = None,
    time_budget: float | None = None,
    seed: int | None = None,
    mirror: bool | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    watch: Watch = lambda done, total, loss: None,
    name: str = "arrays",
) -> Result:
    """Train on a `Dataset`.

    `method` is a sum such as "lga+vat", `model` a name such as "wrn-10-1" or a network of your
    own, `time_budget` is in minutes and finds the `steps`. `mirror` says that pictures mean the
    same left to right. With `out` everything is kept in a new folder, and `resume` goes on there;
    after corrections it trains anew with them, and `before-corrections` has the result before.
    Ctrl-C ends the training and keeps what there is; pressed twice it ends at once.
    """
    folder = None if out is None else Path(out)
    own = model if isinstance(model, nn.Module) else None
    given, source = source, corrected(source, folder)
    plan = begin(
        given,
        folder,
        model=model,
        time_budget=time_budget,
        device=device,
        resume=resume,
        method=method,
        steps=steps,
        seed=seed,
        mirror=mirror,
    )
    contest = Contest(source, plan, model=own, folder=checkpoints(folder), device=device)
    with stopping() as stopped:
        contest.advance(watch, stopped)
    return conclude(contest, name=name, folder=folder)


def begin(
    source: Dataset,
    folder: Path | None,
    *,
    model: str | nn.Module | None = None,
    time_budget: float | None = None,
    device: str = "cpu",
    resume: bool = False,
    workers: int = 1,
    **asked: Any,
) -> Plan:
    """The plan of a new run, or of the one to go on with; it is in the folder from now on.

    The source is the data as they were read, without corrections.
    """
    check_folder(folder, resume=resume)
    check_device(device)
    own = model if isinstance(model, nn.Module) else None
    if folder is not None and (folder / FILE).exists():
        plan = load_plan(folder, source, network=OWN if own is not None else model, **asked)
        return take_up(folder, plan, source)
    plan = make_plan(source, model=model, **asked)
    if time_budget is not None and asked.get("steps") is None:
        steps = affordable_steps(source, plan, own, device, time_budget, workers=workers)
        plan = replace(plan, steps=steps)
    if folder is not None:
        save_plan(folder, plan, source)
    return plan


def checkpoints(folder: Path | None) -> Path | None:
    """Where the trainings of a run keep their state."""
    return None if folder is None else folder / CHECKPOINT


def check_device(device: str) -> None:
    """Refuse a device that is not there, before anything is written."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError):
        raise ValueError(
            f"`device` must be one PyTorch has here, cpu or cuda, got {device!r}."
        ) from None


def check_folder(folder: Path | None, *, resume: bool) -> None:
    """Refuse a folder that has something in it, unless it is a run to go on with."""
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"A run needs a folder, and {folder} is a file; choose another.")
    if not any(folder.iterdir()):
        return
    if not (folder / FILE).exists():
        raise ValueError(f"{folder} is not empty and holds no run; choose another folder.")
    if not resume:
        raise ValueError(
            f"{folder} holds a run already; go on with it by --resume, or choose another folder."
        )
