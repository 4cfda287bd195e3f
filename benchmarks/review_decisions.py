"""How many labels a person looks at on the page until nearly all labels of the digits are right.

    python benchmarks/review_decisions.py

100 of the 1,797 digits have a label. A script that knows the truth decides in the order the page
gives, and the run is trained anew now and then, as its button does. Counted are the decisions until
at most 1 % of all labels are wrong. Beside it the page's random order, and scikit-learn alone: a
model trained anew as often, asked for the rows it is least sure of.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

import labelgrad
from labelgrad.review.desk import Desk
from labelgrad.review.queue import Wanted

Array = NDArray[Any]
LABELED = 100
QUICK: dict[str, Any] = {  # witnesses that are trained in seconds
    "witnesses": "linear,neighbours,label spreading",
    "method": "supervised",
    "model": "mlp-32",
    "steps": 100,
}
Round = tuple[Array, Array]  # all labels as they are believed, and the open rows in their order
Rounds = Iterator[Round]


def decisions_needed(rounds: Rounds, truth: Array, every: int, most_wrong: int) -> int:
    """How many decisions it takes; a round is what is believed, and in which order to look."""
    made = 0
    for believed, order in rounds:
        wrong = int((believed != truth).sum())
        for row in order[:every]:
            if wrong <= most_wrong:
                return made
            made += 1
            wrong -= int(believed[row] != truth[row])
    return made


def on_the_page(x: Array, truth: Array, known: Array, order: str, every: int) -> Rounds:
    """What the page shows, and all that it shows first decided rightly in each round."""
    with TemporaryDirectory() as place:
        data, run = Path(place, "digits.npz"), Path(place, "run")
        labels = np.where(np.isin(np.arange(len(truth)), known), truth, -1)
        np.savez(data, x=x, y=labels)
        labelgrad.fit(data, out=run, **QUICK)
        while True:
            desk = Desk(run)
            believed = np.where(desk.run.place < 0, desk.run.given, desk.run.label)
            rows = np.array([row[0] for row in desk.queue(Wanted(order), 0, every)["rows"]], int)
            yield believed, rows
            decided = [{"row": row, "label": str(truth[row])} for row in rows.tolist()]
            desk.decide(decided, how="choose", by="script")
            labelgrad.fit(data, out=run, resume=True, **QUICK)


def by_scikit_learn(
    make: Callable[[], Any], x: Array, truth: Array, known: Array, every: int
) -> Rounds:
    """A model alone: its predictions for the open rows, those it is least sure of first."""
    while True:
        model, labels = make(), np.where(np.isin(np.arange(len(truth)), known), truth, -1)
        if isinstance(model, LabelSpreading):
            model.fit(x, labels)
        else:
            model.fit(x[known], truth[known])
        said = model.predict_proba(x)
        believed = np.where(labels < 0, model.classes_[said.argmax(1)], truth)
        rows = np.flatnonzero(labels < 0)
        order = rows[np.argsort(said.max(1)[rows], kind="stable")]
        yield believed, order
        known = np.concatenate([known, order[:every]])


def main() -> None:
    """Print a line for each order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=1, help="how many splits")
    parser.add_argument("--every", type=int, default=50, help="decisions between two trainings")
    parser.add_argument("--wrong", type=float, default=0.01, help="share that may stay wrong")
    parser.add_argument("--orders", default="useful,unsure,disagreement,random")
    options = parser.parse_args()
    x, truth = load_digits(return_X_y=True)
    models: dict[str, Callable[[], Any]] = {
        "logistic regression": lambda: LogisticRegression(C=0.1, max_iter=1000),
        "random forest": lambda: RandomForestClassifier(300, random_state=0),
        "label spreading": lambda: LabelSpreading(gamma=64.0),  # 0.25 of pixels from 0 to 16
    }
    most = int(options.wrong * len(truth))
    print(
        f"Decisions until at most {most} of {len(truth)} labels are wrong, from {LABELED} labels,"
    )
    print(f"trained anew every {options.every} decisions, over {options.seeds} splits")
    for kind, names in (("page", options.orders.split(",")), ("scikit-learn", models)):
        for name in filter(None, names):
            found = []
            for seed in range(options.seeds):
                known = np.random.default_rng(seed).permutation(len(truth))[:LABELED]
                rounds = (
                    on_the_page(x, truth, known, name, options.every)
                    if kind == "page"
                    else by_scikit_learn(models[name], x / 16, truth, known, options.every)
                )
                found.append(decisions_needed(rounds, truth, options.every, most))
            print(f"{kind}, {name}: {mean(found):.0f} ({', '.join(map(str, found))})", flush=True)


if __name__ == "__main__":
    main()
