"""The paper's claims about its curves, as a table beside the scores."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table

from labelgrad.paper.claims import (
    CLAIMS,
    LEVEL,
    Difference,
    looked_for,
    over_all,
    paper_difference,
)
from labelgrad.paper.picture_results import labels_in
from labelgrad.training.results import Line


def claims_table(data: str, lines: Sequence[Line]) -> Table | None:
    """The claims about the data, a column for each label count; None where there is none.

    The column of all is the mean over the counts, seed by seed. Errors are in points of a percent.
    """
    counts = labels_in(lines)
    if not looked_for(data, lines):
        return None
    table = Table(
        f"of the paper, on {data}",
        *(Column(f"{labels:,}", justify="right") for labels in counts),
        Column("all", justify="right"),
        "holds",
        title=f"The method less the other, and its {LEVEL:.0%} interval over the seeds",
    )
    for row in claim_rows(data, lines):
        table.add_row(*row)
    return table


def claim_rows(data: str, lines: Sequence[Line]) -> list[list[str]]:
    """Two rows for each claim about the data: what we found, and the paper's own difference."""
    rows, counts = [], labels_in(lines)
    for text, by_labels in looked_for(data, lines).items():
        cells = [claim_cell(text, by_labels.get(labels)) for labels in counts]
        rows.append([text, *cells, claim_cell(text, over_all(by_labels)), claim_verdict(by_labels)])
        claim = next(claim for claim in CLAIMS if claim.text == text)
        theirs = {labels: paper_difference(data, claim, labels) for labels in counts}
        known = {labels: Difference((one,)) for labels, one in theirs.items() if one is not None}
        if known:
            cells = [claim_cell(text, known.get(labels)) for labels in counts]
            below = sum(one.mean <= 0 for one in known.values())
            said = f"at {below} of {len(known)}"
            rows.append(["the paper's own", *cells, claim_cell(text, over_all(known)), said])
    return rows


def claim_cell(text: str, one: Difference | None) -> str:
    """A difference and its interval: points of a percent for errors, as it is for losses.

    >>> claim_cell(CLAIMS[0].text, Difference((-0.02, -0.03, -0.025)))
    '-2.5 ± 1.2'
    >>> claim_cell(CLAIMS[1].text, Difference((-0.02, -0.03, -0.025)))
    '-0.025 ± 0.012'
    """
    if one is None:
        return "–"
    quantity = next(claim.quantity for claim in CLAIMS if claim.text == text)
    unit, digits = (100, 1) if quantity == "error" else (1, 3)
    around = f" ± {unit * one.half_width:.{digits}f}" if len(one.values) > 1 else ""
    return f"{unit * one.mean:.{digits}f}{around}"


def claim_verdict(by_labels: dict[int, Difference]) -> str:
    """At how many label counts a claim holds, and at how many it does not, beyond noise or not.

    >>> sure, unsure = Difference((-0.02, -0.03, -0.025)), Difference((0.01, -0.02))
    >>> claim_verdict({250: sure, 500: sure}), claim_verdict({250: sure, 500: unsure})
    ('at 2 of 2', 'at 1 of 2; below within noise at 1')
    """
    said = [one.verdict for one in by_labels.values()]
    unsure = [one.mean <= 0 for one in by_labels.values() if one.verdict == "within noise"]
    counts = {
        "below within noise at": unsure.count(True),
        "above within noise at": unsure.count(False),
        "not at": said.count("does not"),
    }
    rest = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    return f"at {said.count('holds')} of {len(said)}" + (f"; {rest}" if rest else "")
