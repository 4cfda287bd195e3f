"""How far several processes end from one: the same steps by all together and by the first alone.

For every method the largest difference of a weight, and of a label of LGA's, after so many steps.
Networks are small, batches 8 labeled and 12 unlabeled examples, with weak and strong views: a
perceptron on rows, and wide residual networks on pictures of 8 × 8, without batch norm and with it.
In single precision two orders of one sum differ in the seventh digit, and training enlarges that;
`--double` tells such rounding from anything else. At a learning rate of 1e-3 the residual network
without batch norm is not stable: its loss leaps up now and then, which enlarges any difference. The
largest loss of a step after the tenth is printed behind the differences.

    torchrun --nproc-per-node 2 benchmarks/process_agreement.py [--steps 200] [--double]
        [--only wrn --learning-rate 1e-4]

What rounding alone does to a training shows one process beside itself, with its first weights in
the last digit otherwise:

    python benchmarks/process_agreement.py --nudge [--only wrn --learning-rate 1e-4]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn

from labelgrad import LGA, MLP, Recipe, TensorBatches, Trainer, WideResNet, methods
from labelgrad.augment.views import ImageViews, Noise
from labelgrad.distributed import ALONE, Group, current_group
from labelgrad.functional import flatten
from labelgrad.step import Views

LABELS, ROWS, CLASSES = 24, 60, 3
METHODS = (
    *("supervised", "lga", "lga-evidence", "vat", "entmin", "pi-model", "mean-teacher"),
    *("pseudo-label", "fixmatch", "flexmatch", "freematch", "softmatch", "lga+vat"),
)
Shape = tuple[int, ...]


def wide(*, norm: bool) -> nn.Module:
    """WRN-10-1, with its batch norm or without any."""
    model = WideResNet(10, 1, classes=CLASSES)
    if not norm:
        for module in list(model.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.BatchNorm2d):
                    setattr(module, name, nn.Identity())
    return model


NETWORKS: dict[str, tuple[Shape, Views, Callable[[], nn.Module]]] = {
    "mlp": ((6,), Noise(), lambda: MLP(6, (16, 16), CLASSES)),
    "wrn": ((3, 8, 8), ImageViews(), lambda: wide(norm=False)),
    "wrn-norm": ((3, 8, 8), ImageViews(), lambda: wide(norm=True)),
}


def trainer(network: str, method: str, steps: int, rate: float, group: Group) -> Trainer:
    """One training of a method, on examples that can be told apart but for some noise."""
    shape, views, make = NETWORKS[network]
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(LABELS + ROWS) % CLASSES
    x = torch.randn(LABELS + ROWS, *shape, generator=generator)
    x = (x + y.view(-1, *[1] * len(shape)) - 1).div_(2)
    problem = methods.Problem(ROWS, CLASSES, 12, steps)
    return Recipe(
        make,
        lambda: methods.method(method, problem),
        TensorBatches(x, y, rows=torch.arange(LABELS), batch_size=8),
        TensorBatches(x, rows=torch.arange(LABELS, LABELS + ROWS), batch_size=12),
        views=views,
        learning_rate=rate,
    ).trainer(group=group)


def nudge(one: Trainer) -> None:
    """Round the first weights otherwise, as if they had been computed in another order."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in one.model.parameters():
            sign = torch.randint(2, weight.shape, generator=generator) * 2 - 1
            weight.mul_(1 + sign * torch.finfo(weight.dtype).eps)


def ended(one: Trainer, steps: int) -> tuple[list[Tensor], float]:
    """The weights after all steps and LGA's labels if there are any; the largest late loss."""
    losses = [one.step()["loss"] for _ in range(steps)]
    tables = [term.table for term in one.objective.leaves() if isinstance(term, LGA)]
    found = [flatten(one.model.parameters()).detach(), *(table.labels() for table in tables)]
    return found, max(losses[10:] or losses)


def main() -> None:
    """Compare what was asked for, and print a line for each network and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--nudge", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64 if options.double else torch.float32)
    group, steps = current_group(), options.steps
    for network in options.only:
        for method in options.methods:
            what = network, method, steps, options.learning_rate
            one = trainer(*what, ALONE if options.nudge else group)
            if options.nudge:
                nudge(one)
            found, _ = ended(one, steps)
            alone, loss = group.on_rank_zero(lambda: ended(trainer(*what, ALONE), steps))  # noqa: B023
            apart = [float((a - b).abs().max()) for a, b in zip(found, alone, strict=True)]
            if group.rank == 0:
                said = "".join(f"{each:12.1e}" for each in apart) + f"   loss {loss:.2g}"
                print(f"{network:>10}{method:>15}{group.size:3}{said}", flush=True)


if __name__ == "__main__":
    main()
