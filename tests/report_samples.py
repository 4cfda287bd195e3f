"""A small report of each kind, for the tests of the page and of the page in a browser."""

import numpy as np

from labelgrad.report.data import (
    Calibration,
    Confident,
    Curve,
    Doubted,
    Estimate,
    Example,
    ExampleMap,
    Gradients,
    Judged,
    MapDot,
    Promised,
    ReportData,
    Result,
    Share,
    Trust,
)
from labelgrad.training.evaluation import reliability

RANDOM = np.random.default_rng(0)
STEPS = list(range(0, 1001, 100))
PROBABILITIES = RANDOM.dirichlet(np.ones(3), 60)
LABELS = RANDOM.integers(0, 3, 60)
WITNESSES = (
    "random forest",
    "extra trees",
    "linear",
    "network by labels alone",
    "network by lga+vat",
    "neighbours",
)
RUN = {
    "model": "MLP 64–64–3",
    "steps": 1000,
    "seconds": 75.0,
    "seed": 7,
    "version": "0.1.0",
    "labeled": 60,
    "unlabeled": 1737,
    "method": "lga+vat",
    "held_out": "Every labeled example once, in 5 parts.",
}


def example(name, label, prediction, **changes):
    picture = RANDOM.integers(0, 256, (8, 8), dtype=np.uint8)
    given = {"label_probability": 0.617, "prediction_probability": 0.532, "picture": picture}
    return Example(name, label, prediction, **(given | changes))


def judged(names=WITNESSES, scale=1.0, calibration=0.031):
    """Two thirds saw labels alone, the best first; one was not judged."""
    rows = [
        Judged(
            name,
            "labels" if place < 2 * len(names) // 3 else "unlabeled",
            estimate(0.093 + 0.004 * place, scale),
            0.31 + 0.02 * place,
            calibration,
            (place + 1) / sum(range(len(names) + 1)),
        )
        for place, name in enumerate(names)
    ]
    return [
        *rows,
        Judged("notes.csv", "unlabeled", None, None),
        Judged("pool", "pool", estimate(0.041, scale), 0.142, calibration),
        Judged("student", "student", estimate(0.047, scale), 0.151, calibration, kept=True),
    ]


def estimate(error, scale=1.0):
    return Estimate(error * scale, (error - 0.02) * scale, (error + 0.025) * scale)


def result(measure="error", scale=1.0, names=WITNESSES):
    return Result(
        measure,
        judged(names, scale, 0.031 if measure == "error" else None),
        "The unlabeled data helped.",
        "The intervals are of 95%.",
        names[0],
        Estimate(0.052 * scale, 0.031 * scale, 0.074 * scale),
    )


def trust(names):
    shares = [
        Share(name, estimate(0.1 * place), estimate(0.11 * place, 1.2))
        for place, name in enumerate(names, 2)
    ]
    promised = [Promised(0.05, 1737, 912, 1401, 0), Promised(0.02, 1737, 0, 0, 99)]
    return Trust("By 60 random audits with 1 mistake.", promised, shares)


def example_map(names, file="new/1.png"):
    """Two dots for each class, the second with a label that was given."""
    dots = [MapDot(place, 1.0, file, name, 0.75) for place, name in enumerate(names)]
    given = [MapDot(place, 2.0, file, name, given=True) for place, name in enumerate(names)]
    return ExampleMap([*dots, *given], 0.3, 60, 1737)


def pictures(names=("cat", "dog", "bird"), *, note="A note.", file="new/1.png", **changes):
    first, second, third = names
    given = {
        "data": "pets",
        "kind": "pictures",
        "task": "classification",
        "classes": names,
        "class_counts": (31, 26, 3),
        "skipped": [(file, "it is cut off")],
        "notes": [note],
        "result": result(),
        "confident": Confident(0.9, 812, 786.7, 1737),
        "curves": [
            Curve("lga+vat", "error", STEPS, [1 / (1 + step) for step in STEPS]),
            Curve("supervised only", "error", STEPS, [2 / (2 + step) for step in STEPS], True),
            Curve("lga+vat", "loss", STEPS, [3 / (1 + step) for step in STEPS]),
        ],
        "calibration": Calibration(
            reliability(PROBABILITIES, LABELS), reliability(PROBABILITIES**0.5, LABELS), 1.83
        ),
        "confusion": [[17, 4, 0], [1, 18, 0], [0, 2, 18]],
        "gradients": Gradients(STEPS, [5.0] * 11, [0.5] * 11),
        "example_map": example_map(names, file),
        "surest": [example(file, name, name) for name in names],
        "least_sure": [example(file, first, first), example(file, second, second)],
        "contested": [example(file, first, third), example(file, second, first)],
        "trust": trust(names),
        "suspects": [Doubted(example(file, first, first), third, f"others say {first}")],
    }
    return ReportData(**(RUN | given | changes))


def table(names=("cat", "dog"), columns=("weight", "legs"), *, cell="4", **changes):
    rows = [example(str(row), names[row % 2], names[0], picture=None) for row in range(4)]
    given = {
        "data": "pets.csv",
        "kind": "table",
        "task": "classification",
        "target": "pet",
        "classes": names,
        "class_counts": (40, 20),
        "columns": columns,
        "surest": [
            Example(row.name, row.label, row.prediction, 0.9, 0.8, cells=(cell, "4"))
            for row in rows
        ],
        "suspects": [
            Doubted(
                Example("17", names[0], names[0], 0.9, cells=(cell, "4")), names[1], "5 of 6 differ"
            )
        ],
    }
    return ReportData(**(RUN | given | changes))


def regression(**changes):
    truth = RANDOM.normal(150, 40, 60)
    given = {
        "data": "diabetes.csv",
        "kind": "table",
        "task": "regression",
        "target": "progression",
        "result": result("root mean squared error", 1000),
        "truth": truth.tolist(),
        "predicted": (truth + 10).tolist(),
        "contested": [Example("17", "151.5", "98.2")],
        "example_map": ExampleMap(
            [MapDot(row, -row, str(row), str(row), value=float(row)) for row in range(20)],
            0.8,
            0,
            20,
        ),
        "trust": Trust(
            "By 60 labels.",
            shares=[Share("mean", Estimate(151, 148, 154), Estimate(150, 140, 160))],
            of_classes=False,
        ),
    }
    return ReportData(**(RUN | given | changes))
