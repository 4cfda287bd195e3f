"""One pass over labeled and unlabeled examples together, as in the protocol."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labelgrad import (
    VAT,
    MeanTeacher,
    PiModel,
    Supervised,
    TensorBatches,
    Trainer,
)
from labelgrad.distributed import Group
from labelgrad.labels.alignment import finite_difference, forward_mode
from tests.conftest import make_step
from tests.unit.distributed.processes import together
from tests.unit.distributed.test_processes import METHODS, after, assert_same, trainer
from tests.unit.labels.test_slope import by_double_backward, imputed


def joint_outputs(model, step):
    """The outputs of both batches, by one plain call of a copy of the model."""
    both = copy.deepcopy(model)(torch.cat([step.labeled.x, step.unlabeled.x]))
    return both.split([len(step.labeled.x), len(step.unlabeled.x)])


def test_both_batches_are_normalized_as_one():
    step = make_step("conv", joint_pass=True)
    before = copy.deepcopy(step.model)
    labeled, unlabeled = joint_outputs(before, step)
    torch.testing.assert_close(step.labeled_outputs, labeled)
    torch.testing.assert_close(step.unlabeled_outputs, unlabeled)
    assert step.counted_passes == step.model.norm.num_batches_tracked == 1
    apart = make_step("conv")
    assert not torch.allclose(apart.labeled_outputs, labeled)


def test_without_batch_norm_it_changes_nothing():
    for name in ("labeled_gradient", "unlabeled_outputs"):
        one, two = (getattr(make_step("mlp", joint_pass=joint), name) for joint in (False, True))
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("remember", [False, True])
@pytest.mark.parametrize("network", ["conv", "dropout", "tied"])
def test_the_label_slope_is_that_of_double_backward(network, loss, remember):
    step = make_step(network, loss, remember=remember, joint_pass=True)
    metric = torch.rand_like(step.labeled_gradient)
    exact, direction = by_double_backward(step, imputed(step), metric)
    found = 2 / len(exact) * forward_mode(step, direction)
    assert found.shape == exact.shape
    assert (found - exact).norm() / exact.norm() < 1e-10
    near = finite_difference(step, direction)
    assert F.cosine_similarity(near.flatten(), exact.flatten(), dim=0) > 0.99


@pytest.mark.parametrize(
    "term", [VAT(eps=1e-9), PiModel(), MeanTeacher()], ids=["vat", "pi-model", "mean-teacher"]
)
def test_an_extra_pass_of_the_same_inputs_gives_the_same_outputs(term):
    step = make_step("conv", joint_pass=True)
    assert term(step).item() == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_recipe_trains_with_it(accumulate):
    settings = {"network": "conv", "size": (4, 6), "accumulate": accumulate}
    joint, apart = (
        trainer(METHODS["lga + fixmatch"], Group(), joint_pass=joint_pass, **settings)
        for joint_pass in (True, False)
    )
    assert [joint.step() for _ in range(5)] != [apart.step() for _ in range(5)]
    assert joint.model.norm.num_batches_tracked == 5 * accumulate


def test_it_is_a_setting_that_a_checkpoint_must_agree_on():
    assert trainer(Supervised, Group(), joint_pass=True).settings["joint_pass"] == "True"


def test_a_step_without_unlabeled_examples_is_a_pass_of_the_labeled_ones():
    torch.manual_seed(0)
    batches = TensorBatches(torch.randn(9, 4), torch.arange(9) % 3, batch_size=9)
    trainer = Trainer(
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), Supervised(), batches, joint_pass=True
    )
    assert trainer.step()["loss"] > 0


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_several_processes_move_the_model_as_one_does(size):
    """The unlabeled rows of a batch may all belong to one process; its labeled ones never do."""
    make = METHODS["lga + vat"]

    def work(group):
        return after(3, make, group, "conv", size=(4, 4), joint_pass=True)

    expected = work(Group())
    for found in together(size, work):
        assert_same(found, expected)
