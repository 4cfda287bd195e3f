"""`--scale paper` is the protocol of Oliver et al. (2018): sizes, schedules, weights, losses."""

import math

import pytest

from labelgrad.models.wide_resnet import WideResNet
from labelgrad.paper.picture_task import SIZES, VIEWS, Task
from labelgrad.paper.picture_trial import BATCH, PictureTrial
from labelgrad.paper.settings import Hyperparameters, choice
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
    """At the paper's scale, on pictures so small that a step of WRN-28-2 takes no time."""
    return PictureTrial(Task("digits", method, labels=50, seed=0), scale="paper").run.trainer


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
    adam = trainer.optimizer.defaults
    assert (adam["betas"], adam["eps"], adam["weight_decay"]) == ((0.9, 0.999), 1e-8, 0)


@pytest.mark.parametrize("method", [name for name in PROTOCOL if name != "supervised"])
def test_the_first_loss_is_half_the_labeled_one_and_what_the_ramp_lets_through(method):
    alone, first = trainer_of("supervised").step(), trainer_of(method).step()
    assert first["supervised/loss"] == pytest.approx(alone["loss"] / 2)  # over 50 + 50 pictures
    rest = first["loss"] - first["supervised/loss"]
    assert rest == pytest.approx(
        sum(first[f"{term}/loss"] for term in PROTOCOL[method][1]), abs=1e-6
    )


@pytest.mark.parametrize("method", [name for name in PROTOCOL if name != "supervised"])
def test_weights_rise_over_two_fifths_as_the_protocols_do(method):
    weights = {term.name: term.weight for term in trainer_of(method).objective.terms}
    for name, top in PROTOCOL[method][1].items():
        for step in (0, 100_000, 200_000, 500_000):
            left = 0 if name in STAYS else max(0, 1 - step / 200_000)
            assert value_at(weights[name], step) == pytest.approx(top * math.exp(-5 * left**2))


@pytest.mark.parametrize(("data", "eps"), [("cifar10", 6.0), ("svhn", 1.0), ("fashion-mnist", 1.0)])
def test_vat_has_the_protocols_radius_on_each_data(data, eps):
    radius = {"vat": {"eps": eps}}
    half = {"supervised": {"weight": 0.5}}
    assert choice("vat+entmin", "paper", data) == Hyperparameters(3e-3, {**half, **radius})
    assert choice("lga+vat", "paper", data) == Hyperparameters(1e-3, radius)
    assert choice("mean-teacher", "paper", data) == Hyperparameters(4e-4, half)


def test_lga_begins_with_labels_that_say_nothing_and_a_tenth_of_the_true_ones():
    alone, first = trainer_of("supervised").step(), trainer_of("lga").step()
    assert first["supervised/loss"] == pytest.approx(alone["loss"] / 10)
    assert first["lga/loss"] > math.log(10)  # the cross-entropy of uniform labels, at the least
