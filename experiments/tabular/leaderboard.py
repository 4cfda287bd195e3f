"""The bench's results: ranks, ratios to the best baseline, wins and calibration; page and figures.

A data set counts once every method was tried on it with the same seeds. A method that failed with
one of these has no mean there, and shares the last places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import Line, aligned, table
from experiments.figures import GREY, OURS, THEIRS, THIRD, canvas, save
from experiments.tabular import methods as known
from experiments.tabular.methods import BASELINES, SEMI_SUPERVISED, TITLES

CLEARLY = 1.05  # times the best loss
CONFIDENT, FEWEST = 0.9, 20  # a probability, and how many such labels a share needs
LEAST = 1e-4  # probability, before a loss
RULES = f"""\
A quarter of a data set is for the test. Every method sees the same rows, columns and labels;
baselines in *italics* are semi-supervised, and methods in **bold** are ours. Numbers are means over
splits. Probabilities are raised to at least {LEAST:g} and normalized before a loss, for all alike.
The error of a regression is the root mean square, in standard deviations of the test targets.

- **rank**: the mean rank over the data sets; methods that failed on one share its last ranks.
- **ratio**: to the best baseline of each data set, chosen in hindsight: an oracle no user has; the
  geometric mean. Half a test row is added to both errors.
- **> 5 %**: data sets on which the loss is over 5 % above that of the best supervised baseline.
- **confident**: of the imputed labels with confidence above {CONFIDENT:g}, the share that is right:
  the mean over the data sets with {FEWEST} of them or more, and the worst data set.
- **seconds** are of one core. Ensemble, student and ensemble without LGA are one fit."""


@dataclass(frozen=True)
class Leaderboard:
    """All methods on the data sets of one task."""

    lines: Sequence[Line]
    task: str

    @cached_property
    def methods(self) -> list[str]:
        """The methods that were tried, in the order of the registry."""
        tried = {line["method"] for line in self.lines if line["task"] == self.task}
        return [method for method in TITLES if method in tried]

    @cached_property
    def baselines(self) -> list[str]:
        """Those that are not ours."""
        return [method for method in self.methods if method in BASELINES]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The lines of the seeds that every method was tried with."""
        empty = ["data", "seed", "method", "error", "loss", "seconds", "sure", "sure_right"]
        lines = [line for line in self.lines if line["task"] == self.task]
        found = pd.DataFrame(lines, columns=None if lines else empty)
        found = found.reindex(columns=[*dict.fromkeys([*found.columns, *empty])])
        tried = found.groupby(["data", "seed"])["method"].transform("nunique")
        return found[tried == len(self.methods)]

    def means(self, quantity: str) -> pd.DataFrame:
        """The mean over seeds, data sets × methods; NaN where a method failed."""
        cells = self.frame.groupby(["data", "method"], sort=False)[quantity]
        found = cells.mean().where(cells.count() == cells.size()).unstack()
        return found.reindex(columns=self.methods).round(9)  # equal means tie

    def ratios(self, quantity: str) -> pd.DataFrame:
        """Each mean over the best baseline's of its data set."""
        found = self.means(quantity)
        if quantity == "error" and self.task == "classification":
            # An error of 0 on few test rows is no error of 0.
            found = found.add(0.5 / self.frame.groupby("data")["test_rows"].first(), axis=0)
        return found.div(found[self.baselines].min(axis=1), axis=0)

    def ranks(self, quantity: str) -> pd.Series[float]:
        """The mean rank over the data sets."""
        return self.means(quantity).fillna(np.inf).rank(axis=1).mean()

    def confident(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The number of confident labels, and the share of them that is right."""
        found = self.frame.groupby(["data", "method"], sort=False)[["sure", "sure_right"]].sum()
        counts, right = (found[name].unstack()[self.methods] for name in ("sure", "sure_right"))
        return counts, right / counts

    @cached_property
    def standings(self) -> pd.DataFrame:
        """A row for each method, the best first."""
        found = pd.DataFrame(index=self.methods)
        for quantity in self.quantities:
            found[f"{quantity}_rank"] = self.ranks(quantity)
            found[f"{quantity}_ratio"] = np.exp(np.log(self.ratios(quantity)).mean())
        found["failed"] = self.means("error").isna().sum()
        found["seconds"] = self.means("seconds").mean()
        if self.task == "classification":
            supervised = [name for name in self.baselines if name not in SEMI_SUPERVISED]
            losses, (counts, shares) = self.means("loss"), self.confident()
            level = CLEARLY * losses[supervised].min(axis=1)
            found["clearly_behind"] = losses.gt(level, axis=0).sum()
            enough = shares.where(counts >= FEWEST)
            found["confident_right"], found["confident_least"] = enough.mean(), enough.min()
            worst = enough.fillna(np.inf).idxmin()
            found["confident_worst"] = worst.where(enough.notna().any(), "")
        return found.sort_values([f"{self.quantities[-1]}_rank", "error_rank"])

    @property
    def quantities(self) -> tuple[str, ...]:
        """What is compared."""
        return ("error", "loss") if self.task == "classification" else ("error",)

    def won_and_lost(self, quantity: str, method: str, other: str) -> tuple[int, int]:
        """On how many data sets a method is below another, and above."""
        found = self.means(quantity).fillna(np.inf)
        return int((found[method] < found[other]).sum()), int((found[method] > found[other]).sum())


def boards(lines: Sequence[Line]) -> list[Leaderboard]:
    """The leaderboards of the tasks that have a complete data set."""
    found = [Leaderboard(lines, task) for task in ("classification", "regression")]
    return [board for board in found if len(board.frame)]


def summary(board: Leaderboard) -> str:
    """The standings as a table."""
    heads, rows = ["", "error rank", "error ratio"], []
    if board.task == "classification":
        heads += ["loss rank", "loss ratio", "> 5 %", "confident, right", "worst data set"]
    for method, one in board.standings.iterrows():
        row = [styled(str(method)), f"{one.error_rank:.2f}", f"{one.error_ratio:.2f}"]
        if board.task == "classification":
            row += [f"{one.loss_rank:.2f}", f"{one.loss_ratio:.2f}", f"{one.clearly_behind:.0f}"]
            right, least = (_percent(x) for x in (one.confident_right, one.confident_least))
            row += [right, f"{least} ({one.confident_worst})" if one.confident_worst else "–"]
        rows.append([*row, f"{one.seconds:.1f}"])
    return table([*heads, "seconds"], rows)


def page(lines: Sequence[Line], command: str) -> str:
    """What was compared, the standings, and the numbers of every data set, as Markdown."""
    parts = ["# Leaderboard", f"    {command}", RULES]
    for board in boards(lines):
        order = list(board.standings.index)
        splits = board.frame.groupby("data")["seed"].nunique()
        parts += [
            f"## {board.task.capitalize()}",
            f"{len(splits)} data sets, {' or '.join(map(str, sorted(set(splits))))} splits each.",
            summary(board),
        ]
        ours = [method for method in order if method not in BASELINES]
        if ours and board.baselines:
            pairs = [(mine, what) for mine in ours for what in board.quantities]
            rows = [
                [styled(other)]
                + ["{}–{}".format(*board.won_and_lost(what, mine, other)) for mine, what in pairs]
                for other in order
                if other in BASELINES
            ]
            heads = [f"{TITLES[mine]}, {what}" for mine, what in pairs]
            parts.append(table(["won–lost against", *heads], rows))
        for quantity in board.quantities:
            percent = quantity == "error" and board.task == "classification"
            parts += [f"### {quantity.capitalize()}{' in percent' * percent}"]
            parts += [_by_set(board, order, quantity, percent=percent)]
    failed = [
        f"- {x['data']}, {TITLES[x['method']]}, seed {x['seed']}: {x['why']}"
        for x in lines
        if "why" in x
    ]
    return "\n\n".join(parts + (["## Failed", "\n".join(failed)] if failed else [])) + "\n"


def _by_set(board: Leaderboard, order: list[str], quantity: str, *, percent: bool) -> str:
    rows, labels = [], board.frame.groupby("data")["labels"].agg(["min", "max"])
    for data, values in board.means(quantity).iterrows():
        low, high = labels.loc[str(data)]
        cells = [str(data), str(low) if low == high else f"{low}–{high}"]
        for method in order:
            shown = f"{100 * values[method]:.1f}" if percent else f"{values[method]:.3f}"
            shown = "–" if np.isnan(values[method]) else shown
            cells.append(f"**{shown}**" if values[method] == values.min() else shown)
        rows.append(cells)
    return table(["data set", "labels", *(styled(method) for method in order)], rows)


def styled(method: str) -> str:
    """Ours in bold; a semi-supervised baseline in italics.

    >>> styled("lga"), styled("self-training"), styled("svm")
    ('**LGA**', '*self-training*', 'support vectors')
    """
    mark = "**" if method not in BASELINES else "*" if method in SEMI_SUPERVISED else ""
    return f"{mark}{TITLES[method]}{mark}"


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.0f} %"


def show(lines: Sequence[Line], out: Path, command: str) -> None:
    """Print the standings; write the page and the figures."""
    for board in boards(lines):
        print(aligned(summary(board).replace("*", "")))
        for quantity in board.quantities:
            if board.baselines:
                _draw(board, quantity, out / f"leaderboard-{board.task}-{quantity}")
    (out / "leaderboard.md").write_text(page(lines, command))
    print(f"Page: {out / 'leaderboard.md'}")


def _draw(board: Leaderboard, quantity: str, path: Path) -> None:
    """A cell for every data set and method, colored by its ratio to the best baseline there."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    ratios, places = board.ratios(quantity), board.ranks(quantity).sort_values()
    ratios = ratios[places.index]
    ours = next((name for name in places.index if name not in BASELINES), places.index[0])
    ratios = ratios.sort_values(ours)
    ratios.loc["all data sets"] = np.exp(np.log(ratios).mean())
    farthest = 3.0 if board.task == "classification" else 1.5
    figure, (panel,) = canvas(1, 1, (2.4 + 0.58 * len(places), 2.9 + 0.27 * len(ratios)))
    stops = [THEIRS, "#86aedb", "#f7f5f0", "#f0b45a", "#b3471d"]
    colors: Any = LinearSegmentedColormap.from_list("ratio", stops)
    norm = LogNorm(1 / farthest, farthest, clip=True)
    shown = panel.imshow(ratios, cmap=colors, norm=norm, aspect="auto")
    for (row, column), ratio in np.ndenumerate(ratios.to_numpy(float)):
        far = abs(np.log(ratio)) > 0.62 * np.log(farthest)
        look = {"ha": "center", "va": "center", "fontsize": 7.5}
        text = "–" if np.isnan(ratio) else f"{ratio:.2f}"
        panel.text(column, row, text, color="white" if far else "#222222", **look)
    names = [f"{TITLES[name]} ({places[name]:.1f})" for name in places.index]
    panel.set_xticks(range(len(names)), names, rotation=45, ha="left", fontsize=8.5)
    panel.xaxis.tick_top()
    for label, method in zip(panel.get_xticklabels(), places.index, strict=True):
        italic = method in SEMI_SUPERVISED
        label.set_color(OURS if method in known.OURS else THIRD if italic else GREY)
    panel.set_yticks(range(len(ratios)), ratios.index, fontsize=8)
    ticks = [1 / farthest, 1, farthest]
    bar = figure.colorbar(shown, ax=panel, location="bottom", shrink=0.7)
    bar.ax.minorticks_off()
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    bar.set_label("ratio to the best baseline of each data set; in brackets the mean rank")
    figure.suptitle(f"{board.task.capitalize()}, {quantity}; ours in red", fontsize=11)
    save(figure, path)
