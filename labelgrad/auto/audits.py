"""Audits: examples drawn at random and labeled by a person who does not see the predictions."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from labelgrad.auto.annotations import (
    AUDIT,
    Annotation,
    AnnotationLog,
    Draw,
    audit_of,
    log_of,
    read_label_file,
)
from labelgrad.auto.label_studio import save_to_fill_in
from labelgrad.auto.result import Result


def draw_audit(
    result: Result, n: int, *, path: str | Path | None = None, log: AnnotationLog | None = None
) -> Draw:
    """Draw imputed labels at random for an audit, and write the draw to the log.

    The seed comes from the operating system's entropy, so that nobody can predict the draw, and is
    recorded, so that anybody can repeat it.

    Parameters
    ----------
    result
        The run, which needs a folder.
    n
        How many examples to draw. None of them was drawn with this model before.
    path
        A file to fill in, with cells or texts to look at and no prediction. If it cannot be
        written, nothing is drawn.
    log
        The log of the run, if it is open already.

    Returns
    -------
    Draw
        The ids, in the order in which they are to be labeled.
    """
    log = log_of(result) if log is None else log
    before = {*audit_of(log, result.digest).drawn}
    population = [name for name in imputed_ids(result) if name not in before]
    if not population:
        raise ValueError("Every imputed label was drawn for an audit already, or there is none.")
    if not 1 <= n <= len(population):
        raise ValueError(
            f"An audit can draw from 1 to {len(population)} examples, those without a label that "
            f"were not drawn before, got {n}."
        )
    draw = repeat_draw(population, n, secrets.randbits(64), result.digest)
    if path is not None:
        save_to_fill_in(result, pl.DataFrame({result.id_name: list(draw.ids)}), path)
    log.add([draw])
    return draw


def repeat_draw(population: Sequence[str], n: int, seed: int, model: str) -> Draw:
    """The draw that a seed stands for.

    >>> repeat_draw(["a", "b", "c"], 2, 7, "m").ids
    ('a', 'c')
    """
    places = np.random.default_rng(seed).permutation(len(population))[:n].tolist()
    return Draw(tuple(population[place] for place in places), seed, len(population), model)


def imputed_ids(result: Result) -> list[str]:
    """The ids of all examples with an imputed label, in the order of the data."""
    return result.labels.filter(source="imputed").to_series(0).to_list()


def take_audit(result: Result, path: str | Path, *, new_classes: bool = False) -> str:
    """Add the labels of a filled-in audit to the log of a run.

    Parameters
    ----------
    result
        The run, which needs a folder.
    path
        The file of `draw_audit`, with labels; empty ones are skipped.
    new_classes
        Accept labels that are not classes of the run; they count as mistakes of the run.

    Returns
    -------
    str
        How many labels are new, and how far the audits are.
    """
    log = log_of(result)
    model_of = {name: draw.model for draw in log.draws for name in draw.ids}  # the newest draw
    unknown = (
        "were not drawn for an audit; labels of examples that somebody chose are corrections, "
        "labelgrad labels --corrections"
    )
    labels, added = read_label_file(Path(path), result, model_of, unknown, new_classes=new_classes)
    if not labels:
        raise ValueError(f"{path} has no label filled in; its column label is for them.")
    known = {(one.id, one.model, one.label) for one in log.newest(audits=True)}
    answers = [Annotation(name, label, AUDIT, model_of[name]) for name, label in labels.items()]
    new = [one for one in answers if (one.id, one.model, one.label) not in known]
    log.add(new)
    strange = f" Not classes of the run, and so mistakes: {', '.join(added)}." if added else ""
    return f"{len(new)} new labels. {audit_status(result)}{strange}"


def audit_status(result: Result) -> str:
    """How far the audits of the present model are, in a few sentences."""
    audit = audit_of(log_of(result), result.digest)
    found = (
        f"{len(audit.labels)} of {len(audit.drawn)} examples that were drawn with the present "
        f"model are audited."
    )
    if audit.gaps:
        found += (
            f" {len(audit.gaps)} were left out, which count as mistakes until they are labeled, "
            f"because an annotator may leave out what is hard."
        )
    return found
