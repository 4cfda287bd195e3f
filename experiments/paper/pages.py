"""`pages`: the tables of the pages on images, as Markdown, from the committed results.

Cells are error % / loss, means over three seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from experiments.common import Line, read_lines, table
from experiments.paper.claims import CLAIMS, claims_table, difference
from experiments.paper.image_results import COLUMNS, TITLES, beside_table_1, labels_in, score
from experiments.paper.settings import best_of, budget

RESULTS = Path(__file__).parents[2] / "results"
METHODS = ("supervised", "lga", "vat", "lga+vat", "flexmatch", "lga-certain+flexmatch")
SUMS = (
    *("lga+vat", "lga+fixmatch", "lga+softmatch"),
    *("lga-certain+fixmatch", "lga-certain+flexmatch"),
)
KINDS = {
    "lga-certain+flexmatch": "lga+flexmatch, by certainty",
    "lga-agreeing+flexmatch": "lga+flexmatch, by agreement",
    "lga-evident+flexmatch": "lga-evidence+flexmatch, by certainty",
    "lga-certain": "lga, by certainty",
    "lga-agreeing": "lga, by agreement",
    "lga-evident": "lga-evidence, by certainty",
}


def read(folder: str, **wanted: object) -> list[Line]:
    """The lines of a folder that have the wanted values."""
    lines = read_lines(RESULTS / folder / "results.jsonl")
    return [line for line in lines if wanted.items() <= line.items()]


def by_labels(
    title: str, lines: Sequence[Line], columns: Sequence[tuple[str, Callable[[int], str]]]
) -> str:
    """A row for each number of labels; a column is a head, and a cell for the number."""
    rows = ([f"{labels:,}", *(cell(labels) for _, cell in columns)] for labels in labels_in(lines))
    return table([f"{title}, labels", *(head for head, _ in columns)], rows)


def curves(data: str) -> str:
    """All methods; the lowest are bold."""
    lines, rows = read(f"curves-{data}"), []
    for labels in labels_in(lines):
        parts = []
        for name, unit, digits in (("error", 100, 1), ("loss", 1, 2)):
            scores = [score(lines, f"test_{name}", method=m, labels=labels) for m in METHODS]
            means = [unit * one.mean for one in scores if one]
            marks = ["**" if mean == min(means) else "" for mean in means]
            pairs = zip(means, marks, strict=True)
            parts.append([f"{mark}{mean:.{digits}f}{mark}" for mean, mark in pairs])
        rows.append([f"{labels:,}", *map(" / ".join, zip(*parts, strict=True))])
    return table([f"{TITLES[data]}, labels", *METHODS], rows)


def means(lines: Sequence[Line], method: str, labels: int) -> str:
    """Error in percent / loss."""
    error, loss = (
        score(lines, name, method=method, labels=labels) for name in ("test_error", "test_loss")
    )
    return f"{100 * error.mean:.1f} / {loss.mean:.2f}" if error and loss else "–"


def less(lines: Sequence[Line], method: str, labels: int) -> str:
    """The difference of errors that the last claim about the method is about, with its interval."""
    claim = next(one for one in reversed(CLAIMS) if one.method == method)
    found = difference(lines, claim, labels)
    assert found is not None
    return f"{100 * found.mean:.1f} ± {100 * found.half_width:.1f}"


def tuned_svhn() -> str:
    """VAT on SVHN with settings tuned there, beside those of the curves and LGA."""
    frozen, tuned = read("curves-svhn"), read("tuned-svhn")
    both = [line for line in frozen if line["method"] == "lga"] + tuned
    columns = (
        ("vat, as in the curves", partial(means, frozen, "vat")),
        ("vat, searched for here", partial(means, tuned, "vat")),
        ("lga", partial(means, frozen, "lga")),
        ("vat less lga, error", partial(less, both, "vat")),
    )
    return by_labels("SVHN", tuned, columns)


def tuned_cifar10() -> str:
    """LGA + VAT on CIFAR-10 with settings tuned there, beside the curves'."""
    frozen, tuned = read("curves-cifar10"), read("tuned-cifar10", method="lga+vat")
    both = [line for line in frozen if line["method"] in ("lga", "vat")] + tuned
    columns = (
        ("lga", partial(means, frozen, "lga")),
        ("lga+vat, as in the curves", partial(means, frozen, "lga+vat")),
        ("less the better", partial(less, frozen, "lga+vat")),
        ("searched for here", partial(means, both, "lga+vat")),
        ("less the better", partial(less, both, "lga+vat")),
    )
    return by_labels("CIFAR-10", tuned, columns)


def longer_sum() -> str:
    """The paper's four methods with 8,000 labels of CIFAR-10, one seed, by the number of steps."""
    runs = {"1,500": read("curves-cifar10", seed=0), "4,500": read("longer-cifar10")}
    rows = (
        [f"{steps} steps", *(means(lines, method, 8000) for method in METHODS[:4])]
        for steps, lines in runs.items()
    )
    return table(["CIFAR-10, 8,000 labels, one seed", *METHODS[:4]], rows)


def searched_sums() -> str:
    """The trials of the sums that were tuned, the chosen one of each bold."""
    lines, rows = read("tune-fashion-mnist"), []
    for number in range(budget(SUMS[0], 4)):
        trials = [read("tune-fashion-mnist", method=name, number=number)[0] for name in SUMS]
        own: dict[str, set[str]] = {"speed": set(), "eps": set(), "weight": set()}
        for trial in trials:
            for term, given in trial["settings"]["terms"].items():
                for name, value in given.items() if term != "supervised" else ():
                    own[name].add(f"{value:g}")
        row = [f"{trials[0]['settings']['learning_rate']:g}"]
        row += [" or ".join(sorted(values)) for values in own.values()]
        for trial in trials:
            cell = f"{100 * trial['validation_error']:.1f} ({trial['validation_loss']:.2f})"
            best = best_of(lines, trial["method"])["number"] == number
            row.append(f"**{cell}**" if best else cell)
        rows.append(row)
    return table(["learning rate", "speed", "radius", "weight", *SUMS], rows)


def sums_on_test() -> str:
    """The tuned sums and their terms, on test images of Fashion-MNIST."""
    lines = read("fashion-mnist")
    known = {(line["method"], line["labels"], line["seed"]) for line in lines}
    more = read("sums-fashion-mnist")
    lines += [x for x in more if (x["method"], x["labels"], x["seed"]) not in known]
    rows = []
    for method in ("lga", "vat", "fixmatch", "flexmatch", "softmatch", *SUMS):
        cells = [method]
        for labels in (250, 1000):
            error = score(lines, "test_error", method=method, labels=labels)
            loss = score(lines, "test_loss", method=method, labels=labels)
            cells.append(f"{error.shown(100, 1)} / {loss.shown()}" if error and loss else "–")
        rows.append(cells)
    return table(["error % / loss", "250 labels", "1,000 labels"], rows)


def label_weights() -> str:
    """What an imputed label is weighted by, in a sum and in LGA alone, on validation images."""
    rows = []
    for method in dict.fromkeys(line["method"] for line in read("label-weights")):
        found = [read("label-weights", method=method, labels=n)[0] for n in (250, 1000)]
        shown = (f"{100 * x['validation_error']:.1f} / {x['validation_loss']:.2f}" for x in found)
        rows.append([KINDS.get(method, method), *shown])
    return table(["validation error % / loss", "250 labels", "1,000 labels"], rows)


def failures() -> str:
    """FlexMatch on SVHN by its settings: the error of each seed, since a mean would hide them."""
    frozen, tuned = read("curves-svhn"), read("tuned-flexmatch-svhn")
    columns = (
        ("flexmatch, as in the curves", partial(errors, frozen, "flexmatch")),
        ("flexmatch, searched for here", partial(errors, tuned, "flexmatch")),
        ("lga-certain+flexmatch", partial(errors, frozen, "lga-certain+flexmatch")),
    )
    return by_labels("SVHN", tuned, columns)


def errors(lines: Sequence[Line], method: str, labels: int) -> str:
    """The error of each seed."""
    found = score(lines, "test_error", method=method, labels=labels)
    return ", ".join(f"{100 * value:.1f}" for value in found.values) if found else "–"


def paper_scale() -> str:
    """What a step of each method takes at the paper's scale, and what 500,000 would."""
    heads = ("steps", "first loss", "last loss", "memory, GB", "TFLOP a step", "operations a step")
    rows = (
        [
            *(x["method"], str(x["steps"]), f"{x['first_loss']:.2f}", f"{x['last_loss']:.2f}"),
            *(f"{x['gigabytes']:.1f}", f"{x['teraflops']:.2f}"),
            *(f"{x['operations']:,}", f"{x['gpu_hours']}"),
        ]
        for x in read("paper-scale")
    )
    return table(["", *heads, "GPU hours"], rows)


def tables() -> dict[str, str]:
    """All of them by name."""
    found = {f"curves {data}": curves(data) for data in TITLES}
    for data, title in TITLES.items():
        found[f"claims {data}"] = claims_table(data, read(f"curves-{data}"), title)
    found |= {"tuned svhn": tuned_svhn(), "failures": failures()}
    found |= {"tuned cifar10": tuned_cifar10(), "longer sum": longer_sum()}
    found |= {"searched sums": searched_sums(), "sums": sums_on_test()}
    trained = {data: read(f"table-1/{data}") for data in COLUMNS}
    found |= {"label weights": label_weights(), "table 1": beside_table_1(trained, digits=1)}
    return found | {"paper scale": paper_scale()}
