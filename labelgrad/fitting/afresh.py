"""A run that begins anew with corrected labels, its last result set aside.

Networks that go on from the old weights would have seen the labels that now judge them, so all
trainings begin at their first step. The folder is never a mixture: the old model leaves it first,
and until the new plan is written every step here can be repeated.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from labelgrad.files import write_whole
from labelgrad.fitting.corrections import FILE as CORRECTIONS
from labelgrad.fitting.corrections import corrected, folder_corrections, mark
from labelgrad.fitting.plan import FILE, Plan, begun_with, save_plan, usable_method
from labelgrad.fitting.predictor import CONFIG
from labelgrad.inputs.base import Dataset

BEFORE = "before-corrections"
HALF = f".{BEFORE}.partial"
CHECKPOINT = "checkpoint"


def take_up(folder: Path, plan: Plan, source: Dataset) -> Plan:
    """The plan to go on with, of a new beginning if there are corrections it does not know."""
    now = mark(folder_corrections(source, folder))
    if begun_with(folder) != now:
        changed = corrected(source, folder)
        plan = replace(plan, method=usable_method(changed, plan.method))
        _empty(folder)
        save_plan(folder, plan, source, corrections=now)
    if (folder / HALF).exists():
        shutil.rmtree(folder / BEFORE, ignore_errors=True)
        (folder / HALF).replace(folder / BEFORE)
    return plan


def _empty(folder: Path) -> None:
    """Move the old result aside, the config first: without it there is no finished run."""
    aside = folder / HALF
    aside.mkdir(exist_ok=True)
    stay = {FILE, CORRECTIONS, CHECKPOINT, BEFORE, HALF}
    found = sorted(folder.iterdir(), key=lambda path: (path.name != CONFIG, path.name))
    for path in found:
        if path.name not in stay:
            path.replace(aside / path.name)
    write_whole(aside / FILE, (folder / FILE).read_bytes())
    if (folder / CHECKPOINT).exists():
        shutil.rmtree(folder / CHECKPOINT)
