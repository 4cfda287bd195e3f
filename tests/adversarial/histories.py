"""What people do with a run over weeks, in random order; and labels of odd types."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import labelgrad
from tests.adversarial.cases import Failure, Part, command
from tests.adversarial.targets import FAST, MINE, write_data

ROWS, PERSON, STEPS = 160, 5, 7
USUAL: list[list[Any]] = [[0, 1], ["cat", "dog", None], [True, False], [0.5, 1.5, 4.0]]
ODD = [-1, 255, 2**53 + 1, 2**70, 1e300, np.nan, np.inf, "", " cat", "1", "-1", "nan", "\ud800"]
ODD += ["\x00", "a" * 5000, b"cat", None, True, 1j, [0], {}, (1, 2), np.datetime64("NaT"), int]
TYPES = [None, object, np.uint8, np.float16, "S3", "U3", "datetime64[D]", bool, complex]


def labels_case(draw: random.Random, place: Path) -> str:
    """Labels in memory: they keep apart what differs, or one sentence refuses them."""
    kinds = draw.choice(USUAL) + draw.sample(ODD, draw.choice([0, 1, 1, 2]))
    y: Any = [kinds[row % len(kinds)] for row in range(40)]
    X = np.random.default_rng(0).normal(size=(40, 3)) * draw.choice([1, 1, 1e-300, 1e300])
    warnings.simplefilter("ignore")  # of conversions here and inside
    try:
        y = draw.choice([list, pl.Series, lambda y: np.array(y, dtype=draw.choice(TYPES))])(y)
    except Exception:
        return "no labels"
    options: Any = draw.choice([{}, {"unlabeled_value": "-1"}, {"task": "classification"}])
    try:
        result = labelgrad.fit(X, y, base_models="linear,neighbours", steps=2, **options)
    except (ValueError, TypeError) as error:
        if "\n" in str(error) or not 0 < len(str(error)) < 2000:
            raise Failure(f"{y!r} is refused by {str(error)[:3000]!r}") from error
        return "refused"
    found = result.labels.filter(pl.col("source") != "imputed")
    ones = [y[int(row) - 1] for row in found["row"]]
    ones = [one.strip() if isinstance(one, str) else one for one in ones]
    if result.task.classes and len(set(ones)) != found["label"].n_unique():
        raise Failure(f"{y!r} became {found['label'].to_list()}")
    return "done"


def persons(draw: random.Random, place: Path, is_random: bool) -> list[str]:
    """Rows of persons in two common classes and two others; labels that are a random sample.

    If they need not be one, the last class has none.
    """
    rng, count = np.random.default_rng(draw.randrange(2**32)), ROWS // PERSON
    kind = rng.choice(4, ROWS, p=draw.choice([[0.5, 0.4, 0.02, 0.08], [0.3, 0.3, 0.1, 0.3]]))
    centre = np.array([[0, 0, 0], [3, 0, 0], [0, 4, 0], [0, 0, 6]])[kind]
    x = centre + rng.normal(size=(count, 3)).repeat(PERSON, 0) + rng.normal(size=(ROWS, 3))
    truth = np.array(["a", "b", "rare", "new"])[kind]
    labeled = rng.random(ROWS) < 0.3
    labeled &= is_random | (kind < 3)
    frame = pl.DataFrame(x, schema=["u", "v", "w"]).with_columns(
        person=np.arange(ROWS) // PERSON * 1.5, label=np.where(labeled, truth, "")
    )
    frame.write_csv(place / "persons.csv")
    return truth.tolist()


class Person:
    """Somebody who works with a run, and what must hold of what the run gives."""

    def __init__(self, draw: random.Random, place: Path) -> None:
        self.draw, self.place = draw, place
        groups = draw.choice([(), ("--groups", "person")])
        sampling = draw.choice(["random", "by-class"])
        self.truth = persons(draw, place, sampling == "random")
        self.drawn: set[str] = set()  # with the present model
        self.guarantees: list[str] = []
        self.is_founded = sampling == "random" and not groups  # a guarantee, by random labels
        order = ("fit", "persons.csv", "--target", "label", *FAST, "--out", "run")
        self.run(*order, "--label-sampling", sampling, *groups)
        (place / "run" / "mine.txt").write_text(MINE)

    def run(self, *order: object) -> bool:
        """Whether the command has done its work."""
        return command(*order, cwd=self.place).returncode == 0

    def rows(self, name: str) -> pl.DataFrame:
        """A file that the run has written."""
        return pl.read_csv(self.place / name, infer_schema=False)

    def give_back(self, name: str, *how: str) -> bool:
        """Fill a list in, sometimes with gaps or a wrong correction, and give it back."""
        true = [self.truth[int(row) - 1] for row in self.rows(name)["row"]]
        odd = [""] if how[0] == "audit" else ["", "a"]
        if self.draw.random() < 0.1:
            true = [self.draw.choice([*odd, one]) for one in true]
        self.rows(name).with_columns(label=pl.Series(true)).write_csv(self.place / name)
        return self.run(*how, name, "--new-classes")

    def audit(self) -> None:
        """Draw rows that were not drawn before, and label them."""
        if self.run("audit", "run", "--rows", self.draw.choice([1, 20, 60]), "--out", "audit.csv"):
            if (rows := {*self.rows("audit.csv")["row"]}) & self.drawn:
                raise Failure(f"drawn twice: {rows & self.drawn}")
            self.drawn |= rows
            self.is_founded |= self.give_back("audit.csv", "audit", "run", "--filled")

    def correct(self) -> None:
        """Label what the run lists, or accept what it is most certain of."""
        accept = ("--above", "0.8", "--review", "0", "--out", "some.csv")
        listed = ("--review", "12", "--review-out", "some.csv")
        if self.run("labels", "run", *self.draw.choice([accept, listed])):
            self.give_back("some.csv", "labels", "run", "--corrections")

    def train(self) -> None:
        """Train again: a model that has changed leaves no audit that counts."""
        before = labelgrad.load(self.place / "run").digest
        if not self.run("fit", "--out", "run", "--resume", *FAST[2:4]):
            raise Failure("training again was refused")
        if labelgrad.load(self.place / "run").digest != before:
            self.is_founded, self.drawn = False, set()

    def ask(self) -> None:
        """Ask for a guarantee."""
        rate = self.draw.choice([5, 20, 30])
        if self.run("labels", "run", "--max-error-rate", f"{rate}%", "--out", "good.csv"):
            if not self.is_founded:
                raise Failure(f"a guarantee of {rate} % rests on nothing")
            rows = self.rows("good.csv").select("row", "label").rows()
            wrong = np.mean([self.truth[int(row) - 1] != label for row, label in rows])
            self.guarantees.append("broken" if wrong > rate / 100 else "true")

    def look(self) -> None:
        """Prevalences and labels are in their ranges."""
        self.run("label-issues", "run")
        if self.run("prevalence", "run", "--out", "some.csv"):
            ends = self.rows("some.csv").select("low", "value", "high").cast(pl.Float64).to_numpy()
            if (np.diff(ends, prepend=0, append=1) < 0).any():
                raise Failure(f"prevalences: {ends}")
        labels = pl.read_csv(self.place / "run" / "labels.csv").filter(source="imputed")
        if (labels["confidence"] + labels["unknown_probability"].fill_null(0) > 1 + 1e-6).any():
            raise Failure("a confidence is larger than the probability of a labeled class")


def history_case(draw: random.Random, place: Path) -> str:
    """Audits, corrections, trainings and questions in random order."""
    person = Person(draw, place)
    acts = [person.audit, person.correct, person.train, person.ask, person.ask, person.look]
    for act in draw.choices(acts, k=STEPS):
        act()
    if (place / "run" / "mine.txt").read_text() != MINE:
        raise Failure("a file of the user's was changed")
    return min(person.guarantees, default="no guarantee")


PARTS = [
    Part("histories", write_data, history_case),
    Part("odd labels", write_data, labels_case),
]
