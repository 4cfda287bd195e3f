"""People who use guarantees: they audit, correct, accept, label, train anew and ask again.

    python -m experiments.guarantees --histories 300 --out results/guarantees

A history is one person and one data set. The model is a logistic regression, cross-fitted as the
ensembles of runs are, and `labelgrad.auto.guarantee` decides what is guaranteed. A history fails
at an error rate if any guarantee that was given at that rate was false.

Two rules are beside it, both with 95 % for every look. "reused" counts all audits and random labels
whatever happened since, which is not valid unless a person asks once. "fresh" draws new audits for
each question, as many as the person has made since the last training, or a whole audit if there are
none: what they select beyond the valid labels is the price of not auditing again.

The second table is the worst case of looking often: of every set of most confident labels just too
many are wrong, so that every guarantee is false, and a person asks after every ten audits.

The third table is the coverage of intervals of prevalences (`prediction_powered_share`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from numpy.typing import NDArray
from scipy.stats import beta

from experiments.common import Line, Results, run, table
from labelgrad.auto.annotations import (
    AUDIT,
    Annotation,
    AnnotationLog,
    Entry,
    Label,
    audit_of,
    current,
)
from labelgrad.auto.audits import imputed_ids, repeat_draw
from labelgrad.auto.config import FitConfig
from labelgrad.auto.guarantee import Evidence, GuaranteeFinder
from labelgrad.auto.guarantees.pac import (
    CONFIDENCE,
    allowed_by_rank,
    counted_looks,
    selected_count,
)
from labelgrad.auto.guarantees.ppi import prediction_powered_share
from labelgrad.auto.labels import SOURCES
from labelgrad.auto.task import Classification

RATES = (0.02, 0.05, 0.1)
BEHAVIOURS = ("once", "look", "correct", "accept", "label", "mix")
TITLES = {
    "once": "audit once, ask once",
    "correct": "audit, correct rows like the mistakes, retrain, ask",
    "accept": "accept the most confident pages, retrain, ask",
    "label": "label more of the same kind, retrain, audit, ask",
    "look": "ask after every ten audits, stop when the answer is pleasant",
    "mix": "all of these in random order",
}
# Share of groups that contradict the linear rule, and of examples with a random class.
LEVELS = ((0.0, 0.02), (0.01, 0.04), (0.03, 0.06), (0.06, 0.1))
ROWS, LABELED, FOLDS, ROUNDS, LOOK, MOST = 1500, 120, 4, 4, 10, 300
AUDITS = (100, 200, 300)
TASK = Classification(("no", "yes"))
MODELS = ("good", "weak", "constant", "noise")  # that prevalences are predicted by
SHARES, COVERAGE_AUDITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5), (60, 100, 200, 300)
Array = NDArray[Any]
Answers = dict[int, Label | None]


class MemoryLog(AnnotationLog):
    """A log without a file."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Append entries."""
        self.entries.extend(entries)
        self._current = current(self.entries)


class OneLook(GuaranteeFinder):
    """Guarantees as if nobody had looked before and nobody will look again."""

    def select(self, max_error_rate: float, rest_by_hand: bool = False) -> tuple[Array, int]:
        """As by `AuditSample.select`."""
        found = self.sample.select(
            max_error_rate, confidence=self.confidence, rest_by_hand=rest_by_hand
        )
        return found, len(self.evidence)


@dataclass
class Person:
    """One person with one data set, and the model that was trained last."""

    seed: int
    level: int
    random: bool  # whether the first labels are a random sample, or five of each kind and more
    asks: list[Line] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, self.level, self.random])
        contrary, noise = LEVELS[self.level]
        groups = ROWS // 5  # of near duplicates
        centers = self.rng.normal(size=(groups, 4)) * 2
        rule = (centers[:, 0] > 0) ^ (self.rng.random(groups) < contrary)
        group = self.rng.permutation(np.arange(groups).repeat(5))
        self.x = centers[group] + 0.1 * self.rng.normal(size=(ROWS, 4))
        hard = self.rng.random(ROWS) < noise
        self.y = np.where(hard, self.rng.random(ROWS) < 0.5, rule[group]).astype(int)
        self.x[hard, 0] *= 0.2  # they lie near the boundary
        waves = np.cos(self.x @ self.rng.normal(size=(4, 40)) + self.rng.uniform(0, 6.3, 40))
        self.features = np.hstack([self.x, waves / 2])
        first = self.rng.permutation(ROWS)[:LABELED]
        if not self.random:  # what is far from the boundary is labeled first
            first = np.argsort(-np.abs(self.x[:, 0]) + 3 * self.rng.normal(size=ROWS))[:LABELED]
        self.source = np.full(ROWS, "imputed", dtype=object)
        self.source[first] = "random" if self.random else "given"
        self.given = self.y.copy()  # of labeled rows; some accepted ones may be wrong
        self.log, self.models = MemoryLog(None), 0
        self.train()

    def train(self) -> None:
        """Fit the folds and the final model; afterwards `run` is what a result would be."""
        self.models += 1
        labeled = np.flatnonzero(self.source != "imputed")
        fold = self.rng.permutation(len(labeled)) % FOLDS
        held = np.empty((len(labeled), 2))
        for k in range(FOLDS):
            train, test = labeled[fold != k], labeled[fold == k]
            held[fold == k] = log_probabilities(
                self.features[train], self.given[train], self.features[test]
            )
        log_p = log_probabilities(self.features[labeled], self.given[labeled], self.features)
        is_labeled = self.source != "imputed"
        self.predicted = np.where(is_labeled, self.given, log_p.argmax(1))
        self.confidence = np.where(is_labeled, np.nan, np.exp(log_p.max(1)))
        columns = {
            "row": [str(row) for row in range(ROWS)],
            "label": pl.Series(np.array(TASK.classes)[self.predicted], dtype=pl.Enum(TASK.classes)),
            "confidence": pl.Series(self.confidence).fill_nan(None),
            "source": pl.Series(list(self.source), dtype=pl.Enum(SOURCES)),
        }
        held_out = SimpleNamespace(
            rows=labeled, y=self.given[labeled], fold=fold, predictions={"ensemble": held}
        )
        self.run: Any = SimpleNamespace(
            labels=pl.DataFrame(columns),
            task=TASK,
            held_out=held_out,
            about=SimpleNamespace(learned_from=None),
            config=FitConfig(),
            digest=f"model-{self.models}",
            folder=None,
        )

    def audit(self, n: int) -> None:
        """Audit n more rows."""
        before = set(audit_of(self.log, self.run.digest).drawn)
        left = [name for name in imputed_ids(self.run) if name not in before]
        draw = repeat_draw(left, n, int(self.rng.integers(2**32)), self.run.digest)
        truth = (TASK.classes[self.y[int(name)]] for name in draw.ids)
        answers = zip(draw.ids, truth, strict=True)
        self.log.add([draw, *(Annotation(*answer, AUDIT, draw.model) for answer in answers)])

    def correct(self) -> None:
        """Label the neighbors of mistakes that any audit showed."""
        audited = np.array([int(one.id) for one in self.log.newest(audits=True)], dtype=int)
        mistakes = audited[self.predicted[audited] != self.y[audited]][:60]
        distance = ((self.x[mistakes, None] - self.x) ** 2).sum(2)
        near = np.unique(np.argsort(distance, 1)[:, 1:5])
        self._give(np.setdiff1d(near, audited), "corrected")

    def accept(self) -> None:
        """Accept the most confident pages, with a look that finds most wrong labels."""
        order = np.argsort(-np.nan_to_num(self.confidence))[: int(self.rng.integers(100, 500))]
        wrong = self.predicted[order] != self.y[order]
        order = order[~wrong | (self.rng.random(len(order)) < 0.1)]
        self._give(order, "accepted", self.predicted[order])

    def label(self) -> None:
        """Label rows near a few labeled ones."""
        labeled = np.flatnonzero(self.source != "imputed")
        chosen = self.rng.choice(labeled, 3)
        near = np.argsort(((self.x[chosen, None] - self.x) ** 2).sum(2), 1)[:, 1:30]
        self._give(np.unique(near), "corrected")

    def _give(self, rows: Array, source: str, label: Array | None = None) -> None:
        new = self.source[rows] == "imputed"
        self.given[rows[new]] = self.y[rows[new]] if label is None else label[new]
        self.source[rows[new]] = source

    def ask(self, rates: tuple[float, ...] = RATES, *, compare: bool = True) -> Line:
        """Ask for guarantees; how many imputed labels each selects, and which are false."""
        finder = GuaranteeFinder(self.run, self.log)
        known = finder.evidence
        line: Line = {"imputed": len(known.imputed), "evidence": len(known)}
        line |= {f"valid {rate}": self._judged(finder, rate) for rate in rates}
        self.asks.append(line)
        if not compare:
            return line
        reused, fresh = (OneLook(self.run, MemoryLog(None)) for _ in range(2))
        imputed = set(known.imputed.tolist())
        audits: Answers = {
            int(a.id): a.label for a in self.log.newest(audits=True) if int(a.id) in imputed
        }
        random = np.flatnonzero(self.source == "random")
        reused.evidence = Evidence(known.imputed, audits, random)
        n = len(known.audited) + len(known.random) or AUDITS[1]
        drawn = self.rng.permutation(known.imputed)[:n].tolist()
        answers: Answers = {row: TASK.classes[self.y[row]] for row in drawn}
        fresh.evidence = Evidence(known.imputed, answers, random[:0])
        for rate in rates:
            line[f"reused {rate}"] = self._judged(reused, rate)
            line[f"fresh {rate}"] = self._judged(fresh, rate)
        return line

    def _judged(self, finder: GuaranteeFinder, rate: float) -> tuple[int, bool]:
        # `find` refuses without evidence, and searches for how many more audits are needed.
        if not len(finder.evidence) or not len(finder.select(rate)[0]):
            return 0, False
        found = finder.find(rate)
        rows = found.labels["row"].cast(pl.Int64).to_numpy()
        given = (found.labels["label"] == "yes").to_numpy()
        return found.imputed, bool((given != self.y[rows]).sum() > rate * len(rows))


def log_probabilities(x: Array, y: Array, others: Array) -> Array:
    """Logistic regression by Newton's method; log probabilities of both classes of `others`."""
    x, others = (np.hstack([one, np.ones((len(one), 1))]) for one in (x, others))
    weights, ridge = np.zeros(x.shape[1]), 0.3 * np.eye(x.shape[1])
    for _ in range(8):
        p = 1 / (1 + np.exp(-x @ weights))
        hessian = (x.T * (p * (1 - p))) @ x + ridge
        weights = weights - np.linalg.solve(hessian, x.T @ (p - y) + ridge @ weights)
    score = others @ weights
    return -np.logaddexp(0, np.stack([score, -score], 1))


def play(behaviour: str, seed: int) -> list[Line]:
    """One history, and what each of its questions was answered."""
    chance = np.random.default_rng([BEHAVIOURS.index(behaviour), seed])
    random = behaviour == "accept" or (behaviour == "mix" and chance.random() < 0.5)
    person = Person(seed, seed % len(LEVELS), random)
    if behaviour == "once":
        person.audit(int(chance.choice(AUDITS)))
        person.ask()
    elif behaviour == "look":
        look(person, float(chance.choice([0.0, 0.25, 0.5, 0.75])))
    else:
        for _ in range(ROUNDS):
            for step in steps(behaviour, chance):
                perform(person, step, chance)
    return person.asks


def steps(behaviour: str, chance: np.random.Generator) -> list[str]:
    """What a person does in one round, in this order."""
    if behaviour == "correct":
        return ["audit", "ask", "correct", "train", "ask"]
    if behaviour == "accept":
        return ["ask", "accept", "train", "ask", *chance.choice(["audit", "train"], 1), "ask"]
    if behaviour == "label":
        return ["label", "train", "audit", "ask"]
    kinds = ("audit", "ask", "correct", "accept", "label", "train", "look")
    return [*chance.permutation(kinds), "ask"]


def perform(person: Person, step: str, chance: np.random.Generator) -> None:
    """One step of a round."""
    if step == "audit":
        person.audit(int(chance.choice(AUDITS)) // 2)
    elif step == "look":
        look(person, 0.5, 5 * LOOK)
    else:
        getattr(person, step)()


def look(person: Person, pleasant: float, most: int = MOST) -> None:
    """Audit a few rows and ask, for each rate until so large a part is selected."""
    rates: tuple[float, ...] = RATES
    for n in range(LOOK, most + LOOK, LOOK):
        person.audit(LOOK)
        line = person.ask(rates, compare=False)
        limit = pleasant * line["imputed"] if n < most else -1
        satisfied = tuple(rate for rate in rates if line[f"valid {rate}"][0] > limit)
        if satisfied:
            person.ask(satisfied)  # the same answer, with the comparisons
        rates = tuple(rate for rate in rates if rate not in satisfied)
        if not rates:
            return


def summary(behaviour: str, rate: float, histories: list[list[Line]]) -> Line:
    """A row of the table."""
    line: Line = {"behaviour": behaviour, "rate": rate, "histories": len(histories)}
    for name in ("valid", "reused", "fresh"):
        key = f"{name} {rate}"
        answers = [[ask[key] for ask in asks if key in ask] for asks in histories]
        broken = float(np.mean([any(false for _, false in each) for each in answers]))
        line[f"{name}_broken"] = broken
        line[f"{name}_standard_error"] = (broken * (1 - broken) / len(answers)) ** 0.5
        # The asks that are compared: those of a sequence of looks count once, at its end.
        compared = [[ask[key][0] for ask in asks if f"fresh {rate}" in ask] for asks in histories]
        line[f"{name}_selected"] = float(np.mean([np.mean(each) for each in compared]))
    return line


def markdown(lines: list[Line]) -> str:
    """The table of the documentation."""
    heads = ["behavior", "ε", "broken", "± 2 SE", "selected", "fresh selects", "reused: broken"]
    rows = [
        [
            TITLES[line["behaviour"]],
            f"{line['rate']:.0%}".replace("%", " %"),
            f"{100 * line['valid_broken']:.1f} %",
            f"{200 * line['valid_standard_error']:.1f}",
            f"{line['valid_selected']:.0f}",
            f"{line['fresh_selected']:.0f}",
            f"{100 * line['reused_broken']:.0f} %",
        ]
        for line in lines
    ]
    return table(heads, rows)


def worst_case(rate: float, runs: int = 2000) -> Line:
    """How often a person who looks after every ten audits is given anything, which is false."""
    rng = np.random.default_rng(round(100 * rate))
    too_many = np.floor(rate * np.arange(1, ROWS + 1) + 1e-9) + 1  # among the k most confident
    wrong = np.diff(too_many, prepend=0) > 0
    drawn = rng.permuted(np.tile(np.arange(ROWS), (runs, 1)), axis=1)  # when each is audited
    looks = range(LOOK, MOST + LOOK, LOOK)
    rules = {
        "once": [(MOST, CONFIDENCE)],
        "plain": [(labels, CONFIDENCE) for labels in looks],
        "valid": counted_looks(looks, ROWS, rate),
    }
    line: Line = {"worst_case": rate, "runs": runs}
    for name, rule in rules.items():
        broken = np.zeros(runs, dtype=bool)
        for labels, level in rule:
            allowed = allowed_by_rank(ROWS, labels, rate, confidence=level)
            broken |= selected_count((wrong & (drawn < labels)).cumsum(1), allowed) > 0
        line[name] = float(broken.mean())
    return line


def worst_case_table(lines: list[Line]) -> str:
    """How often each rule is broken."""
    names = {"once": "one look at 300", "plain": "30 looks, each at 95 %", "valid": "30 looks"}
    rows = [
        [f"{line['worst_case']:.0%}".replace("%", " %")]
        + [f"{100 * line[name]:.1f} %" for name in names]
        for line in lines
        if "worst_case" in line
    ]
    return table(["ε", *names.values()], rows)


def coverage(share: float, audits: int, model: str, draws: int = 2000) -> Line:
    """How often the interval of a prevalence covers it, and its width beside the exact binomial."""
    rng = np.random.default_rng([int(100 * share), audits, MODELS.index(model)])
    n = 2000
    y = (np.arange(n) < round(share * n)).astype(float)
    if model == "constant":
        f = np.full(n, 0.1)
    elif model == "noise":
        f = rng.beta(0.3, 2, n)
    else:
        skill, spread = {"good": (3.0, 1.5), "weak": (1.0, 1.2)}[model]
        score = skill * (2 * y - 1) + np.log(share / (1 - share)) + spread * rng.normal(size=n)
        f = 1 / (1 + np.exp(-score))
    drawn = np.stack([rng.choice(n, audits, replace=False) for _ in range(draws)])
    truth = y[drawn]
    means = np.full(draws, f.mean())
    found = prediction_powered_share(means, f[drawn], truth, n)
    _, low, high = (np.clip(end, truth.sum(1) / n, 1) for end in found)
    ones = truth.sum(1)
    exact = beta.ppf(0.975, ones + 1, audits - ones) - np.where(
        ones > 0, beta.ppf(0.025, np.maximum(ones, 1), audits - ones + 1), 0
    )
    return {
        "model": model,
        "share": share,
        "audits": audits,
        "covered": float(((low <= y.mean()) & (y.mean() <= high)).mean()),
        "width": float((high - low).mean()),
        "exact_width": float(exact.mean()),
    }


def coverage_table(lines: list[Line]) -> str:
    """The least coverage and the widths for each model, over all cells."""
    rows = []
    for model in MODELS:
        found = [line for line in lines if line.get("model") == model]
        ratios = [line["width"] / line["exact_width"] for line in found]
        least = min(line["covered"] for line in found)
        ends = f"{np.mean(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"
        rows.append([model, str(len(found)), f"{100 * least:.1f} %", *ends])
    return table(["model", "cells", "least coverage", "width ratio", "range"], rows)


def main(
    histories: Annotated[int, typer.Option(help="Histories of each behaviour.")] = 300,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("runs/guarantees"),
) -> None:
    """Play all behaviours and print the table."""
    results = Results(out, {"histories": histories, "rows": ROWS, "labeled": LABELED})
    results.begin()
    for behaviour in BEHAVIOURS:
        if not results.has(behaviour=behaviour):
            played = [play(behaviour, seed) for seed in range(histories)]
            results.add(summary(behaviour, rate, played) for rate in RATES)
    typer.echo(markdown([line for line in results.lines if "behaviour" in line]))
    if not results.has(worst_case=RATES[-1]):
        results.add(worst_case(rate) for rate in RATES)
    typer.echo(worst_case_table(results.lines))
    if not results.has(model=MODELS[-1]):
        cells = product(MODELS, SHARES, COVERAGE_AUDITS)
        results.add(coverage(share, audits, model) for model, share, audits in cells)
    typer.echo(coverage_table(results.lines))


if __name__ == "__main__":
    run(main)
