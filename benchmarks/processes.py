"""What a step of LGA costs in one process and in several, and what they send each other.

The same step, batch 50 + 50 pictures or rows, is done by one process and by all together, in turns
in one run; the fastest of each counts, because machines are shared and noisy. "sent" is what the
network interfaces of this machine say that went out, for each process and step, beside the bytes of
the two gradients: with W processes a sum of p numbers of four bytes takes 2·(W − 1)/W·p·4 of each.
"reduced" is what it takes to sum up two such vectors when there is nothing else to do. One thread
each; with `--cpu-time` only the seconds count in which a process had a core, of the busiest one.
What other programs send counts, too; in a network of its own there are none:

    torchrun --nproc-per-node 2 benchmarks/processes.py [--rounds 5] [--only mlp] [--cpu-time]
    unshare -rn sh -c "ip link set lo up; torchrun --nproc-per-node 2 benchmarks/processes.py"
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from labelgrad import LGA, MLP, Recipe, Supervised, TensorBatches, Trainer, WideResNet
from labelgrad.distributed import ALONE, Group, current_group

ROWS, CLASSES, BATCH = 500, 10, 50
NETWORKS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "mlp": ((64,), lambda: MLP(64, (128, 128), CLASSES)),
    "mlp-1024": ((64,), lambda: MLP(64, (1024, 1024), CLASSES)),
    "wrn-10-1": ((3, 32, 32), lambda: WideResNet(10, 1, classes=CLASSES)),
    "wrn-28-2": ((3, 32, 32), lambda: WideResNet(28, 2, classes=CLASSES)),
}
STEPS = {"mlp": 20, "mlp-1024": 10, "wrn-10-1": 2}  # a round; else one


def trainer(name: str, group: Group) -> Trainer:
    """One training by LGA."""
    shape, network = NETWORKS[name]
    x = torch.randn(ROWS, *shape, generator=torch.Generator().manual_seed(0))
    return Recipe(
        network,
        lambda: 0.1 * Supervised() + LGA(ROWS, CLASSES),
        TensorBatches(x, torch.arange(ROWS) % CLASSES, batch_size=BATCH),
        TensorBatches(x, batch_size=BATCH),
    ).trainer(group=group)


def seconds(work: Callable[[], object], times: int, clock: Callable[[], float]) -> float:
    """What it takes once, as a mean of several."""
    began = clock()
    for _ in range(times):
        work()
    return (clock() - began) / times


def bytes_out() -> int:
    """All that went out of this machine's network interfaces so far; the loopback is one."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split(":")[1].split()[8]) for line in lines)


def measure(name: str, group: Group, rounds: int, clock: Callable[[], float]) -> list[float]:
    """Seconds of a step alone, of one together and of the sums; bytes sent, and those it takes."""
    one, all_of_them = trainer(name, ALONE), trainer(name, group)
    parameters = sum(p.numel() for p in one.model.parameters())
    vector, steps = torch.zeros(parameters), STEPS.get(name, 1)
    found, sent = [], []
    one.step(), all_of_them.step()
    for _ in range(rounds):
        alone = group.on_rank_zero(lambda: seconds(one.step, steps, clock))  # the others wait
        before = group.on_rank_zero(bytes_out)
        together = seconds(all_of_them.step, steps, clock)
        sent.append((group.on_rank_zero(bytes_out) - before) / steps / group.size)
        reduced = 2 * seconds(lambda: group.average(vector), steps, clock)
        busiest = group.gather(torch.tensor([together, reduced])).amax(0).tolist()
        found.append((alone, *busiest))
    fastest = [min(column) for column in zip(*found, strict=True)]
    part = 2 * (group.size - 1) / group.size
    return [parameters, *fastest, min(sent), 2 * part * 4 * parameters]


def main() -> None:
    """Measure what was asked for, and print a line for each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--only", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    group = current_group()
    heads = ("network", "parameters", "ms alone", f"ms by {group.size}", "faster", "ms reduced")
    lines = ["{:>10}{:>12}{:>11}{:>11}{:>9}{:>12}{:>12}{:>12}".format(*heads, "sent", "2 sums")]
    for name in options.only:
        parameters, alone, together, reduced, sent, needed = measure(
            name, group, options.rounds, time.process_time if options.cpu_time else time.monotonic
        )
        times = f"{1e3 * alone:11.1f}{1e3 * together:11.1f}{alone / together:8.2f}×"
        lines.append(
            f"{name:>10}{parameters:12,.0f}{times}{1e3 * reduced:12.2f}{sent:12,.0f}{needed:12,.0f}"
        )
    if group.rank == 0:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
