"""What a visit of `whole` costs, beside the convolutions alone that its steps need.

A step of LGA is a forward and a backward pass of the labeled and of the unlabeled batch, and one
more forward pass of the unlabeled batch. The same convolutions are timed alone, on tensors of the
same shapes. Both take turns, and the fastest of each counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from experiments.whole.settings import Settings
from experiments.whole.trial import Task, recipe

IMAGES, UNLABELED, STEPS = 2_000, 45_000, 3  # random ones; of a visit; timed together


def visit_cost(settings: Settings, rounds: int) -> dict[str, float]:
    """Seconds of one core for a visit of all unlabeled images, and for its convolutions alone."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (IMAGES, 3, 32, 32), generator=generator, dtype=torch.uint8)
    classes = torch.arange(IMAGES) % 10
    rows, targets = torch.arange(IMAGES), F.one_hot(classes, 10).float()
    task = Task(images, classes, targets, rows[:500], rows, rows[:0], (images, classes))
    trainer = recipe(settings, task).trainer()
    convolutions = plain_convolutions(trainer.model, settings)

    def steps() -> None:
        for _ in range(STEPS):
            trainer.step()

    timed: dict[str, Callable[[], None]] = {"step": steps, "convolutions": convolutions}
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(rounds):
        for name, work in timed.items():
            began = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - began)
    visit = UNLABELED / settings.unlabeled_batch  # steps
    found = {"step": visit * best["step"] / STEPS, "convolutions": visit * best["convolutions"]}
    return {name: round(seconds, 1) for name, seconds in found.items()} | {
        "ratio": round(found["step"] / found["convolutions"], 2)
    }


def plain_convolutions(network: nn.Module, settings: Settings) -> Callable[[], None]:
    """The convolutions of one step of LGA on tensors of zeros and ones, without anything else."""
    shapes: list[tuple[nn.Conv2d, tuple[int, ...]]] = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(layer, nn.Conv2d)
        shapes.append((layer, tuple(inputs[0].shape[1:])))

    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    hooks = [layer.register_forward_pre_hook(note) for layer in layers]
    network(torch.zeros(2, 3, 32, 32))
    for hook in hooks:
        hook.remove()
    both, extra = settings.labeled_batch + settings.unlabeled_batch, settings.unlabeled_batch
    last = torch.channels_last
    made = [
        (layer, torch.ones(both, *shape).contiguous(memory_format=last).requires_grad_(place > 0))
        for place, (layer, shape) in enumerate(shapes)
    ]

    def work() -> None:
        for layer, x in made:
            outputs = F.conv2d(x, layer.weight, padding=layer.padding)
            if outputs.requires_grad:
                outputs.backward(torch.ones_like(outputs))
            with torch.no_grad():
                F.conv2d(x[:extra], layer.weight, padding=layer.padding)

    return work
