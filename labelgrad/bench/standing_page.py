"""The comparison with peers as a page of Markdown beside its results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from labelgrad.bench.peer_trial import OURS, SURE, TITLES
from labelgrad.bench.standing import (
    FEWEST,
    Standing,
    means,
    of_task,
    peers_in,
    sets_in,
    shared,
    standings,
    won_and_lost,
)
from labelgrad.files import write_whole
from labelgrad.inputs.targets import TASKS
from labelgrad.peers import LEAST, PEERS
from labelgrad.training.results import Line

FILE = "standing.md"
HEADS = {"classification": "Classes", "regression": "Values"}


def write_page(lines: Sequence[Line], out: Path, command: str) -> Path:
    """Write the page; gives its path."""
    path = out / FILE
    out.mkdir(parents=True, exist_ok=True)
    write_whole(path, standing_page(lines, command).encode())
    return path


def standing_page(lines: Sequence[Line], command: str) -> str:
    """What was compared, who is ahead, and the numbers of every set."""
    parts = ["# Beside what people use", f"    {command}", RULES]
    for task in TASKS:
        mine = of_task(lines, task)
        if sets_in(mine):
            parts += _of_task(mine, task)
    failed = [
        f"- {line['data']}, {TITLES[line['method']]}, seed {line['seed']}: {line['why']}"
        for line in lines
        if "why" in line
    ]
    if failed:
        parts += ["## Without a result", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"


RULES = f"""\
A quarter of a set is for the test. Every method sees the same rows, with columns of unit variance,
and the same labels; peers in *italics* see unlabeled rows, too, and methods in **bold** are ours.
Numbers are means over splits. Probabilities are raised to at least {LEAST:g} and add up to 1 again
before a loss, for all alike. The error of values is the root mean square, in standard deviations
of the test rows' values.

- **rank**: the mean place over the sets; who failed on a set shares its last places.
- **ratio**: to the best peer of each set *in hindsight*, which nobody has who must choose; the
  geometric mean. Half a test row is added to both errors.
- **> 5 %**: on how many sets the loss is more than 5 % above that of the best peer that sees the
  labels alone.
- **sure**: of the labels of unlabeled rows that claim more than {SURE:g}, the share that is right:
  the mean over the sets with {FEWEST} of them or more, and the worst set.
- **seconds** are of one core. Pool, student and pool without LGA are one fit."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown.

    >>> print(table(["set", "svm"], [["wine", "1.0"]]))
    | set | svm |
    |---|---|
    | wine | 1.0 |
    """
    lines = [heads, *rows]
    shown = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([shown[0], "|" + "---|" * len(heads), *shown[1:]])


def _of_task(lines: Sequence[Line], task: str) -> list[str]:
    found, classes = standings(lines), task == "classification"
    order = [standing.method for standing in found]
    sets = sets_in(lines)
    seeds = sorted({len(shared(lines, data)) for data in sets})
    splits = " or ".join(str(count) for count in seeds)
    parts = [
        f"## {HEADS[task]}",
        f"{len(sets)} sets, {splits} splits each.",
        _summary(found, classes=classes),
    ]
    ours = [method for method in order if method in OURS]
    if ours and peers_in(order):
        parts.append(_wins(lines, ours, order))
    for quantity in ("error", "loss") if classes else ("error",):
        unit = "Error in percent" if classes and quantity == "error" else quantity.capitalize()
        parts += [f"### {unit}", _by_set(lines, order, quantity, percent="percent" in unit)]
    if classes:
        parts += ["### Labels that claim more than 0.9: how many, and right in percent"]
        parts += [_sure(lines, order)]
    return parts


def _summary(found: Sequence[Standing], *, classes: bool) -> str:
    rows = []
    for one in found:
        row = [styled(one.method), f"{one.error_rank:.2f}", f"{one.error_ratio:.2f}"]
        if classes:
            worst = one.sure_right_least
            row += [f"{one.loss_rank:.2f}", f"{one.loss_ratio:.2f}", str(one.clearly_behind)]
            row += [
                "–" if one.sure_right is None else f"{100 * one.sure_right:.0f} %",
                "–" if worst is None else f"{100 * worst[1]:.0f} % ({worst[0]})",
            ]
        rows.append([*row, f"{one.seconds:.1f}"])
    heads = ["", "error rank", "error ratio"]
    if classes:
        heads += ["loss rank", "loss ratio", "> 5 %", "sure, right", "sure, worst set"]
    return table([*heads, "seconds"], rows)


def _wins(lines: Sequence[Line], ours: Sequence[str], order: Sequence[str]) -> str:
    """Won–lost of ours against every peer, by error and, of classes, by loss."""
    errors, losses = means(lines, "error"), means(lines, "loss")
    tables = [("error", errors)] + ([("loss", losses)] if any(losses.values()) else [])
    columns = [f"{TITLES[mine]}, {what}" for mine in ours for what, _ in tables]
    rows = [
        [styled(peer)]
        + ["{}–{}".format(*won_and_lost(found, mine, peer)) for mine in ours for _, found in tables]
        for peer in peers_in(order)
    ]
    return table(["won–lost against", *columns], rows)


def _by_set(lines: Sequence[Line], order: Sequence[str], quantity: str, *, percent: bool) -> str:
    rows = []
    for data, values in means(lines, quantity).items():
        best = min(values.values(), default=None)
        cells = [_number(values.get(method), best, percent) for method in order]
        rows.append([data, _labels(lines, data), *cells])
    return table(["set", "labels", *(styled(method) for method in order)], rows)


def _number(value: float | None, best: float | None, percent: bool) -> str:
    if value is None:
        return "–"
    shown = f"{100 * value:.1f}" if percent else f"{value:.3f}"
    return f"**{shown}**" if value == best else shown


def _sure(lines: Sequence[Line], order: Sequence[str]) -> str:
    rows = []
    for data in sets_in(lines):
        cells = [data]
        for method in order:
            mine = [
                line
                for line in lines
                if (line["data"], line["method"]) == (data, method)
                and line["seed"] in shared(lines, data)
                and "sure" in line
            ]
            count, right = (sum(line[key] for line in mine) for key in ("sure", "sure_right"))
            cells.append(f"{count}, {100 * right / count:.0f}" if count else "–")
        rows.append(cells)
    return table(["set", *(styled(method) for method in order)], rows)


def styled(method: str) -> str:
    """Ours in bold; a peer that sees unlabeled rows in italics.

    >>> styled("lga"), styled("self-training"), styled("svm")
    ('**LGA**', '*self-training*', 'support vectors')
    """
    if method in OURS:
        return f"**{TITLES[method]}**"
    return f"*{TITLES[method]}*" if PEERS[method].sees_unlabeled else TITLES[method]


def _labels(lines: Sequence[Line], data: str) -> str:
    counts = sorted({line["labels"] for line in lines if line["data"] == data})
    return "–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
