"""What a training step costs: time and peak memory of each method on a WRN-28-2, batch 50 + 50.

The methods take turns in one run, several rounds, and the fastest step of each counts: machines
are shared and noisy, and a ratio within one run is what can be trusted. Memory is the peak of a
process of its own for each method, less what that process held before its first step.

Names in small letters are those of `labelgrad.methods`, with the settings they have there. All see
weak views of the pictures, and the time of the views counts. "lga" is "LGA, forward mode" with a
smaller weight on the labeled loss: what these two differ by is noise.

With `--cpu-time` only the seconds count in which the process had a core: what to trust, with one
thread, where others keep the machine busy.

    python benchmarks/step_cost.py [--rounds 5] [--only lga vat] [--cpu-time]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from labelgrad import (
    LGA,
    LabelTable,
    Objective,
    Recipe,
    Step,
    Supervised,
    TensorBatches,
    Trainer,
    WideResNet,
    methods,
)
from labelgrad.augment.views import ImageViews
from labelgrad.functional import flatten, with_gradient
from labelgrad.labels.alignment import Gap

ROWS, CLASSES, BATCH, DEPTH, WIDTH = 500, 10, 50, 28, 2
PROBLEM = methods.Problem(rows=ROWS, width=CLASSES, batch_size=BATCH, steps=1000)
SUMS = ("vat+entmin", "lga+vat", "lga+fixmatch")


class ImputedLabels(Objective):
    """The gradient of the imputed labels and nothing more: what no method like LGA can avoid."""

    shares_graph = False

    def __init__(self) -> None:
        super().__init__()
        self.table = LabelTable(ROWS, CLASSES)

    def forward(self, step: Step) -> Tensor:
        """The loss of labels that stay as they are."""
        labels = self.table.draw(step.unlabeled.rows).labels
        loss = F.cross_entropy(step.unlabeled_outputs, labels)
        return with_gradient(loss, step.gradient(loss), step.params)


class DoubleBackward(Objective):
    """LGA as its equations read: the squared gap, differentiated through the gradient."""

    shares_graph = False

    def __init__(self) -> None:
        super().__init__()
        self.gap, self.table = Gap(), LabelTable(ROWS, CLASSES)

    def forward(self, step: Step) -> Tensor:
        """The loss of labels that learn by a graph of a graph."""
        drawn = self.table.draw(step.unlabeled.rows)
        labels = drawn.labels.requires_grad_()
        loss = -(labels * step.unlabeled_outputs.log_softmax(-1)).sum() / len(labels)
        params = list(step.params.values())
        pull = flatten(torch.autograd.grad(loss, params, create_graph=True))
        step.saved[self] = drawn, labels, pull
        return with_gradient(loss, pull.detach(), step.params)

    def update(self, step: Step) -> None:
        """Move the labels by the gradient of the squared gap."""
        drawn, labels, pull = step.saved[self]
        _, scaled = self.gap(step.labeled_gradient, pull.detach())
        (slope,) = torch.autograd.grad(pull, labels, -2 * scaled)
        drawn.labels = labels.detach()
        self.table.update(drawn, slope)


METHODS: dict[str, Callable[[], Objective]] = {
    "supervised": Supervised,
    "two plain gradients": lambda: Supervised() + ImputedLabels(),
    "LGA, finite difference": lambda: Supervised() + LGA(ROWS, CLASSES, slope="finite-difference"),
    "LGA, forward mode": lambda: Supervised() + LGA(ROWS, CLASSES),
    "LGA, double backward": lambda: Supervised() + DoubleBackward(),
    **{name: partial(methods.method, name, PROBLEM) for name in (*methods.every_method(), *SUMS)},
}
PLAIN, DEFAULT = "two plain gradients", "LGA, forward mode"


def make_trainer(method: str) -> Trainer:
    """A fresh network and 500 random pictures, ready to step."""
    torch.manual_seed(0)
    x, y = torch.randn(ROWS, 3, 32, 32), torch.arange(ROWS) % CLASSES
    labeled, unlabeled = TensorBatches(x, y, batch_size=BATCH), TensorBatches(x, batch_size=BATCH)
    network = WideResNet(DEPTH, WIDTH)
    return Recipe(network, METHODS[method], labeled, unlabeled, views=ImageViews()).trainer()


def fastest_steps(
    names: Collection[str], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Seconds of the fastest step of each method, taking turns."""
    trainers = {method: make_trainer(method) for method in names}
    best = dict.fromkeys(names, float("inf"))
    for turn in range(rounds + 1):  # the first turn warms up
        for method, trainer in trainers.items():
            begin = clock()
            trainer.step()
            if turn:
                best[method] = min(best[method], clock() - begin)
    return best


def peak_memory(method: str) -> float:
    """Peak megabytes of a step, in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", method]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def own_peak(method: str) -> float:
    """Megabytes that three steps need beyond what was there before them (Linux only)."""
    trainer = make_trainer(method)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of building all this
    before = _resident("VmHWM")
    for _ in range(3):
        trainer.step()
    return _resident("VmHWM") - before


def _resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--only", nargs="+", choices=METHODS, default=METHODS, metavar="METHOD")
    parser.add_argument("--memory-of", choices=METHODS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory_of:
        print(own_peak(options.memory_of))
        return
    size = f"WRN-{DEPTH}-{WIDTH}, {BATCH} labeled + {BATCH} unlabeled"
    print(f"{size}, fastest of {options.rounds} steps, one thread\n")
    names = [name for name in METHODS if name in {PLAIN, DEFAULT, *options.only}]
    clock = time.process_time if options.cpu_time else time.perf_counter
    best = fastest_steps(names, options.rounds, clock)
    print(f"{'method':<24}{'s/step':>8}{'× plain':>9}{'× default':>11}{'peak MB':>9}")
    for method, seconds in best.items():
        ratios = f"{seconds / best[PLAIN]:>9.2f}{seconds / best[DEFAULT]:>11.2f}"
        print(f"{method:<24}{seconds:>8.3f}{ratios}{peak_memory(method):>9.0f}", flush=True)


if __name__ == "__main__":
    main()
