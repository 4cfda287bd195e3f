"""`--scale paper` is the protocol of Oliver et al. (2018): sizes, schedules, weights, losses."""

import copy
import math

import pytest
import torch
from torch.nn import functional as F

from experiments.paper.image_task import SIZES, VIEWS, Task, examples
from experiments.paper.image_trial import BATCH, training
from experiments.paper.settings import Hyperparameters, choice
from labelgrad import WideResNet
from labelgrad.functional import mixed_seed
from labelgrad.schedules import value_at

# Learning rate, and the weight of each unlabeled term where it has risen to.
PROTOCOL = {
    "supervised": (3e-3, {}),
    "vat": (3e-3, {"vat": 0.3}),
    "vat+entmin": (3e-3, {"vat": 0.3, "entmin": 0.1}),
    "pi-model": (3e-4, {"pimodel": 20.0}),
    "mean-teacher": (4e-4, {"meanteacher": 8.0}),
    "pseudo-label": (3e-4, {"pseudolabel": 1.0}),
}
STAYS = {"entmin"}  # terms whose weight does not rise


def trainer_of(method):
    """At the paper's scale, on images so small that a step of WRN-28-2 takes no time."""
    task, size = Task("digits", method, labels=50, seed=0), SIZES["paper"]
    return training(task, size, choice(method, "paper", "digits"), examples(task, size)).trainer


def test_the_papers_scale_is_the_protocols():
    size = SIZES["paper"]
    assert (size.depth, size.width, size.stem_stride, size.momentum) == (28, 2, 1, 1e-3)
    assert sum(p.numel() for p in WideResNet(28, 2).parameters()) == 1_467_610
    assert (size.steps, size.unlabeled, size.test, size.whiten) == (
        500_000,
        None,
        None,
        ("cifar10",),
    )
    assert (size.validation["cifar10"], size.validation["svhn"]) == (5000, 7326)
    assert (VIEWS["cifar10"].mirror, VIEWS["svhn"].mirror) == (True, False)
    assert VIEWS["cifar10"].pixels == VIEWS["svhn"].pixels == 2


@pytest.mark.parametrize("method", PROTOCOL)
def test_rates_batches_and_the_optimizer_are_the_protocols(method):
    trainer, (rate, _) = trainer_of(method), PROTOCOL[method]
    assert [
        trainer.learning_rate(step) for step in (0, 399_999, 400_000, 499_999)
    ] == pytest.approx([rate, rate, 0.2 * rate, 0.2 * rate])
    assert len(trainer.labeled.batch(0).x) == len(trainer.unlabeled.batch(0).x) == BATCH == 50
    adam = trainer.built_optimizer.defaults
    assert (adam["betas"], adam["eps"], adam["weight_decay"]) == ((0.9, 0.999), 1e-8, 0)


@pytest.mark.parametrize("method", [name for name in PROTOCOL if name != "supervised"])
def test_the_first_loss_is_half_the_labeled_one_and_what_the_ramp_lets_through(method):
    trainer = trainer_of(method)
    labeled = labeled_loss(trainer)
    first = trainer.step()
    assert first["supervised/loss"] == pytest.approx(labeled / 2)  # over 50 + 50 images
    rest = first["loss"] - first["supervised/loss"]
    assert rest == pytest.approx(
        sum(first[f"{term}/loss"] for term in PROTOCOL[method][1]), abs=1e-6
    )


def labeled_loss(trainer):
    """The mean loss of the first labeled images, with both batches in one pass."""
    model, views = copy.deepcopy(trainer.model), trainer.views
    generator = torch.Generator().manual_seed(mixed_seed(trainer.seed, 0))
    labeled, unlabeled = trainer.labeled.batch(0), trainer.unlabeled.batch(0)
    both = [views.weak(batch.x, generator) for batch in (labeled, unlabeled)]
    return F.cross_entropy(model(torch.cat(both))[: len(labeled.y)], labeled.y).item()


@pytest.mark.parametrize("method", [name for name in PROTOCOL if name != "supervised"])
def test_weights_rise_over_two_fifths_as_the_protocols_do(method):
    weights = {term.name: term.weight for term in trainer_of(method).objective.terms}
    for name, top in PROTOCOL[method][1].items():
        for step in (0, 100_000, 200_000, 500_000):
            left = 0 if name in STAYS else max(0, 1 - step / 200_000)
            assert value_at(weights[name], step) == pytest.approx(
                0.5 * top * math.exp(-5 * left**2)  # their mean is over 50 + 50 images, too
            )


@pytest.mark.parametrize(("data", "eps"), [("cifar10", 6.0), ("svhn", 1.0), ("fashion-mnist", 1.0)])
def test_vat_has_the_protocols_radius_on_each_data(data, eps):
    half, vat = {"supervised": {"weight": 0.5}}, {"weight": 0.15, "eps": eps}
    assert choice("vat", "paper", data) == Hyperparameters(3e-3, {**half, "vat": vat})
    both = {**half, "vat": vat, "entmin": {"weight": 0.05}}
    assert choice("vat+entmin", "paper", data) == Hyperparameters(3e-3, both)
    assert choice("lga+vat", "paper", data) == Hyperparameters(1e-3, {"vat": {"eps": eps}})
    teacher = {**half, "mean-teacher": {"weight": 4.0}}
    assert choice("mean-teacher", "paper", data) == Hyperparameters(4e-4, teacher)


def test_lga_begins_with_labels_that_say_nothing_and_a_tenth_of_the_true_ones():
    trainer = trainer_of("lga")
    labeled, first = labeled_loss(trainer), trainer.step()
    assert first["supervised/loss"] == pytest.approx(labeled / 10)
    assert first["lga/loss"] > math.log(10)  # the cross-entropy of uniform labels, at the least


def test_batch_norm_sees_both_batches_as_one_but_in_the_supervised_baseline():
    assert trainer_of("lga").joint_pass
    assert not trainer_of("supervised").joint_pass
    assert not any(size.joint_pass for name, size in SIZES.items() if name != "paper")
