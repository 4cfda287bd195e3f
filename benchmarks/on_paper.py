"""A run that nobody has made here: what so many examples on so many machines would take.

Only arithmetic. The constants are those of docs/scale.md and of `benchmarks/paper_scale.py`, and
what is assumed of the machines is said by the options.

    python benchmarks/on_paper.py [--examples 1e9] [--machines 8] [--classes 10] [--batch 4096]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

PARAMETERS = 1_467_610  # WRN-28-2
ARITHMETIC = 0.1713e12 / 100  # of a step of LGA, for each example of both batches
ROW, COUNTS, CHECK = 12, 16, 8  # bytes of a label: for each class, for its counts, for its check
VISITS = 20  # of each label: with fewer it says little


@dataclass(frozen=True)
class Machine:
    """One of several alike."""

    gpus: int
    arithmetic: float  # operations a second, of one GPU
    network: float  # bytes a second
    disk: float  # bytes a second, one after the other
    reads: float  # random ones a second


def rows(
    examples: float, machines: int, classes: int, batch: int, machine: Machine
) -> list[list[str]]:
    """What is needed on each machine, what a step takes, and what the whole run does."""
    each = examples / machines
    label = ROW * classes + COUNTS + CHECK
    picture = 3 * 32 * 32
    ranks = machines * machine.gpus
    ring = 2 * (ranks - 1) / ranks
    sent = 2 * PARAMETERS * 4 * ring
    compute = 2 * batch * ARITHMETIC / (ranks * machine.arithmetic)
    network = sent * machine.gpus / machine.network
    read = 2 * batch / machines / machine.reads
    step = compute + network + read
    steps = examples / batch
    kept = each * label
    return [
        ["label table, each machine", f"{kept / 1e9:.0f} GB"],
        ["pictures of 32 × 32, each machine", f"{each * picture / 1e9:.0f} GB"],
        ["order of an epoch, each process", f"{8 * examples / 1e9:.0f} GB"],
        ["labels as CSV, in all", f"{60 * examples / 1e9:.0f} GB"],
        ["sent in a step, each process", f"{sent / 1e6:.1f} MB"],
        ["a step: arithmetic", f"{1e3 * compute:.0f} ms"],
        ["a step: the two sums", f"{1e3 * network:.0f} ms"],
        ["a step: reading rows and labels", f"{1e3 * read:.1f} ms"],
        ["steps to see each once", f"{steps:,.0f}"],
        ["hours to see each once", f"{steps * step / 3600:.1f}"],
        [
            f"days until each label was visited {VISITS} times",
            f"{VISITS * steps * step / 86400:.1f}",
        ],
        [
            "a checkpoint, the table by way of the first machine",
            f"{examples * label / min(machine.disk, machine.network):.0f} s",
        ],
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=float, default=1e9)
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=4096, help="unlabeled; as many are labeled")
    parser.add_argument("--gpus", type=int, default=1, help="in each machine")
    parser.add_argument("--teraflops", type=float, default=15, help="that a GPU does in fact")
    parser.add_argument("--network", type=float, default=10, help="gigabits a second")
    parser.add_argument("--disk", type=float, default=1, help="gigabytes a second")
    parser.add_argument("--reads", type=float, default=1e5, help="random ones a second")
    asked = parser.parse_args()
    machine = Machine(
        asked.gpus, asked.teraflops * 1e12, asked.network * 1e9 / 8, asked.disk * 1e9, asked.reads
    )
    for name, value in rows(asked.examples, asked.machines, asked.classes, asked.batch, machine):
        print(f"{name:50} {value:>10}")


if __name__ == "__main__":
    main()
