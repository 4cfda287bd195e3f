"""The tables of the pages on pictures, as Markdown, out of what stands in results/.

    python benchmarks/evaluation_page.py

Curves are error % / loss, means over three seeds, or over as many as stand behind a ×.
"""

from __future__ import annotations

import json
from pathlib import Path

from labelgrad.paper.claims import CLAIMS, difference
from labelgrad.paper.commands.claims import claim_rows
from labelgrad.paper.numbers import table_1
from labelgrad.paper.picture_results import labels_in, score
from labelgrad.paper.settings import best_of, budget
from labelgrad.training.results import Line

RESULTS = Path(__file__).parents[1] / "results"
METHODS = ("supervised", "lga", "vat", "lga+vat", "flexmatch", "lga-certain+flexmatch")
TITLES = {"fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "svhn": "SVHN"}
COLUMNS = {"cifar10": 4000, "svhn": 1000}  # of Table 1
SEEDS = 3
SUMS = (
    "lga+vat",
    "lga+fixmatch",
    "lga+softmatch",
    "lga-certain+fixmatch",
    "lga-certain+flexmatch",
)
KINDS = {
    "lga-certain+flexmatch": "lga+flexmatch, by certainty",
    "lga-agreeing+flexmatch": "lga+flexmatch, by agreement",
    "lga-evident+flexmatch": "lga-evidence+flexmatch, by certainty",
    "lga-certain": "lga, by certainty",
    "lga-agreeing": "lga, by agreement",
    "lga-evident": "lga-evidence, by certainty",
}


def read(folder: str) -> list[Line]:
    """The lines of a folder."""
    text = (RESULTS / folder / "results.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def curves(data: str) -> list[str]:
    """A row for each number of labels; bold are the lowest, where all methods have their seeds."""
    lines = read(f"curves-{data}")
    rows = [f"| {TITLES[data]}, labels | {' | '.join(METHODS)} |", "|---" * 7 + "|"]
    for labels in labels_in(lines):
        found = {
            (method, name): score(lines, f"test_{name}", method=method, labels=labels)
            for method in METHODS
            for name in ("error", "loss")
        }
        whole = all(one is not None and len(one.values) == SEEDS for one in found.values())
        lowest = {
            name: min(one.mean for (_, of), one in found.items() if one and of == name)
            for name in ("error", "loss")
            if whole
        }
        cells = []
        for method in METHODS:
            error, loss = found[method, "error"], found[method, "loss"]
            if error is None or loss is None:
                cells.append("–")
                continue
            shown = {"error": f"{100 * error.mean:.1f}", "loss": f"{loss.mean:.2f}"}
            for name, one in (("error", error), ("loss", loss)):
                shown[name] = f"**{shown[name]}**" if one.mean == lowest.get(name) else shown[name]
            seeds = "" if len(error.values) == SEEDS else f" ×{len(error.values)}"
            cells.append(f"{shown['error']} / {shown['loss']}{seeds}")
        rows.append(f"| {labels:,} | {' | '.join(cells)} |")
    return rows


def claims(data: str) -> list[str]:
    """The claims of the paper: the difference at each number of labels, ours and its own."""
    lines = read(f"curves-{data}")
    counts = labels_in(lines)
    rows = [f"| {TITLES[data]} | {' | '.join(f'{n:,}' for n in counts)} | all | holds |"]
    rows.append("|---" * (len(counts) + 3) + "|")
    return rows + [f"| {' | '.join(cells)} |" for cells in claim_rows(data, lines)]


def tuned_there() -> list[str]:
    """VAT on SVHN with settings that were searched for there, beside those of the curves and LGA.

    LGA's best settings of that search are those of the curves.
    """
    frozen, tuned = read("curves-svhn"), read("tuned-svhn")
    both = [line for line in frozen if line["method"] == "lga"] + tuned
    heads = ("vat, as in the curves", "vat, searched for here", "lga", "vat less lga, error")
    rows = [f"| SVHN, labels | {' | '.join(heads)} |", "|---" * 5 + "|"]
    for labels in labels_in(tuned):
        cells = [
            _means(lines, method, labels)
            for lines, method in ((frozen, "vat"), (tuned, "vat"), (frozen, "lga"))
        ]
        less = difference(both, CLAIMS[-1], labels)
        assert less is not None
        cells.append(f"{100 * less.mean:.1f} ± {100 * less.half_width:.1f}")
        rows.append(f"| {labels:,} | {' | '.join(cells)} |")
    return rows


def sum_tuned_there() -> list[str]:
    """LGA + VAT on CIFAR-10 with settings that were searched for there, beside the curves'.

    LGA's best settings of that search are those of the curves.
    """
    frozen, tuned = read("curves-cifar10"), read("tuned-cifar10")
    tuned = [line for line in tuned if line["method"] == "lga+vat"]
    claim = next(one for one in CLAIMS if one.method == "lga+vat")
    terms = [line for line in frozen if line["method"] in claim.others]
    heads = ("lga", "lga+vat, as in the curves", "less the better", "searched for here")
    rows = [f"| CIFAR-10, labels | {' | '.join(heads)} | less the better |", "|---" * 6 + "|"]
    for labels in labels_in(tuned):
        cells = [_means(frozen, "lga", labels)]
        for lines in (frozen, terms + tuned):
            less = difference(lines, claim, labels)
            assert less is not None
            apart = f"{100 * less.mean:.1f} ± {100 * less.half_width:.1f}"
            cells += [_means(lines, "lga+vat", labels), apart]
        rows.append(f"| {labels:,} | {' | '.join(cells)} |")
    return rows


def longer_sum() -> list[str]:
    """The paper's four methods with 8,000 labels of CIFAR-10, one seed, by the number of steps."""
    short = [line for line in read("curves-cifar10") if line["seed"] == 0]
    methods = METHODS[:4]
    rows = [f"| CIFAR-10, 8,000 labels, one seed | {' | '.join(methods)} |", "|---" * 5 + "|"]
    for steps, lines in (("1,500", short), ("4,500", read("longer-cifar10"))):
        cells = [_means(lines, method, 8000) for method in methods]
        rows.append(f"| {steps} steps | {' | '.join(cells)} |")
    return rows


def searched_sums() -> list[str]:
    """The trials of the sums that were searched for, the chosen one of each bold."""
    lines = read("tune-fashion-mnist")
    heads = ("learning rate", "speed", "radius", "weight", *SUMS)
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    chosen = {method: best_of(lines, method)["number"] for method in SUMS}
    for number in range(budget(SUMS[0], 4)):
        trials = {m: _only(lines, method=m, number=number) for m in SUMS}
        own: dict[str, list[str]] = {"speed": [], "eps": [], "weight": []}
        for trial in trials.values():
            for term, given in trial["settings"]["terms"].items():
                for name, value in given.items() if term != "supervised" else ():
                    own[name].append(f"{value:g}")
        rate = f"{trials[SUMS[0]]['settings']['learning_rate']:g}"
        cells = [rate, *(" or ".join(sorted(set(values))) for values in own.values())]
        for method, trial in trials.items():
            cell = f"{100 * trial['validation_error']:.1f} ({trial['validation_loss']:.2f})"
            cells.append(f"**{cell}**" if chosen[method] == number else cell)
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def sums_on_test() -> list[str]:
    """The sums that were searched for and their terms, on test pictures of Fashion-MNIST."""
    lines = read("fashion-mnist")
    known = {(line["method"], line["labels"], line["seed"]) for line in lines}
    lines += [
        line
        for line in read("sums-fashion-mnist")
        if (line["method"], line["labels"], line["seed"]) not in known
    ]
    rows = ["| error % / loss | 250 labels | 1,000 labels |", "|---|---|---|"]
    terms = ("lga", "vat", "fixmatch", "flexmatch", "softmatch")
    for method in (*terms, *SUMS):
        cells = []
        for labels in (250, 1000):
            error, loss = (
                score(lines, f"test_{kind}", method=method, labels=labels)
                for kind in ("error", "loss")
            )
            assert error is not None
            assert loss is not None
            shown = f"{100 * error.mean:.1f} ± {100 * error.std:.1f}"
            cells.append(f"{shown} / {loss.mean:.3f} ± {loss.std:.3f}")
        rows.append(f"| {method} | {' | '.join(cells)} |")
    return rows


def label_weights() -> list[str]:
    """What an imputed label counts by, in a sum and in LGA alone, on validation pictures."""
    lines = read("label-weights")
    rows = ["| validation error % / loss | 250 labels | 1,000 labels |", "|---|---|---|"]
    for method in dict.fromkeys(line["method"] for line in lines):  # as they were run
        found = [_only(lines, method=method, labels=labels) for labels in (250, 1000)]
        cells = [
            f"{100 * one['validation_error']:.1f} / {one['validation_loss']:.2f}" for one in found
        ]
        rows.append(f"| {KINDS.get(method, method)} | {' | '.join(cells)} |")
    return rows


def _only(lines: list[Line], **wanted: object) -> Line:
    (found,) = (line for line in lines if all(line[k] == v for k, v in wanted.items()))
    return found


def failures() -> list[str]:
    """FlexMatch on SVHN by its settings: the error of each seed, since a mean would hide them."""
    frozen, tuned = read("curves-svhn"), read("tuned-flexmatch-svhn")
    asked = (frozen, "flexmatch"), (tuned, "flexmatch"), (frozen, "lga-certain+flexmatch")
    heads = ("flexmatch, as in the curves", "flexmatch, searched for here", "lga-certain+flexmatch")
    rows = [f"| SVHN, labels | {' | '.join(heads)} |", "|---" * 4 + "|"]
    for labels in labels_in(tuned):
        found = [score(lines, "test_error", method=name, labels=labels) for lines, name in asked]
        cells = [", ".join(f"{100 * value:.1f}" for value in one.values) for one in found if one]
        rows.append(f"| {labels:,} | {' | '.join(cells)} |")
    return rows


def _means(lines: list[Line], method: str, labels: int) -> str:
    error, loss = (
        score(lines, name, method=method, labels=labels) for name in ("test_error", "test_loss")
    )
    return f"{100 * error.mean:.1f} / {loss.mean:.2f}" if error and loss else "–"


def table_one() -> list[str]:
    """Table 1 of the paper with a column of ours for each of its own."""
    heads = [f"{TITLES[data]}, {n:,}: ours | paper" for data, n in COLUMNS.items()]
    rows = [f"| error % | {' | '.join(heads)} |", "|---" * 5 + "|"]
    ours = {data: read(f"table-1/{data}") for data in COLUMNS}
    theirs = {data: table_1(data, labels) for data, labels in COLUMNS.items()}
    for method in sorted(theirs["cifar10"], key=lambda name: -theirs["cifar10"][name][0]):
        cells = []
        for data, labels in COLUMNS.items():
            found = score(ours[data], "test_error", method=method, labels=labels)
            mine = f"{100 * found.mean:.1f} ± {100 * found.std:.1f}" if found else "–"
            cells += [mine, "{:.2f} ± {:.2f}".format(*theirs[data][method])]
        rows.append(f"| {method} | {' | '.join(cells)} |")
    return rows


def paper_scale() -> list[str]:
    """What a step of each method takes at the paper's scale, and what 500,000 would."""
    heads = ("steps", "first loss", "last loss", "memory, GB", "TFLOP a step", "operations a step")
    rows = [f"| | {' | '.join((*heads, 'GPU hours'))} |", "|---" * 8 + "|"]
    for line in read("paper-scale"):
        losses = (f"{line['first_loss']:.2f}", f"{line['last_loss']:.2f}")
        numbers = (str(line["steps"]), *losses, f"{line['gigabytes']:.1f}")
        counted = (f"{line['teraflops']:.2f}", f"{line['operations']:,}", f"{line['gpu_hours']}")
        rows.append(f"| {' | '.join((line['method'], *numbers, *counted))} |")
    return rows


def tables() -> dict[str, list[str]]:
    """All of them by name."""
    found = {f"curves {data}": curves(data) for data in TITLES}
    found |= {f"claims {data}": claims(data) for data in TITLES}
    found |= {"tuned svhn": tuned_there(), "failures": failures()}
    found |= {"tuned cifar10": sum_tuned_there(), "longer sum": longer_sum()}
    found |= {"searched sums": searched_sums(), "sums": sums_on_test()}
    found["label weights"] = label_weights()
    return found | {"table 1": table_one(), "paper scale": paper_scale()}


def main() -> None:
    """Print the tables, each under a comment with its name."""
    for name, rows in tables().items():
        print(f"<!-- {name} -->\n\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
